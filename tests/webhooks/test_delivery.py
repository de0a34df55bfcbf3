"""From a change to the receiver: what is sent, how it is signed, and what the log says of it."""

import asyncio
import base64
import hashlib
import hmac
import json
from uuid import UUID

import pytest

from tests.console import database_of
from tests.receiver import OK, Received, Receiver
from tests.support import App, assert_error
from tests.waiting import until
from tests.webhooks.world import FAST, answering, console, create, events, received, status


def verified(request: Received, secret: str) -> bool:
    """Check both notations as a receiver would, without our code."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    moment = request.headers["webhook-timestamp"]
    signed = f"{request.headers['webhook-id']}.{moment}.".encode() + request.body
    mac = hmac.new(key, signed, hashlib.sha256).digest()
    standard = [part.removeprefix("v1,") for part in request.headers["webhook-signature"].split(" ")]
    first, *ours = request.headers["x-service-signature"].split(",")
    assert first == f"t={moment}"
    return base64.b64encode(mac).decode() in standard and f"v1={mac.hex()}" in ours


async def test_a_created_row_is_delivered_signed_and_listed(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url("/hook?a=1"), ["row.created"], headers={"X-Team": "orders"})
    row = await app.row(table_id, {"n": 1})
    (request,) = await received(receiver)
    event = json.loads(request.body)
    assert request.path == "/hook?a=1"
    assert list(event) == [
        *("id", "type", "event_type", "version", "app_id", "timestamp", "subject", "actor", "data"),
    ]
    assert event["type"] == event["event_type"] == "row.created"
    assert event["app_id"] == app.app_id
    assert event["subject"] == f"tables/{table_id}/rows/{row['id']}"
    assert event["actor"] == {"kind": "public", "id": None}
    assert event["data"]["row"] == row
    (delivery,) = await webhook.ended()
    sent = request.headers
    assert sent["idempotency-key"] == sent["webhook-id"] == event["id"] == delivery["event_id"]
    assert sent["x-service-event"] == "row.created"
    assert sent["x-service-delivery"] == delivery["id"]
    assert sent["x-service-attempt"] == "1"
    assert sent["user-agent"] == "Pilotis-Webhooks/1"
    assert sent["content-type"] == "application/json"
    assert sent["x-team"] == "orders"
    assert "cookie" not in sent
    assert verified(request, webhook.secret)
    assert not verified(request, "whsec_" + base64.b64encode(bytes(32)).decode())
    assert delivery["status"] == "succeeded"
    assert [attempt["status_code"] for attempt in delivery["attempts"]] == [200]
    details = await webhook.call("GET", f"/logs/{delivery['id']}")
    assert details["request"]["body"].encode() == request.body
    assert details["request"]["headers"]["X-Team"] == "•••"
    assert not any("signature" in name.lower() for name in details["request"]["headers"])
    stats = (await webhook.read())["stats"]
    assert (stats["pending"], stats["succeeded_24h"], stats["failed_24h"]) == (0, 1, 0)


async def test_a_failure_is_tried_again_with_the_same_key_and_a_new_signature(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = answering(status(500, body=b"<b>broken</b>"), status(404), OK)
    webhook = await create(app, receiver.url())
    await app.row(table_id, {"n": 1})
    (delivery,) = await webhook.ended()
    assert delivery["status"] == "succeeded"
    assert [attempt["error"] for attempt in delivery["attempts"]] == ["STATUS", "STATUS", None]
    assert [attempt["number"] for attempt in delivery["attempts"]] == [1, 2, 3]
    assert delivery["attempts"][0]["response_excerpt"] == "<b>broken</b>"
    assert len({request.headers["idempotency-key"] for request in receiver.received}) == 1
    assert len({request.body for request in receiver.received}) == 1
    assert [request.headers["x-service-attempt"] for request in receiver.received] == ["1", "2", "3"]
    assert all(verified(request, webhook.secret) for request in receiver.received)


async def test_after_the_last_attempt_it_has_failed_and_can_be_recovered(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = status(500)
    webhook = await create(app, receiver.url())
    for number in range(3):
        await app.row(table_id, {"n": number})
    deliveries = await webhook.ended(3)
    assert {one["status"] for one in deliveries} == {"failed"}
    assert {one["attempt_count"] for one in deliveries} == {len(FAST["PILOTIS_WEBHOOK_SCHEDULE"].split(","))}
    failing = await webhook.read()
    assert failing["status"] == "failing"
    assert failing["stats"]["failed_count"] == 3
    receiver.answers["/"] = OK
    one = deliveries[0]
    again = await webhook.call("POST", f"/logs/{one['id']}/redeliver")
    assert again["status"] == "pending"
    assert len(again["attempts"]) == 4
    await webhook.ended(1, status="succeeded")
    (first, *_) = [found for found in await webhook.logs() if found["id"] == one["id"]]
    assert [attempt["number"] for attempt in first["attempts"]] == [1, 2, 3, 4, 5]
    queued = await webhook.call("POST", "/recover", json={"since": "2020-01-01T00:00:00Z"})
    assert queued == {"queued": 2}
    assert {found["status"] for found in await webhook.ended(3)} == {"succeeded"}
    assert (await webhook.status("active"))["failing_since"] is None
    queued = await webhook.call(
        "POST", "/recover", json={"since": "2020-01-01T00:00:00Z", "include_succeeded": True, "event_types": ["x"]}
    )
    assert queued == {"queued": 0}


@pytest.mark.parametrize("code", [301, 302, 308])
async def test_a_redirect_fails_and_is_not_followed(app: App, receiver: Receiver, code: int):
    receiver.answers["/"] = status(code, "Location: /elsewhere")
    webhook = await create(app, receiver.url())
    result = await webhook.call("POST", "/test", json={})
    assert (result["success"], result["status_code"], result["error"]) == (False, code, "REDIRECT")
    assert {request.path for request in receiver.received} == {"/"}


async def test_410_disables_at_once_and_tells_the_apps_other_webhooks(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/gone"] = status(410)
    gone = await create(app, receiver.url("/gone"), ["row.created"])
    await create(app, receiver.url("/other"), ["webhook.*"])
    await create(app, receiver.url("/all"), ["row.created"])

    def rows(path: str) -> list[int]:
        told = [json.loads(one.body) for one in receiver.received if one.path == path]
        return [event["data"]["row"]["data"]["n"] for event in told]

    await app.row(table_id, {"n": 1})
    disabled = await gone.status("disabled")
    assert (disabled["is_active"], disabled["disabled_reason"]) == (False, "GONE")
    await until(lambda: [one for one in receiver.received if one.path == "/other"])
    (told,) = [json.loads(one.body) for one in receiver.received if one.path == "/other"]
    assert told["type"] == "webhook.disabled"
    assert told["data"] == {"webhook_id": gone.id, "reason": "GONE"}
    assert told["subject"] == f"webhooks/{gone.id}"
    assert [one["status"] for one in await gone.ended()] == ["failed"]
    async with console(app) as client:
        (entry,) = (await client.get("/audit-log", params={"action": "webhook.disable"})).json()["data"][:1]
    assert entry["target"] == gone.id
    await app.row(table_id, {"n": 2})
    # Now it is known who is told of it.
    await until(lambda: rows("/all") == [1, 2])
    assert len(await gone.logs()) == 1
    receiver.answers["/gone"] = OK
    assert (await gone.change(is_active=True))["status"] == "active"
    await app.row(table_id, {"n": 3})
    await gone.ended(2)
    assert rows("/gone") == [1, 3]


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_lane_rests_for_as_long_as_the_receiver_asks(app: App, receiver: Receiver, form: str):
    """While it rests, other deliveries wait as well, and lose no attempt."""
    table_id = await app.table({"n": "int"})
    wait = "3600" if form == "seconds" else "Fri, 01 Jan 2100 00:00:00 GMT"
    receiver.answers["/"] = status(503, f"Retry-After: {wait}")
    webhook = await create(app, receiver.url(), max_in_flight=1)
    await app.row(table_id, {"n": 1})

    async def tried() -> bool:
        return [one["attempt_count"] for one in await webhook.logs()] == [1]

    await until(tried)
    (delivery,) = await webhook.logs()
    assert (delivery["status"], delivery["next_attempt_reason"]) == ("pending", "retry_after")
    await app.row(table_id, {"n": 2})

    async def both() -> bool:
        return len(await webhook.logs()) == 2

    await until(both)
    async with database_of(app.server) as database:
        rests = "select open_at > now() + interval '50 minutes' from pilotis.lanes where target_id = $1"
        await until(lambda: database.fetchval(rests + " and owner is null", UUID(webhook.id)))
    assert [one["attempt_count"] for one in await webhook.logs()] == [0, 1]
    receiver.answers["/"] = OK
    async with database_of(app.server) as database:
        await database.execute(
            "update pilotis.lanes set open_at = null, due_at = now() where target_id = $1", UUID(webhook.id)
        )
        await database.execute(
            "update pilotis.deliveries set next_attempt_at = now() where target_id = $1", UUID(webhook.id)
        )
    await webhook.ended(2)


async def test_a_lane_that_is_due_does_not_rest_whatever_this_machines_clock_says(app: App, receiver: Receiver):
    """The end of a rest is a time of the database; where its clock is ahead, that is in the future here."""
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url())
    await app.row(table_id, {"n": 1})
    await webhook.ended()
    async with database_of(app.server) as database:
        lane = UUID(webhook.id)
        await until(lambda: database.fetchval("select owner is null from pilotis.lanes where target_id = $1", lane))
        await database.execute(
            "update pilotis.lanes set open_at = now() + interval '1 hour' where target_id = $1", lane
        )
        await app.row(table_id, {"n": 2})
        waits = "select due_at > now() from pilotis.lanes where target_id = $1"
        await until(lambda: database.fetchval(waits, lane))
        await database.execute("update pilotis.lanes set due_at = now() where target_id = $1", lane)
    await webhook.ended(2)


async def test_the_breaker_tries_one_at_a_time_and_opens_with_a_success(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = status(500)
    webhook = await create(app, receiver.url(), max_in_flight=8)
    async with app.client() as client:
        rows = [{"n": number} for number in range(40)]
        await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows})
    await received(receiver, 12)
    async with database_of(app.server) as database:
        query = "select count(*) from pilotis.deliveries where target_id = $1 and state = 'pending' and attempts = 0"
        assert await database.fetchval(query, UUID(webhook.id)) > 10
    receiver.answers["/"] = OK
    await until(lambda: webhook.ended(40))
    got = {event["data"]["row"]["data"]["n"] for event in events(receiver)}
    assert got == set(range(40))


async def test_no_more_requests_are_open_than_the_webhook_allows(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})

    async def slow(_: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        writer.write(OK)
        await writer.drain()

    receiver.answers["/"] = slow
    webhook = await create(app, receiver.url(), max_in_flight=3)
    async with app.client() as client:
        rows = [{"n": number} for number in range(60)]
        await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows})
    await webhook.ended(60)
    assert receiver.max_in_flight == 3


async def test_one_that_ends_while_another_is_written_is_sent_once(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), max_in_flight=2)

    async def slow_for_the_first(request: Received, writer: asyncio.StreamWriter) -> None:
        if json.loads(request.body)["data"]["row"]["data"]["n"] == 0:
            await asyncio.sleep(0.3)
        writer.write(OK)
        await writer.drain()

    receiver.answers["/"] = slow_for_the_first
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": [{"n": 0}, {"n": 1}]})
    await webhook.ended(2)
    # Were its result lost, the next holder of the lane would send it again.
    await asyncio.sleep(0.5)
    assert sorted(event["data"]["row"]["data"]["n"] for event in events(receiver)) == [0, 1]


async def test_rotation_signs_by_both_secrets_until_the_previous_one_expires(app: App, receiver: Receiver):
    webhook = await create(app, receiver.url())
    first = webhook.secret
    second = (await webhook.call("POST", "/regenerate-secret", json={}))["secret"]
    await webhook.call("POST", "/test", json={})
    third_answer = await webhook.call("POST", "/regenerate-secret", json={"overlap_seconds": 60})
    third = third_answer["secret"]
    assert third_answer["previous_secret_expires_at"] is not None
    await webhook.call("POST", "/test", json={})
    last = await webhook.call("POST", "/regenerate-secret", json={"overlap_seconds": 0})
    assert last["previous_secret_expires_at"] is None
    await webhook.call("POST", "/test", json={})
    signed = [
        [verified(request, secret) for secret in (first, second, third, last["secret"])]
        for request in receiver.received
    ]
    assert signed == [[True, True, False, False], [False, True, True, False], [False, False, False, True]]
    assert len({first, second, third, last["secret"]}) == 4


async def test_a_test_is_marked_sent_to_inactive_webhooks_and_not_repeated(app: App, receiver: Receiver):
    webhook = await create(app, receiver.url(), is_active=False)
    result = await webhook.call("POST", "/test", json={"event_type": "member.created"})
    assert result["success"] is True
    (event,) = events(receiver)
    assert event["test"] is True
    assert event["actor"] == {"kind": "system", "id": None}
    assert event["type"] == "member.created"
    (logged,) = await webhook.logs()
    assert logged["is_test"] is True
    answer = await webhook.answer("POST", f"/logs/{logged['id']}/redeliver")
    assert_error(answer, 409, "WEBHOOK_DISABLED")
    await webhook.change(is_active=True)
    answer = await webhook.answer("POST", f"/logs/{logged['id']}/redeliver")
    assert_error(answer, 409, "TEST_NOT_REPEATABLE")
    assert_error(await webhook.answer("POST", "/test", json={"event_type": "no.type"}), 400, "UNKNOWN_EVENT_TYPE")


async def test_encrypted_columns_are_not_sent_and_large_rows_are_sent_thin(app: App, receiver: Receiver):
    schema = {"text": "string", "secret": {"type": "string", "encrypted": True}}
    table_id = await app.table(schema)
    await create(app, receiver.url(), ["row.created"])
    await app.row(table_id, {"text": "short", "secret": "hunter2"})
    await app.row(table_id, {"text": "x" * 300_000, "secret": "hunter2"})
    await received(receiver, 2)
    short, large = sorted(events(receiver), key=lambda event: "truncated" in event["data"])
    assert short["data"]["omitted"] == ["secret"]
    assert large["data"]["truncated"] is True
    assert set(large["data"]["row"]) == {"id"}
    assert not any(b"hunter2" in request.raw for request in receiver.received)


async def test_an_event_that_is_no_longer_stored_cannot_be_sent_again(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url())
    await app.row(table_id, {"n": 1})
    (delivery,) = await webhook.ended()
    async with database_of(app.server) as database:
        await database.execute("delete from pilotis.events where event_id = $1", UUID(delivery["event_id"]))
    assert_error(await webhook.answer("POST", f"/logs/{delivery['id']}/redeliver"), 409, "EVENT_EXPIRED")
    details = await webhook.call("GET", f"/logs/{delivery['id']}")
    assert details["request"]["body"] is None


async def test_five_days_of_failures_disable(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = status(500)
    webhook = await create(app, receiver.url())
    await app.row(table_id, {"n": 1})
    await webhook.ended()
    async with database_of(app.server) as database:
        await database.execute(
            """
            update pilotis.webhook_health set failing_since = now() - interval '6 days', failed_count = 9
            where webhook_id = $1
            """,
            UUID(webhook.id),
        )
    await app.row(table_id, {"n": 2})
    disabled = await webhook.status("disabled")
    assert disabled["disabled_reason"] == "NO_SUCCESS"
    assert disabled["pending_count"] == 0
    assert (await webhook.logs())[0]["error"] == "WEBHOOK_DISABLED"


async def test_deleting_cancels_what_is_pending(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = status(503, "Retry-After: 3600")
    webhook = await create(app, receiver.url())
    await app.row(table_id, {"n": 1})
    await received(receiver)
    async with console(app) as client:
        answer = await client.delete(f"/webhooks/{webhook.id}")
    assert answer.json() == {"message": "Webhook deleted.", "id": webhook.id}
    assert_error(await webhook.answer("GET"), 404, "WEBHOOK_NOT_FOUND")
    async with database_of(app.server) as database:
        states = await database.fetch("select state from pilotis.deliveries where target_id = $1", UUID(webhook.id))
        lanes = await database.fetchval("select count(*) from pilotis.lanes where target_id = $1", UUID(webhook.id))
    assert [row["state"] for row in states] == ["cancelled"]
    assert lanes == 0

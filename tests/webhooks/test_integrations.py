"""Domain events: declared, published, derived from rows, listed for consumers, and kept from who has no consent."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.console import database_of, set_limits
from tests.receiver import Receiver
from tests.support import App, assert_error
from tests.waiting import until
from tests.webhooks.world import Webhook, console, create, events, received, refused, status

ORDER = {"title": "Order created", "required_scope": "orders:read", "example": {"total": 12.5}, "version": 3}


async def declare(app: App, name: str = "order.created", **values: Any) -> httpx.Response:
    async with console(app) as client:
        return await client.put(f"/event-types/{name}", json={**ORDER, **values})


async def publish(app: App, body: Any, key: str | None = None, public: str | None = None) -> httpx.Response:
    headers = {"X-Public-Key": public or app.public_key, "Authorization": f"Bearer {key or app.secret_key}"}
    async with httpx.AsyncClient(base_url=app.server.url, headers=headers) as client:
        return await client.post("/v1/integrations/events", json=body)


async def catalog_of(url: str, app_id: str) -> httpx.Response:
    """Read a provider's catalog, as anybody may."""
    async with httpx.AsyncClient(base_url=url) as client:
        return await client.get(f"/v1/integrations/providers/{app_id}/event-catalog")


async def test_a_type_is_declared_replaced_listed_and_deleted(app: App):
    assert (await declare(app)).status_code == 201
    replaced = await declare(app, title="New", example={"big": 12345678901234567890, "exact": 0.1})
    assert replaced.status_code == 200
    assert '"big":12345678901234567890' in replaced.text
    async with console(app) as client:
        known = (await client.get("/event-types", params={"limit": 1000})).json()
        own = [one for one in known["data"] if not one["built_in"]]
        built_in = {one["event_type"] for one in known["data"] if one["built_in"]}
        assert [one["title"] for one in own] == ["New"]
        assert {"row.created", "member.signed_in", "file.created", "webhook.disabled", "webhook.test"} <= built_in
        assert all(one["example"] for one in known["data"])
        catalog = await catalog_of(app.server.url, app.app_id)
        assert [one["event_type"] for one in catalog.json()["events"]] == ["order.created"]
        assert catalog.json()["events"][0]["required_scope"] == "orders:read"
        answer = await client.delete("/event-types/order.created")
        assert answer.json() == {"message": "Event type deleted.", "id": "order.created"}
        assert_error(await client.delete("/event-types/order.created"), 404, "EVENT_TYPE_NOT_FOUND")
    assert_error(await catalog_of(app.server.url, str(uuid4())), 404, "APP_NOT_FOUND")


@pytest.mark.parametrize("name", ["order", "row.sold", "webhook.mine", "Order.created", "order..x", "order.ü", "*"])
async def test_names_that_are_wrong_or_built_in_are_refused(app: App, name: str):
    assert_error(await declare(app, name), 400, "INVALID_EVENT_TYPE")


async def test_an_app_declares_a_limited_number_of_types(app: App):
    await set_limits(app, event_types=1)
    assert (await declare(app)).status_code == 201
    assert_error(await declare(app, "order.paid"), 409, "TOO_MANY_EVENT_TYPES")
    assert (await declare(app)).status_code == 200


async def test_a_published_event_is_delivered_once_for_a_key(app: App, receiver: Receiver):
    await declare(app)
    webhook = await create(app, receiver.url(), ["order.*"])
    member = await app.member()
    body = {
        "event_type": "order.created",
        "data": {"total": 12345678901234567890, "part": 0.10},
        "member_id": member["member_id"],
        "subject": "orders/7",
        "idempotency_key": "order-7",
    }
    first = await publish(app, body)
    assert first.status_code == 201
    assert first.json()["duplicate"] is False
    again = await publish(app, {**body, "data": {"total": 2}})
    assert (again.status_code, again.json()) == (200, {**first.json(), "duplicate": True})
    await webhook.ended()
    (event,) = events(receiver)
    assert event["id"] == first.json()["id"]
    assert event["version"] == 3
    assert event["member_id"] == member["member_id"]
    assert event["subject"] == "orders/7"
    assert event["actor"]["kind"] == "secret_key"
    assert b'"total":12345678901234567890' in receiver.received[0].body
    async with console(app) as client:
        listed = (await client.get("/events", params={"type": "order.created"})).json()
    assert [one["id"] for one in listed["data"]] == [event["id"]]


async def test_a_list_is_published_whole_or_not_at_all(app: App, receiver: Receiver):
    await declare(app)
    webhook = await create(app, receiver.url(), ["order.created"])
    good = {"event_type": "order.created", "data": {"n": 1}, "idempotency_key": "one"}
    bad = await publish(app, {"events": [good, {"event_type": "order.unknown", "data": {}}]})
    assert_error(bad, 400, "UNKNOWN_EVENT_TYPE")
    made = await publish(app, {"events": [good, {**good, "idempotency_key": "two"}, good]})
    assert made.status_code == 201
    assert [one["duplicate"] for one in made.json()["events"]] == [False, False, True]
    await webhook.ended(2)
    assert len(receiver.received) == 2


async def test_twenty_equal_events_at_once_are_one(app: App, receiver: Receiver):
    await declare(app)
    webhook = await create(app, receiver.url(), ["order.created"])
    body = {"event_type": "order.created", "data": {}, "idempotency_key": "same"}
    answers = await asyncio.gather(*(publish(app, body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    await webhook.ended()
    assert len(receiver.received) == 1


async def test_who_may_publish_and_what(app: App, other_app: App):
    await declare(app)
    body = {"event_type": "order.created", "data": {}}
    assert_error(await publish(app, body, key=other_app.secret_key), 401, "INVALID_SECRET_KEY")
    async with app.client() as client:
        answer = await client.post("/v1/integrations/events", json=body)
    assert_error(answer, 401, "SECRET_KEY_REQUIRED")
    assert_error(await publish(app, {**body, "member_id": str(uuid4())}), 400, "MEMBER_NOT_FOUND")
    theirs = await other_app.member()
    assert_error(await publish(app, {**body, "member_id": theirs["member_id"]}), 400, "MEMBER_NOT_FOUND")
    assert_error(await publish(app, {"event_type": "row.created", "data": {}}), 400, "UNKNOWN_EVENT_TYPE")
    assert_error(await publish(app, {**body, "data": {"text": "x" * 70_000}}), 413, "EVENT_TOO_LARGE")
    assert_error(await publish(app, {**body, "data": [1]}), 400, "BAD_REQUEST")
    assert_error(await publish(app, {"events": [body], **body}), 400, "BAD_REQUEST")
    assert_error(await publish(app, {}), 400, "BAD_REQUEST")
    old = (datetime.now(UTC) - timedelta(days=8)).isoformat()
    assert_error(await publish(app, {**body, "timestamp": old}), 400, "INVALID_TIMESTAMP")
    recent = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (await publish(app, {**body, "timestamp": recent})).json()["timestamp"] == recent


async def test_domain_events_are_derived_from_rows_without_code(app: App, receiver: Receiver):
    schema = {"item": "string", "buyer": "string", "card": {"type": "string", "encrypted": True}, "note": "string"}
    table_id = await app.table(schema)
    source = {"event": "row.created", "table_id": table_id, "fields": ["id", "item"], "member_from": "creator"}
    assert (await declare(app, source=source)).status_code == 201
    paid = {"event": "row.updated", "table_id": table_id, "fields": ["item", "note"], "member_from": "buyer"}
    assert (await declare(app, "order.changed", source=paid)).status_code == 201
    webhook = await create(app, receiver.url(), ["order.*"])
    member = await app.member()
    row = await app.row(table_id, {"item": "tea", "card": "4111 1111 1111 1111", "note": "n"}, member["access_token"])
    async with app.client() as client:
        path = f"/v1/public/tables/{table_id}/data/{row['id']}"
        await client.patch(path, json={"data": {"buyer": member["member_id"]}})
    await webhook.ended(2)
    created, changed = sorted(events(receiver), key=lambda event: event["type"], reverse=True)
    assert created["type"] == "order.created"
    assert created["data"] == {"id": row["id"], "item": "tea"}
    assert created["member_id"] == changed["member_id"] == member["member_id"]
    assert changed["data"] == {"item": "tea", "note": "n"}
    assert not any(b"4111 1111 1111 1111" in request.raw for request in receiver.received)


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": ["card"]},
        {"fields": ["unknown"]},
        {"member_from": "card"},
        {"event": "row.deleted", "member_from": "creator"},
    ],
)
async def test_a_source_with_encrypted_or_unknown_columns_is_refused(app: App, changes: dict[str, Any]):
    table_id = await app.table({"item": "string", "card": {"type": "string", "encrypted": True}})
    source = {"event": "row.created", "table_id": table_id, "fields": ["item"], **changes}
    assert_error(await declare(app, source=source), 400, "INVALID_SOURCE")


async def test_a_source_must_be_a_table_of_the_app(app: App, other_app: App):
    theirs = await other_app.table({"item": "string"})
    source = {"event": "row.created", "table_id": theirs, "fields": ["item"]}
    assert_error(await declare(app, source=source), 404, "TABLE_NOT_FOUND")


async def make_it_a_clients(webhook: Webhook) -> None:
    """Let the webhook be one of an OAuth client, which no route can do before clients exist."""
    async with database_of(webhook.app.server) as database:
        await database.execute(
            "update pilotis.webhooks set client_id = 'client' where webhook_id = $1", UUID(webhook.id)
        )


async def test_a_consumer_without_consent_gets_nothing_at_fan_out(app: App, receiver: Receiver):
    await declare(app)
    consumer = await create(app, receiver.url("/consumer"), ["*"])
    own = await create(app, receiver.url("/own"), ["*"])
    await make_it_a_clients(consumer)
    member = await app.member()
    body = {"event_type": "order.created", "data": {}, "member_id": member["member_id"]}
    assert (await publish(app, body)).status_code == 201
    assert (await publish(app, {"event_type": "order.created", "data": {}})).status_code == 201
    await own.ended(3)
    assert {request.path for request in receiver.received} == {"/own"}
    assert await consumer.logs() == []


async def test_consent_is_asked_again_before_each_attempt(app: App, receiver: Receiver):
    await declare(app)
    receiver.answers["/"] = status(503, "Retry-After: 1")
    webhook = await create(app, receiver.url(), ["order.created"])
    await publish(app, {"event_type": "order.created", "data": {}})
    await received(receiver)
    await make_it_a_clients(webhook)

    async def cancelled() -> bool:
        return [(one["status"], one["error"]) for one in await webhook.logs()] == [("cancelled", "CONSENT_WITHDRAWN")]

    await until(cancelled)
    attempts = (await webhook.logs())[0]["attempt_count"]
    assert attempts == len(receiver.received)


async def test_a_webhook_names_no_client_but_the_apps_own(app: App, receiver: Receiver):
    await refused(app, 403, "CLIENT_NOT_LINKED", client_id="client", client_secret="secret")
    webhook = await create(app, receiver.url())
    answer = await webhook.answer("PUT", json={"client_id": "cl_x"})
    assert_error(answer, 403, "CLIENT_NOT_LINKED")
    assert json.loads((await webhook.answer("GET")).content)["client_id"] is None

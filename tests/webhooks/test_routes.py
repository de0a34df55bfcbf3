"""The routes of webhooks: what they take, refuse and answer, and whom."""

from uuid import uuid4

import pytest

from tests.console import set_limits, user_with
from tests.receiver import Receiver
from tests.support import App, assert_error
from tests.webhooks.world import console, create, events, received, refused

FIELDS = {
    *("id", "app_id", "name", "description", "url", "event_types", "table_ids", "provider_app_id", "client_id"),
    *("headers", "is_active", "status", "disabled_reason", "failing_since", "timeout_seconds", "max_in_flight"),
    *("secret_prefix", "previous_secret_expires_at", "pending_count", "last_success_at", "last_failure_at"),
    *("created_at", "updated_at"),
}


async def test_a_webhook_is_created_listed_read_changed_and_deleted(app: App, receiver: Receiver):
    webhook = await create(app, receiver.url(), ["row.created", "member.*"], name="orders", headers={"X-A": "1"})
    made = webhook.created
    assert set(made) == FIELDS | {"secret"}
    assert made["secret"].startswith(made["secret_prefix"])
    assert made["headers"] == {"X-A": "•••"}
    assert (made["timeout_seconds"], made["max_in_flight"], made["is_active"]) == (30, 4, True)
    assert (made["status"], made["table_ids"]) == ("active", None)
    async with console(app) as client:
        page = (await client.get("/webhooks")).json()
    assert page["total_count"] == 1
    assert set(page["data"][0]) == FIELDS
    assert set(await webhook.read()) == FIELDS | {"stats"}
    changed = await webhook.change(name="new", headers={"x-a": "•••", "X-B": "2"}, timeout_seconds=29)
    assert changed["name"] == "new"
    assert changed["event_types"] == ["row.created", "member.*"]
    assert set(changed["headers"]) == {"x-a", "X-B"}
    result = await webhook.call("POST", "/test", json={})
    assert result["success"], result
    assert receiver.received[0].headers["x-a"] == "1"
    assert receiver.received[0].headers["x-b"] == "2"
    async with console(app) as client:
        answer = await client.delete(f"/webhooks/{webhook.id}")
        assert answer.json() == {"message": "Webhook deleted.", "id": webhook.id}
        assert (await client.get("/webhooks")).json()["total_count"] == 0


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/", "INVALID_URL"),
        ("https://user:pass@example.com/", "INVALID_URL"),
        ("https://example.com/#part", "INVALID_URL"),
        ("https://[fe80::1%25eth0]/", "INVALID_URL"),
        ("https://exa mple.com/", "INVALID_URL"),
        ("https://" + "a" * 300 + ".com/", "INVALID_URL"),
        ("http://example.com/", "ADDRESS_NOT_ALLOWED"),
        ("https://10.0.0.1/", "ADDRESS_NOT_ALLOWED"),
        ("https://169.254.169.254/latest/meta-data", "ADDRESS_NOT_ALLOWED"),
        ("https://[::ffff:10.0.0.1]/", "ADDRESS_NOT_ALLOWED"),
        ("https://0xA000001/", "ADDRESS_NOT_ALLOWED"),
        ("https://\uff11\uff10.0.0.1/", "ADDRESS_NOT_ALLOWED"),
        ("https://100.64.0.1/", "ADDRESS_NOT_ALLOWED"),
        ("https://[64:ff9b::a00:1]/", "ADDRESS_NOT_ALLOWED"),
    ],
)
async def test_urls_that_must_not_be_called_are_refused(app: App, url: str, code: str):
    await refused(app, 400, code, url=url)


async def test_the_servers_own_ports_are_refused(app: App):
    url = app.server.url.replace("127.0.0.1", "localhost")
    await refused(app, 400, "ADDRESS_NOT_ALLOWED", url=url)
    async with console(app) as client:
        answer = await client.post("/webhooks", json={"name": "own", "url": url, "event_types": ["*"]})
    assert answer.json()["message"] == "A port of this server itself cannot be called from here."


@pytest.mark.parametrize("types", [["row.made"], ["nothing.*"], ["*.created"], ["row.*.x"], ["webhook.test"], ["row"]])
async def test_unknown_event_types_are_refused(app: App, types: list[str]):
    await refused(app, 400, "UNKNOWN_EVENT_TYPE", event_types=types)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"content-length": "3"},
        {"Webhook-Id": "x"},
        {"X-Service-Signature": "x"},
        {"Idempotency-Key": "x"},
        {"Cookie": "a=b"},
        {"Proxy-Authorization": "x"},
        {"User-Agent": "x"},
        {"X-A": "a\r\nX-B: b"},
        {"X A": "a"},
        {"": "a"},
        {"X-A": "é"},
        {"X-A": "a" * 2000},
        {"X-A": "1", "x-a": "2"},
    ],
)
async def test_headers_that_concern_the_connection_or_break_it_are_refused(app: App, headers: dict[str, str]):
    await refused(app, 400, "INVALID_HEADER", headers=headers)


@pytest.mark.parametrize(
    "values",
    [
        {"event_types": []},
        {"table_ids": []},
        {"timeout_seconds": 31},
        {"timeout_seconds": 0},
        {"max_in_flight": 33},
        {"headers": {f"X-{number}": "1" for number in range(11)}},
        {"name": "x" * 101},
        {"unknown": 1},
    ],
)
async def test_values_out_of_bounds_are_refused(app: App, values: dict[str, object]):
    await refused(app, 400, "VALIDATION_FAILED", **values)


async def test_tables_and_clients_must_be_the_apps_own(app: App, other_app: App):
    theirs = await other_app.table({"n": "int"})
    await refused(app, 404, "TABLE_NOT_FOUND", table_ids=[theirs])
    await refused(app, 403, "CLIENT_NOT_LINKED", provider_app_id=other_app.app_id)
    await refused(app, 403, "CLIENT_NOT_LINKED", client_id="client")


async def test_an_app_has_a_limited_number_of_webhooks(app: App, receiver: Receiver):
    await set_limits(app, webhooks=1)
    await create(app, receiver.url())
    await refused(app, 409, "TOO_MANY_WEBHOOKS", url=receiver.url())


async def test_only_webhooks_of_the_named_tables_get_their_events(app: App, receiver: Receiver):
    wanted, other = await app.table({"n": "int"}), await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), ["row.created"], table_ids=[wanted])
    await app.row(other, {"n": 1})
    await app.row(wanted, {"n": 2})
    await webhook.ended()
    assert [event["data"]["row"]["data"]["n"] for event in events(receiver)] == [2]


async def test_a_change_that_widens_is_armed_before_its_answer(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), ["member.created"])
    await app.row(table_id, {"n": 1})
    await webhook.change(event_types=["row.created"])
    await app.row(table_id, {"n": 2})
    await app.member()
    await webhook.ended()
    assert [event["data"]["row"]["data"]["n"] for event in events(receiver)] == [2]


async def test_everything_means_all_events_but_tests(app: App, receiver: Receiver):
    webhook = await create(app, receiver.url(), ["*"])
    await app.member()
    table_id = await app.table({"n": "int"})
    await app.row(table_id, {"n": 1})
    await received(receiver, 3)
    await webhook.ended(3)
    assert sorted(event["type"] for event in events(receiver)) == ["member.created", "row.created", "table.created"]


async def test_other_apps_viewers_and_keys_get_nothing(app: App, other_app: App, receiver: Receiver):
    webhook = await create(app, receiver.url())
    result = await webhook.call("POST", "/test", json={})
    delivery = f"/webhooks/{webhook.id}/logs/{result['delivery_id']}"
    routes = [
        ("GET", f"/webhooks/{webhook.id}", None),
        ("PUT", f"/webhooks/{webhook.id}", {"name": "x"}),
        ("DELETE", f"/webhooks/{webhook.id}", None),
        ("POST", f"/webhooks/{webhook.id}/regenerate-secret", {}),
        ("GET", f"/webhooks/{webhook.id}/logs", None),
        ("POST", f"/webhooks/{webhook.id}/test", {}),
        ("GET", delivery, None),
        ("POST", f"{delivery}/redeliver", None),
        ("POST", f"/webhooks/{webhook.id}/recover", {"since": "2026-01-01T00:00:00Z"}),
    ]
    viewer = await user_with(app, "viewer")
    second = await create(app, receiver.url())
    async with console(other_app) as others, viewer.client(app) as viewers, console(app) as owner:
        for method, path, body in routes:
            answer = await others.request(method, path, json=body)
            assert_error(answer, 404, "WEBHOOK_NOT_FOUND")
            answer = await viewers.request(method, path, json=body)
            if method == "GET":
                assert answer.status_code == 200
            else:
                assert_error(answer, 403, "ROLE_REQUIRED")
            for key in (app.public_key, app.secret_key):
                answer = await owner.request(method, path, json=body, headers={"Authorization": f"Bearer {key}"})
                assert answer.status_code == 401
        # A delivery of another webhook of the same app is none of this one's.
        answer = await owner.get(f"/webhooks/{second.id}/logs/{result['delivery_id']}")
        assert_error(answer, 404, "DELIVERY_NOT_FOUND")
        assert_error(await owner.get(f"/webhooks/{uuid4()}"), 404, "WEBHOOK_NOT_FOUND")


async def test_logs_are_filtered_and_paged(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), ["row.created", "member.created"])
    for number in range(4):
        await app.row(table_id, {"n": number})
    await app.member()
    everything = await webhook.ended(5)
    pages, before = [], None
    while True:
        query = {"limit": 2} | ({"before": before} if before else {})
        page = await webhook.call("GET", "/logs", params=query)
        pages.append([one["id"] for one in page["data"]])
        before = page["next_before"]
        if before is None:
            break
    assert pages == [[one["id"] for one in everything[at : at + 2]] for at in (0, 2, 4)]
    (member,) = await webhook.logs(event_type="member.created")
    assert await webhook.logs(event_id=member["event_id"]) == [member]
    assert await webhook.logs(status="failed") == []
    assert len(await webhook.logs(since="2026-01-01T00:00:00Z")) == 5
    assert await webhook.logs(until="2026-01-01T00:00:00Z") == []


async def test_a_repeated_creation_makes_one_webhook(app: App, receiver: Receiver):
    key = {"Idempotency-Key": str(uuid4())}
    body = {"url": receiver.url(), "event_types": ["row.*"]}
    async with console(app) as client:
        answers = [await client.post("/webhooks", json=body, headers=key) for _ in range(2)]
        assert (await client.get("/webhooks")).json()["total_count"] == 1
    assert answers[0].content == answers[1].content


async def test_statistics_count_by_the_hour(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), ["row.created"])
    for number in range(3):
        await app.row(table_id, {"n": number})
    await webhook.ended(3)
    async with console(app) as client:
        stats = (await client.get("/webhook-stats", params={"hours": 2})).json()
    assert stats["hours"] == 2
    (mine,) = stats["data"]
    assert mine["webhook_id"] == webhook.id
    assert sum(hour["succeeded"] for hour in mine["hours"]) == 3
    assert sum(hour["failed"] for hour in mine["hours"]) == 0


async def test_a_table_that_is_listened_to_has_not_changed(app: App, receiver: Receiver):
    table = await app.table({"n": "int"})
    async with app.client() as client:
        before = (await client.get(f"/v1/public/tables/{table}")).json()
        webhook = await create(app, receiver.url(), ["row.*"])
        assert (await client.get(f"/v1/public/tables/{table}")).json() == before
        await webhook.change(is_active=False)
        assert (await client.get(f"/v1/public/tables/{table}")).json() == before

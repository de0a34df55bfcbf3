"""What operators see of webhooks, and what is deleted when it is no longer needed."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from pilotis.db.log_sizes import Part, excess, parts
from pilotis.events import store as event_store
from pilotis.events.feature import EventsFeature
from pilotis.jobs.lanes import add_work
from pilotis.kit.clock import now
from pilotis.kit.ids import earliest_uuid7, uuid7
from pilotis.webhooks import log_store
from tests import forked
from tests.background import run_task
from tests.console import client_of, database_of, owner_of
from tests.receiver import Received, Receiver
from tests.services import Node
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until
from tests.webhooks.test_integrations import declare
from tests.webhooks.world import console, create, events, status


async def doctor(server: Server) -> str:
    return (await asyncio.to_thread(forked.run, "pilotis", "doctor", *server.place)).stdout


async def count(database: asyncpg.Connection, table: str, column: str, value: UUID) -> int:
    number: int = await database.fetchval(f"select count(*) from pilotis.{table} where {column} = $1", value)
    return number


async def test_doctor_names_lanes_and_events_that_nobody_works_for(app: App):
    """No process knows the lane's kind, and none is told of the events, which no statement of Pilotis wrote."""
    app_id = UUID(app.app_id)
    insert = "insert into pilotis.events (app_id, event_id, type, actor_kind, data, created_at, tries) values"
    async with database_of(app.server) as database:
        healthy = await doctor(app.server)
        assert "lanes of" not in healthy
        assert "Events have been waiting" not in healthy
        try:
            await add_work(database, "unknown", [(app_id, uuid7())])
            await database.execute(f"{insert} ($1, $2, 'x.y', 'system', '{{}}', now(), 0)", app_id, uuid7())
            fresh = await doctor(app.server)
            assert "lanes of unknown" not in fresh
            await database.execute(
                "update pilotis.lanes set due_at = now() - interval '70 s' where app_id = $1 and kind = 'unknown'",
                app_id,
            )
            await database.execute(
                "update pilotis.events set created_at = now() - interval '11 s' where app_id = $1 and type = 'x.y'",
                app_id,
            )
            await database.execute(f"{insert} ($1, $2, 'x.y', 'system', '{{}}', now(), 3)", app_id, uuid7())
            ill = await doctor(app.server)
        finally:
            await database.execute("delete from pilotis.lanes where app_id = $1 and kind = 'unknown'", app_id)
            await database.execute("delete from pilotis.events where app_id = $1 and type = 'x.y'", app_id)
    assert "1 lanes of unknown have been due since" in ill
    assert "Events have been waiting for dispatch since" in ill
    assert "1 events could not be dispatched" in ill


async def test_what_is_kept_for_long_enough_is_deleted(app: App, receiver: Receiver, node: Node):
    """A success for 7 days, a failure for 30, what is pending until it ends; attempts go with their delivery."""
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), ["row.created"])
    for number in range(5):
        await app.row(table_id, {"n": number})
    await webhook.ended(5)
    young, old, failed, very_old, pending = [UUID(one["id"]) for one in await webhook.logs()]
    change = """
        update pilotis.deliveries set state = $2, finished_at = now() - make_interval(days => $3)
        where delivery_id = $1
    """
    async with database_of(app.server) as database:
        for delivery, state, days in (
            (young, "succeeded", 6),
            (old, "succeeded", 8),
            (failed, "failed", 29),
            (very_old, "cancelled", 31),
            (pending, "pending", None),
        ):
            await database.execute(change, delivery, state, days)
        await run_task(node, "webhooks.expire")

        async def expired() -> bool:
            found = await database.fetch(
                "select delivery_id from pilotis.deliveries where target_id = $1", UUID(webhook.id)
            )
            return {row["delivery_id"] for row in found} == {young, failed, pending}

        await until(expired)
        for gone in (old, very_old):
            assert await count(database, "delivery_attempts", "delivery_id", gone) == 0
        for kept in (young, failed, pending):
            assert await count(database, "delivery_attempts", "delivery_id", kept) == 1
        await database.execute("update pilotis.deliveries set state = 'failed' where delivery_id = $1", pending)


async def test_the_data_of_an_event_goes_a_day_after_it_was_delivered_everywhere(
    app: App, receiver: Receiver, node: Node
):
    webhook = await create(app, receiver.url(), ["member.created"])
    for _ in range(3):
        await app.guest()
    await webhook.ended(3)
    young, failing, delivered = await webhook.logs()
    async with database_of(app.server) as database:
        for one in (failing, delivered):
            await database.execute(
                "update pilotis.events set created_at = now() - interval '25 hours' where event_id = $1",
                UUID(one["event_id"]),
            )
        await database.execute(
            "update pilotis.deliveries set state = 'failed' where delivery_id = $1", UUID(failing["id"])
        )
        await run_task(node, "webhooks.shorten")

        async def has_data(one: dict[str, Any]) -> bool:
            return await database.fetchval(
                "select data::text <> 'null' from pilotis.events where event_id = $1", UUID(one["event_id"])
            )

        await until(lambda: negated(has_data(delivered)))
        assert [await has_data(young), await has_data(failing)] == [True, True]
    async with console(app) as client:
        path = f"/webhooks/{webhook.id}/logs"
        assert_error(await client.post(f"{path}/{delivered['id']}/redeliver"), 409, "EVENT_EXPIRED")
        assert (await client.post(f"{path}/{failing['id']}/redeliver")).is_success
        listed = (await client.get("/events", params={"type": "member.created"})).json()["data"]
    # Events of one millisecond are in any order.
    assert [one["id"] for one in listed if one["data"] is None] == [delivered["event_id"]]
    await webhook.ended(3)


async def negated(condition: Awaitable[bool]) -> bool:
    return not await condition


async def test_an_app_keeps_its_logs_for_its_own_days_and_bytes(app: App, receiver: Receiver, node: Node):
    webhook = await create(app, receiver.url(), ["member.created"])
    for _ in range(4):
        await app.guest()
    newest, *_, oldest = await webhook.ended(4)
    limits = {"event_days": 2, "delivery_days": 1}
    async with console(app) as client:
        assert (await client.patch("/limits", json=limits)).status_code == 200
    async with database_of(app.server) as database:
        # Ids are in the order of time, so what is old has an old id.
        old = earliest_uuid7(int((now() - timedelta(days=3)).timestamp() * 1000))
        await database.execute(
            """
            with moved as (
                update pilotis.events set event_id = $2, created_at = now() - interval '3 days' where event_id = $1
            )
            update pilotis.deliveries set event_id = $2, finished_at = now() - interval '3 days' where event_id = $1
            """,
            UUID(oldest["event_id"]),
            old,
        )
        await run_task(node, "events.expire")
        await until(lambda: gone(database, "events", "event_id", old))
        await run_task(node, "webhooks.expire")
        await until(lambda: gone(database, "deliveries", "delivery_id", UUID(oldest["id"])))
        assert await count(database, "events", "event_id", UUID(newest["event_id"])) == 1
        found = await parts(database, "pilotis.events", event_store.ROW_BYTES)
        size = found[UUID(app.app_id)].size
        assert found[UUID(app.app_id)].rows == 3
        bounded = excess(found, {UUID(app.app_id): size * 2 // 3}, 2**50, 2**50)
        assert bounded == {UUID(app.app_id): 1}
        assert await event_store.delete_oldest(database, UUID(app.app_id), 1) == 1
        assert await log_store.delete_oldest(database, UUID(app.app_id), 1) == 1
        assert await count(database, "events", "event_id", UUID(newest["event_id"])) == 1
    assert len(await webhook.logs()) == 2


def test_the_largest_parts_of_a_log_are_cut_to_one_size():
    apps = [UUID(int=number) for number in range(3)]
    found = {apps[0]: Part(10, 1_000), apps[1]: Part(100, 10_000), apps[2]: Part(200, 20_000)}
    assert excess(found, {}, 2**50, 2**50) == {}
    assert excess(found, {}, 2**50, 11_000) == {apps[1]: 50, apps[2]: 150}
    assert excess(found, {apps[2]: 5_000}, 2**50, 2**50) == {apps[2]: 150}
    assert excess(found, {}, 500, 2**50) == {apps[0]: 5, apps[1]: 95, apps[2]: 195}


async def test_events_are_deleted_after_thirty_days(app: App, receiver: Receiver, node: Node):
    webhook = await create(app, receiver.url(), ["member.created"])
    await app.member()
    await app.guest()
    newer, older = [UUID(one["event_id"]) for one in await webhook.ended(2)]
    async with database_of(app.server) as database:
        await database.execute(
            "update pilotis.events set created_at = now() - interval '31 days' where event_id = $1", older
        )
        await run_task(node, "events.expire")
        await until(lambda: gone(database, "events", "event_id", older))
        assert await count(database, "events", "event_id", newer) == 1
    # The delivery itself is listed as long as it is kept.
    assert len(await webhook.logs()) == 2


async def gone(database: asyncpg.Connection, table: str, column: str, value: UUID) -> bool:
    return await count(database, table, column, value) == 0


async def test_nothing_is_left_of_an_app_that_was_purged(app: App, receiver: Receiver, node: Node):
    """Deliveries with attempts, lanes, events, targets, outboxes: also of a webhook whose receiver was failing."""
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = status(503, "Retry-After: 3600")
    await create(app, receiver.url(), ["row.created"])
    await app.row(table_id, {"n": 1})
    await until(lambda: receiver.received)
    app_id = UUID(app.app_id)
    tables = ("deliveries", "delivery_attempts", "lanes", "events", "event_targets", "outboxes", "webhooks")
    async with database_of(app.server) as database:
        await until(lambda: filled(database, app_id, tables))
        async with owner_of(app).client(app) as client:
            assert (await client.delete("")).status_code == 200
        await database.execute(
            "update pilotis.apps set deleted_at = now() - interval '1 year' where app_id = $1", app_id
        )
        for task in ("apps.purge", "webhooks.expire", "events.expire"):
            await run_task(node, task)
        for table in tables:
            await until(lambda table=table: gone(database, table, "app_id", app_id))


async def filled(database: asyncpg.Connection, app_id: UUID, tables: tuple[str, ...]) -> bool:
    return all([await count(database, table, "app_id", app_id) for table in tables])


async def test_ids_of_purged_tables_leave_a_set_that_then_matches_nothing(app: App, receiver: Receiver, node: Node):
    first, second, other = [await app.table({"n": "int"}) for _ in range(3)]
    webhook = await create(app, receiver.url(), ["row.created"], table_ids=[first, second])
    both = [first, second]
    async with app.client() as client, console(app) as owner:
        while both:
            table_id = both.pop()
            assert (await client.delete(f"/v1/public/tables/{table_id}")).status_code == 200
            assert (await owner.delete(f"/trash/tables/{table_id}")).status_code == 200
            await run_task(node, "webhooks.expire")

            async def forgotten(both: list[str] = both) -> bool:
                return (await webhook.read())["table_ids"] == both

            await until(forgotten)
    listening = await create(app, receiver.url("/listening"), ["row.created"])
    await app.row(other, {"n": 1})
    await listening.ended()
    assert {request.path for request in receiver.received} == {"/listening"}


async def test_a_statement_over_more_than_a_thousand_rows_is_one_delivery(app: App, receiver: Receiver):
    """Who listens to the deletion of rows is told by one `rows.changed`; who listens to creations alone is not."""
    table_id = await app.table({"n": "int"})
    deleted = await create(app, receiver.url("/deleted"), ["row.deleted"])
    changed = await create(app, receiver.url("/changed"), ["rows.changed"])
    created = await create(app, receiver.url("/created"), ["row.created"])
    async with app.client() as client:
        for _ in range(2):
            body = {"data": [{"n": number} for number in range(600)]}
            await client.post(f"/v1/public/tables/{table_id}/data/bulk", json=body)
        await client.post(f"/v1/public/tables/{table_id}/data/delete-where", json={"all": True})
    for webhook in (deleted, changed):
        (delivery,) = await webhook.ended()
        assert (delivery["event_type"], delivery["status"]) == ("rows.changed", "succeeded")
    told = [event for event in events(receiver) if event["type"] == "rows.changed"]
    assert len(told) == 2
    assert told[0]["data"] == {
        "table_id": table_id,
        "table_title": told[0]["data"]["table_title"],
        "operation": "deleted",
        "count": 1200,
    }
    assert told[0]["subject"] == f"tables/{table_id}"
    assert len(await created.logs(event_type="rows.changed")) == 0


async def test_beyond_the_limit_of_pending_deliveries_further_ones_fail_and_can_be_recovered(
    app: App, receiver: Receiver
):
    table_id = await app.table({"n": "int"})
    receiver.answers["/"] = status(503, "Retry-After: 3600")
    webhook = await create(app, receiver.url(), ["row.created"])
    async with app.client() as client:
        for _ in range(3):
            body = {"data": [{"n": number} for number in range(1000)]}
            await client.post(f"/v1/public/tables/{table_id}/data/bulk", json=body)
    async with database_of(app.server) as database:

        async def counts() -> Counter[tuple[str, str | None]]:
            rows = await database.fetch(
                "select state, error, count(*) as n from pilotis.deliveries where target_id = $1 group by 1, 2",
                UUID(webhook.id),
            )
            return Counter({(row["state"], row["error"]): row["n"] for row in rows})

        async def all_there() -> bool:
            return (await counts()).total() == 3000

        await until(all_there)
        full = (await counts())["failed", "QUEUE_FULL"]
        # Two dispatches at the same time exceed the limit of 2,000 by as many as one of them takes.
        assert 800 <= full <= 1000
        assert (await webhook.logs(status="failed", limit=1))[0]["attempts"] == []
        receiver.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        await webhook.change(is_active=False)
        await webhook.change(is_active=True)
        recovered = await webhook.call("POST", "/recover", json={"since": "2020-01-01T00:00:00Z"})
        assert recovered == {"queued": 3000}

        async def delivered() -> bool:
            return (await counts())["succeeded", None] == 3000

        await until(delivered)
    told = {json.loads(request.body)["id"] for request in receiver.received}
    assert len(told) == 3000


@pytest.mark.parametrize("types", [["*"], ["row.*"]])
async def test_many_webhooks_times_a_bulk_create_all_arrive(app: App, receiver: Receiver, types: list[str]):
    table_id = await app.table({"n": "int"})
    webhooks = [await create(app, receiver.url(f"/{number}"), types) for number in range(10)]
    async with app.client() as client:
        body = {"data": [{"n": number} for number in range(100)]}
        await client.post(f"/v1/public/tables/{table_id}/data/bulk", json=body)
    for webhook in webhooks:
        await webhook.ended(100)
    paths = Counter(request.path for request in receiver.received)
    assert paths == {f"/{number}": 100 for number in range(10)}


async def test_metrics_count_events_attempts_and_lanes(app: App, receiver: Receiver, node: Node):
    """The node counts what it dispatches and attempts itself; lanes are those of the whole database."""
    await declare(app, "order.created")
    receiver.answers["/failing"] = status(503, "Retry-After: 3600")
    await create(app, receiver.url("/failing"), ["order.created"])
    body = {"event_type": "order.created", "data": {}}
    keys = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {app.secret_key}"}
    async with client_of(node, **keys) as client:
        assert (await client.post("/v1/integrations/events", json=body)).status_code == 201
    # The name of an app's own type is no label.
    await until(lambda: node.made.get(EventsFeature).fan_out.dispatched == {"own": 1})
    await until(lambda: any(request.path == "/failing" for request in receiver.received))
    counting = asyncio.create_task(node.background.counts.keep(0.1))
    await until(lambda: node.background.counts.lanes.get(("webhook", "resting"), 0) > 0)
    # Events of rows and others, of apps that no process knows, wait; two more than before.
    before = await until(lambda: waiting(node))
    async with database_of(app.server) as database:
        await app.table({"n": "int"})
        nobody = uuid7()
        try:
            for tries in (0, 2, 3):
                await database.execute(
                    """
                    insert into pilotis.events (app_id, event_id, type, actor_kind, data, created_at, tries)
                    values ($1, $2, 'x.y', 'system', '{}', now(), $3)
                    """,
                    nobody,
                    uuid7(),
                    tries,
                )
            await until(lambda: (waiting(node) or [0])[0] == before[0] + 2)
        finally:
            await database.execute("delete from pilotis.events where app_id = $1", nobody)
    counting.cancel()


def waiting(node: Node) -> list[int] | None:
    """The number of events that wait, if it was counted."""
    number = node.background.counts.totals.get("pilotis_events_waiting")
    return None if number is None else [number]


async def test_events_in_the_outbox_of_an_app_count_as_waiting(app: App, receiver: Receiver, node: Node):
    """No process knows of events that none has written, until the outbox is due."""
    table_id = await app.table({"n": "int"})
    webhook = await create(app, receiver.url(), ["row.created"])
    count = partial(event_store.count_waiting, node.database)
    due = "update pilotis.outboxes set due_at = now() + $2::interval where app_id = $1"
    await until(lambda: is_zero(count))
    async with database_of(app.server) as database:
        await database.execute(due, UUID(app.app_id), timedelta(hours=1))
        await database.execute(
            f"""
            insert into app_{UUID(app.app_id).hex}.__events (event_id, type, table_id, actor_kind, data)
            select pilotis.uuid7(), 'row.created', $1, 'system', '{{}}' from generate_series(1, 3)
            """,
            UUID(table_id),
        )
        assert await count() >= 3
        await database.execute(due, UUID(app.app_id), timedelta(0))
    await app.row(table_id, {"n": 1})
    await webhook.ended(4)
    await until(lambda: is_zero(count))


async def is_zero(count: Callable[[], Awaitable[int]]) -> bool:
    return await count() == 0


async def test_deliveries_are_counted_by_result_with_their_durations_and_delays(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})

    async def slow(_: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        writer.write(status(500))

    receiver.answers["/failing"] = slow
    good, bad = [await create(app, receiver.url(path), ["row.created"]) for path in ("/", "/failing")]
    before = await deliveries_shown(app.server)
    await app.row(table_id, {"n": 1})
    await good.ended()
    await bad.ended()

    async def shown() -> dict[str, float] | None:
        after = await deliveries_shown(app.server)
        grown = {name: after.get(name, 0) - before.get(name, 0) for name in after}
        is_all = grown.get('s_total{result="succeeded"}', 0) and grown.get('s_total{result="failed"}', 0)
        return grown if is_all else None

    grown = await until(shown)
    # Other tests' deliveries may end meanwhile, so these are lower bounds: five attempts, four of them slow.
    assert grown["_seconds_count"] >= 5
    assert grown["_seconds_sum"] >= 1.2
    assert grown["_seconds_count"] - grown['_seconds_bucket{le="0.25"}'] >= 4
    assert grown["_delay_seconds_count"] >= 2
    assert grown["_delay_seconds_count"] < grown["_seconds_count"]
    assert grown["_delay_seconds_sum"] > 0


async def deliveries_shown(server: Server) -> dict[str, float]:
    """What `/metrics` of the server says of deliveries, by the rest of the name and its labels."""
    async with plain_client(server.metrics_url) as client:
        text = (await client.get("/metrics")).text
    return {
        name: float(value) for name, value in re.findall(r"^pilotis_deliver(?:y|ie)(\S+) ([\d.]+)$", text, re.MULTILINE)
    }


async def test_attempts_of_webhooks_are_shown_by_their_results(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    receiver.answers["/failing"] = status(500)
    good, bad = [await create(app, receiver.url(path), ["row.created"]) for path in ("/", "/failing")]
    before = await attempts_shown(app.server)
    await app.row(table_id, {"n": 1})
    await good.ended()
    await bad.ended()

    async def shown() -> bool:
        after = await attempts_shown(app.server)
        return after["completed"] - before["completed"] >= 1 and after["failed"] - before["failed"] >= 4

    await until(shown)


async def attempts_shown(server: Server) -> Counter[str]:
    """What `/metrics` of the server says of attempts of webhooks, by result."""
    async with plain_client(server.metrics_url) as client:
        text = (await client.get("/metrics")).text
    found = re.findall(r'pilotis_job_attempts_total\{kind="webhook",result="(\w+)"\} ([\d.]+)', text)
    return Counter({result: int(float(number)) for result, number in found})

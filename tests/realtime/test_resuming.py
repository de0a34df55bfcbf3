"""Streams whose connection breaks: nothing that commits is missed, and what cannot be told is a `reset`."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import pytest

from pilotis.data.realtime.cursor import RESUMABLE_SECONDS, cursor_of, parse
from pilotis.data.rows.change_log import log_of
from tests.console import client_of
from tests.database import connection_to, second_node
from tests.realtime.listening import TrueList, listening, patched
from tests.support import App
from tests.whole import WHOLE, times


async def test_a_stream_goes_on_where_the_one_before_broke(app: App, other_app: App):
    table = await app.table({"name": "string"})
    asked = {"id": "a", "table_id": table}
    async with app.client() as client:
        async with listening(client, asked) as told:
            row = await app.row(table, {"name": "first"})
            await told.next()
            last = told.last_id
        await patched(app, table, row, name="between")
        await app.row(table, {"name": "second"})
        async with listening(client, asked, after=last) as told:
            assert told.ready["resumed"] is True
            assert told.ready["started"] == []
            changes = [await told.change(), await told.change()]
            assert changes == [("a", "update", {"name": "between"}), ("a", "create", {"name": "second"})]
            # One that breaks in between catches up again.
            assert told.ids[:2] == [last, last]
            await app.row(table, {"name": "third"})
            # The rounds may repeat what was told while the stream caught up.
            await told.until(lambda events: any(event[1]["row"]["data"]["name"] == "third" for event in events))
            assert told.last_id != last
        async with listening(client, asked, **{"Last-Event-ID": str(last)}) as told:
            assert told.ready["resumed"] is True
        damaged = [f"{last}0", "x" * 10_000, "", str(last).replace(":", ";"), "€"]
        for token in damaged:
            async with listening(client, asked, after=token) as told:
                assert told.ready["resumed"] is False
                assert await told.next() == [("reset", {"subscription": "a", "reason": "gap"})]
    # A token of another app's log.
    foreign = await other_app.table({"name": "string"})
    async with other_app.client() as client, listening(client, {"id": "b", "table_id": foreign}, after=last) as told:
        assert told.ready["resumed"] is False


async def test_a_crash_empties_the_log_and_every_subscription_is_told(app: App):
    table = await app.table({"name": "string"})
    async with app.client() as client, listening(client, {"id": "a", "table_id": table}) as told:
        schema = f"app_{app.app_id.replace('-', '')}"
        async with connection_to(app.server) as connection:
            await connection.execute(f"truncate {schema}.__changes, {schema}.__changes_epoch")
        assert await told.next() == [("reset", {"subscription": "a", "reason": "gap"})]
        await app.row(table, {"name": "after"})
        assert (await told.change())[2] == {"name": "after"}


async def test_what_another_node_writes_is_told(app: App):
    table = await app.table({"name": "string"})
    async with (
        app.client() as client,
        second_node(app.server) as node,
        listening(client, {"id": "a", "table_id": table}) as told,
    ):
        async with client_of(node, **{"X-Public-Key": app.public_key}) as other:
            answer = await other.post(f"/v1/public/tables/{table}/data", json={"data": {"name": "there"}})
            assert answer.status_code == 201, answer.text
        assert (await told.change())[2] == {"name": "there"}


async def test_a_long_transaction_is_told_when_it_commits_and_delays_nobody(app: App):
    table = await app.table({"name": "string"})
    row = await app.row(table, {"name": "slow"})
    async with app.client() as client, listening(client, {"id": "a", "table_id": table}) as told:
        async with connection_to(app.server) as connection:
            transaction = connection.transaction()
            await transaction.start()
            log = log_of(UUID(app.app_id))
            await connection.execute(
                f"insert into {log} (xid, table_id, op, row_id, at) values (pg_current_xact_id(), $1, 'u', $2, now())",
                UUID(table),
                UUID(row["id"]),
            )
            # In a whole run it is open for 30 seconds, through beats of the server and ends of what it remembers.
            for number in range(times(3, whole=120)):
                await app.row(table, {"name": str(number)})
                assert (await told.change())[2] == {"name": str(number)}
                await asyncio.sleep(0.25 if WHOLE else 0)
            await transaction.commit()
        assert (await told.change())[2] == {"name": "slow"}


@pytest.mark.parametrize("cuts", [1000 if WHOLE else 15])
async def test_a_list_is_true_after_its_connection_was_cut_again_and_again(app: App, cuts: int):
    """A page whose connection breaks at random while others write ends with the rows that a query returns."""
    table = await app.table({"name": "string", "state": "string"})
    where = {"state": "open"}
    rows = [await app.row(table, {"name": str(number), "state": "open"}) for number in range(10)]
    is_over = asyncio.Event()
    choice = random.Random(7)

    async def write() -> None:
        async with app.client() as client:
            while not is_over.is_set():
                row, state = choice.choice(rows), choice.choice(["open", "closed"])
                path = f"/v1/public/tables/{table}/data/{row['id']}"
                answer = await client.patch(path, json={"data": {"state": state}})
                assert answer.status_code == 200, answer.text
                await asyncio.sleep(choice.uniform(0, 0.005))

    async with app.client() as client, asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(write())
        true, last = TrueList(client, table, where), None
        for _ in range(cuts):
            async with listening(client, {"id": "a", "table_id": table, "where": where}, after=last) as told:
                if last is None:
                    await true.read()
                await asyncio.sleep(choice.uniform(0, 0.05))
            for event, data in told.events:
                if event == "change":
                    true.apply(data)
                else:
                    assert event != "reset" or data["reason"] != "gap", data
            last = told.last_id or last
        is_over.set()
        async with listening(client, {"id": "a", "table_id": table, "where": where}, after=last) as told:
            fresh = TrueList(client, table, where)
            fresh.rows = true.rows
            await fresh.until_true(told)


def test_a_token_is_a_snapshot_that_postgresql_can_read():
    epoch = "0198a000-0000-7000-8000-000000000001-7000000000000000000"
    now = 1_800_000_000_000
    cursor = cursor_of(epoch, "757:790:757,759", now)
    assert parse(cursor.token, now) == cursor
    assert parse(cursor.token, now + RESUMABLE_SECONDS * 1000 + 1) is None
    assert parse(cursor.token, now - 120_000) is None
    crowded = cursor_of(epoch, f"5:900:{','.join(map(str, range(5, 300)))}", now)
    assert crowded.snapshot == "5:5:"
    for snapshot in ("0:5:", "9:5:", "5:9:4", "5:9:9", "5:9:7_6", "5:9:7_7", f"{2**63}:{2**63}:", f"{2**32}:{2**32}:"):
        assert parse(f"{epoch}.{now}.{snapshot}", now) is None, snapshot


async def test_a_stream_that_breaks_before_a_reset_that_has_to_wait_is_told_to_read_again(app: App):
    """A subscription is told so once in some seconds; what comes meanwhile must not lead past what it has missed."""
    table = await app.table({"n": "int"})
    asked = {"id": "a", "table_id": table}
    path = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        for count in (1000, 1):
            body = {"data": [{"n": 0}] * count}
            assert (await client.post(f"{path}/bulk", json=body)).status_code == 201

        async def change_all() -> None:
            body = {"where": {}, "all": True, "data": {"n": {"$inc": 1}}}
            assert (await client.post(f"{path}/update-where", json=body)).status_code == 200

        async with listening(client, asked) as told:
            await change_all()
            assert await told.next() == [("reset", {"subscription": "a", "reason": "bulk"})]
            # The second one waits, and a row comes before it, unless it is in the same round.
            await change_all()
            while not told.events:
                await app.row(table, {"n": 3})
                await asyncio.sleep(0.2)
            assert (await told.next())[0][0] == "change"
            broken = told.last_id
            await told.until(lambda events: ("reset", {"subscription": "a", "reason": "bulk"}) in events)
            whole = told.last_id
        async with listening(client, asked, after=broken) as told:
            assert await told.next() == [("reset", {"subscription": "a", "reason": "gap"})]
        # Once it was told, a stream goes on where its feed is.
        async with listening(client, asked, after=whole) as told:
            assert told.ready["resumed"] is True

"""Lists that are true though rounds fail or come late, and though what decides about access changes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from pilotis.data.realtime.feature import RealtimeFeature
from pilotis.data.realtime.stream import LiveStream, Subscription
from pilotis.data.realtime.types import NewSubscription
from pilotis.http.api.principals import AppUser, Role, UserInfo
from tests.database import connection_to, second_node
from tests.realtime.listening import TrueList, deleted, listening, patched
from tests.rules.test_rules import manager, ruled, save
from tests.support import App
from tests.waiting import until

BLOCKED = "select count(*) from pg_stat_activity where $1::int = any(pg_blocking_pids(pid))"
CUT_OFF = "select count(pg_terminate_backend(pid)) from pg_stat_activity where $1::int = any(pg_blocking_pids(pid))"
SEATS = {"team": "string", "member": "string"}
SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": {"$member": "id"}}}}

pytestmark = pytest.mark.without_citus("statements wait for locks on another node, where none of them is seen")


def schema_of(app: App) -> str:
    return f"app_{UUID(app.app_id).hex}"


@asynccontextmanager
async def locked(app: App, table: str) -> AsyncIterator[tuple[asyncpg.Connection, asyncpg.Connection]]:
    """Lock a table of the app's schema; yield the connection that holds the lock, and one that looks on."""
    async with connection_to(app.server) as holder, connection_to(app.server) as observer, holder.transaction():
        await holder.execute(f"lock table {schema_of(app)}.{table} in access exclusive mode")
        yield holder, observer


async def is_waited_for(holder: asyncpg.Connection, observer: asyncpg.Connection) -> None:
    """Wait until a statement waits for the lock."""
    await until(lambda: observer.fetchval(BLOCKED, holder.get_server_pid()))


@asynccontextmanager
async def late_round(app: App) -> AsyncIterator[asyncpg.Connection]:
    """Hold up a round as it begins to read the log: what is written meanwhile is read together."""
    async with locked(app, "__changes_epoch") as (holder, observer):
        await is_waited_for(holder, observer)
        yield holder


async def test_a_rule_that_compares_with_the_time_is_told_of_later_changes(app: App):
    until_then = {"until": {"$gt": {"$now": 0}}}
    table = await ruled(app, {"name": "string", "until": "date"}, {"read": until_then, "create": True})
    other = await ruled(app, {"name": "string", "until": "date"}, {"read": True, "update": until_then, "create": True})
    both = [{"id": "a", "table_id": table}, {"id": "b", "table_id": other}]
    async with app.client() as client, listening(client, *both) as told:
        # By then the time that it was compiled with is an old one.
        await asyncio.sleep(1.1)
        for name in ("first", "second"):
            for one, table_id in (("a", table), ("b", other)):
                await app.row(table_id, {"name": name, "until": "2096-01-01T00:00:00Z"})
                assert (await told.change())[:2] == (one, "create")
        await app.row(table, {"name": "over", "until": "2016-01-01T00:00:00Z"})
        await app.row(other, {"name": "over", "until": "2016-01-01T00:00:00Z"})
        assert (await told.change())[:2] == ("b", "create")
        assert told.events == []


@pytest.mark.parametrize("change", ["roles", "rules"])
async def test_a_subscription_that_could_not_be_compiled_again_goes_on(app: App, change: str):
    """The database is lost just then; what the member may see is found out by the next round."""
    seats = await app.table(SEATS, title="seats")
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": SEATED, "create": True})
    ada = await app.member("ada")
    await app.row(seats, {"team": "red", "member": ada["member_id"]})
    both = [{"id": one, "table_id": table, "where": {"name": one}} for one in ("a", "b")]
    async with manager(app) as side, app.client(ada["access_token"]) as client, listening(client, *both) as told:
        async with locked(app, f"t_{UUID(seats).hex}") as (holder, observer):
            if change == "roles":
                answer = await side.patch(f"/members/{ada['member_id']}", json={"roles": ["helper"]})
                assert answer.status_code == 200, answer.text
            else:
                await save(app, table, {"read": SEATED, "create": True, "update": True})
            await until(lambda: observer.fetchval(CUT_OFF, holder.get_server_pid()))
        await told.until(lambda events: len(events) >= 2)
        assert {data["subscription"] for event, data in await told.next(2) if event == "reset"} == {"a", "b"}
        for one in ("a", "b"):
            await app.row(table, {"name": one, "team": "red"})
            assert (await told.change())[:2] == (one, "create")


async def test_rules_that_change_hold_though_the_message_about_them_is_lost(app: App):
    table = await ruled(app, {"name": "string"}, {"read": True, "create": True})
    async with (
        app.client() as client,
        connection_to(app.server) as connection,
        listening(client, {"id": "a", "table_id": table}) as told,
    ):
        await connection.fetchval(
            "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
            " where application_name = 'pilotis control' and datname = current_database()"
        )
        await save(app, table, {"read": {"name": "open"}, "create": True})
        await told.until(bool)
        assert await told.next() == [("reset", {"subscription": "a", "reason": "schema"})]


async def test_a_seat_that_is_taken_while_a_stream_opens_counts(app: App):
    seats = await app.table(SEATS, title="seats")
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": SEATED, "create": True})
    ada, ben = await app.member("ada"), await app.member("ben")
    asked = {"id": "a", "table_id": table}
    body: dict[str, Any] = {"subscriptions": [asked]}
    async with (
        app.client(ben["access_token"]) as other,
        listening(other, asked),
        app.client(ada["access_token"]) as client,
        AsyncExitStack() as stack,
    ):
        async with late_round(app):
            opening = asyncio.create_task(stack.enter_async_context(listening(client, asked)))
            # It is compiled, and waits for the round, once another answer has begun that was asked for later.
            async with client.stream("POST", "/v1/public/realtime", json=body) as answer:
                assert answer.status_code == 200
            await app.row(seats, {"team": "red", "member": ada["member_id"]})
        told = await opening
        true = TrueList(client, table)
        await true.read()
        await app.row(table, {"name": "x", "team": "red"})
        await true.until_true(told)


async def test_a_process_that_knows_a_table_without_a_log_looks_again(app: App):
    """Another process has just begun the log: what was looked up before that may have changed without an entry."""
    table = await app.table({"name": "string"})
    async with second_node(app.server) as node, app.client() as client:
        services = node.services
        owner = UserInfo(UUID(int=0), "owner@example.com", None)
        caller = AppUser(await services.apps.by_id(UUID(app.app_id)), owner, Role.OWNER)
        assert not (await services.prepared_tables.current(caller.app, UUID(table))).schema.watched
        async with listening(client, {"id": "a", "table_id": table}):
            stream = LiveStream(caller.app, caller, "127.0.0.1", was_asked_to_resume=False)
            one = Subscription(stream, NewSubscription(id="a", table_id=table), UUID(table))
            (compiled,) = await services.features.get(RealtimeFeature).hub.compiled(stream, one)
        assert compiled.shape.table.schema.watched


async def test_a_seat_that_is_taken_while_the_log_is_lost_counts(app: App):
    seats = await app.table(SEATS, title="seats")
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": SEATED, "create": True})
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as client, listening(client, {"id": "a", "table_id": table}) as told:
        async with late_round(app) as holder:
            await app.row(seats, {"team": "red", "member": ada["member_id"]})
            # As a crash of PostgreSQL does.
            await holder.execute(f"delete from {schema_of(app)}.__changes")
            await holder.execute(f"delete from {schema_of(app)}.__changes_epoch")
        assert await told.next() == [("reset", {"subscription": "a", "reason": "gap"})]
        await app.row(table, {"name": "x", "team": "red"})
        assert (await told.change())[2] == {"name": "x", "team": "red"}


async def test_a_row_that_was_read_before_its_beginning_was_told_leaves(app: App):
    """A round reads that a row was made and what happened to it then; a client has read it in between."""
    table = await app.table({"name": "string"})
    where = {"name": "open"}
    async with app.client() as client, listening(client, {"id": "a", "table_id": table, "where": where}) as told:
        true = TrueList(client, table, where)
        async with late_round(app):
            rows = [await app.row(table, {"name": "open"}) for _ in range(3)]
            await true.read()
            assert len(true.rows) == 3
            await deleted(app, table, rows[0])
            await patched(app, table, rows[1], name="closed")
        await true.until_true(told)
        assert list(true.rows) == [rows[2]["id"]]
        assert sorted(data["type"] for _, data in told.events) == ["create", "delete", "leave"]


async def test_a_row_is_gone_though_it_was_changed_after_its_deletion_had_begun(app: App):
    """The deletion waits for another row: the time at which it began is before that of the row's last change."""
    table = await app.table({"n": "int"})
    first, second = await app.row(table, {"n": 1}), await app.row(table, {"n": 2})
    async with (
        app.client() as client,
        listening(client, {"id": "a", "table_id": table}) as told,
        connection_to(app.server) as holder,
        connection_to(app.server) as observer,
    ):
        true = TrueList(client, table)
        await true.read()
        async with holder.transaction():
            rows = f"{schema_of(app)}.t_{UUID(table).hex}"
            await holder.execute(f"select from {rows} where __id = $1 for update", UUID(first["id"]))
            path = f"/v1/public/tables/{table}/data/delete-where"
            deleting = asyncio.create_task(client.post(path, json={"where": {"n": {"$gt": 0}}}))
            await is_waited_for(holder, observer)
            await patched(app, table, second, n=3)
            assert await told.change() == ("a", "update", {"n": 3})
            await true.read()
        assert (await deleting).json()["deleted_count"] == 2
        await true.until_true(told)
        assert true.rows == {}

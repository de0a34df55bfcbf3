"""Tidying up: what each task removes and what it leaves, and that one node at a time does it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.jobs.background import Background
from pilotis.jobs.node import identity
from pilotis.jobs.queue import Jobs
from pilotis.jobs.tasks import on_connection
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits
from pilotis.security.audit.retention import delete_old
from tests.background import run_task
from tests.database import connection_to, second_node
from tests.services import Node
from tests.support import App, Server


@pytest.fixture
async def node(server: Server) -> AsyncIterator[Node]:
    """A second node on the server's database that does nothing by itself."""
    async with second_node(server) as made:
        yield made


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[asyncpg.Connection]:
    async with connection_to(server) as made:
        yield made


async def run(node: Node, name: str) -> None:
    """Run a task, once the shared server is not at it by itself."""
    await run_task(node, name)


async def drop(app: App, path: str) -> None:
    async with app.client() as client:
        assert (await client.delete(f"/v1/public/tables/{path}")).status_code == 200


async def test_the_trash_is_kept_for_7_days(app: App, node: Node, connection: asyncpg.Connection):
    old, young, with_columns = [await app.table({"a": "date", "b": "string", "c": "int"}) for _ in range(3)]
    await app.row(old, {"b": "x"})
    await drop(app, old)
    assert await row_count(connection, app, old) == 1
    await drop(app, young)
    await drop(app, f"{with_columns}/columns/a")
    await drop(app, f"{with_columns}/columns/b")
    await age(connection, "tables", timedelta(days=7, minutes=1), "table_id = $2", UUID(old))
    await age(connection, "tables", timedelta(days=6, hours=23), "table_id = $2", UUID(young))
    await age(connection, "columns", timedelta(days=7, minutes=1), "name = 'a' and table_id = $2", UUID(with_columns))
    await run(node, "trash.purge")
    listed = "select table_id from pilotis.tables where app_id = $1 and dropped_at is not null"
    assert [row["table_id"] for row in await connection.fetch(listed, app.app_id)] == [UUID(young)]
    columns = "select name from pilotis.columns where app_id = $1 and table_id = $2 order by number"
    assert [row["name"] for row in await connection.fetch(columns, app.app_id, with_columns)] == ["b", "c"]
    audited = "select actor_kind from pilotis.audit_log where app_id = $1 and action like '%.purge'"
    assert [row["actor_kind"] for row in await connection.fetch(audited, app.app_id)] == ["system", "system"]
    await app.row(with_columns, {"c": 1})
    assert await row_count(connection, app, old) is None


async def test_the_trash_of_a_deleted_app_hinders_nothing(
    app: App, other_app: App, node: Node, connection: asyncpg.Connection
):
    for each in (app, other_app):
        await drop(each, await each.table({"a": "int"}))
        await drop(each, f"{await each.table({'a': 'int'})}/columns/a")
    for table in ("tables", "columns"):
        older = f"update pilotis.{table} set dropped_at = dropped_at - interval '8 days' where app_id = any($1)"
        await connection.execute(older, [app.app_id, other_app.app_id])
    await connection.execute(f"alter schema app_{app.app_id.replace('-', '')} rename to gone_{uuid4().hex}")
    # As if it had been deleted just after it was looked up, and then as if before.
    await run(node, "trash.purge")
    await connection.execute("update pilotis.apps set deleted_at = now() where app_id = $1", app.app_id)
    await run(node, "trash.purge")
    left = "select count(*) from pilotis.tables where dropped_at is not null and app_id = $1"
    assert await connection.fetchval(left, app.app_id) == 1
    assert await connection.fetchval(left, other_app.app_id) == 0


async def age(connection: asyncpg.Connection, table: str, by: timedelta, condition: str, value: Any) -> None:
    tag = await connection.execute(
        f"update pilotis.{table} set dropped_at = dropped_at - $1::interval where {condition}", by, value
    )
    assert tag == "UPDATE 1"


async def row_count(connection: asyncpg.Connection, app: App, table: str) -> int | None:
    counts = f"app_{app.app_id.replace('-', '')}.__row_counts"
    return await connection.fetchval(f"select sum(rows)::int from {counts} where table_id = $1", UUID(table))


async def test_a_busy_table_does_not_keep_the_others_in_the_trash(
    app: App, node: Node, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(node.services.tables, "_retry_seconds", 0.1)
    busy, free = await app.table({"a": "int"}), await app.table({"a": "int"})
    await drop(app, f"{busy}/columns/a")
    await drop(app, free)
    for table in ("tables", "columns"):
        older = f"update pilotis.{table} set dropped_at = dropped_at - interval '8 days' where app_id = $1"
        await connection.execute(older, app.app_id)
    async with connection.transaction():
        await connection.execute(
            f"lock table app_{app.app_id.replace('-', '')}.t_{busy.replace('-', '')} in share mode"
        )
        await run(node, "trash.purge")
        assert not await connection.fetchval("select exists (select from pilotis.tables where table_id = $1)", free)
    assert await connection.fetchval("select exists (select from pilotis.columns where table_id = $1)", busy)
    await run(node, "trash.purge")
    assert not await connection.fetchval("select exists (select from pilotis.columns where table_id = $1)", busy)


async def test_sessions_that_are_long_over_are_deleted(app: App, node: Node, connection: asyncpg.Connection):
    for login_id in ("living", "revoked", "expired", "just revoked"):
        await app.member(login_id)
    for login_id, change in (
        ("revoked", "revoked_at = now() - interval '25 hours'"),
        ("expired", "expires_at = now() - interval '25 hours'"),
        ("just revoked", "revoked_at = now() - interval '23 hours'"),
    ):
        await connection.execute(
            f"update pilotis.sessions s set {change} from pilotis.members m "
            "where m.app_id = $1 and m.login_id = $2 and s.app_id = m.app_id and s.subject = m.member_id",
            app.app_id,
            login_id,
        )
    await run(node, "sessions.expire")
    left = await connection.fetch(
        "select login_id from pilotis.sessions s join pilotis.members m "
        "on m.app_id = s.app_id and m.member_id = s.subject where s.app_id = $1 order by login_id",
        app.app_id,
    )
    assert [row["login_id"] for row in left] == ["just revoked", "living"]


async def test_guests_without_a_session_and_without_data_go(app: App, node: Node, connection: asyncpg.Connection):
    table, thrown = await app.table({"a": "string"}), await app.table({"a": "string"}, "Creator")
    guests = {name: await app.guest() for name in ("idle", "young", "row", "trash", "signed in", "custom data")}
    ada = await app.member("ada")
    await app.row(table, {"a": "x"}, guests["row"]["access_token"])
    await app.row(thrown, {"a": "x"}, guests["trash"]["access_token"])
    await drop(app, thrown)
    ids = {name: guest["member_id"] for name, guest in guests.items()} | {"ada": ada["member_id"]}
    app_id, old = UUID(app.app_id), [ids[name] for name in ids if name != "young"]
    await connection.execute(
        """
        update pilotis.members set last_active_at = now() - interval '91 days'
        where app_id = $1 and member_id = any($2)
        """,
        app_id,
        old,
    )
    await connection.execute(
        "update pilotis.sessions set expires_at = now() where app_id = $1 and subject <> $2", app_id, ids["signed in"]
    )
    await connection.execute(
        """update pilotis.members set custom_data = '{"a": 1}' where app_id = $1 and member_id = $2""",
        app_id,
        ids["custom data"],
    )
    await run(node, "members.expire_guests")
    left = await connection.fetch("select member_id from pilotis.members where app_id = $1", app_id)
    assert {row["member_id"] for row in left} == set(ids.values()) - {ids["idle"]}


async def test_versions_beyond_the_newest_go_unless_in_use(app: App, node: Node, connection: asyncpg.Connection):
    function, workflow, storage = uuid7(), uuid7(), uuid7()
    app_id = UUID(app.app_id)
    await connection.execute(FUNCTION, app_id, function)
    await connection.execute(WORKFLOW, app_id, workflow)
    await connection.execute(SITE, app_id, storage)
    for task in ("functions.expire", "workflows.expire", "hosting.expire"):
        await run(node, task)

    async def left(table: str, column: str, condition: str, value: UUID) -> list[Any]:
        rows = await connection.fetch(
            f"select {column} from pilotis.{table} where app_id = $1 and {condition} = $2 order by 1", app_id, value
        )
        return [row[0] for row in rows]

    # The third is active, or there is an execution of it.
    kept = [3, *range(11, 61)]
    assert await left("function_versions", "version", "function_id", function) == kept
    assert await left("workflow_versions", "version", "workflow_id", workflow) == kept
    # The third is ready; of the promotions only the newest of each channel remain.
    assert await left("web_deployments", "total_size", "storage_id", storage) == kept
    assert len(await left("web_promotions", "promotion_id", "storage_id", storage)) == 50


async def test_rate_limits_that_limit_nobody_are_deleted(node: Node, connection: asyncpg.Connection):
    keys = [f"test:{uuid4()}" for _ in range(2)]
    for key, minutes in zip(keys, (-16, 1), strict=True):
        query = "insert into pilotis.rate_limits (key, hits, resets_at) values ($1, 1, now() + $2::interval)"
        await connection.execute(query, key, timedelta(minutes=minutes))
    await run(node, "rate_limits.expire")
    left = await connection.fetch("select key from pilotis.rate_limits where key = any($1)", keys)
    assert [row["key"] for row in left] == [keys[1]]


async def test_old_traffic_is_deleted(app: App, node: Node, connection: asyncpg.Connection):
    for days in (59, 61):
        await connection.execute(
            "insert into pilotis.request_stats values ($1, now() - $2::interval, $3, 0, 0)",
            app.app_id,
            timedelta(days=days),
            days,
        )
    await run(node, "stats.expire")
    left = await connection.fetch("select requests from pilotis.request_stats where app_id = $1", app.app_id)
    assert [row["requests"] for row in left] == [59]


async def test_expired_invitations_are_deleted(app: App, node: Node, connection: asyncpg.Connection):
    for email, hours in (("old", -25), ("just over", -1), ("open", 1)):
        await connection.execute(
            "insert into pilotis.invitations (app_id, invitation_id, email, role, token_hash, expires_at) "
            "values ($1, $2, $3, 'viewer', $4, now() + $5::interval)",
            app.app_id,
            uuid4(),
            email,
            uuid4().bytes,
            timedelta(hours=hours),
        )
    await run(node, "invitations.expire")
    left = await connection.fetch("select email from pilotis.invitations where app_id = $1 order by email", app.app_id)
    assert [row["email"] for row in left] == ["just over", "open"]


async def test_every_task_runs(node: Node):
    for task in node.services.periodic():
        await run(node, task.name)


async def test_one_node_at_a_time_runs_a_task(node: Node, server: Server):
    begun, may_end, runs = asyncio.Event(), asyncio.Event(), 0

    async def slow(_: asyncpg.Connection) -> None:
        nonlocal runs
        runs += 1
        begun.set()
        await may_end.wait()

    async with second_node(server) as other:
        here, there = (single_task(each.database, slow) for each in (node, other))
        running = asyncio.create_task(here.run_now("test.task"))
        await begun.wait()
        assert not await there.run_now("test.task")
        assert not await here.run_now("test.task")
        may_end.set()
        assert await running
        assert await there.run_now("test.task")
    assert runs == 2


def single_task(database: Database, work: Callable[[asyncpg.Connection], Awaitable[object]]) -> Background:
    """A worker that knows one periodic task."""
    task = on_connection(database, "test.task", 60, work)
    return Background(database, Control(database), identity("test"), Jobs(database), periodic=[task])


async def test_a_task_whose_connection_is_lost_can_run_again(node: Node, connection: asyncpg.Connection):
    pids: list[int] = []

    async def die(own: asyncpg.Connection) -> None:
        pids.append(await own.fetchval("select pg_backend_pid()"))
        if len(pids) == 1:
            await connection.execute("select pg_terminate_backend($1::integer, 5000)", pids[0])
            await own.fetchval("select 1")

    worker = single_task(node.database, die)
    # The last one is what asyncpg raises where the message of the end has arrived, and the end has not.
    with pytest.raises((asyncpg.AdminShutdownError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
        await worker.run_now("test.task")
    assert await worker.run_now("test.task")


async def test_a_successor_ends_what_a_paused_predecessor_still_has_the_database_do(
    node: Node, connection: asyncpg.Connection
):
    left = await node.database.dedicated(name="job test.task 1", statement_seconds=60)
    sleeping = asyncio.create_task(left.execute("select pg_sleep(60)"))

    async def nothing(_: asyncpg.Connection) -> None:
        pass

    assert await single_task(node.database, nothing).run_now("test.task")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await sleeping


async def test_executions_push_no_entry_of_the_owners_out_of_the_audit_log(app: App, connection: asyncpg.Connection):
    write = "insert into pilotis.audit_log (app_id, entry_id, actor_kind, action) values ($1, $2, $3, $4)"
    entries = [("user", "key.create"), *[("user", "workflow.execute")] * 5, *[("member", "member.update")] * 4]
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("delete from pilotis.audit_log where app_id = $1", app.app_id)
        for actor, action in entries:
            await connection.execute(write, app.app_id, uuid7(), actor, action)
        await delete_old(connection, Limits(audit_days=0, audit_entries=3))
        kept = "select action, count(*) from pilotis.audit_log where app_id = $1 group by action"
        counts = {row["action"]: row["count"] for row in await connection.fetch(kept, app.app_id)}
    finally:
        # The limit would apply to the other apps of the server, too.
        await transaction.rollback()
    assert counts == {"key.create": 1, "workflow.execute": 3, "member.update": 3}


FUNCTION = """
    with f as (
        insert into pilotis.functions (app_id, function_id, name, description, runtime, invoke_access, scopes,
            timeout_seconds, memory_mb, egress_mode, egress_hosts, active_version, latest_version)
        values ($1, $2, 'old', '', 'javascript', 'Public', '{}', 1, 64, 'none', '{}', 3, 60) returning app_id
    )
    insert into pilotis.function_versions (app_id, function_id, version, version_id, status, runtime_version,
        entrypoint, source_bytes, bundle_bytes, sha256, message)
    select app_id, $2, number, gen_random_uuid(), 'ready', '', 'index.js', 0, 0, '', ''
    from f, generate_series(1, 60) number
"""
WORKFLOW = """
    with w as (
        insert into pilotis.workflows (app_id, workflow_id, name, is_active, version, max_concurrency, on_overlap)
        values ($1, $2, 'old', false, 60, 1, 'allow') returning app_id
    ), v as (
        insert into pilotis.workflow_versions (app_id, workflow_id, version, definition)
        select app_id, $2, number, '{}' from w, generate_series(1, 60) number returning app_id, version
    )
    insert into pilotis.workflow_executions (app_id, workflow_id, execution_id, version, status, trigger, trigger_type,
        input, timeout_seconds)
    select app_id, $2, gen_random_uuid(), version, 'completed', '{}', 'manual', '{}', 1 from v where version = 3
"""
SITE = """
    with s as (
        insert into pilotis.web_storages (app_id, storage_id, slug, name, description, promote_mode, not_found_mode,
            clean_urls, retain)
        values ($1, $2, 'old-' || $2::uuid, 'old', '', 'auto', 'auto', true, 20) returning app_id
    ), d as (
        insert into pilotis.web_deployments (app_id, deployment_id, storage_id, status, source, actor_kind, created_at,
            total_size)
        select app_id, gen_random_uuid(), $2, case when number = 3 then 'ready' else 'expired' end, 'zip', 'system',
            now() - make_interval(days => 60 - number), number
        from s, generate_series(1, 60) number
    )
    insert into pilotis.web_promotions (app_id, promotion_id, storage_id, channel, deployment_id, kind, actor_kind)
    select app_id, gen_random_uuid(), $2, 'production', gen_random_uuid(), 'promote', 'system'
    from s, generate_series(1, 60)
"""

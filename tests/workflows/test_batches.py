"""Executions that are inserted, and checkpoints that are written, in one statement."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest

from pilotis.db import statistics
from pilotis.db.pool import Database
from pilotis.workflows import checkpoint_store, start_store
from pilotis.workflows.checkpoint_store import Checkpoint, HeldCheckpoint, Written, held_checkpoint
from pilotis.workflows.checkpoints import Checkpoints
from pilotis.workflows.start_store import NewRow
from tests import databases
from tests.backstage import run_sql
from tests.console import client_of
from tests.database import second_node
from tests.functions.support import Functions
from tests.waiting import until
from tests.workflows.support import Workflows

TABLES = ["workflow_executions", "workflow_steps", "workflow_events"]
MERGE = {"step_type": "merge", "sources": []}


@pytest.fixture
async def database(workflows: Workflows) -> AsyncIterator[Database]:
    found = Database(databases.address(workflows.app.server.data_dir), size=6)
    yield found
    await found.close()


@pytest.fixture
async def held(database: Database, workflows: Workflows) -> AsyncIterator[list[tuple[UUID, UUID, int]]]:
    """Four executions that a process of our own holds, which no other one takes over."""
    app_id, workflow_id = UUID(workflows.app.app_id), UUID(await workflows.made([MERGE]))
    new = [row(workflow_id) for _ in range(4)]
    async with database.transaction(app_id) as connection:
        owner = await connection.fetchval(
            """
            insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until)
            values (gen_random_uuid(), gen_random_uuid(), 0, 'test', '0', now() + interval '1 hour') returning node_id
            """
        )
        assert all(one.is_made for one in await start_store.insert(connection, app_id, new, 100))
        ids = [one.execution_id for one in new]
        await connection.execute(
            "update pilotis.workflow_executions set status = 'running', owner = $2, fence = 7, started_at = now() "
            "where execution_id = any($1)",
            ids,
            owner,
        )
    yield [(execution_id, owner, 7) for execution_id in ids]
    await database.execute("delete from pilotis.workflow_executions where execution_id = any($1)", ids)
    await database.execute("delete from pilotis.nodes where node_id = $1", owner)


def row(workflow_id: UUID) -> NewRow:
    """A new execution that waits."""
    return NewRow(
        execution_id=uuid4(),
        workflow_id=workflow_id,
        version=1,
        trigger='{"type": "manual"}',
        trigger_type="manual",
        input="{}",
        depth=0,
        slot=None,
        has_limit=False,
        is_gated=False,
        timeout_seconds=60.0,
        request_id=None,
        event={"status": "pending"},
    )


def ending(execution_id: UUID, owner: UUID, fence: int) -> HeldCheckpoint:
    """A checkpoint that ends an execution, with two events."""
    events = [
        {"type": type_, "data": {"id": str(execution_id)}} for type_ in ("execution.started", "execution.completed")
    ]
    output = {"id": str(execution_id)}
    return held_checkpoint(execution_id, owner, fence, Checkpoint(events=events, status="completed", output=output))


async def test_each_execution_of_many_at_once_is_its_own(functions: Functions, workflows: Workflows):
    await functions.made("echo", "export default (payload) => payload")
    workflow_id = await workflows.made([{"step_type": "function", "function_id": "echo"}])
    ids = await asyncio.gather(*(workflows.start(workflow_id, {"n": n}) for n in range(40)))
    for n, execution_id in enumerate(ids):
        execution = await workflows.reached(workflow_id, execution_id)
        assert (execution["status"], execution["output"]) == ("completed", {"n": n})
    server = workflows.app.server
    gaps = await run_sql(
        server,
        """
        select count(*) from (
            select count(*) as number, min(seq) as first, max(seq) as last from pilotis.workflow_events
            where workflow_id = $1::text::uuid group by execution_id
        ) of_one where (number, first, last) is distinct from (5, 1, 5)
        """,
        workflow_id,
    )
    logged = await run_sql(
        server,
        "select array_agg(details->>'execution_id') from pilotis.audit_log "
        "where action = 'workflow.execute' and target = $1",
        workflow_id,
    )
    assert gaps == 0
    assert sorted(logged) == sorted(ids)


async def test_of_a_batch_as_many_are_inserted_as_may_wait(database: Database, workflows: Workflows):
    app_id, workflow_id = UUID(workflows.app.app_id), UUID(await workflows.made([MERGE]))
    async with database.transaction(app_id) as connection:
        made = await start_store.insert(connection, app_id, [row(workflow_id) for _ in range(5)], 3)
        more = await start_store.insert(connection, app_id, [row(workflow_id)], 3)
        await connection.execute("delete from pilotis.workflow_executions where workflow_id = $1", workflow_id)
    assert [one.is_made for one in made] == [True, True, True, False, False]
    assert [one.pending for one in made] == [0, 1, 2, 3, 4]
    assert (more[0].is_made, more[0].pending) == (False, 3)


async def test_a_lost_lease_in_a_batch_writes_nothing(
    database: Database, held: list[tuple[UUID, UUID, int]], workflows: Workflows
):
    app_id = UUID(workflows.app.app_id)
    (first, owner, fence), (second, *_), (third, *_), _ = held
    points = [ending(first, owner, fence - 1), ending(second, owner, fence), ending(third, uuid4(), fence)]
    written = await checkpoint_store.write(database.of(app_id), app_id, points)
    assert {key: found.seq for key, found in written.items()} == {second: 3}
    statement = "select execution_id, type from pilotis.workflow_events where execution_id = any($1) and seq > 1"
    rows = await database.fetch(statement, [first, second, third])
    assert [(one["execution_id"], one["type"]) for one in sorted(rows, key=lambda one: one["type"])] == [
        (second, "execution.completed"),
        (second, "execution.started"),
    ]


async def test_a_locked_execution_holds_up_no_other(
    database: Database, held: list[tuple[UUID, UUID, int]], workflows: Workflows
):
    app_id, checkpoints = UUID(workflows.app.app_id), Checkpoints(database)
    to = databases.address(workflows.app.server.data_dir)
    connection = await asyncpg.connect(**to)
    try:
        async with connection.transaction():
            await connection.execute(
                "select from pilotis.workflow_executions where execution_id = $1 for update", held[2][0]
            )
            writes = [asyncio.create_task(checkpoints.write(app_id, ending(*one))) for one in held]
            done, waiting = await asyncio.wait(writes, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            while len(done) < 3:
                more, waiting = await asyncio.wait(waiting, timeout=30, return_when=asyncio.FIRST_COMPLETED)
                assert more
                done |= more
            assert waiting == {writes[2]}
        rows = await asyncio.gather(*writes)
    finally:
        await connection.close()
    assert [one and one.seq for one in rows] == [3, 3, 3, 3]
    outputs = await database.fetch(
        "select execution_id, output::text as output from pilotis.workflow_executions where execution_id = any($1)",
        [one[0] for one in held],
    )
    assert {msgspec.json.decode(one["output"])["id"] for one in outputs} == {str(one[0]) for one in held}


async def test_a_checkpoint_that_cannot_be_written_fails_alone(
    database: Database, held: list[tuple[UUID, UUID, int]], workflows: Workflows
):
    app_id, checkpoints = UUID(workflows.app.app_id), Checkpoints(database)
    bad = ending(*held[3])._replace(steps='[{"status": "no such status", "step_id": "a", "attempt": 1, "try": 1}]')
    points = [*(ending(*one) for one in held[:3]), bad]
    results = await asyncio.gather(*(checkpoints.write(app_id, one) for one in points), return_exceptions=True)
    *rows, error = results
    assert isinstance(error, asyncpg.CheckViolationError)
    assert [one.seq for one in rows if isinstance(one, Written)] == [3, 3, 3]


async def test_the_tables_of_executions_are_analyzed_when_they_have_grown(
    workflows: Workflows, monkeypatch: pytest.MonkeyPatch
):
    """Statements that were planned on empty tables would read all executions of an app for each checkpoint."""
    monkeypatch.setattr(statistics, "MIN_ROWS", 3)
    workflow_id = await workflows.made([MERGE])
    server = workflows.app.server
    begun = await run_sql(server, "select clock_timestamp()")
    async with (
        second_node(server) as node,
        client_of(node, Authorization=f"Bearer {workflows.app.console['access_token']}") as client,
    ):

        async def analyzed() -> bool:
            answer = await client.post(f"{workflows.base}/{workflow_id}/execute", json={})
            assert answer.status_code == 202, answer.text
            last = await run_sql(
                server, "select min(last_analyze) from pg_stat_user_tables where relname = any($1)", TABLES
            )
            return last is not None and last > begun

        assert await until(analyzed)

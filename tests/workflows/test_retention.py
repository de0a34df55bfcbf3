"""Workflows, section 10: for how long what has ended is kept, and how much may wait."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from pilotis.kit.ids import earliest_uuid7, uuid7
from pilotis.limits import Limits
from pilotis.workflows import pending_counts
from pilotis.workflows.pending_counts import PendingCounts
from tests.background import run_task
from tests.database import second_node
from tests.functions.support import Functions
from tests.services import Node, connected
from tests.support import App, Server, assert_error, plain_client
from tests.workflows.support import Workflows

MERGE = [{"step_type": "merge", "id": "sum", "input_mapping": {"n": "$.input.n"}}]


@pytest.fixture
async def node(server: Server) -> AsyncIterator[Node]:
    """A second node on the server's database that does nothing by itself."""
    async with second_node(server) as made:
        yield made


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[asyncpg.Connection]:
    async with connected(server) as made:
        yield made


async def ended(workflows: Workflows, workflow_id: str, number: int) -> list[str]:
    """Run so many executions to their end."""
    started = [await workflows.start(workflow_id, {"n": at}) for at in range(number)]
    for one in started:
        await workflows.reached(workflow_id, one)
    return started


async def age(connection: asyncpg.Connection, execution_id: str, by: timedelta) -> None:
    await connection.execute(
        "update pilotis.workflow_executions set finished_at = finished_at - $2::interval where execution_id = $1",
        execution_id,
        by,
    )


async def count(connection: asyncpg.Connection, table: str, execution_id: str) -> int:
    return await connection.fetchval(f"select count(*) from pilotis.{table} where execution_id = $1", execution_id)


async def test_executions_are_kept_for_30_days_and_their_events_for_one(
    workflows: Workflows, node: Node, connection: asyncpg.Connection
):
    workflow_id = await workflows.made(MERGE)
    old, day, young = await ended(workflows, workflow_id, 3)
    await age(connection, old, timedelta(days=30, minutes=1))
    await age(connection, day, timedelta(days=1, minutes=1))
    await age(connection, young, timedelta(hours=23))
    await run_task(node, "workflows.expire")
    listed = (await workflows.console.get(f"{workflows.base}/{workflow_id}/executions")).json()
    assert [one["id"] for one in listed["data"]] == [young, day]
    assert [await count(connection, "workflow_steps", one) for one in (old, day, young)] == [0, 1, 1]
    assert [await count(connection, "workflow_events", one) for one in (old, day, young)] == [0, 0, 4]
    # A stream of which the events are gone tells of the end all the same.
    path = f"{workflows.base}/{workflow_id}/executions/{day}/stream"
    told = (await workflows.console.get(path, headers={"Last-Event-ID": "1"})).text
    names = [line[7:] for line in told.splitlines() if line.startswith("event: ")]
    assert names[:3] == ["reset", "snapshot", "end"]


async def test_events_are_looked_for_where_they_can_be(
    workflows: Workflows, node: Node, connection: asyncpg.Connection
):
    """Not in each execution that is kept: a run begins where the one before has ended."""
    workflow_id = await workflows.made(MERGE)
    before, late, early = await ended(workflows, workflow_id, 3)
    await age(connection, before, timedelta(days=1, seconds=1))
    await run_task(node, "workflows.expire")
    await age(connection, late, timedelta(days=1, minutes=30))
    await age(connection, early, timedelta(days=1, hours=2))
    await run_task(node, "workflows.expire")
    assert [await count(connection, "workflow_events", one) for one in (before, late)] == [0, 0]
    assert await count(connection, "workflow_events", early) > 0


async def test_the_days_of_an_app_are_counted_from_those_days_alone(
    workflows: Workflows, connection: asyncpg.Connection
):
    """The ids, in the order of time, bound what is read."""
    workflow_id = await workflows.made(MERGE)
    (young,) = await ended(workflows, workflow_id, 1)
    copy = """
        insert into pilotis.workflow_executions
        select (jsonb_populate_record(x, jsonb_build_object('execution_id', $2::uuid))).*
        from pilotis.workflow_executions x where execution_id = $1
    """
    # An execution of last month that says that it is of today is not looked at.
    await connection.execute(copy, young, earliest_uuid7((time.time_ns() // 10**6) - 40 * 24 * 3600 * 1000))
    usage = await workflows.console.get(f"/v1/apps/{workflows.app.app_id}/usage?days=7")
    assert usage.json()["by_day"][-1]["executions"] == 1


def test_eight_processes_do_not_exceed_the_limit_of_waiting_executions():
    """Whatever they insert between their counts, of which there are few while the limit is far."""
    limit, app_id, stored, statements = 1000, uuid7(), 0, 0
    processes = [PendingCounts() for _ in range(8)]
    while stored < limit:
        for process in processes:
            known = process.known(app_id, limit, 1)
            statements += known is None
            if (stored if known is None else known) < limit:
                process.inserted(app_id, 1, stored if known is None else None, limit)
                stored += 1
    assert stored == limit
    assert statements < 250
    assert PendingCounts().known(app_id, limit, 1) is None


def test_a_full_queue_is_counted_ten_times_a_second(monkeypatch: pytest.MonkeyPatch):
    """However many executions it rejects; it takes new ones as soon as a count finds room."""
    limit, app_id, counts, at = 10, uuid7(), PendingCounts(), 100.0
    monkeypatch.setattr(pending_counts.time, "monotonic", lambda: at)
    statements = 0
    for _ in range(1000):
        at += 0.001
        if not counts.is_full(app_id, limit):
            assert counts.known(app_id, limit, 1) is None
            counts.inserted(app_id, 1, limit, limit)
            statements += 1
    assert 9 <= statements <= 11
    assert not counts.is_full(app_id, limit + 1)
    at += 0.11
    assert not counts.is_full(app_id, limit)


async def test_of_each_workflow_the_newest_executions_are_kept_and_what_runs(
    server: Server, functions: Functions, workflows: Workflows, connection: asyncpg.Connection
):
    await functions.made("sleeps", "export default () => new Promise(done => setTimeout(done, 60_000))")
    steps = [{"step_type": "function", "id": "sleeps", "function_id": "sleeps", "condition": {"$.input.n": 99}}]
    workflow_id = await workflows.made(steps)
    running = await workflows.start(workflow_id, {"n": 99})
    await workflows.reached(workflow_id, running, "running")
    started = await ended(workflows, workflow_id, 5)
    async with second_node(server, Limits(workflow_executions=2)) as node:
        await run_task(node, "workflows.expire")
    kept = "select execution_id::text from pilotis.workflow_executions where workflow_id = $1 order by execution_id"
    found = [row["execution_id"] for row in await connection.fetch(kept, workflow_id)]
    assert found == [running, *started[-2:]]
    await workflows.console.post(f"{workflows.base}/{workflow_id}/executions/{running}/cancel")


async def test_a_deleted_workflow_is_purged_after_a_week(
    workflows: Workflows, node: Node, connection: asyncpg.Connection
):
    ids = [await workflows.made(MERGE, name=name) for name in ("old", "young")]
    for workflow_id in ids:
        await ended(workflows, workflow_id, 1)
        assert (await workflows.console.delete(f"{workflows.base}/{workflow_id}")).status_code == 200
    aged = "update pilotis.workflows set deleted_at = deleted_at - interval '7 days 1 minute' where workflow_id = $1"
    await connection.execute(aged, ids[0])
    await run_task(node, "workflows.expire")
    for table in ("workflows", "workflow_versions", "workflow_executions"):
        rows = await connection.fetch(
            f"select distinct workflow_id::text from pilotis.{table} where workflow_id = any($1)", ids
        )
        assert [row["workflow_id"] for row in rows] == ids[1:], table


async def test_a_delivery_is_known_for_72_hours_and_a_request_until_its_execution_ends(
    functions: Functions, workflows: Workflows, node: Node, connection: asyncpg.Connection
):
    await functions.made("echo", "export default (body) => ({ body })")
    steps = [*MERGE, {"step_type": "function", "id": "echo", "function_id": "echo"}]
    workflow_id = await workflows.made(steps)
    url = (await workflows.console.post(f"{workflows.base}/{workflow_id}/trigger", json={})).json()["trigger_url"]

    async def sent(name: str) -> dict[str, Any]:
        async with plain_client("") as client:
            answer = await client.post(url, json={"n": 1}, headers={"Webhook-Id": name})
        assert answer.status_code in {200, 202}, answer.text
        return answer.json()

    first = [await sent(name) for name in ("old", "young")]
    for one in first:
        await workflows.reached(workflow_id, one["execution_id"])
        assert await count(connection, "workflow_requests", one["execution_id"]) == 1
    aged = """
        update pilotis.workflow_deliveries set created_at = created_at - interval '72 hours 1 minute'
        where execution_id = $1
    """
    await connection.execute(aged, first[0]["execution_id"])
    await run_task(node, "workflows.expire")
    assert [await count(connection, "workflow_requests", one["execution_id"]) for one in first] == [0, 0]
    again = [await sent(name) for name in ("old", "young")]
    assert [one.get("duplicate", False) for one in again] == [False, True]
    assert again[1]["execution_id"] == first[1]["execution_id"]


async def test_how_many_workflows_and_waiting_executions_an_app_may_have(
    app: App, functions: Functions, workflows: Workflows
):
    changed = await workflows.console.patch(
        f"/v1/apps/{app.app_id}/limits", json={"workflows": 2, "workflow_pending": 3}
    )
    assert changed.status_code == 200, changed.text
    await functions.made("sleeps", "export default () => new Promise(done => setTimeout(done, 60_000))")
    call = {"step_type": "function", "id": "sleeps", "function_id": "sleeps"}
    workflow_id = await workflows.made([*MERGE, call], max_concurrency=1)
    await workflows.made([], name="second")
    third = await workflows.console.post(workflows.base, json={"name": "third", "steps": []})
    assert_error(third, 409, "LIMIT_REACHED")
    await workflows.reached(workflow_id, await workflows.start(workflow_id), "running")
    waiting = [await workflows.start(workflow_id) for _ in range(3)]
    assert_error(await workflows.execute(workflow_id), 429, "WORKFLOW_QUEUE_FULL")
    path = f"{workflows.base}/{workflow_id}"
    url = (await workflows.console.post(f"{path}/trigger", json={})).json()["trigger_url"]
    async with plain_client("") as client:
        assert_error(await client.post(url), 429, "WORKFLOW_QUEUE_FULL")
    await workflows.console.post(f"{path}/executions/{waiting[0]}/cancel")
    assert (await workflows.execute(workflow_id)).status_code == 202
    assert (await workflows.console.delete(path)).status_code == 200
    await workflows.made([], name="third")


async def test_inputs_and_outputs_of_more_than_a_mebibyte(app: App, functions: Functions, workflows: Workflows):
    await functions.made("makes", "export default ({ n }) => ({ text: 'x'.repeat(n) })")
    call = {"step_type": "function", "id": "makes", "function_id": "makes"}
    workflow_id = await workflows.made([call])
    assert_error(await workflows.execute(workflow_id, {"text": "x" * 2**20}), 413, "INPUT_TOO_LARGE")
    execution = await workflows.reached(workflow_id, await workflows.start(workflow_id, {"n": 2**20}))
    assert (execution["status"], execution["error"]["code"]) == ("failed", "OUTPUT_TOO_LARGE")
    execution = await workflows.reached(workflow_id, await workflows.start(workflow_id, {"n": 2**20 - 100}))
    assert execution["status"] == "completed"

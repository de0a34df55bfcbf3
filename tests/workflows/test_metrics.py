"""Workflows, section 10: what `/metrics` says of workflows, on a server of their own."""

import asyncio
import re
from typing import Any

import pytest

from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.console import second_node
from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.support import App, Server, plain_client
from tests.waiting import until
from tests.workflows.support import Workflows, statuses
from tests.workflows.test_agents import Model, agent, put, said

# Waits for a row, so that a test says when it ends.
WAITS = """
export default async (payload, ctx) => {
  while (!(await ctx.api.rows("gate").query({})).data.length) await new Promise((done) => setTimeout(done, 20));
}
"""
# What a takeover does to the executions of a process that is taken for dead.
TAKEN_OVER = """
    update pilotis.workflow_executions set status = 'pending', owner = null, run_at = clock_timestamp(),
        fence = fence + 1, recoveries = recoveries + 1
    where execution_id = $1 and status = 'running'
"""


@pytest.fixture(scope="module")
def own_console(measured_server: Server) -> dict[str, str]:
    return first_console_user(measured_server)


@pytest.fixture
def app(measured_server: Server, own_console: dict[str, str]) -> App:
    return new_app(measured_server, own_console)


async def shown(server: Server) -> dict[str, float]:
    """The values, by name and labels."""
    async with plain_client(server.metrics_url) as client:
        text = (await client.get("/metrics")).text
    found = re.findall(r"^pilotis_([^\s{]+)(\{.*\})? ([\d.e+-]+)$", text, re.MULTILINE)
    return {name + labels: float(value) for name, labels, value in found}


async def test_executions_triggers_and_slots_are_counted(app: App, workflows: Workflows):
    workflow_id = await workflows.made([{"step_type": "merge"}])
    for _ in range(3):
        await workflows.reached(workflow_id, await workflows.start(workflow_id))
    scheduled = await workflows.made([], name="scheduled", schedule_cron="0 0 1 1 *")
    place = f"{workflows.base}/{workflow_id}/trigger"
    url = (await workflows.console.post(place, json={})).json()["trigger_url"]
    async with plain_client("") as client:
        for _ in range(2):
            assert (await client.post(url, json={}, headers={"Webhook-Id": "one"})).status_code in {200, 202}
        assert (await client.post(url.replace("wt_", "wt-"))).status_code == 404
    due = "update pilotis.schedules set next_run_at = clock_timestamp() - interval '1 second' where schedule_id = $1"
    await run_sql(app.server, due, scheduled)

    async def counted() -> dict[str, float] | None:
        found = await shown(app.server)
        is_counted = found["workflow_schedule_lag_seconds_count"] == 1 and found["workflow_seconds_count"] == 5
        return found if is_counted else None

    found = await until(counted)
    assert found['workflow_executions_total{status="completed",trigger="manual"}'] == 3
    assert found['workflow_executions_total{status="completed",trigger="webhook"}'] == 1
    assert found['workflow_executions_total{status="completed",trigger="schedule"}'] == 1
    assert found["workflow_queue_seconds_count"] == 5
    assert found['trigger_requests_total{outcome="accepted"}'] == 1
    assert found['trigger_requests_total{outcome="duplicate"}'] == 1
    assert found['trigger_requests_total{outcome="TRIGGER_NOT_FOUND"}'] == 1
    assert found["workflow_running"] == found["streams"] == found["workflow_schedule_skipped_total"] == 0
    assert found["workflow_recoveries_total"] == found["workflow_lost_leases_total"] == 0


async def changed(server: Server, before: dict[str, float], **by: float) -> dict[str, float]:
    """Wait until some values have grown by so much, and return all of them."""

    async def found() -> dict[str, float] | None:
        now = await shown(server)
        return now if all(now[name] - before[name] == number for name, number in by.items()) else None

    return await until(found)


PENDING = "pilotis_workflow_pending"


async def counted_pending(server: Server) -> int:
    """What a node counts for `pilotis_workflow_pending`, which a server does twice a minute."""
    assert "workflow_pending" in await shown(server)
    async with second_node(server, listening=False) as node:
        counts = node.background.counts
        counting = asyncio.create_task(counts.keep())
        try:
            await until(lambda: PENDING in counts.totals)
        finally:
            counting.cancel()
            await asyncio.wait([counting])
        return counts.totals[PENDING]


async def test_what_waits_is_taken_over_and_is_skipped_is_counted(app: App, functions: Functions, workflows: Workflows):
    gate = await app.table({"open": "boolean"}, title="gate")
    await functions.made("waits", WAITS, timeout_seconds=120)
    call: dict[str, Any] = {"step_type": "function", "id": "waits", "function_id": "waits"}
    workflow_id = await workflows.made([call], max_concurrency=1, on_overlap="skip", schedule_cron="0 0 1 1 *")
    before = await shown(app.server)
    first, second = [await workflows.start(workflow_id) for _ in range(2)]
    await changed(app.server, before, workflow_running=1)
    assert await counted_pending(app.server) == 1

    async def calls() -> bool:
        return statuses(await workflows.read(workflow_id, first)).get("waits") == "running"

    await until(calls)
    due = "update pilotis.schedules set next_run_at = clock_timestamp() - interval '1 second' where schedule_id = $1"
    await run_sql(app.server, due, workflow_id)
    await changed(app.server, before, workflow_schedule_skipped_total=1, workflow_schedule_lag_seconds_count=0)

    await run_sql(app.server, TAKEN_OVER, first)
    await changed(app.server, before, workflow_recoveries_total=1)
    await app.row(gate, {"open": True})
    for one in (first, second):
        assert (await workflows.reached(workflow_id, one))["status"] == "completed"
    # The call of the first claim ended as well, and its process could not store that.
    await changed(app.server, before, workflow_lost_leases_total=1, workflow_running=0)
    assert await counted_pending(app.server) == 0


async def test_tokens_of_agents_are_counted(app: App, workflows: Workflows):
    async with Receiver.listening() as receiver:
        model = Model(receiver)
        answer = await put(workflows, base_url=model.url, api_key="sk-the-key-of-the-app", default_model="small")
        assert answer.status_code == 200, answer.text
        model.script = [said("Seven.", tokens=40)]
        assert (await workflows.ran(agent(), {}))["status"] == "completed"
    found = await shown(app.server)
    assert found['agent_tokens_total{kind="prompt"}'] == 40
    assert found['agent_tokens_total{kind="completion"}'] == 1

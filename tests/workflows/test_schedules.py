"""Workflows, section 6: what a slot does while the execution before it runs, and workflows that are switched off."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.backstage import run_sql
from tests.functions.support import Functions
from tests.support import assert_error
from tests.waiting import until
from tests.workflows.support import Workflows

WAITS = """
export default async (payload, ctx) => {
  while (!(await ctx.api.rows("gate").query({})).data.length) await new Promise((done) => setTimeout(done, 20));
}
"""
SLOT = """
    update pilotis.schedules set next_run_at = clock_timestamp() where schedule_id = $1
"""
# A schedule that is due on one day a year fires when a test says so.
YEARLY = "0 0 1 1 *"


async def executions(workflows: Workflows, workflow_id: str) -> list[dict[str, Any]]:
    answer = await workflows.console.get(f"{workflows.base}/{workflow_id}/executions?trigger=schedule")
    return answer.json()["data"]


async def slot(workflows: Workflows, workflow_id: str) -> None:
    """Make a slot due now, and wait until it has been fired."""
    await run_sql(workflows.app.server, SLOT, workflow_id)
    passed = "select next_run_at > now() + interval '1 second' from pilotis.schedules where schedule_id = $1"
    await until(lambda: run_sql(workflows.app.server, passed, workflow_id))


@pytest.mark.parametrize("mode", ["allow", "skip", "queue"])
async def test_a_slot_while_the_one_before_runs(functions: Functions, workflows: Workflows, mode: str):
    gate = await functions.app.table({"open": "boolean"}, title="gate")
    await functions.made("waits", WAITS, timeout_seconds=120)
    call = {"step_type": "function", "id": "waits", "function_id": "waits"}
    workflow_id = await workflows.made([call], schedule_cron=YEARLY, on_overlap=mode)
    for _ in range(3):
        await slot(workflows, workflow_id)
    wanted = {"allow": ["running"] * 3, "skip": ["running"], "queue": ["pending", "pending", "running"]}[mode]

    async def found() -> bool:
        return sorted(one["status"] for one in await executions(workflows, workflow_id)) == wanted

    await until(found)
    await functions.app.row(gate, {"open": True})
    ended = [await workflows.reached(workflow_id, one["id"]) for one in await executions(workflows, workflow_id)]
    assert [one["status"] for one in ended] == ["completed"] * len(wanted)
    times = sorted((one["started_at"], one["finished_at"]) for one in ended)
    if mode == "queue":
        assert all(before[1] <= after[0] for before, after in pairwise(times)), times
    # What has ended is in nobody's way.
    await slot(workflows, workflow_id)
    assert len(await executions(workflows, workflow_id)) == len(wanted) + 1


async def test_on_overlap_is_for_slots_alone(functions: Functions, workflows: Workflows):
    gate = await functions.app.table({"open": "boolean"}, title="gate")
    await functions.made("waits", WAITS, timeout_seconds=120)
    call = {"step_type": "function", "id": "waits", "function_id": "waits"}
    workflow_id = await workflows.made([call], schedule_cron=YEARLY, on_overlap="skip")
    started = [await workflows.start(workflow_id) for _ in range(2)]
    for one in started:
        await workflows.reached(workflow_id, one, "running")
    await functions.app.row(gate, {"open": True})
    for one in started:
        await workflows.reached(workflow_id, one, "completed")


async def test_a_workflow_is_switched_off_and_on_without_a_version(workflows: Workflows):
    workflow_id = await workflows.made([], schedule_cron=YEARLY)
    path = f"{workflows.base}/{workflow_id}"
    trigger = (await workflows.console.post(f"{path}/trigger", json={})).json()["trigger_url"]
    off = (await workflows.console.patch(path, json={"is_active": False})).json()
    assert (off["is_active"], off["next_run_at"], off["schedule_cron"], off["version"]) == (False, None, YEARLY, 1)
    assert_error(await workflows.execute(workflow_id), 409, "WORKFLOW_INACTIVE")
    assert_error(await workflows.console.post(trigger), 404, "TRIGGER_NOT_FOUND")
    assert (await workflows.console.patch(path, json={"is_active": False})).json() == off
    on = (await workflows.console.patch(path, json={"is_active": True})).json()
    assert (on["is_active"], on["version"], on["has_trigger"]) == (True, 1, True)
    assert on["next_run_at"].endswith("-01-01T00:00:00.000Z")
    await workflows.reached(workflow_id, await workflows.start(workflow_id))
    for wrong in ({}, {"is_active": None}, {"is_active": "no"}, {"is_active": True, "name": "x"}, []):
        assert_error(await workflows.console.patch(path, json=wrong), 400, "VALIDATION_FAILED")
    # Whoever is last decides, and nothing is half done.
    await asyncio.gather(*(workflows.console.patch(path, json={"is_active": n % 2 == 0}) for n in range(10)))
    found = (await workflows.console.get(path)).json()
    assert (found["next_run_at"] is not None) == found["is_active"]
    await workflows.console.delete(path)
    assert_error(await workflows.console.patch(path, json={"is_active": True}), 404, "WORKFLOW_NOT_FOUND")

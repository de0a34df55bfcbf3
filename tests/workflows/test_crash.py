"""Workflows, acceptance cases 2 to 4: processes are killed and frozen, connections cut, while executions run.

`crashes.py` has the cases; as a program it runs more of each.
"""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from pilotis.workflows.claim_store import MAX_RECOVERIES
from tests.receiver import Receiver
from tests.waiting import PATIENCE, until
from tests.whole import times
from tests.workflows import crashes
from tests.workflows.nodes import Nodes
from tests.workflows.test_agents import KEY, Model, agent, put, said

RUNS = times(8, whole=60)
# One execution may lose its process each time, and more often than this it fails.
KILLS = MAX_RECOVERIES
STEPS = [
    *({"step_type": "function", "id": f"s{number}", "function_id": "echo"} for number in range(4)),
    {"step_type": "merge", "id": "last", "input_mapping": {"n": "$.previous.n"}},
]
WAITING = "export default () => new Promise((done) => setTimeout(() => done(7), 500))"
pytestmark = [pytest.mark.embedded("it kills the server's processes"), pytest.mark.usefixtures("sandboxes")]


async def test_every_execution_ends_whatever_is_killed(tmp_path: Path):
    async with Nodes.running(tmp_path, lease_seconds=crashes.SHORT) as nodes:
        await nodes.functions.made("echo", "export default (p) => new Promise(done => setTimeout(() => done(p), 30))")
        workflow_id = await nodes.workflows.made(STEPS)
        choice = random.Random(11)
        started: list[str] = []

        async def start() -> None:
            for number in range(RUNS):
                started.append(await nodes.start(workflow_id, {"n": number}, f"run-{number}"))

        async def kill() -> None:
            for number in range(KILLS):
                await until(lambda goal=(number + 1) * RUNS // (KILLS + 2): len(started) >= goal, 4 * PATIENCE)
                slot = await nodes.holder()
                await nodes.kill(choice.randrange(3) if slot is None else slot)

        await asyncio.gather(start(), kill())
        assert len(set(started)) == RUNS
        await nodes.check_completed(RUNS)
        await nodes.check_events({"s0", "s1", "s2", "s3", "last"})
        rows = await nodes.connection.fetch("select input::text, output::text from pilotis.workflow_executions")
        assert all(row["input"] == row["output"] for row in rows)
        steps = await nodes.connection.fetch("select status from pilotis.workflow_steps")
        assert Counter(row["status"] for row in steps) == {"completed": 5 * RUNS}
        assert await nodes.connection.fetchval("select sum(recoveries) from pilotis.workflow_executions") > 0


async def test_a_process_is_killed_at_each_step(tmp_path: Path):
    async with Nodes.running(tmp_path, lease_seconds=crashes.LONG) as nodes:
        await crashes.kill_at_every_step(nodes, crashes.STEPS)


async def test_an_agent_goes_on_where_its_process_was_killed(tmp_path: Path):
    async with Nodes.running(tmp_path, lease_seconds=crashes.LONG) as nodes, Receiver.listening() as receiver:
        model = Model(receiver)
        model.script = [said(None, ("call_a", "stock", {})), said("Seven.")]
        provider = await put(nodes.workflows, base_url=model.url, api_key=KEY, default_model="small")
        assert provider.status_code == 200, provider.text
        await nodes.functions.made(
            "stock", "export default () => new Promise((done) => setTimeout(() => done(7), 500))"
        )
        workflow_id = await nodes.workflows.made(agent(tools=[{"function_id": "stock"}]))
        execution_id = await nodes.start(workflow_id, {}, "asked")
        saved = "select state is not null from pilotis.workflow_steps where execution_id = $1 and step_id = 'ask'"
        await until(lambda: nodes.connection.fetchval(saved, execution_id))
        await nodes.kill(await nodes.slot_at(execution_id, "ask"))
        await nodes.ended(execution_id)
        row = await nodes.connection.fetchrow("select status, recoveries, output from pilotis.workflow_executions")
        assert (row["status"], row["recoveries"]) == ("completed", 1)
        assert json.loads(row["output"])["output"] == "Seven."
        # The answer before the kill was paid once; what follows is asked with it and the function's result.
        assert [len(asked["messages"]) for asked in model.asked] == [1, 3]


async def test_a_frozen_process_changes_nothing_afterwards(tmp_path: Path):
    async with Nodes.running(tmp_path, lease_seconds=crashes.SHORT) as nodes:
        await crashes.freeze(nodes, 2)


async def test_connections_to_the_database_are_cut_and_one_place_is_never_taken_twice(tmp_path: Path):
    async with Nodes.running(tmp_path, lease_seconds=crashes.LONG) as nodes:
        await crashes.lose_database(nodes, times(3, whole=30), times(1, whole=6))
        await crashes.one_place(nodes, times(4, whole=20))


async def test_each_slot_of_fifty_schedules_runs_once_while_processes_are_killed(tmp_path: Path):
    async with Nodes.running(tmp_path, lease_seconds=crashes.LONG) as nodes:
        await crashes.schedule(nodes, 50, 1, random.Random(5))

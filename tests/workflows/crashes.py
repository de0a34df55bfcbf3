"""Crashes of all kinds, each as often as asked: `python -m tests.workflows.crashes [--runs 200] [--minutes 3]`.

The suite runs the same with smaller numbers.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tests.waiting import PATIENCE, until
from tests.workflows.nodes import Nodes

STEPS = 5
SHORT, LONG = 2, 60
"""Leases in seconds. A killed process has a successor that takes over at once; a frozen one's lease expires."""
# Each call leaves a row, so that a call too many is seen.
NOTES = """
export default async (p, ctx) => {
  await ctx.api.rows("calls").create({ key: ctx.idempotencyKey });
  const { total_count } = await ctx.api.rows("calls").query({ where: { key: ctx.idempotencyKey } });
  const isStuck = ctx.idempotencyKey.endsWith(p.stuck) && total_count === 1;
  await new Promise((done) => setTimeout(done, isStuck ? 100_000 : p.wait));
  return p;
}
"""

# A cancelled call is recorded once its sandbox is killed.
_KILLED = """
    select true from pilotis.function_executions where workflow_execution_id = $1 and error_code = 'CANCELLED'
"""


async def prepare(nodes: Nodes) -> tuple[str, str]:
    """Create the workflow that is run, and a table of its calls; return their ids."""
    table_id = await nodes.functions.app.table({"key": "string"}, title="calls")
    await nodes.functions.made("notes", NOTES, timeout_seconds=120)
    steps = [{"step_type": "function", "id": f"s{number}", "function_id": "notes"} for number in range(STEPS)]
    return await nodes.workflows.made(steps), table_id


async def calls(nodes: Nodes, table_id: str) -> Counter[str]:
    """How often each step has been called, by its key: the execution's id and the step's."""
    async with nodes.functions.app.client() as client:
        found: Counter[str] = Counter()
        while True:
            path = f"/v1/public/tables/{table_id}/data?limit=1000&offset={found.total()}"
            page = (await client.get(path)).json()["data"]
            if not page:
                return found
            found.update(row["data"]["key"] for row in page)


async def kill_at_every_step(nodes: Nodes, runs: int) -> None:
    """Kill the process that holds a run while a step is running, each run at the next step."""
    workflow_id, table_id = await prepare(nodes)
    killed = {}
    for number in range(runs):
        execution_id = await nodes.start(workflow_id, {"n": number, "wait": 300}, f"run-{number}")
        step = f"s{number % STEPS}"
        await nodes.kill(await nodes.slot_at(execution_id, step))
        killed[execution_id] = step
        # The next kill must not hit this run again.
        await nodes.ended(execution_id)
    await nodes.check_completed(runs)
    await nodes.check_events({f"s{number}" for number in range(STEPS)})
    again: Counter[str] = Counter()
    for key, times in (await calls(nodes, table_id)).items():
        execution_id, step = key.split(":")
        again[execution_id] += times - 1
        # The kill may come a little late, but what had completed does not run again.
        assert times == 1 or step >= killed[execution_id], (key, times)
    assert max(again.values()) <= 1, again
    recoveries = "select array_agg(recoveries) from pilotis.workflow_executions"
    assert set(await nodes.connection.fetchval(recoveries)) in ({1}, {0, 1})


async def freeze(nodes: Nodes, runs: int) -> None:
    """Freeze the process that holds a run until another one has finished it.

    What it writes then has no effect, and a call that still runs there is killed.
    """
    workflow_id, _ = await prepare(nodes)
    for number in range(runs):
        # Every second call is still in its sandbox when its process may go on.
        step, is_stuck = f"s{number % STEPS}", number % 2 == 1
        given = {"n": number, "wait": 200} | ({"stuck": step} if is_stuck else {})
        execution_id = await nodes.start(workflow_id, given, f"frozen-{number}")
        slot = await nodes.slot_at(execution_id, step)
        nodes.signal(slot, signal.SIGSTOP)

        try:
            await nodes.ended(execution_id)
        finally:
            before = await state(nodes, execution_id)
            nodes.signal(slot, signal.SIGCONT)

        async def is_back() -> bool:
            ids = await nodes.connection.fetch("select slot from pilotis.nodes where lease_until > clock_timestamp()")
            return {row["slot"] for row in ids} == {0, 1, 2}

        await until(is_back)
        if is_stuck:
            await until(lambda of=execution_id: nodes.connection.fetchval(_KILLED, of))
        assert await state(nodes, execution_id) == before
    await nodes.check_events({f"s{number}" for number in range(STEPS)})


async def state(nodes: Nodes, execution_id: str) -> list[str]:
    """All that is stored of an execution."""
    tables = ("workflow_executions", "workflow_steps", "workflow_events")
    found = []
    for table in tables:
        statement = f"select t::text from pilotis.{table} t where execution_id = $1 order by 1"
        found += [row["t"] for row in await nodes.connection.fetch(statement, execution_id)]
    return found


async def lose_database(nodes: Nodes, runs: int, times: int) -> None:
    """Cut all connections of the server to PostgreSQL, again and again, while executions run."""
    await nodes.functions.made("waits", "export default (p) => new Promise((done) => setTimeout(() => done(p), 50))")
    steps = [{"step_type": "function", "id": f"s{number}", "function_id": "waits"} for number in range(STEPS)]
    workflow_id = await nodes.workflows.made(steps)

    async def cut() -> None:
        for _ in range(times):
            await asyncio.sleep(0.3)
            await nodes.connection.execute(
                """
                select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
                """
            )

    async def start() -> None:
        for number in range(runs):
            await nodes.start(workflow_id, {"n": number}, f"cut-{number}")

    await asyncio.gather(start(), cut())
    await nodes.check_completed(runs)
    await nodes.check_events({f"s{number}" for number in range(STEPS)})


async def one_place(nodes: Nodes, runs: int) -> None:
    """Start executions of a workflow with one place on all processes, and kill one: never two run at a time."""
    await nodes.functions.made("naps", "export default () => new Promise((done) => setTimeout(done, 20))")
    step = {"step_type": "function", "id": "naps", "function_id": "naps"}
    workflow_id = await nodes.workflows.made([step], name="one place", max_concurrency=1)
    await asyncio.gather(*(nodes.start(workflow_id, {"n": number}, f"place-{number}") for number in range(runs)))
    await nodes.kill(1)
    statement = "select status, started_at, finished_at from pilotis.workflow_executions where workflow_id = $1"

    async def ended() -> list[tuple[datetime, datetime]] | None:
        rows = await nodes.connection.fetch(statement, workflow_id)
        times = [(row["started_at"], row["finished_at"]) for row in rows if row["status"] == "completed"]
        return sorted(times) if len(times) == len(rows) == runs else None

    assert all(before[1] <= after[0] for before, after in pairwise(await until(ended, 8 * PATIENCE)))


async def schedule(nodes: Nodes, number: int, minutes: int, choice: random.Random) -> None:
    """Kill processes at each full minute, when the slots of all schedules are due: each slot runs once."""
    for index in range(number):
        await nodes.workflows.made([], name=f"each-minute-{index}", schedule_cron="* * * * *")
    slots = """
        select workflow_id, trigger->>'scheduled_for' as slot from pilotis.workflow_executions
        where trigger_type = 'schedule' order by 1, 2
    """
    now = "select extract(second from clock_timestamp())::float8"
    for _ in range(minutes):
        await until(lambda: nodes.connection.fetchval("select clock_timestamp()"))
        left = 60 - await nodes.connection.fetchval(now)
        await asyncio.sleep(max(0.0, left - 0.02))
        for _ in range(3):
            await asyncio.sleep(choice.uniform(0, 0.05))
            await nodes.kill(choice.randrange(3))

    async def fired() -> bool:
        due = "select count(*) from pilotis.schedules where kind = 'workflow' and next_run_at <= clock_timestamp()"
        rows = await nodes.connection.fetch(slots)
        return len({row["workflow_id"] for row in rows}) == number and await nodes.connection.fetchval(due) == 0

    await until(fired)
    rows = await nodes.connection.fetch(slots)
    by_workflow: dict[str, list[str]] = {}
    for row in rows:
        by_workflow.setdefault(str(row["workflow_id"]), []).append(row["slot"])
    for found in by_workflow.values():
        assert len(set(found)) == len(found), found
        moments = [int(slot[11:13]) * 60 + int(slot[14:16]) for slot in found]
        assert all((after - before) % 1440 == 1 for before, after in pairwise(moments)), found
    assert max(len(found) for found in by_workflow.values()) >= minutes
    await nodes.check_completed(len(rows))


async def _all(runs: int, minutes: int) -> None:
    cases = {
        "killed at every step": lambda nodes: kill_at_every_step(nodes, runs),
        "frozen": lambda nodes: freeze(nodes, runs // 10),
        "one place": lambda nodes: one_place(nodes, runs // 2),
        "without the database": lambda nodes: lose_database(nodes, runs, 20),
        "schedules": lambda nodes: schedule(nodes, 50, minutes, random.Random(5)),
    }
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            async with Nodes.running(Path(folder), lease_seconds=SHORT if name == "frozen" else LONG) as nodes:
                await case(nodes)
        sys.stdout.write(f"{name}: passed\n")
        sys.stdout.flush()


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=int, default=3)
    options = parser.parse_args()
    asyncio.run(_all(options.runs, options.minutes))


if __name__ == "__main__":
    main()

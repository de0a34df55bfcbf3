"""A load of background work: workflows with functions and timers, one place for all of a kind, a schedule."""

import asyncio
import itertools

from pilotis.functions.runtime.policy import Runtime
from tests.cluster.checkers.history import Finding, Outcome, Span
from tests.cluster.checkers.work import Effect, StepEvent, check_jobs, check_lanes, check_slots, check_workflow
from tests.cluster.loads.base import Load
from tests.functions.support import Functions, isolation_of
from tests.waiting import PATIENCE, until
from tests.workflows.support import Workflows

_STEPS = ["first", "second", "last"]
_ECHO = "export default (p) => new Promise((done) => setTimeout(() => done(p), 30))"
_MERGE = {"step_type": "merge", "input_mapping": {"n": "$.input.n"}}


class WorkLoad(Load):
    """Starts executions under idempotency keys, of a workflow of three steps and of one with a single place."""

    workers = 1
    pause_seconds = 0.4

    async def prepare(self) -> None:
        app = self.place.app
        self._flows, self._functions = Workflows(app), Functions(app)
        self._client = self.place.console()
        isolation, _ = await asyncio.to_thread(isolation_of, Runtime.JAVASCRIPT)
        steps = [{**_MERGE, "id": name} for name in _STEPS]
        if isolation is not None:
            await self._functions.made("echo", _ECHO)
            mapping = {"n": "$.input.n"}
            steps[0] = {"step_type": "function", "id": "first", "function_id": "echo", "input_mapping": mapping}
            # A call whose sandbox is killed has failed.
            steps[0] |= {"on_error": "retry", "retry_count": 5, "retry_delay": 50}
        self._flow = await self._flows.made(steps, name="three steps")
        self._lane = await self._flows.made([{**_MERGE, "id": "only"}], name="one place", max_concurrency=1)
        await self._flows.made([{**_MERGE, "id": "only"}], name="each minute", schedule_cron="* * * * *")
        self._numbers = itertools.count()
        self.completed = 0

    async def begin(self) -> None:
        self._started: dict[str, Outcome] = {}
        await self._client.aclose()
        self._client = self.place.console()

    async def work(self, worker: int) -> None:
        number = next(self._numbers)
        flow = self._lane if number % 3 == 0 else self._flow
        headers = {"Idempotency-Key": f"start-{number}"}
        path = f"{self._flows.base}/{flow}/execute"
        for _ in range(3):
            reply = await self.place.send(self._client, "POST", path, json={"input": {"n": number}}, headers=headers)
            if reply.acknowledged:
                self._started[str(number)] = Outcome.ACKNOWLEDGED
                return
            self._started[str(number)] = Outcome.UNKNOWN

    async def check(self) -> list[Finding]:
        open_ = "select count(*) from pilotis.workflow_executions where status in ('pending', 'running')"

        async def ended() -> bool:
            return (await self.place.fetch(open_))[0][0] == 0

        await until(ended, 2 * PATIENCE)
        executions = await self.place.fetch(
            """
            select execution_id, workflow_id, status, error::text as error, input->>'n' as number, started_at,
                finished_at, trigger->>'scheduled_for' as slot from pilotis.workflow_executions
            """
        )
        events = await self.place.fetch(
            """
            select execution_id, seq, type, data->'step'->>'step_id' as step,
                extract(epoch from created_at)::float8 as at
            from pilotis.workflow_events order by 1, 2
            """
        )
        by_execution: dict[str, list[StepEvent]] = {}
        for row in events:
            event = StepEvent(row["seq"], row["type"], row["step"], row["at"])
            by_execution.setdefault(str(row["execution_id"]), []).append(event)
        mine = [row for row in executions if row["number"] in self._started]
        findings = [
            Finding("workflows", f"{row['execution_id']} is {row['status']}: {row['error']}")
            for row in mine
            if row["status"] != "completed"
        ]
        for row in mine:
            steps = _STEPS if str(row["workflow_id"]) == self._flow else ["only"]
            own = by_execution.get(str(row["execution_id"]), [])
            findings += check_workflow(str(row["execution_id"]), own, steps)
        self.completed += len(mine)
        effects = [Effect(row["number"], 0) for row in mine]
        lanes = [
            ("one place", Span(row["started_at"].timestamp(), row["finished_at"].timestamp()))
            for row in mine
            if str(row["workflow_id"]) == self._lane and row["finished_at"]
        ]
        slots = [(row["workflow_id"], row["slot"]) for row in executions if row["slot"]]
        return findings + check_jobs(self._started, effects) + check_lanes(lanes) + check_slots(slots)

    async def close(self) -> None:
        for client in (self._client, self._flows.console, self._functions.console):
            await client.aclose()

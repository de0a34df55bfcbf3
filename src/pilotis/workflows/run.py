"""Runs one execution in the process that holds it: a loop that plans, writes a checkpoint, and calls functions."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import msgspec
from msgspec import UNSET

from pilotis.db.pool import Database
from pilotis.functions.calls import Calls, Ended
from pilotis.functions.webhook_form import rejection_of
from pilotis.http.api.principals import AppInfo, by_itself
from pilotis.jobs.kinds import LeaseLostError
from pilotis.kit import json, spans
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, PilotisError, UnavailableError
from pilotis.workflows import backoff, execution_store
from pilotis.workflows.agent import Agent, AgentError, Conversation, Tools
from pilotis.workflows.checkpoint_store import Checkpoint, StepRow, held_checkpoint
from pilotis.workflows.checkpoints import Checkpoints
from pilotis.workflows.claim_store import MAX_RECOVERIES, ClaimedExecution
from pilotis.workflows.definition import walk
from pilotis.workflows.definition_cache import DefinitionCache
from pilotis.workflows.events import ENDED, STARTED, WorkflowError, WorkflowEvent, subject
from pilotis.workflows.execution_store import StepRecord
from pilotis.workflows.metrics import WorkflowCounts
from pilotis.workflows.plan import (
    MAX_BYTES,
    Context,
    Failed,
    Instant,
    Ready,
    State,
    condition_output,
    count,
    plan,
    takes_request,
)
from pilotis.workflows.requests import Requests
from pilotis.workflows.types import AgentConfig, AgentTool, NewWorkflow, Step
from pilotis.workflows.values import shown

MAX_EXECUTION_BYTES = 16 * 2**20
STAY_SECONDS = 5.0
"""An execution that waits for longer than this leaves the process."""

_NOT_TRIED_AGAIN = frozenset(
    {
        "MAPPING_FAILED",
        "CONDITION_FAILED",
        "OUTPUT_TOO_LARGE",
        "TRIGGER_REJECTED",
        "AGENT_PROVIDER_NOT_CONFIGURED",
        "AGENT_MAX_TURNS",
        "AGENT_BUDGET_EXCEEDED",
        "AGENT_TRUNCATED",
        "AGENT_REFUSED",
        "AGENT_OUTPUT_INVALID",
    }
)
_TIMEOUTS = frozenset({"STEP_TIMEOUT", "EXECUTION_TIMEOUT"})
_BUSY_SECONDS = 0.5
_TIMED_OUT = "The execution took too long."


class CallResult(NamedTuple):
    """The result of a call: a value, or a code and a message."""

    value: Any = None
    code: str | None = None
    message: str = ""
    function_execution_id: UUID | None = None
    function_version: int | None = None
    queue_ms: float | None = None
    duration: float = 0.0
    logs: list[Any] | None = None


class _InFlight(NamedTuple):
    ready: Ready
    row: StepRow


class Holder(Protocol):
    """The source that claimed an execution, as its run sees it."""

    is_stopping: bool
    """Whether no other step may start."""

    def require_lease_of(self, owner: UUID) -> None:
        """Raise `LeaseLostError` unless this process is the owner and its lease is certain."""
        ...

    def wake(self) -> bool:
        """Look for due executions now; return False in a process that does not serve them."""
        ...


class RunServices(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What every run uses.

    `news` is called with the ids of an app, a workflow and an execution after each commit, `emitted` with that of an
    app whose events were stored. `app_of` returns a live app, `requests` has those that started executions, and
    `counts` are for metrics.
    """

    database: Database
    definitions: DefinitionCache
    checkpoints: Checkpoints
    calls: Calls
    app_of: Callable[[UUID], Awaitable[AppInfo]]
    news: Callable[[UUID, UUID, UUID], None]
    emitted: Callable[[UUID], None]
    requests: Requests
    agent: Agent
    counts: WorkflowCounts


class Run:
    """The execution of one claim, with what all runs use and the source that holds it."""

    def __init__(self, services: RunServices, holder: Holder, claimed: ClaimedExecution) -> None:
        self._services = services
        self._holder = holder
        self._claimed = claimed
        self._app_id = claimed.app_id
        self._id = claimed.execution_id
        # Times are the database's, not those of this machine's clock.
        self._offset = claimed.now - datetime.now(UTC)
        self._context = Context(json.decode(claimed.input.encode()), json.decode(claimed.trigger.encode()))
        self._states: dict[str, State] = {}
        self._tries: dict[str, int] = {}
        self._counted: Counter[str] = Counter()
        self._waits: dict[str, datetime] = {}
        self._bytes = len(claimed.input)
        self._tasks: dict[asyncio.Task[CallResult], _InFlight] = {}
        self._changed = asyncio.Event()
        self._is_cancelled = claimed.cancel_requested
        self.has_ended = False

    def cancel(self) -> None:
        """End the execution as cancelled."""
        self._is_cancelled = True
        self._changed.set()

    def look(self) -> None:
        """Check whether the process is stopping."""
        self._changed.set()

    async def go(self) -> None:
        """Run until the execution ends, waits for long, or the process stops."""
        claimed = self._claimed
        definition = await self._services.definitions.of(self._app_id, claimed.workflow_id, claimed.version)
        if definition is None:
            return
        self._definition: NewWorkflow = definition
        try:
            self._app: AppInfo = await self._services.app_of(self._app_id)
        except NotFoundError:
            # The app is deleted. It can be restored; what was to run then is too old.
            self._is_cancelled = True
        self._steps = {one.step.id: one.step for one in walk(definition.steps)}
        self._parents = {one.step.id: one.parent.id for one in walk(definition.steps) if one.parent is not None}
        point = await self._begun()
        try:
            while not self.has_ended and await self._advance(point):
                point = await self._wait()
        finally:
            await self._cancel_tasks()

    async def _begun(self) -> Checkpoint:
        """Return the first checkpoint, after reading the work of earlier claims."""
        claimed, point = self._claimed, Checkpoint()
        is_new = claimed.seq == 1
        has_run = False
        if not is_new or claimed.trigger_type in {"retry", "webhook"}:
            has_run = await self._load()
        if is_new:
            self._event(point, "execution.started")
            self._services.counts.queues.add((claimed.started_at - claimed.created_at).total_seconds())
            if claimed.trigger_type == "webhook":
                self._inside_request(point)
            point.emits.append(
                STARTED.event(
                    self._data("running", None),
                    by_itself(claimed.request_id),
                    subject=self._subject,
                    depth=claimed.depth,
                )
            )
        elif has_run and claimed.recoveries:
            self._event(point, "execution.recovered")
            self._services.counts.recoveries.add()
        return point

    def _inside_request(self, point: Checkpoint) -> None:
        """Tell of the step that ran inside the request which started the execution."""
        for key, state in self._states.items():
            step = self._steps[key]
            row = self._step_row(key, step, state.status)
            row.output = state.output
            self._step_event(point, f"step.{state.status}", row, step)

    async def _load(self) -> bool:
        """Restore the states from the rows of the steps; return whether a call was running."""
        rows = await execution_store.steps_of(self._services.database.of(self._app_id), self._app_id, self._id)
        last: dict[str, StepRecord] = {}
        for row in rows:
            key = row.step_id
            self._counted[key] += 1
            if key not in last or (row.attempt, row.try_) > (last[key].attempt, last[key].try_):
                last[key] = row
        has_run = False
        for key, row in last.items():
            step = self._step_of(key)
            if step is None:
                continue
            self._bytes += len(row.output or "")
            is_group = step.step_type == "parallel" and key == step.id
            is_current = row.attempt == self._claimed.attempt
            match row.status:
                case "completed" | "skipped" as status:
                    items = _decoded(row.input) if is_group else None
                    self._states[key] = State(status, _decoded(row.output), input=items)
                case "running" if is_group:
                    self._states[key] = State("running", input=_decoded(row.input))
                case "running" if is_current:
                    has_run = True
                    self._tries[key] = row.try_
                    self._counted[key] -= 1
                case "failed" | "timeout" if row.retry_at is not None and is_current:
                    self._tries[key] = row.try_ + 1
                    self._waits[key] = row.retry_at
                case "failed" | "timeout" if row.retry_at is None and step.on_error == "continue":
                    self._states[key] = State("failed", error=_decoded(row.error))
        return has_run

    async def _advance(self, point: Checkpoint) -> bool:
        """Plan, write the checkpoint, and start the possible calls; return whether there is something to wait for."""
        now = self._now()
        if self._is_cancelled:
            return await self._end(point, "cancelled")
        if now >= self._claimed.deadline_at:
            return await self._end(point, "timeout", error=_execution_timeout())
        if self._claimed.recoveries > MAX_RECOVERIES:
            message = "Each process that ran the execution has died."
            return await self._end(
                point, "failed", error={"code": "WORKER_CRASHED", "message": message, "step_id": None}
            )
        in_flight = [one.ready.key for one in self._tasks.values()]
        found = plan(self._definition, self._context, self._states, in_flight)
        for instant in found.instants:
            self._instant(point, instant)
        if found.failed is not None:
            return await self._fail(point, found.failed)
        if self._bytes > MAX_EXECUTION_BYTES:
            message = f"The outputs of an execution have at most {MAX_EXECUTION_BYTES} bytes together."
            return await self._fail(point, Failed("", "OUTPUT_TOO_LARGE", message))
        if found.is_done and not self._tasks:
            return await self._end(point, "completed", output=found.output)
        waiting = [ready for ready in found.ready if self._waits.get(ready.key, now) > now]
        begun = [] if self._holder.is_stopping else [one for one in found.ready if one not in waiting]
        if not begun and not self._tasks:
            due = min((self._waits[ready.key] for ready in waiting), default=now)
            if self._holder.is_stopping or (due - now).total_seconds() > STAY_SECONDS:
                return await self._leave(point, due)
        rows = [self._begin(point, ready) for ready in begun]
        await self._write(point)
        self._holder.require_lease_of(self._claimed.owner)
        for ready, row in zip(begun, rows, strict=True):
            task = asyncio.create_task(self._run_step(ready, row))
            task.add_done_callback(lambda _: self._changed.set())
            self._tasks[task] = _InFlight(ready, row)
        return True

    async def _wait(self) -> Checkpoint:
        """Wait until a call ends, a delay is over, or the execution must end; return a checkpoint with the results."""
        point = Checkpoint()
        busy = {one.ready.key for one in self._tasks.values()}
        moments = [moment for key, moment in self._waits.items() if key not in busy and key not in self._states]
        until = min([self._claimed.deadline_at, *moments])
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, (until - self._now()).total_seconds())):
                await self._changed.wait()
        self._changed.clear()
        for task in [task for task in self._tasks if task.done()]:
            in_flight = self._tasks.pop(task)
            if failed := self._ended(point, in_flight, task.result()):
                await self._fail(point, failed)
                break
        return point

    def _ended(self, point: Checkpoint, in_flight: _InFlight, result: CallResult) -> Failed | None:
        """Record the result of a call; return the failure that ends the execution's attempt."""
        (key, step, _), row = in_flight
        now = self._now()
        # It is stored already.
        row.input = None
        row.finished_at, row.duration, row.queue_ms = now, round(result.duration, 3), result.queue_ms
        row.function_execution_id = result.function_execution_id
        row.function_version = result.function_version or step.function_version
        point.steps.append(row)
        if result.logs:
            self._event(point, "step.log", step={"step_id": key}, lines=result.logs[:100])
        if result.code is None:
            value = condition_output(result.value) if step.step_type == "condition" else result.value
            row.status, row.output = "completed", value
            self._states[key] = State("completed", value)
            self._bytes += len(json.encode(value))
            self._step_event(point, "step.completed", row, step)
            return None
        error = {"code": result.code, "message": result.message, "step_id": key}
        row.status, row.error = "timeout" if result.code in _TIMEOUTS else "failed", error
        if result.code == "EXECUTION_TIMEOUT":
            self._step_event(point, "step.failed", row, step)
            return Failed(key, result.code, result.message)
        if result.code not in _NOT_TRIED_AGAIN and row.try_ < step.tries:
            retry_at = now + timedelta(seconds=backoff.step_seconds(step.retry_delay, row.try_))
            row.retry_at = retry_at
            self._tries[key], self._waits[key] = row.try_ + 1, retry_at
            self._step_event(point, "step.retrying", row, step, run_at=rfc3339(retry_at))
            return None
        self._step_event(point, "step.failed", row, step)
        if step.on_error == "continue" and result.code != "TRIGGER_REJECTED":
            self._states[key] = State("failed", error=error)
            return None
        return Failed(key, result.code, result.message)

    async def _run_step(self, ready: Ready, row: StepRow) -> CallResult:
        described: dict[str, spans.Attribute] = {
            "pilotis.app_id": str(self._app_id),
            "pilotis.workflow_id": str(self._claimed.workflow_id),
            "pilotis.execution_id": str(self._id),
            "pilotis.step.type": ready.step.step_type,
            "pilotis.step.try": row.try_,
        }
        with spans.span("step", described, request_id=self._claimed.request_id, is_root=True) as span:
            is_agent = ready.step.step_type == "agent"
            result = await (self._ask(ready, row) if is_agent else self._call(ready))
            if result.code is not None:
                span.fail(result.code)
            return result

    async def _call(self, ready: Ready) -> CallResult:
        """Call a step's function."""
        step, started = ready.step, time.monotonic()
        payload, context = await self._arguments(ready)
        seconds, timed_out = self._limit_of(step)
        until = started + seconds
        while True:
            left = max(0.05, until - time.monotonic())
            try:
                async with asyncio.timeout(left + 5.0):
                    ended = await self._services.calls.run_step(
                        self._app,
                        step.function_id or "",
                        payload,
                        execution_id=self._id,
                        step_id=ready.key,
                        attempt=self._counted[ready.key],
                        depth=self._claimed.depth,
                        seconds=left,
                        version=step.function_version,
                        context=context,
                        request_id=self._claimed.request_id,
                    )
            except TimeoutError:
                return timed_out
            except PilotisError as error:
                duration = (time.monotonic() - started) * 1000
                if not _says_nothing(error):
                    return CallResult(code=error.code, message=error.text, duration=duration)
                if time.monotonic() >= until:
                    return timed_out._replace(duration=duration)
                await asyncio.sleep(min(_BUSY_SECONDS, until - time.monotonic()))
                continue
            result = result_of(ended)
            if result.code == "STEP_TIMEOUT" and ended.seconds == left:
                return result._replace(code=timed_out.code, message=timed_out.message)
            if context is not None and result.code is None and (rejection := rejection_of(ended.outcome.result)):
                return result._replace(value=None, code="TRIGGER_REJECTED", message=rejection.message)
            return result

    def _limit_of(self, step: Step) -> tuple[float, CallResult]:
        """Return how long a step may take now, and the result if it takes longer.

        That is its own limit or, if it is less, the rest of the execution's: only the former is the step's fault.
        """
        left = (self._claimed.deadline_at - self._now()).total_seconds()
        if left <= (step.timeout_seconds or left):
            return max(0.05, left), CallResult(code="EXECUTION_TIMEOUT", message=_TIMED_OUT)
        return step.timeout_seconds or left, CallResult(code="STEP_TIMEOUT", message="The step took too long.")

    async def _ask(self, ready: Ready, row: StepRow) -> CallResult:
        """Run an agent."""
        step, started = ready.step, time.monotonic()
        config = step.config or AgentConfig()
        seconds, timed_out = self._limit_of(step)
        until = started + seconds
        prompt = json.encode(ready.payload).decode() if config.prompt is None else ready.payload["prompt"]
        running = msgspec.structs.replace(row, input=None)

        async def call(tool: AgentTool, call_id: str, arguments: bytes) -> Any:
            try:
                ended = await self._services.calls.run_step(
                    self._app,
                    tool.function_id,
                    arguments,
                    execution_id=self._id,
                    step_id=f"{ready.key}:{call_id}",
                    attempt=1,
                    depth=self._claimed.depth,
                    seconds=max(0.05, until - time.monotonic()),
                    request_id=self._claimed.request_id,
                )
            except PilotisError as error:
                return {"error": error.text}
            result = result_of(ended)
            return result.value if result.code is None else {"error": result.message}

        async def save(talk: Conversation, type_: str, told: dict[str, Any]) -> None:
            point = Checkpoint(steps=[msgspec.structs.replace(running, state=msgspec.to_builtins(talk))])
            self._event(point, type_, step={"step_id": ready.key}, **{name: shown(one) for name, one in told.items()})
            await self._write(point)

        text = await execution_store.state_of(
            self._services.database.of(self._app_id), self._app_id, self._id, ready.key
        )
        saved = None if text is None else msgspec.json.decode(text, type=Conversation)
        try:
            async with asyncio.timeout(max(0.05, until - time.monotonic())):
                output = await self._services.agent.run(self._app_id, config, prompt, saved, Tools(call, save))
        except TimeoutError:
            return timed_out
        except AgentError as error:
            return CallResult(code=error.code, message=str(error), duration=(time.monotonic() - started) * 1000)
        if len(json.encode(output)) > MAX_BYTES:
            return CallResult(code="OUTPUT_TOO_LARGE", message=f"The output of a step has at most {MAX_BYTES} bytes.")
        return CallResult(value=output, duration=(time.monotonic() - started) * 1000)

    async def _arguments(self, ready: Ready) -> tuple[bytes, dict[str, Any] | None]:
        """Return a function's payload, and the context of the request that it gets in the webhook form."""
        if self._claimed.trigger_type == "webhook" and takes_request(self._definition, self._states, ready.key):
            request = await self._services.requests.of(self._app_id, self._id)
            if request is not None:
                return request.form()
        return json.encode(ready.payload), None

    def _begin(self, point: Checkpoint, ready: Ready) -> StepRow:
        key, step, payload = ready
        self._counted[key] += 1
        self._waits.pop(key, None)
        row = self._step_row(key, step, "running")
        row.input, row.finished_at = payload, None
        point.steps.append(copy(row))
        self._step_event(point, "step.started", row, step)
        return row

    def _instant(self, point: Checkpoint, instant: Instant) -> None:
        key, step, state = instant
        row = self._step_row(key, step, state.status)
        row.input, row.output, row.error = state.input, state.output, state.error
        if state.status == "running":
            row.finished_at = None
        elif state.status == "completed":
            self._bytes += len(json.encode(state.output))
        # A group that starts and ends at once is one row.
        point.steps = [one for one in point.steps if one.step_id != key]
        point.steps.append(row)
        name = "started" if state.status == "running" else state.status
        self._step_event(point, f"step.{name}", row, step)

    async def _fail(self, point: Checkpoint, failed: Failed) -> bool:
        """End the attempt: the execution fails, or is retried from the failed step."""
        if failed.code == "EXECUTION_TIMEOUT":
            return await self._end(point, "timeout", error=_execution_timeout())
        error = {"code": failed.code, "message": failed.message, "step_id": failed.key or None}
        if failed.code in _NOT_TRIED_AGAIN or self._claimed.attempt > self._definition.max_retries:
            return await self._end(point, "failed", error=error)
        run_at = self._now() + timedelta(seconds=backoff.execution_seconds(self._claimed.attempt))
        self._event(point, "execution.retrying", run_at=rfc3339(run_at), error=error)
        point.attempt = self._claimed.attempt + 1
        point.cancel_steps = True
        await self._cancel_tasks()
        return await self._leave(point, run_at)

    async def _leave(self, point: Checkpoint, due: datetime) -> bool:
        """Return the execution until it is due."""
        point.status, point.run_at = "pending", due
        await self._write(point)
        self.has_ended = True
        if due <= self._now():
            self._holder.wake()
        return False

    async def _end(
        self, point: Checkpoint, status: str, *, output: Any = UNSET, error: dict[str, Any] | None = None
    ) -> bool:
        """Write the execution's end."""
        claimed = self._claimed
        await self._cancel_tasks()
        if output is not UNSET and len(json.encode(output)) > MAX_BYTES:
            message = f"The output of an execution has at most {MAX_BYTES} bytes."
            status, output = "failed", UNSET
            error = {"code": "OUTPUT_TOO_LARGE", "message": message, "step_id": None}
        point.status, point.output, point.error = status, output, error
        point.cancel_steps = True
        self._event(
            point, f"execution.{status}", status, output=shown(None if output is UNSET else output), error=error
        )
        data = self._data(status, error)
        point.emits.append(
            ENDED[status].event(data, by_itself(claimed.request_id), subject=self._subject, depth=claimed.depth)
        )
        await self._write(point)
        self.has_ended = True
        counts = self._services.counts
        counts.executions.add(claimed.trigger_type, status)
        counts.seconds.add((self._now() - claimed.started_at).total_seconds())
        return False

    async def _write(self, point: Checkpoint) -> None:
        """Write a checkpoint; raises `LeaseLostError` if another process holds the execution."""
        if not point.steps and not point.events and point.status is None:
            return
        point.completed_steps, point.failed_steps = count(self._definition, self._states)
        progress = {"completed": point.completed_steps, "total": len(self._steps)}
        for event in point.events:
            event["data"]["progress"] = progress
        claimed = self._claimed
        held = held_checkpoint(self._id, claimed.owner, claimed.fence, point)
        written = await self._services.checkpoints.write(self._app_id, held)
        if written is None:
            raise LeaseLostError
        # Each answer took some time to arrive; what happens after it is later than what it tells of.
        self._offset = max(self._offset, written.now - datetime.now(UTC))
        if written.has_emitted:
            self._services.emitted(self._app_id)
        self._services.news(self._app_id, claimed.workflow_id, self._id)
        if written.cancel_requested and point.status is None:
            self.cancel()

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _step_of(self, key: str) -> Step | None:
        return self._steps.get(key) or self._steps.get(key.partition("[")[0])

    def _step_row(self, key: str, step: Step, status: str) -> StepRow:
        now = self._now()
        return StepRow(
            step_id=key,
            attempt=self._claimed.attempt,
            try_=self._tries.get(key, 1),
            parent_id=self._parents.get(key) if key == step.id else step.id,
            status=status,
            function_id=step.function_id,
            function_version=step.function_version,
            started_at=now,
            finished_at=now,
        )

    def _event(self, point: Checkpoint, type_: str, status: str = "running", **data: Any) -> None:
        content = {"status": status, "attempt": self._claimed.attempt, **data}
        point.events.append({"type": type_, "data": content})

    def _step_event(self, point: Checkpoint, type_: str, row: StepRow, step: Step, **data: Any) -> None:
        told = {
            "step_id": row.step_id,
            "step_type": step.step_type,
            "status": row.status,
            "try": row.try_,
            "duration": row.duration,
            "output": shown(row.output),
            "error": row.error,
        }
        self._event(point, type_, step=told, **data)

    @property
    def _subject(self) -> str:
        return subject(self._claimed.workflow_id, self._id)

    def _data(self, status: str, error: Mapping[str, Any] | None) -> WorkflowEvent:
        claimed = self._claimed
        trigger = self._context.trigger["type"]
        return WorkflowEvent(
            workflow_id=claimed.workflow_id,
            execution_id=self._id,
            status=status,
            trigger=trigger,
            attempt=claimed.attempt,
            error=WorkflowError(error["code"], error["message"], error.get("step_id")) if error else None,
        )

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._offset


def _execution_timeout() -> dict[str, Any]:
    return {"code": "EXECUTION_TIMEOUT", "message": _TIMED_OUT, "step_id": None}


def _says_nothing(error: PilotisError) -> bool:
    """Whether the error says nothing about the step: no sandbox is free, or the database does not answer."""
    is_passing = isinstance(error, UnavailableError) and error.code != "RUNTIME_UNAVAILABLE"
    return is_passing or error.code == "FUNCTION_BUSY"


def result_of(ended: Ended) -> CallResult:
    """Return the result of a function's call."""
    outcome = ended.outcome
    logs = [[line.time, line.level, line.message] for line in outcome.logs]
    common = CallResult(
        function_execution_id=ended.execution_id,
        function_version=ended.version,
        queue_ms=round(ended.ran.queue_ms, 3),
        duration=outcome.duration,
        logs=logs,
    )
    if outcome.status == "timeout":
        return common._replace(code="STEP_TIMEOUT", message=outcome.error or "The step took too long.")
    if outcome.status != "success":
        return common._replace(code="STEP_FAILED", message=(outcome.error or "The function failed.")[:2000])
    if len(outcome.result) > MAX_BYTES:
        return common._replace(code="OUTPUT_TOO_LARGE", message=f"The output of a step has at most {MAX_BYTES} bytes.")
    try:
        value = json.decode(outcome.result)
    except PilotisError as error:
        return common._replace(code="STEP_FAILED", message=f"The function's result cannot be stored: {error.text}")
    if b"\\u0000" in outcome.result and json.has_nul(value):
        message = "The function's result cannot be stored: it contains the character U+0000."
        return common._replace(code="STEP_FAILED", message=message)
    return common._replace(value=value)


def _decoded(text: str | None) -> Any:
    return None if text is None else json.decode(text.encode())

"""Starts, lists, reads, cancels and replays executions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.db.batching import Batchers, SingleFlight
from pilotis.db.pool import Database, TenantDatabase
from pilotis.events.service import Events
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage
from pilotis.jobs.kinds import DueSchedule
from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import Entry, record
from pilotis.workflows import claim_store, event_store, execution_store, start_store, store
from pilotis.workflows import definition as definitions
from pilotis.workflows.checkpoints import MAX_SHARED
from pilotis.workflows.claim_store import CancelledExecution
from pilotis.workflows.definition import walk, walk_in_order
from pilotis.workflows.errors import (
    ExecutionFinishedError,
    ExecutionNotFinishedError,
    InputTooLargeError,
    WorkflowExecutionNotFoundError,
    WorkflowInactiveError,
    WorkflowNotFoundError,
    WorkflowQueueFullError,
)
from pilotis.workflows.events import cancellations
from pilotis.workflows.execution_store import ExecutionRecord, StepRecord
from pilotis.workflows.pending_counts import PendingCounts
from pilotis.workflows.plan import MAX_BYTES
from pilotis.workflows.start_store import Inserted, NewRow
from pilotis.workflows.statistics import ExecutionStatistics
from pilotis.workflows.store import CurrentWorkflow
from pilotis.workflows.timeline import timeline
from pilotis.workflows.types import (
    Accepted,
    ExecutionError,
    ExecutionProgress,
    ExecutionQuery,
    NewWorkflow,
    Replay,
    RequestedExecution,
    StepRun,
    Timeline,
    WorkflowExecution,
    WorkflowExecutionDetails,
)

FINAL = frozenset({"completed", "failed", "cancelled", "timeout"})
_CANCEL_SECONDS = 2.0
_POLL_SECONDS = 0.01
_NULL = msgspec.Raw(b"null")


class NewExecution(NamedTuple):
    """What starts an execution; `audit` is logged with it, `request_id` is the request that led to it."""

    trigger: dict[str, Any]
    given: Any = None
    version: int | None = None
    depth: int = 0
    slot: datetime | None = None
    is_gated: bool = False
    audit: Entry | None = None
    request_id: str | None = None


class Executions:
    """The executions of workflows.

    `wake` claims new executions; `cancelled` is called with the rows of executions to cancel.
    """

    by_day = execution_store.BY_DAY
    """Counts executions by day; see `pilotis.db.daily`."""

    def __init__(
        self,
        database: Database,
        events: Events,
        wake: Callable[[], None],
        cancelled: Callable[[list[CancelledExecution]], None],
    ) -> None:
        self._database = database
        self._events = events
        self._wake = wake
        self._cancelled = cancelled
        self.statistics = ExecutionStatistics(database)
        self._workflows: SingleFlight[CurrentWorkflow] = SingleFlight()
        self._pending = PendingCounts()
        self._inserts: Batchers[tuple[UUID, int], tuple[UUID, int, NewRow], Inserted] = Batchers(self._insert)

    async def execute(
        self, app: AppInfo, actor: Actor, workflow_id: UUID, execution_id: UUID, given: dict[str, Any] | None
    ) -> Accepted:
        """Start an execution; raises errors if the workflow is inactive, or too many executions are pending."""
        trigger: dict[str, Any] = {"type": "function" if actor.kind == "function" else "manual"}
        trigger |= {"function_id" if actor.kind == "function" else "user_id": actor.id}
        find = partial(self._active, self._database.of(app.app_id), app.app_id, workflow_id)
        workflow = await self._workflows.run((app.app_id, workflow_id), find)
        audit = Entry(app.app_id, actor, "workflow.execute", workflow_id, {"execution_id": str(execution_id)})
        new = NewExecution(trigger=trigger, given=given, depth=actor.depth, audit=audit, request_id=actor.request_id)
        if workflow.max_concurrency:
            async with self._database.transaction(app.app_id) as connection:
                await self.insert(connection, app, workflow, execution_id, new)
        else:
            await self.insert(None, app, workflow, execution_id, new)
        self._wake()
        return Accepted(execution_id, workflow_id, "pending")

    async def accepted(self, app: AppInfo, workflow_id: UUID, execution_id: UUID) -> Accepted:
        """Return an execution that was started before, as `execute` did."""
        await self._row(app, workflow_id, execution_id)
        return Accepted(execution_id, workflow_id, "pending")

    async def insert(
        self,
        connection: Connection | None,
        app: AppInfo,
        workflow: CurrentWorkflow,
        execution_id: UUID,
        new: NewExecution,
    ) -> Inserted:
        """Insert an execution; with a limit of concurrent ones only in a transaction of the caller's.

        Without a connection it may share a statement with others of the app that arrive at the same time. Raises
        `WorkflowQueueFullError` and `InputTooLargeError`.
        """
        app_id, workflow_id = app.app_id, workflow.workflow_id
        definition = definitions.decode(workflow.definition)
        text = json.encode(definition.initial_input or {} if new.given is None else new.given)
        if len(text) > MAX_BYTES:
            raise InputTooLargeError
        has_limit = workflow.max_concurrency > 0 or new.is_gated
        limit = app.limits.workflow_pending
        row = NewRow(
            execution_id=execution_id,
            workflow_id=workflow_id,
            version=new.version or workflow.version,
            trigger=json.encode(new.trigger).decode(),
            trigger_type=new.trigger["type"],
            input=text.decode(),
            depth=new.depth,
            slot=new.slot,
            has_limit=has_limit,
            is_gated=has_limit,
            timeout_seconds=_seconds(definition, app),
            # What no request has led to is traced by itself.
            request_id=new.request_id or str(execution_id),
            event={"status": "pending", "attempt": 1, "trigger": new.trigger["type"]},
            audit=new.audit,
        )
        made = None
        if connection is None and len(text) <= MAX_SHARED:
            # One of several may have made their statement fail, which then inserted nothing.
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError):
                made = await self._inserts.submit((app_id, limit), (app_id, limit, row))
        if made is None:
            to = self._database.of(app_id) if connection is None else connection
            (made,) = await self._counted(to, app_id, [row], limit)
        if not made.is_made and made.pending >= limit:
            raise WorkflowQueueFullError
        if made.is_made:
            self.statistics.started()
            if has_limit:
                assert isinstance(connection, Connection)
                await claim_store.admit(connection, app_id, workflow_id)
        return made

    async def _insert(self, new: Sequence[tuple[UUID, int, NewRow]]) -> Sequence[Inserted]:
        app_id, limit, _ = new[0]
        return await self._counted(self._database.of(app_id), app_id, [row for _, _, row in new], limit)

    async def _counted(
        self, connection: Connection | TenantDatabase, app_id: UUID, rows: Sequence[NewRow], limit: int
    ) -> Sequence[Inserted]:
        if self._pending.is_full(app_id, limit):
            return [Inserted(False, limit) for _ in rows]
        known = self._pending.known(app_id, limit, len(rows))
        made = await start_store.insert(connection, app_id, rows, limit, known)
        self._pending.inserted(app_id, len(rows), None if known is not None else made[0].pending, limit)
        return made

    async def page(
        self, app: AppInfo, workflow_id: UUID, query: ExecutionQuery, *, is_hidden: bool
    ) -> ItemPage[WorkflowExecution]:
        """Return a page of a workflow's executions, newest first."""
        await self.require(app.app_id, workflow_id)
        limit = app.limits.page_size(query.limit)
        filters = (query.status, query.trigger, query.since, query.until)
        rows, total = await execution_store.page(self._database, app.app_id, workflow_id, filters, limit, query.offset)
        versions = {row.version for row in rows}
        totals = {version: await self._step_count(app.app_id, workflow_id, version) for version in versions}
        data = [WorkflowExecution(**_fields(row, totals[row.version], is_hidden=is_hidden)) for row in rows]
        return ItemPage(data=data, total_count=total, limit=limit, offset=query.offset)

    async def read(
        self, app: AppInfo, workflow_id: UUID, execution_id: UUID, *, is_hidden: bool
    ) -> WorkflowExecutionDetails:
        """Return an execution with its steps."""
        return await self.details(app, await self._row(app, workflow_id, execution_id), is_hidden=is_hidden)

    async def details(self, app: AppInfo, row: ExecutionRecord, *, is_hidden: bool) -> WorkflowExecutionDetails:
        """Return an execution's row with its steps."""
        definition = await self._definition(app.app_id, row.workflow_id, row.version)
        steps = await execution_store.steps_of(self._database.of(app.app_id), app.app_id, row.execution_id)
        return WorkflowExecutionDetails(
            **_fields(row, _step_count(definition), is_hidden=is_hidden),
            steps=step_runs(definition, steps, is_hidden=is_hidden),
        )

    async def cancel(
        self, app: AppInfo, actor: Actor, workflow_id: UUID, execution_id: UUID
    ) -> WorkflowExecutionDetails:
        """Cancel an execution, wait up to two seconds for its end, and return it."""
        await self._row(app, workflow_id, execution_id)
        async with self._database.transaction(app.app_id) as connection:
            changed = await claim_store.cancel(connection, app.app_id, execution_id)
            if changed is None:
                raise ExecutionFinishedError
            await self._events.emit_all(connection, app.app_id, cancellations([changed]))
            await record(connection, app.app_id, actor, "workflow.cancel", workflow_id, execution_id=str(execution_id))
        self._pending.forget(app.app_id)
        self._cancelled([changed])
        until, wait = time.monotonic() + _CANCEL_SECONDS, _POLL_SECONDS
        while True:
            found = await self.read(app, workflow_id, execution_id, is_hidden=False)
            if found.status in FINAL or time.monotonic() > until:
                return found
            await asyncio.sleep(wait)
            wait = min(0.2, wait * 2)

    async def replay(
        self, app: AppInfo, actor: Actor, workflow_id: UUID, execution_id: UUID, new_id: UUID, how: Replay
    ) -> Accepted:
        """Start an execution with the input of one that has ended."""
        row = await self._row(app, workflow_id, execution_id)
        if row.status not in FINAL:
            raise ExecutionNotFinishedError
        async with self._database.transaction(app.app_id) as connection:
            workflow = await self._active(connection, app.app_id, workflow_id)
            await self.insert(
                connection,
                app,
                workflow,
                new_id,
                NewExecution(
                    trigger={"type": "retry", "of": str(execution_id)},
                    given=json.decode(row.input.encode()),
                    version=row.version if how.version == "same" else None,
                    depth=actor.depth,
                    request_id=actor.request_id,
                ),
            )
            if how.from_ == "failed_step":
                await start_store.copy_steps(connection, app.app_id, execution_id, new_id)
            await record(
                connection,
                app.app_id,
                actor,
                "workflow.replay",
                workflow_id,
                execution_id=str(new_id),
                of=str(execution_id),
            )
        self._wake()
        return Accepted(new_id, workflow_id, "pending")

    async def timeline(self, app: AppInfo, workflow_id: UUID, execution_id: UUID) -> Timeline:
        """Return the time line of an execution."""
        row = await self._row(app, workflow_id, execution_id)
        connection = self._database.of(app.app_id)
        definition = await self._definition(app.app_id, workflow_id, row.version)
        steps = await execution_store.steps_of(connection, app.app_id, execution_id)
        events = await event_store.of_agents(connection, app.app_id, execution_id)
        return timeline(definition, steps, events)

    async def fire(self, connection: Connection, app: AppInfo, due: DueSchedule, slot: datetime) -> str | None:
        """Start the execution of a schedule's slot; return the reason if it is dropped, else None."""
        row = await store.current(connection, due.app_id, due.schedule_id)
        if row is None or not row.is_active:
            return "inactive"
        is_busy = row.on_overlap != "allow" and await execution_store.open_of(connection, due.app_id, due.schedule_id)
        if is_busy and row.on_overlap == "skip":
            return "overlap"
        try:
            await self.insert(
                connection,
                app,
                row,
                uuid7(),
                NewExecution(
                    trigger={"type": "schedule", "scheduled_for": rfc3339(slot)},
                    slot=slot,
                    is_gated=row.on_overlap == "queue",
                ),
            )
        except WorkflowQueueFullError:
            return "queue_full"
        self._wake()
        return None

    async def _active(
        self, connection: Connection | TenantDatabase, app_id: UUID, workflow_id: UUID
    ) -> CurrentWorkflow:
        workflow = await store.current(connection, app_id, workflow_id)
        if workflow is None:
            raise WorkflowNotFoundError
        if not workflow.is_active:
            raise WorkflowInactiveError
        return workflow

    async def running(self, app: AppInfo, workflow_id: UUID, limit: int) -> list[WorkflowExecution]:
        """Return at most `limit` running executions of a workflow, newest first, without users' data."""
        query = ExecutionQuery(status="running", limit=limit)
        return (await self.page(app, workflow_id, query, is_hidden=True)).data

    async def exists(self, app_id: UUID, workflow_id: UUID) -> bool:
        """Return whether the app has the workflow."""
        return await store.exists(self._database.of(app_id), app_id, workflow_id)

    async def unfinished(self, app_id: UUID) -> int:
        """Return how many executions of an app have not ended."""
        return await execution_store.unfinished(self._database, app_id)

    async def of_request(self, app_id: UUID, request_id: str, limit: int) -> list[RequestedExecution]:
        """Return the executions that a request has led to, oldest first."""
        return await execution_store.of_request(self._database.of(app_id), app_id, request_id, limit)

    async def require(self, app_id: UUID, workflow_id: UUID) -> None:
        """Raise `WorkflowNotFoundError` unless the app has the workflow."""
        if not await self.exists(app_id, workflow_id):
            raise WorkflowNotFoundError

    async def _row(self, app: AppInfo, workflow_id: UUID, execution_id: UUID) -> ExecutionRecord:
        row = await execution_store.read(self._database.of(app.app_id), app.app_id, workflow_id, execution_id)
        if row is None:
            await self.require(app.app_id, workflow_id)
            raise WorkflowExecutionNotFoundError
        if not row.has_workflow:
            raise WorkflowNotFoundError
        return row

    async def _definition(self, app_id: UUID, workflow_id: UUID, version: int) -> NewWorkflow:
        text = await store.definition(self._database.of(app_id), app_id, workflow_id, version)
        if text is None:
            raise WorkflowNotFoundError
        return definitions.decode(text)

    async def _step_count(self, app_id: UUID, workflow_id: UUID, version: int) -> int:
        return _step_count(await self._definition(app_id, workflow_id, version))


def _step_count(definition: NewWorkflow) -> int:
    return sum(1 for _ in walk(definition.steps))


def _seconds(definition: NewWorkflow, app: AppInfo) -> float:
    limit = float(app.limits.workflow_seconds_max)
    return min(definition.timeout_seconds or limit, limit)


def step_runs(definition: NewWorkflow, rows: list[StepRecord], *, is_hidden: bool) -> list[StepRun]:
    """Return the tries of steps, by start time."""
    planned = list(walk_in_order(definition.steps))
    places = {step.id: (index, step, order) for index, (step, order) in enumerate(planned)}
    found = []
    for row in rows:
        place = places.get(row.step_id) or places.get(row.step_id.partition("[")[0])
        if place is None:
            continue
        index, step, order = place
        found.append(
            StepRun(
                step_id=row.step_id,
                parent_id=row.parent_id,
                index=index,
                order=order,
                step_type=step.step_type,
                name=step.name,
                status=row.status,
                attempt=row.attempt,
                try_=row.try_,
                function_id=step.function_id,
                function_version=row.function_version,
                function_execution_id=row.function_execution_id,
                input=_raw(row.input, is_hidden=is_hidden),
                output=_raw(row.output, is_hidden=is_hidden),
                error=_error(row.error, is_hidden=is_hidden),
                queue_ms=row.queue_ms,
                duration=_duration(row),
                started_at=optional_rfc3339(row.started_at),
                finished_at=optional_rfc3339(row.finished_at),
                is_hidden=is_hidden,
            )
        )
    return found


def _fields(row: ExecutionRecord, total: int, *, is_hidden: bool) -> dict[str, Any]:
    started, finished = row.started_at, row.finished_at
    trigger = json.decode(row.trigger.encode())
    if is_hidden:
        trigger |= {name: None for name in ("headers", "query") if name in trigger}
    return {
        "id": row.execution_id,
        "workflow_id": row.workflow_id,
        "workflow_version": row.version,
        "status": row.status,
        "trigger": msgspec.Raw(json.encode(trigger)),
        "input": _raw(row.input, is_hidden=is_hidden),
        "output": _raw(row.output, is_hidden=is_hidden),
        "error": _error(row.error, is_hidden=is_hidden),
        "attempt": row.attempt,
        "cancel_requested": row.cancel_requested,
        "failed_steps": row.failed_steps,
        "progress": ExecutionProgress(row.completed_steps, total),
        "created_at": rfc3339(row.created_at),
        "started_at": optional_rfc3339(started),
        "finished_at": optional_rfc3339(finished),
        "duration": (finished - started).total_seconds() * 1000 if started and finished else None,
        "deadline_at": optional_rfc3339(row.deadline_at),
        "request_id": row.request_id,
        "is_hidden": is_hidden,
    }


def _duration(row: StepRecord) -> float | None:
    """Return a step's duration in milliseconds: that of its call, else from its start to its end."""
    if row.duration is None and row.started_at and row.finished_at:
        return (row.finished_at - row.started_at).total_seconds() * 1000
    return row.duration


def _raw(text: str | None, *, is_hidden: bool) -> msgspec.Raw:
    return _NULL if text is None or is_hidden else msgspec.Raw(text.encode())


def _error(text: str | None, *, is_hidden: bool) -> ExecutionError | None:
    if text is None or (error := json.decode(text.encode())) is None:
        return None
    return ExecutionError(error["code"], None if is_hidden else error["message"], error.get("step_id"))

"""Triggers: schedules and events that call functions. Each call is a background job, which is retried if it fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection
from msgspec import UNSET

from pilotis.data.tables.service import Tables
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.dead_jobs.service import DeadJobs
from pilotis.dead_jobs.types import DeadJob, DeadJobQuery
from pilotis.events.envelope import compose
from pilotis.events.service import Events
from pilotis.events.types import Event, Target
from pilotis.functions import store, trigger_store
from pilotis.functions.calls import MAX_DEPTH, CallOrigin, Calls
from pilotis.functions.errors import (
    FunctionInactiveError,
    FunctionLimitError,
    FunctionNotDeployedError,
    FunctionNotFoundError,
    InvalidCronError,
    TriggerNotFoundError,
    TriggerStorageNotFoundError,
)
from pilotis.functions.events import subject_of
from pilotis.functions.trigger_store import TriggerRecord
from pilotis.functions.types import NewTrigger, Trigger, TriggerChange
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.jobs import schedules
from pilotis.jobs.kinds import DiscardError, DueSchedule, Job, JobKind, ScheduleKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.kit.errors import NotFoundError, PilotisError, invalid
from pilotis.security.audit.service import record
from pilotis.webhooks.naming import check_patterns

KIND = "function"
QUEUE = "calls"
MAX_BATCH = 100
MAX_SECONDS = 320.0
_MAX_EVENT_BYTES = 5 * 1024 * 1024

_log = structlog.get_logger("pilotis.functions")


class CallPayload(msgspec.Struct, kw_only=True):
    """The payload of a job that calls a function; `payload` is the JSON text of an object."""

    function_id: UUID
    trigger_id: UUID
    trigger: Literal["schedule", "event"]
    idempotency_key: str
    payload: str
    request_id: str | None = None


class FunctionFailedError(PilotisError):
    """502: a trigger's call failed; the message has its `error_code`. Only seen among the trigger's failures."""

    status = 502
    code = "FUNCTION_FAILED"


class Triggers:
    """The triggers of functions; also a kind of event target."""

    name = KIND

    def __init__(
        self,
        database: Database,
        events: Events,
        jobs: Jobs,
        calls: Calls,
        app_of: Callable[[UUID], Awaitable[AppInfo]],
        own_types: Callable[[UUID], Awaitable[Sequence[str]]],
        dead_jobs: DeadJobs,
        tables: Tables,
        has_storage: Callable[[UUID, UUID], Awaitable[bool]],
    ) -> None:
        self._tables = tables
        self._has_storage = has_storage
        self._database = database
        self._events = events
        self._jobs = jobs
        self._calls = calls
        self._app_of = app_of
        self._own_types = own_types
        self._dead_jobs = dead_jobs
        self.job = JobKind(name="functions.call", queue=QUEUE, payload=CallPayload, run=self._run, seconds=MAX_SECONDS)
        self.schedule = ScheduleKind(name=KIND, fire=self._fire)

    async def create(self, app: AppInfo, actor: Actor, function_id: UUID, trigger_id: UUID, new: NewTrigger) -> Trigger:
        """Create a trigger; events after this returns call the function."""
        values = _values(new)
        await self._check(app, values)
        async with self._function(app.app_id, function_id) as connection:
            if await trigger_store.count(connection, app.app_id) >= app.limits.function_triggers:
                raise FunctionLimitError("The app has reached its limit of triggers.")
            await trigger_store.insert(connection, app.app_id, function_id, trigger_id, values)
            await record(connection, app.app_id, actor, "function.trigger_create", function_id, trigger_id=trigger_id)
            target = await self._begin(connection, app.app_id, trigger_id, values)
        await self._enable(app.app_id, trigger_id, target)
        return await self.read(app, function_id, trigger_id)

    async def page(self, app: AppInfo, function_id: UUID, paging: Paging) -> ItemPage[Trigger]:
        """Return a page of a function's triggers, oldest first."""
        await self._require(app.app_id, function_id)
        limit = app.limits.page_size(paging.limit)
        rows, total = await trigger_store.page(self._database, app.app_id, function_id, limit, paging.offset)
        data = [_trigger(row) for row in rows]
        return ItemPage(data=data, total_count=total, limit=limit, offset=paging.offset)

    async def read(self, app: AppInfo, function_id: UUID, trigger_id: UUID) -> Trigger:
        """Return a trigger; raises `TriggerNotFoundError`."""
        await self._require(app.app_id, function_id)
        row = await trigger_store.read(self._database.of(app.app_id), app.app_id, function_id, trigger_id)
        if row is None:
            raise TriggerNotFoundError
        return _trigger(row)

    async def change(
        self, app: AppInfo, actor: Actor, function_id: UUID, trigger_id: UUID, change: TriggerChange
    ) -> Trigger:
        """Change a trigger and return it."""
        given = {name: getattr(change, name) for name in change.__struct_fields__}
        values = {name: value for name, value in given.items() if value is not UNSET}
        before = await trigger_store.read(self._database.of(app.app_id), app.app_id, function_id, trigger_id)
        if before is None:
            await self._require(app.app_id, function_id)
            raise TriggerNotFoundError
        await self._check(
            app, {name: values.get(name, getattr(before, name)) for name in ("type", *given)}, is_new=False
        )
        async with self._function(app.app_id, function_id, trigger_id) as connection:
            row = await trigger_store.lock(connection, app.app_id, function_id, trigger_id)
            if row is None:
                raise TriggerNotFoundError
            after = {name: values.get(name, getattr(row, name)) for name in ("type", *given)}
            await trigger_store.update(connection, app.app_id, trigger_id, values)
            await self._end(connection, app.app_id, trigger_id)
            target = await self._begin(connection, app.app_id, trigger_id, after)
            await record(
                connection,
                app.app_id,
                actor,
                "function.trigger_update",
                function_id,
                trigger_id=trigger_id,
                changed=sorted(values),
            )
        await self._enable(app.app_id, trigger_id, target)
        return await self.read(app, function_id, trigger_id)

    async def delete(self, app: AppInfo, actor: Actor, function_id: UUID, trigger_id: UUID) -> None:
        """Delete a trigger; raises `TriggerNotFoundError`."""
        async with self._function(app.app_id, function_id, trigger_id) as connection:
            if await trigger_store.lock(connection, app.app_id, function_id, trigger_id) is None:
                raise TriggerNotFoundError
            await self._end(connection, app.app_id, trigger_id)
            await trigger_store.delete(connection, app.app_id, trigger_id)
            await record(connection, app.app_id, actor, "function.trigger_delete", function_id, trigger_id=trigger_id)

    async def failures(self, app: AppInfo, function_id: UUID, trigger_id: UUID, paging: Paging) -> ItemPage[DeadJob]:
        """Return a page of the trigger's calls that failed permanently, newest first."""
        await self.read(app, function_id, trigger_id)
        query = DeadJobQuery(kind=self.job.name, subject=str(trigger_id), limit=paging.limit, offset=paging.offset)
        return await self._dead_jobs.page(app, query)

    async def retry(self, app: AppInfo, actor: Actor, function_id: UUID, trigger_id: UUID, job_id: UUID) -> None:
        """Make a call that failed permanently due now, with all its attempts; raises `JobNotFoundError`."""
        await self.read(app, function_id, trigger_id)
        await self._dead_jobs.retry(job_id, actor, app.app_id, str(trigger_id))

    async def remove_all(self, connection: Connection, app_id: UUID, function_id: UUID) -> None:
        """Remove the triggers of a function that is being deleted."""
        for trigger_id in await trigger_store.of_function(connection, app_id, function_id):
            await self._end(connection, app_id, trigger_id)

    async def take(self, connection: Connection, app_id: UUID, matched: Sequence[tuple[Event, Target]]) -> None:
        """Enqueue a call for each event and matching active trigger, or one for a batch of events."""
        rows = await trigger_store.for_firing(connection, app_id, list({target.target_id for _, target in matched}))
        if rows and await self._jobs.is_full(connection, app_id, QUEUE):
            _log.warning("events not taken", app_id=str(app_id), reason="QUEUE_FULL", number=len(matched))
            return
        for row in rows:
            events = [event for event, target in matched if target.target_id == row.trigger_id]
            # A function's own events would call it for ever.
            events = [event for event in events if event.subject != subject_of(row.function_id)]
            near = [event for event in events if event.depth <= MAX_DEPTH]
            if len(near) < len(events):
                _log.warning(
                    "events not taken", app_id=str(app_id), reason="EVENT_LOOP", number=len(events) - len(near)
                )
            size = MAX_BATCH if row.batch else 1
            for at in range(0, len(near), size):
                await self._enqueue_events(connection, row, near[at : at + size])

    def taken(self, app_id: UUID) -> None:
        """Do nothing, because enqueueing has already woken the workers."""

    async def _enqueue_events(self, connection: Connection, row: TriggerRecord, events: Sequence[Event]) -> None:
        bodies = [compose(event, max_bytes=_MAX_EVENT_BYTES // len(events)).decode() for event in events]
        first = str(events[0].event_id)
        payload = CallPayload(
            function_id=row.function_id,
            trigger_id=row.trigger_id,
            trigger="event",
            idempotency_key=first,
            payload='{"events":[' + ",".join(bodies) + "]}" if row.batch else bodies[0],
            request_id=events[0].request_id,
        )
        await self._jobs.enqueue(
            connection,
            self.job,
            row.app_id,
            payload,
            key=f"{row.trigger_id}:{first}",
            subject=str(row.trigger_id),
            depth=max(event.depth for event in events),
        )

    async def _fire(self, connection: Connection, due: DueSchedule, slot: datetime) -> None:
        rows = await trigger_store.for_firing(connection, due.app_id, [due.schedule_id])
        for row in rows:
            before = await trigger_store.last_run(connection, due.app_id, due.schedule_id)
            moment = rfc3339(slot)
            said = {"scheduled_for": moment, "previous_run_at": optional_rfc3339(before)}
            payload = CallPayload(
                function_id=row.function_id,
                trigger_id=row.trigger_id,
                trigger="schedule",
                idempotency_key=f"{due.schedule_id}:{moment}",
                payload=msgspec.json.encode(said).decode(),
            )
            key = f"{due.schedule_id}:{moment}"
            subject = str(due.schedule_id)
            await self._jobs.enqueue(connection, self.job, due.app_id, payload, key=key, subject=subject)

    async def _run(self, job: Job[CallPayload]) -> None:
        """Call the function; raises an error if the call fails, so that the job is retried."""
        wanted = job.payload
        try:
            app = await self._app_of(job.app_id)
            row = await self._calls.find(job.app_id, str(wanted.function_id))
        except NotFoundError as error:
            raise DiscardError(error.text) from None
        if not row.is_active:
            raise DiscardError(FunctionInactiveError.message)
        job.require_lease()
        origin = CallOrigin(
            type=wanted.trigger,
            id=str(wanted.trigger_id),
            trigger=wanted.trigger,
            depth=job.depth,
            request_id=wanted.request_id,
            idempotency_key=wanted.idempotency_key,
            attempt=job.attempt,
            context={"trigger": {"type": wanted.trigger, "id": str(wanted.trigger_id)}},
        )
        try:
            ended = await self._calls.invoke(app, row, wanted.payload.encode(), origin)
        except FunctionNotDeployedError as error:
            raise DiscardError(error.text) from None
        if ended.outcome.status != "success":
            raise FunctionFailedError(f"{ended.outcome.error_code}: {ended.outcome.error}"[:500])

    async def _begin(
        self, connection: Connection, app_id: UUID, trigger_id: UUID, values: dict[str, Any]
    ) -> Target | None:
        """Let an active trigger fire after the commit; return the event target to enable after it."""
        if not values["is_active"]:
            return None
        if values["type"] == "schedule":
            timezone = values["timezone"]
            cron = _cron_of(values["cron"], timezone)
            await schedules.put(connection, app_id, trigger_id, KIND, str(trigger_id), cron, timezone)
            return None
        target = Target(
            app_id=app_id,
            kind=KIND,
            target_id=trigger_id,
            types=values["events"],
            table_ids=[values["table_id"]] if values["table_id"] else None,
            storage_id=values["storage_id"],
        )
        await self._events.store_target(connection, target)
        return target

    async def _end(self, connection: Connection, app_id: UUID, trigger_id: UUID) -> None:
        await schedules.remove(connection, app_id, trigger_id)
        await self._events.remove_target(connection, app_id, KIND, trigger_id)

    async def _enable(self, app_id: UUID, trigger_id: UUID, target: Target | None) -> None:
        if target is None:
            return
        try:
            await self._events.enable(target)
        except BaseException:
            # A table is busy, or the client disconnected: the trigger stays, disabled.
            async with self._database.transaction(app_id) as connection:
                await schedules.lock(connection, app_id, [trigger_id])
                await trigger_store.update(connection, app_id, trigger_id, {"is_active": False})
                await self._end(connection, app_id, trigger_id)
            raise

    async def _check(self, app: AppInfo, values: dict[str, Any], *, is_new: bool = True) -> None:
        """Raise the errors of a trigger; one that is being deactivated may name what no longer exists."""
        fires = is_new or values["is_active"]
        if values["type"] == "schedule":
            if not values["cron"]:
                raise invalid("cron", "cron: is required for a schedule.", "REQUIRED")
            if values["events"]:
                raise invalid("events", "events: must be absent for a schedule.")
            if fires:
                _cron_of(values["cron"], values["timezone"])
            return
        if not values["events"]:
            raise invalid("events", "events: must contain at least one event type.", "REQUIRED")
        if values["cron"]:
            raise invalid("cron", "cron: must be absent for a trigger by events.")
        built_in = {type_.name for type_ in self._events.catalogue.offered()}
        check_patterns(values["events"], built_in | set(await self._own_types(app.app_id)))
        # What does not exist never emits an event.
        if not fires:
            return
        if values["table_id"] is not None:
            await self._tables.current(app.app_id, values["table_id"])
        if values["storage_id"] is not None and not await self._has_storage(app.app_id, values["storage_id"]):
            raise TriggerStorageNotFoundError

    async def _require(self, app_id: UUID, function_id: UUID) -> None:
        if await store.read(self._database.of(app_id), app_id, function_id) is None:
            raise FunctionNotFoundError

    @asynccontextmanager
    async def _function(self, app_id: UUID, function_id: UUID, *trigger_ids: UUID) -> AsyncGenerator[Connection]:
        """Yield a transaction in which the app, the function, and the schedules of triggers are locked."""
        async with self._database.transaction(app_id) as connection:
            await lock_app(connection, app_id)
            if await store.lock(connection, app_id, function_id) is None:
                raise FunctionNotFoundError
            await schedules.lock(connection, app_id, trigger_ids)
            yield connection


def _cron_of(text: str, timezone: str | None) -> str:
    try:
        return schedules.cron_of(text, timezone, now())
    except PilotisError as error:
        if error.details and error.details[0].field == "cron":
            raise InvalidCronError(f"cron: {error.text}", details=error.details) from None
        raise


def _values(new: NewTrigger) -> dict[str, Any]:
    return {name: getattr(new, name) for name in new.__struct_fields__}


def _trigger(row: TriggerRecord) -> Trigger:
    return Trigger(
        id=row.trigger_id,
        function_id=row.function_id,
        type=row.type,
        is_active=row.is_active,
        cron=row.cron,
        timezone=row.timezone,
        next_run_at=optional_rfc3339(row.next_run_at),
        events=row.events,
        table_id=row.table_id,
        storage_id=row.storage_id,
        batch=row.batch,
    )

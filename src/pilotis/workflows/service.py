"""Creates, changes and deletes workflows."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.jobs import schedules
from pilotis.kit import json
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.kit.errors import Detail, PilotisError
from pilotis.security.audit.service import record
from pilotis.workflows import claim_store, store, trigger_store
from pilotis.workflows import definition as definitions
from pilotis.workflows.claim_store import CancelledExecution
from pilotis.workflows.definition import Placed
from pilotis.workflows.errors import (
    InputTooLargeError,
    WorkflowLimitError,
    WorkflowNameTakenError,
    WorkflowNotFoundError,
    WorkflowVersionNotFoundError,
)
from pilotis.workflows.events import cancellations
from pilotis.workflows.plan import MAX_BYTES
from pilotis.workflows.store import WorkflowRecord
from pilotis.workflows.types import AgentConfig, FieldError, LastExecution, NewWorkflow, Validation, Workflow

KIND = "workflow"
"""The kind of a workflow's schedule, whose id is the workflow's."""
_NEXT_RUNS = 5
_NO_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]")


class FoundFunction(NamedTuple):
    """A function that a step names."""

    function_id: UUID
    is_deployed: bool
    name: str


FindFunction = Callable[[UUID, str], Awaitable[FoundFunction | None]]


class Workflows:
    """The workflows of apps. `ended` is called with the executions that a deletion cancels."""

    total = store.COUNT
    """Counts workflows; see `pilotis.db.daily`."""

    def __init__(
        self,
        database: Database,
        events: Events,
        find_function: FindFunction,
        ended: Callable[[list[CancelledExecution]], None],
    ) -> None:
        self._database = database
        self._events = events
        self._find_function = find_function
        self._ended = ended

    async def create(self, app: AppInfo, actor: Actor, workflow_id: UUID, body: Mapping[str, Any]) -> Workflow:
        """Create a workflow from a `NewWorkflow` as sent.

        Raises an error with all that is wrong with it, and errors for a taken name and too many workflows.
        """
        new, cron = await self._checked(app, body)
        async with self._database.transaction(app.app_id) as connection:
            if await store.lock_and_count(connection, app.app_id) >= app.limits.workflows:
                raise WorkflowLimitError
            values = _values(new) | {"is_active": new.is_active is not False, "version": 1}
            if not await store.insert(connection, app.app_id, workflow_id, values):
                raise WorkflowNameTakenError
            await store.insert_version(connection, app.app_id, workflow_id, 1, definitions.as_json(new))
            await self._schedule(connection, app.app_id, workflow_id, cron, new, is_active=values["is_active"])
            await record(connection, app.app_id, actor, "workflow.create", workflow_id, name=new.name)
        return await self.read(app, workflow_id)

    async def page(self, app: AppInfo, query: Paging) -> ItemPage[Workflow]:
        """Return a page of an app's workflows, newest first."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.page(self._database, app.app_id, limit, query.offset)
        return ItemPage(data=[_workflow(row) for row in rows], total_count=total, limit=limit, offset=query.offset)

    async def read(self, app: AppInfo, workflow_id: UUID) -> Workflow:
        """Return a workflow; raises `WorkflowNotFoundError`."""
        row = await store.read(self._database.of(app.app_id), app.app_id, workflow_id)
        if row is None:
            raise WorkflowNotFoundError
        return _workflow(row)

    async def version(self, app: AppInfo, workflow_id: UUID, number: int) -> Workflow:
        """Return a workflow as it was in a version."""
        connection = self._database.of(app.app_id)
        row = await store.read(connection, app.app_id, workflow_id, number)
        if row is None:
            if await store.exists(connection, app.app_id, workflow_id):
                raise WorkflowVersionNotFoundError
            raise WorkflowNotFoundError
        return _workflow(row, number)

    async def change(self, app: AppInfo, actor: Actor, workflow_id: UUID, body: Mapping[str, Any]) -> Workflow:
        """Replace a workflow's definition by a new version. Running executions continue with theirs."""
        new, cron = await self._checked(app, body)
        async with self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            row = await store.lock(connection, app.app_id, workflow_id)
            if row is None:
                raise WorkflowNotFoundError
            if new.name != row.name and await store.is_taken(connection, app.app_id, new.name):
                raise WorkflowNameTakenError
            is_active = row.is_active if new.is_active is None else new.is_active
            version = row.version + 1
            values = _values(new) | {"is_active": is_active, "version": version}
            await store.insert_version(connection, app.app_id, workflow_id, version, definitions.as_json(new))
            await store.update(connection, app.app_id, workflow_id, values)
            await self._schedule(connection, app.app_id, workflow_id, cron, new, is_active=is_active)
            await record(connection, app.app_id, actor, "workflow.update", workflow_id, version=version)
        return await self.read(app, workflow_id)

    async def activate(self, app: AppInfo, actor: Actor, workflow_id: UUID, *, is_active: bool) -> Workflow:
        """Activate or deactivate a workflow with its schedule; what runs continues."""
        async with self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            locked = await store.lock(connection, app.app_id, workflow_id)
            row = None if locked is None else await store.read(connection, app.app_id, workflow_id)
            if row is None:
                raise WorkflowNotFoundError
            if row.is_active != is_active:
                definition = definitions.decode(row.definition)
                cron = definitions.schedule_of(definition, now())
                await store.update(connection, app.app_id, workflow_id, {"is_active": is_active})
                await self._schedule(connection, app.app_id, workflow_id, cron, definition, is_active=is_active)
                await record(connection, app.app_id, actor, "workflow.update", workflow_id, is_active=is_active)
        return await self.read(app, workflow_id)

    async def delete(self, app: AppInfo, actor: Actor, workflow_id: UUID) -> None:
        """Delete a workflow: cancel its executions, end its schedule, and free its name."""
        async with self._database.transaction(app.app_id) as connection:
            row = await store.lock(connection, app.app_id, workflow_id)
            if row is None:
                raise WorkflowNotFoundError
            await schedules.remove(connection, app.app_id, workflow_id)
            await trigger_store.delete(connection, app.app_id, workflow_id)
            await store.mark_deleted(connection, app.app_id, workflow_id)
            ended = await claim_store.cancel_all(connection, app.app_id, workflow_id)
            await self._events.emit_all(connection, app.app_id, cancellations(ended))
            await record(connection, app.app_id, actor, "workflow.delete", workflow_id, name=row.name)
        self._ended(ended)

    async def validate(self, app: AppInfo, body: dict[str, Any]) -> Validation:
        """Return the errors of a definition, without saving it."""
        warnings: list[str] = []
        try:
            new, cron = await self._checked(app, body, warnings)
        except PilotisError as error:
            details = error.details or (Detail("", error.code, error.text),)
            errors = [FieldError(one.field or None, one.code, one.message) for one in details]
            return Validation(is_valid=False, errors=errors, warnings=warnings, next_runs=[])
        runs = definitions.next_runs(cron, new.schedule_timezone, now(), _NEXT_RUNS) if cron else []
        return Validation(is_valid=True, errors=[], warnings=warnings, next_runs=[rfc3339(one) for one in runs])

    async def _checked(
        self, app: AppInfo, body: Mapping[str, Any], warnings: list[str] | None = None
    ) -> tuple[NewWorkflow, str | None]:
        """Return the definition in a request, completed, and its cron expression; raises all errors of it at once."""
        new, details = definitions.read(body)
        definitions.normalise(new)
        details += definitions.check(new)
        for one in definitions.walk(new.steps):
            if one.step.config is not None:
                details += await self._resolve_tools(app, one, one.step.config)
            if one.step.function_id is None:
                continue
            found = await self._find_function(app.app_id, one.step.function_id)
            if found is None:
                field = f"{one.place}.function_id"
                message = f"{field}: the app has no function {one.step.function_id}."
                details.append(Detail(field, "UNKNOWN_FUNCTION", message))
                continue
            if not found.is_deployed and warnings is not None:
                warnings.append(f"{one.place}: the function {one.step.function_id} has no version yet.")
            one.step.function_id = str(found.function_id)
        cron = None
        try:
            cron = definitions.schedule_of(new, now())
        except PilotisError as error:
            details += error.details
        definitions.require_valid(details)
        if new.initial_input is not None and len(json.encode(new.initial_input)) > MAX_BYTES:
            raise InputTooLargeError
        return new, cron

    async def _resolve_tools(self, app: AppInfo, one: Placed, config: AgentConfig) -> list[Detail]:
        """Replace the names of an agent's functions by their ids; return what is wrong with them."""
        details, names = [], set[str]()
        for at, tool in enumerate(config.tools):
            field = f"{one.place}.config.tools[{at}]"
            found = await self._find_function(app.app_id, tool.function_id)
            if found is None:
                message = f"{field}.function_id: the app has no function {tool.function_id}."
                details.append(Detail(f"{field}.function_id", "UNKNOWN_FUNCTION", message))
                continue
            tool.function_id = str(found.function_id)
            tool.name = tool.name or _NO_TOOL_NAME.sub("_", found.name)[:64]
            if tool.name in names:
                message = f"{field}.name: another tool has the name {tool.name}."
                details.append(Detail(f"{field}.name", "DUPLICATE_TOOL", message))
            names.add(tool.name)
        return details

    async def _schedule(
        self,
        connection: Connection,
        app_id: UUID,
        workflow_id: UUID,
        cron: str | None,
        new: NewWorkflow,
        *,
        is_active: bool,
    ) -> None:
        if cron is None or not is_active:
            await schedules.remove(connection, app_id, workflow_id)
        else:
            await schedules.put(connection, app_id, workflow_id, KIND, str(workflow_id), cron, new.schedule_timezone)


def _values(new: NewWorkflow) -> dict[str, Any]:
    return {"name": new.name, "max_concurrency": new.max_concurrency, "on_overlap": new.on_overlap}


def _workflow(row: WorkflowRecord, version: int | None = None) -> Workflow:
    definition = definitions.decode(row.definition)
    last = None
    if row.last_id is not None and row.last_status is not None:
        last = LastExecution(row.last_id, row.last_status, optional_rfc3339(row.last_started_at))
    return Workflow(
        id=row.workflow_id,
        app_id=row.app_id,
        name=definition.name,
        description=definition.description,
        execution_type=definition.execution_type,
        steps=definition.steps,
        schedule_cron=definition.schedule_cron,
        schedule_timezone=definition.schedule_timezone,
        next_run_at=optional_rfc3339(row.next_run_at),
        timeout_seconds=definition.timeout_seconds,
        max_retries=definition.max_retries,
        initial_input=msgspec.Raw(json.encode(definition.initial_input or {})),
        is_active=row.is_active,
        max_concurrency=definition.max_concurrency,
        on_overlap=definition.on_overlap,
        has_trigger=row.has_trigger,
        version=version or row.version,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        last_execution=last,
    )

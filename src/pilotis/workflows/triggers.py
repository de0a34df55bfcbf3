"""Trigger URLs: issuing them, and accepting the requests that they receive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary

import msgspec

from pilotis.db.pool import Database
from pilotis.functions.calls import Calls
from pilotis.functions.webhook_form import rejection_of
from pilotis.http.api.principals import Actor, AppInfo, Client, InvalidPublicKeyError, by_itself
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import MethodNotAllowedError, NotFoundError, PilotisError, invalid
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose
from pilotis.security.rate_limits import RateLimits
from pilotis.workflows import incoming, start_store, store, trigger_store
from pilotis.workflows.checkpoint_store import StepRow
from pilotis.workflows.definition import decode
from pilotis.workflows.errors import (
    DeliveryInProgressError,
    InputTooLargeError,
    TriggerExistsError,
    TriggerFailedError,
    TriggerRejectedError,
    TriggerTimeoutError,
    WorkflowNotFoundError,
    WorkflowTriggerNotFoundError,
)
from pilotis.workflows.events import ENDED, WorkflowError, WorkflowEvent, subject
from pilotis.workflows.executions import Executions, NewExecution
from pilotis.workflows.incoming import Incoming
from pilotis.workflows.metrics import WorkflowCounts
from pilotis.workflows.plan import MAX_BYTES, first_call
from pilotis.workflows.requests import Requests
from pilotis.workflows.run import CallResult, result_of
from pilotis.workflows.start_store import RejectedRow
from pilotis.workflows.types import (
    Dedupe,
    NewWorkflow,
    Step,
    Triggered,
    TriggerRotation,
    WorkflowTrigger,
    WorkflowTriggerSettings,
)

TOKEN_PREFIX = "wt_"  # noqa: S105 - the form of tokens
_TOKEN_CHARACTERS = len(TOKEN_PREFIX) + 43
_SECONDS = 30.0
_KEPT_REJECTIONS = 60
_UNHANDLED = frozenset({429, 503})


class Target(NamedTuple):
    """The workflow that a trigger URL starts, as it was when the request arrived."""

    app: AppInfo
    workflow_id: UUID
    version: int
    definition: NewWorkflow
    methods: list[str]
    dedupe: Dedupe | None


class Triggers:
    """The trigger URLs of workflows. `public_key` returns the app of a key; `counts` counts requests."""

    def __init__(
        self,
        database: Database,
        secrets: Secrets,
        requests: Requests,
        executions: Executions,
        calls: Calls,
        app_of: Callable[[UUID], Awaitable[AppInfo]],
        public_key: Callable[[str, str | None], Awaitable[AppInfo]],
        rate_limits: RateLimits,
        base_url: Callable[[], str],
        wake: Callable[[], None],
        emitted: Callable[[UUID], None],
        counts: WorkflowCounts,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._requests = requests
        self._executions = executions
        self._calls = calls
        self._app_of = app_of
        self._public_key = public_key
        self._rate_limits = rate_limits
        self._base_url = base_url
        self._wake = wake
        self._emitted = emitted
        self._running: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()
        self._counts = counts

    async def create(
        self, app: AppInfo, actor: Actor, workflow_id: UUID, settings: WorkflowTriggerSettings
    ) -> WorkflowTrigger:
        """Give a workflow a trigger URL; raises errors if it has one, or does not exist."""
        token_hash, token = await self._token(app.app_id, workflow_id)
        values = {"methods": ["POST"], "dedupe": "{}"} | _changes(settings)
        values |= {"token_hash": token_hash, "token": token}
        async with self._database.transaction(app.app_id) as connection:
            if await store.lock(connection, app.app_id, workflow_id) is None:
                raise WorkflowNotFoundError
            if not await trigger_store.insert(connection, app.app_id, workflow_id, values):
                raise TriggerExistsError
            await record(connection, app.app_id, actor, "workflow.trigger_create", workflow_id)
        return await self.read(app, workflow_id)

    async def read(self, app: AppInfo, workflow_id: UUID) -> WorkflowTrigger:
        """Return the trigger URL of a workflow."""
        await self._executions.require(app.app_id, workflow_id)
        row = await trigger_store.read(self._database.of(app.app_id), app.app_id, workflow_id)
        if row is None:
            raise WorkflowTriggerNotFoundError
        secrets = await self._secrets.app(app.app_id)
        token = secrets.decrypt(Purpose.WORKFLOW_TRIGGER, _place(workflow_id, row.token_hash), row.token)
        previous = row.previous_until
        return WorkflowTrigger(
            trigger_url=f"{self._base_url()}/v1/triggers/{token.decode()}",
            is_active=row.is_active,
            dedupe=_dedupe(row.dedupe),
            methods=row.methods,
            created_at=rfc3339(row.created_at),
            last_called_at=optional_rfc3339(row.last_called_at),
            previous_until=rfc3339(previous) if previous is not None and previous > now() else None,
        )

    async def change(
        self, app: AppInfo, actor: Actor, workflow_id: UUID, settings: WorkflowTriggerSettings
    ) -> WorkflowTrigger:
        """Change the settings of a workflow's trigger URL."""
        changes = _changes(settings)
        if changes:
            async with self._database.transaction(app.app_id) as connection:
                await self._lock(connection, app.app_id, workflow_id)
                if not await trigger_store.update(connection, app.app_id, workflow_id, changes):
                    raise WorkflowTriggerNotFoundError
                await record(
                    connection, app.app_id, actor, "workflow.trigger_update", workflow_id, fields=sorted(changes)
                )
        return await self.read(app, workflow_id)

    async def rotate(self, app: AppInfo, actor: Actor, workflow_id: UUID, how: TriggerRotation) -> WorkflowTrigger:
        """Replace the URL; the one before works for the time of grace."""
        token_hash, token = await self._token(app.app_id, workflow_id)
        async with self._database.transaction(app.app_id) as connection:
            await self._lock(connection, app.app_id, workflow_id)
            found = await trigger_store.rotate(
                connection, app.app_id, workflow_id, token_hash, token, how.grace_seconds
            )
            if not found:
                raise WorkflowTriggerNotFoundError
            await record(
                connection,
                app.app_id,
                actor,
                "workflow.trigger_rotate",
                workflow_id,
                grace_seconds=how.grace_seconds,
            )
        return await self.read(app, workflow_id)

    async def delete(self, app: AppInfo, actor: Actor, workflow_id: UUID) -> None:
        """Delete a workflow's trigger URL, which ends at once."""
        async with self._database.transaction(app.app_id) as connection:
            await self._lock(connection, app.app_id, workflow_id)
            if not await trigger_store.delete(connection, app.app_id, workflow_id):
                raise WorkflowTriggerNotFoundError
            await record(connection, app.app_id, actor, "workflow.trigger_delete", workflow_id)

    async def admit(self, token: str, client: Client, method: str, key: str | None, origin: str | None) -> Target:
        """Return what a URL starts, before the body is read; raises the errors of a request that is not accepted."""
        try:
            target = await self._target(token)
            if key is not None and (await self._public_key(key, origin)).app_id != target.app.app_id:
                raise InvalidPublicKeyError
            if method not in target.methods:
                allow = ", ".join(sorted(target.methods))
                raise MethodNotAllowedError(f"This URL takes {allow}.", headers={"Allow": allow})
            await self._rate_limits.count(client, target.app, "trigger", group=str(target.workflow_id))
        except PilotisError as error:
            self._counts.triggers.add(error.code)
            raise
        return target

    async def receive(self, target: Target, request: Incoming) -> Reply:
        """Accept a request, or raise the error that says why not."""
        try:
            outcome, reply = await self._received(target, request)
        except PilotisError as error:
            self._counts.triggers.add(error.code)
            raise
        self._counts.triggers.add(outcome)
        return reply

    async def _received(self, target: Target, request: Incoming) -> tuple[str, Reply]:
        app_id, given = target.app.app_id, request.input()
        if len(json.encode(given)) > MAX_BYTES:
            raise InputTooLargeError
        name = request.delivery(target.dedupe)
        delivery = None if name is None else incoming.hash_of(name)
        execution_id, step = uuid7(), first_call(target.definition)
        if delivery is not None:
            connection = self._database.of(app_id)
            if not await trigger_store.reserve(connection, app_id, target.workflow_id, delivery, execution_id):
                return "duplicate", await self._repeated(target, delivery)
        trigger = request.record(name)
        try:
            result = None if step is None else await self._first(target, request, step, execution_id, trigger)
            await self._accept(target, request, delivery, execution_id, trigger, given, step, result)
        except BaseException:
            if delivery is not None:
                await trigger_store.free(self._database.of(app_id), app_id, target.workflow_id, delivery, execution_id)
            raise
        self._wake()
        asked = None if result is None else incoming.answer_of(result.value)
        accepted = Triggered(execution_id=execution_id, status="pending")
        return "accepted", asked or Reply(json.encode(accepted), 202)

    async def _repeated(self, target: Target, delivery: bytes) -> Reply:
        """Answer a delivery that was accepted before; raises `DeliveryInProgressError` if it is not yet."""
        app_id = target.app.app_id
        found = await trigger_store.delivery(self._database.of(app_id), app_id, target.workflow_id, delivery)
        if found is None or not found.is_accepted:
            raise DeliveryInProgressError
        told = Triggered(execution_id=found.execution_id, status=found.status or "completed", duplicate=True)
        return Reply(json.encode(told), 200)

    async def _first(
        self, target: Target, request: Incoming, step: Step, execution_id: UUID, trigger: dict[str, Any]
    ) -> CallResult:
        """Run the first function inside the request; raises the error of one that rejects it, or fails."""
        payload, context = request.form()
        try:
            async with asyncio.timeout(_SECONDS), self._places(target.app):
                ended = await self._calls.run_step(
                    target.app,
                    step.function_id or "",
                    payload,
                    execution_id=execution_id,
                    step_id=step.id,
                    attempt=1,
                    depth=0,
                    seconds=min(step.timeout_seconds or _SECONDS, _SECONDS),
                    version=step.function_version,
                    context=context,
                    request_id=request.request_id,
                )
        except TimeoutError:
            raise TriggerTimeoutError from None
        except PilotisError as error:
            if error.status in _UNHANDLED:
                raise
            # The sender can do nothing about it but try again.
            raise TriggerFailedError from error
        if ended.outcome.status == "success" and (rejection := rejection_of(ended.outcome.result)):
            await self._reject(target, request, step, execution_id, trigger, rejection.message)
            raise TriggerRejectedError(rejection.status, rejection.message)
        result = result_of(ended)
        if result.code == "STEP_TIMEOUT":
            raise TriggerTimeoutError
        if result.code is not None:
            raise TriggerFailedError
        return result

    def _places(self, app: AppInfo) -> asyncio.Semaphore:
        """Return the places for first functions of an app: at most half of those for its functions."""
        places = self._running.get(app.app_id)
        if places is None:
            places = self._running[app.app_id] = asyncio.Semaphore(max(1, app.limits.function_at_once // 2))
        return places

    async def _accept(
        self,
        target: Target,
        request: Incoming,
        delivery: bytes | None,
        execution_id: UUID,
        trigger: dict[str, Any],
        given: dict[str, Any],
        step: Step | None,
        result: CallResult | None,
    ) -> None:
        """Store the execution, with its first step completed if it has run, in one transaction."""
        app_id, workflow_id = target.app.app_id, target.workflow_id
        sealed = await self._requests.seal(app_id, execution_id, request) if step is None else None
        async with self._database.transaction(app_id) as connection:
            workflow = await store.current(connection, app_id, workflow_id)
            if workflow is None or not workflow.is_active:
                raise WorkflowTriggerNotFoundError
            if delivery is not None and not await trigger_store.accept(
                connection, app_id, workflow_id, delivery, execution_id
            ):
                raise DeliveryInProgressError
            new = NewExecution(trigger=trigger, given=given, version=target.version, request_id=request.request_id)
            await self._executions.insert(connection, target.app, workflow, execution_id, new)
            if sealed is not None:
                await self._requests.keep(connection, app_id, execution_id, sealed)
            if step is not None and result is not None:
                row = _step_row(step, "completed", given, result.duration)
                row.output = result.value
                row.function_execution_id, row.function_version = result.function_execution_id, result.function_version
                row.queue_ms, row.duration = result.queue_ms, round(result.duration, 3)
                await start_store.insert_step(connection, app_id, execution_id, row)
            await trigger_store.called(connection, app_id, workflow_id)

    async def _reject(
        self,
        target: Target,
        request: Incoming,
        step: Step,
        execution_id: UUID,
        trigger: dict[str, Any],
        message: str,
    ) -> None:
        """Keep a rejected request as a failed execution, at most 60 a minute."""
        app_id, given = target.app.app_id, request.input()
        error = {"code": TriggerRejectedError.code, "message": message, "step_id": step.id}
        rejected = RejectedRow(
            app_id=app_id,
            execution_id=execution_id,
            workflow_id=target.workflow_id,
            version=target.version,
            trigger=trigger,
            input=given,
            error=error,
            timeout_seconds=_SECONDS,
            request_id=request.request_id,
        )
        common = {"attempt": 1, "trigger": "webhook"}
        events = [
            {"type": "execution.created", "data": common | {"status": "pending"}},
            {"type": "execution.failed", "data": common | {"status": "failed", "output": None, "error": error}},
        ]
        told = WorkflowEvent(
            workflow_id=target.workflow_id,
            execution_id=execution_id,
            status="failed",
            trigger="webhook",
            attempt=1,
            error=WorkflowError(error["code"], error["message"], error["step_id"]),
        )
        since = UUID(int=int((time.time() - 60) * 1000) << 80)
        emitted = ENDED["failed"].event(
            told, by_itself(request.request_id), subject=subject(target.workflow_id, execution_id)
        )
        async with self._database.transaction(app_id) as connection:
            kept = await start_store.insert_rejected(connection, rejected, events, since, _KEPT_REJECTIONS, emitted)
            if kept:
                row = _step_row(step, "failed", given)
                row.error = error
                await start_store.insert_step(connection, app_id, execution_id, row)
        self._counts.executions.add("webhook", "failed")
        if kept:
            self._emitted(app_id)

    async def _target(self, token: str) -> Target:
        if len(token) != _TOKEN_CHARACTERS or not token.startswith(TOKEN_PREFIX):
            raise WorkflowTriggerNotFoundError
        row = await trigger_store.by_token(self._database, secret_hash(token))
        if row is None:
            raise WorkflowTriggerNotFoundError
        try:
            app = await self._app_of(row.app_id)
        except NotFoundError:
            raise WorkflowTriggerNotFoundError from None
        definition = decode(row.definition)
        return Target(app, row.workflow_id, row.version, definition, row.methods, _dedupe(row.dedupe))

    async def _token(self, app_id: UUID, workflow_id: UUID) -> tuple[bytes, bytes]:
        """Return a new token's hash, and the token encrypted."""
        token = TOKEN_PREFIX + random_token()
        token_hash = secret_hash(token)
        secrets = await self._secrets.app(app_id)
        return token_hash, secrets.encrypt(Purpose.WORKFLOW_TRIGGER, _place(workflow_id, token_hash), token.encode())

    async def _lock(self, connection: Any, app_id: UUID, workflow_id: UUID) -> None:
        if await store.lock(connection, app_id, workflow_id) is None:
            raise WorkflowNotFoundError


def _place(workflow_id: UUID, token_hash: bytes) -> str:
    return f"{workflow_id}:{token_hash.hex()}"


def _dedupe(text: str | None) -> Dedupe | None:
    return None if text is None else msgspec.json.decode(text, type=Dedupe)


def _changes(settings: WorkflowTriggerSettings) -> dict[str, Any]:
    """Return the columns that settings change; raises a 400 error for a `dedupe` that cannot be used."""
    changes: dict[str, Any] = {}
    if settings.is_active is not msgspec.UNSET:
        changes["is_active"] = settings.is_active
    if settings.methods is not msgspec.UNSET:
        changes["methods"] = list(dict.fromkeys(settings.methods))
    if settings.dedupe is not msgspec.UNSET:
        dedupe = settings.dedupe
        if dedupe is not None and dedupe.header is not None and dedupe.path is not None:
            raise invalid("dedupe", "dedupe: a header or a path, not both.")
        if dedupe is not None and dedupe.path is not None and not incoming.dedupe_path(dedupe.path):
            raise invalid("dedupe.path", "dedupe.path: a path such as $.id or $.data.event_id is expected.")
        changes["dedupe"] = None if dedupe is None else json.encode(dedupe).decode()
    return changes


def _step_row(step: Step, status: str, given: dict[str, Any], duration: float = 0) -> StepRow:
    moment = now()
    return StepRow(
        step_id=step.id,
        attempt=1,
        try_=1,
        parent_id=None,
        status=status,
        input=given,
        function_id=step.function_id,
        function_version=step.function_version,
        started_at=moment - timedelta(milliseconds=duration),
        finished_at=moment,
    )

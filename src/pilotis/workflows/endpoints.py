"""The routes of workflows. Only console users can call them, and functions with the scope to start a workflow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import Access, InvalidPublicKeyError, Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, ItemPage, Paging
from pilotis.http.replies.events import LAST_EVENT_ID, Events, ResumeQuery
from pilotis.http.replies.reply import Reply
from pilotis.http.replies.streams import TooManyStreamsError
from pilotis.kit.errors import MethodNotAllowedError, PayloadTooLargeError, RateLimitedError
from pilotis.workflows.ai_provider import AiProviders
from pilotis.workflows.errors import (
    DeliveryInProgressError,
    ExecutionFinishedError,
    ExecutionNotFinishedError,
    InputTooLargeError,
    TriggerExistsError,
    TriggerFailedError,
    TriggerRejectedError,
    TriggerTimeoutError,
    WorkflowExecutionNotFoundError,
    WorkflowInactiveError,
    WorkflowLimitError,
    WorkflowNameTakenError,
    WorkflowNotFoundError,
    WorkflowQueueFullError,
    WorkflowTriggerNotFoundError,
    WorkflowVersionNotFoundError,
)
from pilotis.workflows.executions import Executions
from pilotis.workflows.incoming import MAX_BODY_BYTES, Incoming
from pilotis.workflows.service import Workflows
from pilotis.workflows.streams import WorkflowStreams
from pilotis.workflows.triggers import Triggers
from pilotis.workflows.types import (
    Accepted,
    AiProvider,
    AiProviderSettings,
    DeletedAiProvider,
    ExecuteRequest,
    ExecutionQuery,
    NewWorkflow,
    Replay,
    Timeline,
    Triggered,
    TriggerRotation,
    Validation,
    Workflow,
    WorkflowChanges,
    WorkflowExecution,
    WorkflowExecutionDetails,
    WorkflowTrigger,
    WorkflowTriggerSettings,
)

_WORKFLOWS = "/v1/apps/:app_id/workflows"
_ONE = f"{_WORKFLOWS}/:workflow_id"
_EXECUTIONS = f"{_ONE}/executions"
_EXECUTION = f"{_EXECUTIONS}/:execution_id"
_PROVIDER = "/v1/apps/:app_id/ai-provider"
_TRIGGER = f"{_ONE}/trigger"
_CALLED = "/v1/triggers/:token"
_EXECUTE = console(Role.EDITOR, scope="workflows:execute")
_STARTS = [WorkflowNotFoundError, WorkflowInactiveError, WorkflowQueueFullError, InputTooLargeError]
_NO_TRIGGER = [WorkflowNotFoundError, WorkflowTriggerNotFoundError]
_NOT_ACCEPTED = [
    WorkflowTriggerNotFoundError,
    InvalidPublicKeyError,
    MethodNotAllowedError,
    DeliveryInProgressError,
    PayloadTooLargeError,
    InputTooLargeError,
    RateLimitedError,
    WorkflowQueueFullError,
    TriggerRejectedError,
    TriggerFailedError,
    TriggerTimeoutError,
]
_INVALID = [InputTooLargeError, WorkflowNameTakenError]


def number_of(text: str) -> int:
    """Return the number of a version; raises `WorkflowVersionNotFoundError` for an invalid one."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise WorkflowVersionNotFoundError
    return int(text)


class WorkflowEndpoints(Endpoints, tag="Workflows"):
    """Workflows: steps that the server runs to completion, on request or on a schedule."""

    def __init__(self, workflows: Workflows, executions: Executions, streams: WorkflowStreams) -> None:
        self._workflows = workflows
        self._executions = executions
        self._streams = streams

    @post(
        _WORKFLOWS,
        access=Access.APP_EDITOR,
        status=201,
        creates="workflow_id",
        again="read",
        body_schema=NewWorkflow,
        errors=[*_INVALID, WorkflowLimitError],
    )
    async def create(self, call: Call, app_id: UUID, body: dict[str, Any]) -> Workflow:
        """Create a workflow. Its schedule is active at once."""
        return await self._workflows.create(call.app, call.actor, UUID(call.new_id()), body)

    @get(_WORKFLOWS, access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[Workflow]:
        """List workflows, newest first."""
        return await self._workflows.page(call.app, query)

    @post(f"{_WORKFLOWS}/validate", access=Access.APP_VIEWER, needs_room=False, body_schema=NewWorkflow)
    async def validate(self, call: Call, app_id: UUID, body: dict[str, Any]) -> Validation:
        """Validate a definition without saving it, and return when its schedule would be due.

        A definition with errors also gets a 200, with `is_valid: false`.
        """
        return await self._workflows.validate(call.app, body)

    @get(_ONE, access=Access.APP_VIEWER, errors=[WorkflowNotFoundError])
    async def read(self, call: Call, app_id: UUID, workflow_id: UUID) -> Workflow:
        """Read a workflow."""
        return await self._workflows.read(call.app, workflow_id)

    @put(_ONE, access=Access.APP_EDITOR, body_schema=NewWorkflow, errors=[WorkflowNotFoundError, *_INVALID])
    async def change(self, call: Call, app_id: UUID, workflow_id: UUID, body: dict[str, Any]) -> Workflow:
        """Replace a workflow's definition by a new version; absent fields return to their defaults.

        `is_active` alone stays as it is. Executions that have started continue with the definition they started with.
        """
        return await self._workflows.change(call.app, call.actor, workflow_id, body)

    @patch(_ONE, access=Access.APP_EDITOR, errors=[WorkflowNotFoundError])
    async def activate(self, call: Call, app_id: UUID, workflow_id: UUID, body: WorkflowChanges) -> Workflow:
        """Activate or deactivate a workflow.

        An inactive workflow is not started: `execute` answers 409, its trigger URL 404, and its schedule pauses. What
        runs continues.
        """
        return await self._workflows.activate(call.app, call.actor, workflow_id, is_active=body.is_active)

    @delete(_ONE, access=Access.APP_EDITOR, errors=[WorkflowNotFoundError])
    async def delete(self, call: Call, app_id: UUID, workflow_id: UUID) -> Deleted:
        """Delete a workflow. Its executions are cancelled."""
        await self._workflows.delete(call.app, call.actor, workflow_id)
        return Deleted("Workflow deleted.", workflow_id)

    @get(
        f"{_ONE}/versions/:version",
        access=Access.APP_VIEWER,
        errors=[WorkflowNotFoundError, WorkflowVersionNotFoundError],
    )
    async def version(self, call: Call, app_id: UUID, workflow_id: UUID, version: str) -> Workflow:
        """Read a workflow as it was in a version."""
        return await self._workflows.version(call.app, workflow_id, number_of(version))

    @post(
        f"{_ONE}/execute",
        access=_EXECUTE,
        status=202,
        creates="execution_id",
        again="accepted",
        rows=True,
        errors=_STARTS,
    )
    async def execute(self, call: Call, app_id: UUID, workflow_id: UUID, body: ExecuteRequest | None) -> Accepted:
        """Start an execution. It is stored before the response, and runs to completion."""
        given = body.input if body is not None else None
        return await self._executions.execute(call.app, call.actor, workflow_id, UUID(call.new_id()), given)

    async def accepted(self, call: Call, workflow_id: UUID, execution_id: UUID) -> Accepted:
        """Return an execution that an earlier, equal request started."""
        return await self._executions.accepted(call.app, workflow_id, execution_id)

    @get(_EXECUTIONS, access=Access.APP_VIEWER, errors=[WorkflowNotFoundError])
    async def executions(
        self, call: Call, app_id: UUID, workflow_id: UUID, query: ExecutionQuery
    ) -> ItemPage[WorkflowExecution]:
        """List executions, newest first."""
        return await self._executions.page(call.app, workflow_id, query, is_hidden=_is_hidden(call))

    @get(
        f"{_EXECUTIONS}/stream",
        access=Access.APP_VIEWER,
        errors=[WorkflowNotFoundError, TooManyStreamsError],
        request_headers=LAST_EVENT_ID,
    )
    async def stream(self, call: Call, app_id: UUID, workflow_id: UUID, query: ResumeQuery) -> Events:
        """Follow all executions of a workflow, as server-sent events.

        The first event is a `snapshot` of the running executions. After a reconnection with `Last-Event-ID` an event
        may arrive twice: drop events whose `execution_id` and `seq` you have seen. Inputs and outputs are left out.
        """
        return Events(await self._streams.of_workflow(call.app, workflow_id, query.last_seen(call)))

    @get(
        f"{_EXECUTION}/stream",
        access=Access.APP_VIEWER,
        errors=[WorkflowNotFoundError, WorkflowExecutionNotFoundError, TooManyStreamsError],
        request_headers=LAST_EVENT_ID,
    )
    async def stream_one(
        self, call: Call, app_id: UUID, workflow_id: UUID, execution_id: UUID, query: ResumeQuery
    ) -> Events:
        """Follow an execution, as server-sent events.

        The first event is a `snapshot` of the execution with its steps, or with `Last-Event-ID` the event after it.
        Ids have no gaps. The stream closes after `end`.
        """
        last = query.last_seen(call)
        return Events(
            await self._streams.of_execution(call.app, workflow_id, execution_id, last, is_hidden=_is_hidden(call))
        )

    @get(_EXECUTION, access=Access.APP_VIEWER, errors=[WorkflowNotFoundError, WorkflowExecutionNotFoundError])
    async def execution(
        self, call: Call, app_id: UUID, workflow_id: UUID, execution_id: UUID
    ) -> WorkflowExecutionDetails:
        """Read an execution with every try of its steps."""
        return await self._executions.read(call.app, workflow_id, execution_id, is_hidden=_is_hidden(call))

    @post(
        f"{_EXECUTION}/cancel",
        access=Access.APP_EDITOR,
        needs_room=False,
        errors=[WorkflowNotFoundError, WorkflowExecutionNotFoundError, ExecutionFinishedError],
    )
    async def cancel(self, call: Call, app_id: UUID, workflow_id: UUID, execution_id: UUID) -> WorkflowExecutionDetails:
        """Cancel an execution. A running function is stopped; its effects stay."""
        return await self._executions.cancel(call.app, call.actor, workflow_id, execution_id)

    @post(
        f"{_EXECUTION}/replay",
        access=Access.APP_EDITOR,
        status=202,
        creates="new_execution_id",
        again="replayed",
        errors=[*_STARTS, WorkflowExecutionNotFoundError, ExecutionNotFinishedError],
    )
    async def replay(
        self, call: Call, app_id: UUID, workflow_id: UUID, execution_id: UUID, body: Replay | None
    ) -> Accepted:
        """Start an execution with the input of one that has ended, from the first or from the failed step."""
        new_id = UUID(call.new_id())
        return await self._executions.replay(call.app, call.actor, workflow_id, execution_id, new_id, body or Replay())

    async def replayed(self, call: Call, workflow_id: UUID, new_execution_id: UUID) -> Accepted:
        """Return an execution that an earlier, equal request started."""
        return await self._executions.accepted(call.app, workflow_id, new_execution_id)

    @get(
        f"{_EXECUTION}/timeline",
        access=Access.APP_VIEWER,
        errors=[WorkflowNotFoundError, WorkflowExecutionNotFoundError],
    )
    async def timeline(self, call: Call, app_id: UUID, workflow_id: UUID, execution_id: UUID) -> Timeline:
        """Read the time line of an execution."""
        return await self._executions.timeline(call.app, workflow_id, execution_id)


class WorkflowTriggerEndpoints(Endpoints, tag="Workflows"):
    """Trigger URLs: other services call them to start a workflow."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers

    @post(
        _TRIGGER,
        access=Access.APP_EDITOR,
        status=201,
        creates="trigger_id",
        again="read",
        errors=[WorkflowNotFoundError, TriggerExistsError],
    )
    async def create(
        self, call: Call, app_id: UUID, workflow_id: UUID, body: WorkflowTriggerSettings | None
    ) -> WorkflowTrigger:
        """Give a workflow a trigger URL. Anyone who knows the URL can start the workflow."""
        return await self._triggers.create(call.app, call.actor, workflow_id, body or WorkflowTriggerSettings())

    @get(_TRIGGER, access=Access.APP_EDITOR, errors=_NO_TRIGGER)
    async def read(self, call: Call, app_id: UUID, workflow_id: UUID) -> WorkflowTrigger:
        """Read a workflow's trigger URL."""
        return await self._triggers.read(call.app, workflow_id)

    @patch(_TRIGGER, access=Access.APP_EDITOR, errors=_NO_TRIGGER)
    async def change(
        self, call: Call, app_id: UUID, workflow_id: UUID, body: WorkflowTriggerSettings
    ) -> WorkflowTrigger:
        """Change a trigger's settings: whether it is active, its methods, and what names a delivery."""
        return await self._triggers.change(call.app, call.actor, workflow_id, body)

    @delete(_TRIGGER, access=Access.APP_EDITOR, errors=_NO_TRIGGER)
    async def delete(self, call: Call, app_id: UUID, workflow_id: UUID) -> Deleted:
        """Delete a trigger URL, which ends at once."""
        await self._triggers.delete(call.app, call.actor, workflow_id)
        return Deleted("Trigger deleted.", workflow_id)

    @post(f"{_TRIGGER}/rotate", access=Access.APP_EDITOR, errors=_NO_TRIGGER)
    async def rotate(
        self, call: Call, app_id: UUID, workflow_id: UUID, body: TriggerRotation | None
    ) -> WorkflowTrigger:
        """Replace a trigger URL. The one before works for a day, or for `grace_seconds`."""
        return await self._triggers.rotate(call.app, call.actor, workflow_id, body or TriggerRotation())

    @post(_CALLED, access=Access.OPEN, status=202, body_schema=Any, returns=Triggered, errors=_NOT_ACCEPTED)
    async def call_post(self, call: Call, token: str, body: AsyncIterator[bytes]) -> Reply:
        """Start a workflow by its trigger URL; for other services, with any body of at most 1 MiB.

        If the workflow begins with a function, the function gets the body as a text and the request as its context,
        before the answer: it can reject the request, such as for a wrong signature, or set the answer. A delivery that
        was accepted in the last 72 hours is answered 200 with `duplicate`, and starts nothing.
        """
        return await self._called(call, token)

    @put(_CALLED, access=Access.OPEN, status=202, body_schema=Any, returns=Triggered, errors=_NOT_ACCEPTED)
    async def call_put(self, call: Call, token: str, body: AsyncIterator[bytes]) -> Reply:
        """Start a workflow by its trigger URL, if the trigger allows this method."""
        return await self._called(call, token)

    @get(_CALLED, access=Access.OPEN, status=202, needs_room=True, returns=Triggered, errors=_NOT_ACCEPTED)
    async def call_get(self, call: Call, token: str) -> Reply:
        """Start a workflow by its trigger URL, if the trigger allows this method."""
        return await self._called(call, token)

    async def _called(self, call: Call, token: str) -> Reply:
        method = call.scope["method"]
        key, origin = call.header(b"x-public-key"), call.header(b"origin")
        target = await self._triggers.admit(token, call.client, method, key, origin)
        body = b"" if method == "GET" else await call.body(MAX_BODY_BYTES)
        headers: dict[str, str] = {}
        for name, value in call.scope["headers"]:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        query = call.scope["query_string"].decode("latin-1")
        request = Incoming(method=method, headers=headers, query=query, body=body, request_id=call.request_id)
        return await self._triggers.receive(target, request)


class AiProviderEndpoints(Endpoints, tag="Workflows"):
    """The provider of the models that agent steps ask."""

    def __init__(self, providers: AiProviders) -> None:
        self._providers = providers

    @get(_PROVIDER, access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID) -> AiProvider:
        """Read an app's AI provider, without its key."""
        return await self._providers.read(call.app)

    @put(_PROVIDER, access=Access.APP_EDITOR)
    async def replace(self, call: Call, app_id: UUID, body: AiProviderSettings) -> AiProvider:
        """Set an app's AI provider: an API that speaks OpenAI's chat completions.

        The key is stored encrypted, and never shown. If it is absent, the one before stays, unless `base_url` changes.
        """
        return await self._providers.put(call.app, call.actor, body)

    @delete(_PROVIDER, access=Access.APP_EDITOR)
    async def delete(self, call: Call, app_id: UUID) -> DeletedAiProvider:
        """Delete an app's AI provider with its key."""
        await self._providers.delete(call.app, call.actor)
        return DeletedAiProvider("AI provider deleted.", app_id)


def _is_hidden(call: Call) -> bool:
    """Viewers do not see inputs and outputs, which contain users' data."""
    return not call.principal.may(Role.EDITOR)

"""The routes of functions: the public one that calls them, and those of the console."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from pilotis.data.tables.service import TableNotFoundError
from pilotis.dead_jobs.service import JobNotFoundError
from pilotis.dead_jobs.types import DeadJob, DeadJobResult
from pilotis.functions import store
from pilotis.functions.calls import (
    CallOrigin,
    Calls,
    Ended,
    as_caller,
    require_invoke_access,
    shown_headers,
)
from pilotis.functions.errors import (
    EntrypointNotFoundError,
    EventLoopError,
    ExecutionNotFoundError,
    FunctionInactiveError,
    FunctionInUseError,
    FunctionLimitError,
    FunctionMemberRequiredError,
    FunctionNameTakenError,
    FunctionNotDeployedError,
    FunctionNotFoundError,
    InvalidArchiveError,
    InvalidCronError,
    InvalidVariableNameError,
    SourceInvalidError,
    SourceTooLargeError,
    TriggerNotFoundError,
    TriggerStorageNotFoundError,
    UsedAsHookError,
    VariableNotFoundError,
    VersionNotFoundError,
    VersionNotReadyError,
)
from pilotis.functions.executions import Executions, log_lines
from pilotis.functions.runtime.types import FunctionBusyError, FunctionsOverloadedError, RuntimeUnavailableError
from pilotis.functions.service import Functions
from pilotis.functions.streams import FunctionStreams
from pilotis.functions.triggers import Triggers
from pilotis.functions.types import (
    ConsoleInvocationResult,
    ConsoleInvokeRequest,
    DeletedVariable,
    Execution,
    ExecutionDetails,
    ExecutionQuery,
    Function,
    FunctionChange,
    FunctionDeletion,
    FunctionDraft,
    FunctionQuery,
    FunctionSource,
    FunctionStats,
    FunctionStatsQuery,
    FunctionVersion,
    FunctionVersionDetails,
    InvocationResult,
    InvokeRequest,
    LogPage,
    LogQuery,
    NewDraft,
    NewFunction,
    NewTrigger,
    NewValue,
    NewVersion,
    RuntimeStates,
    Trigger,
    TriggerChange,
    Variable,
    VariableChanges,
    VariableList,
)
from pilotis.functions.variables import Variables
from pilotis.functions.webhook_form import rejection_of, webhook_context
from pilotis.http.api.bodies import ParsedBody
from pilotis.http.api.challenges import resource_challenge
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.incoming import Incoming
from pilotis.http.api.multipart import MalformedMultipartError, Multipart
from pilotis.http.api.principals import (
    InsufficientScopeError,
    OAuthClient,
    Role,
    SecretKeyRequiredError,
    console,
    public,
)
from pilotis.http.api.request import Call, ClientDisconnectedError
from pilotis.http.api.schemas import Deleted, ItemPage, Paging, Whole
from pilotis.http.api.stream_body import Body
from pilotis.http.replies.events import LAST_EVENT_ID, Events, ResumeQuery
from pilotis.http.replies.reply import Reply
from pilotis.http.replies.streams import TooManyStreamsError
from pilotis.kit import json
from pilotis.kit.errors import (
    MalformedJsonError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
    invalid,
)
from pilotis.webhooks.errors import UnknownEventTypeError

INVOKE = public(scope="functions:invoke", oauth=True)
VIEWER = console(Role.VIEWER, secret_key=True)
EDITOR = console(Role.EDITOR, secret_key=True)

_FUNCTIONS = "/v1/apps/:app_id/functions"
_ONE = f"{_FUNCTIONS}/:function_id"
_ENV = "/v1/apps/:app_id/env"
_WATCH_SECONDS = 0.1
_EMPTY = b"{}"
_NOT_RUN = [
    FunctionNotFoundError,
    FunctionNotDeployedError,
    FunctionBusyError,
    FunctionsOverloadedError,
    RuntimeUnavailableError,
    EventLoopError,
    PayloadTooLargeError,
]
_SOURCE = [
    FunctionNotFoundError,
    InvalidArchiveError,
    EntrypointNotFoundError,
    SourceTooLargeError,
    SourceInvalidError,
    MalformedMultipartError,
    MalformedJsonError,
    UnsupportedMediaTypeError,
    ValidationError,
]
_SOURCE_TYPES = "application/json, multipart/form-data"

T = TypeVar("T")


class DraftForm(msgspec.Struct):
    """A draft as a form: a zip archive, and the fields of the JSON form."""

    file: bytes
    entrypoint: str = ""


class VersionForm(DraftForm):
    """A version as a form: a zip archive, and what JSON would say of it."""

    message: str = ""
    activate: bool = True


class SentVersion(ParsedBody, kw_only=True):
    """A version as sent: its fields and, if it is a form, the archive with the name of its entry file."""

    fields: NewVersion
    archive: tuple[bytes, str | None] | None

    @classmethod
    async def read(cls, request: Incoming) -> SentVersion:
        """Return the version in a request."""
        fields, archive = await _sent(request, NewVersion)
        return cls(fields=fields, archive=archive)


class SentDraft(ParsedBody, kw_only=True):
    """A draft as sent: see `SentVersion`."""

    fields: NewDraft
    archive: tuple[bytes, str | None] | None

    @classmethod
    async def read(cls, request: Incoming) -> SentDraft:
        """Return the draft in a request."""
        fields, archive = await _sent(request, NewDraft)
        return cls(fields=fields, archive=archive)


_NO_SUBJECT = [TableNotFoundError, TriggerStorageNotFoundError]


class InvokeEndpoints(Endpoints, tag="Functions"):
    """Calling functions."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @post(
        "/v1/public/functions/:function_id/invoke",
        access=INVOKE,
        rate="invoke",
        rows=True,
        needs_room=False,
        returns=InvocationResult,
        errors=[
            *_NOT_RUN,
            FunctionInactiveError,
            FunctionMemberRequiredError,
            SecretKeyRequiredError,
            InsufficientScopeError,
        ],
    )
    async def invoke(self, call: Call, function_id: str, body: InvokeRequest | None) -> Reply:
        """Call a function by its id or its name, and wait for its result.

        The status is 200 even if the function throws, exits or exceeds its time limit; then `success` is false, and
        `error` and `error_code` say why. An OAuth access token needs the function's `oauth_scope`, and is sent without
        the public key.
        """
        row = await self._calls.find(call.app.app_id, function_id)
        call.function_id = row.function_id
        principal = call.principal
        try:
            require_invoke_access(row, principal)  # type: ignore[arg-type]
        except (FunctionMemberRequiredError, InsufficientScopeError) as error:
            if (scope := row.oauth_scope) is not None:
                code = getattr(error, "oauth_code", None)
                error.headers |= resource_challenge(call.server.base_url, call.app.app_id, scope=scope, error=code)
            raise
        is_function = principal.kind == "function"
        origin = CallOrigin(
            type=principal.kind,
            id=principal.actor_id,
            principal=as_caller(principal),  # type: ignore[arg-type]
            depth=principal.depth,
            request_id=call.request_id,
            idempotency_key=call.header(b"idempotency-key"),
            may_wait=not is_function,
            context={
                "headers": shown_headers(call.scope["headers"]),
                "method": call.scope["method"],
                "claims": principal.claims if isinstance(principal, OAuthClient) else None,
            },
        )
        payload, seconds = _of(body)
        work = self._calls.invoke(call.app, row, payload, origin, seconds=seconds)
        return Reply(json.encode(_result(await _unless_gone(call, work))))


class FunctionEndpoints(Endpoints, tag="Functions"):
    """Functions: an app's own code, run on the server."""

    def __init__(
        self,
        functions: Functions,
        calls: Calls,
        variables: Variables,
        executions: Executions,
        streams: FunctionStreams,
    ) -> None:
        self._functions = functions
        self._calls = calls
        self._variables = variables
        self._executions = executions
        self._streams = streams

    @post(
        _FUNCTIONS,
        access=EDITOR,
        status=201,
        creates="function_id",
        again="read",
        errors=[FunctionNameTakenError, FunctionLimitError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewFunction) -> Function:
        """Create a function. It can be called after a version has been deployed."""
        return await self._functions.create(call.app, call.actor, UUID(call.new_id()), body)

    @get(_FUNCTIONS, access=VIEWER)
    async def page(self, call: Call, app_id: UUID, query: FunctionQuery) -> ItemPage[Function]:
        """List functions by name."""
        return await self._functions.page(call.app, query)

    @get(_ONE, access=VIEWER, errors=[FunctionNotFoundError])
    async def read(self, call: Call, app_id: UUID, function_id: UUID) -> Function:
        """Read a function."""
        return await self._functions.read(call.app, function_id)

    @patch(_ONE, access=EDITOR, errors=[FunctionNotFoundError, FunctionNameTakenError])
    async def change(self, call: Call, app_id: UUID, function_id: UUID, body: FunctionChange) -> Function:
        """Change a function; absent fields keep their values. `is_active: false` disables it."""
        return await self._functions.change(call.app, call.actor, function_id, body)

    @delete(_ONE, access=EDITOR, errors=[FunctionNotFoundError, FunctionInUseError, UsedAsHookError])
    async def remove(self, call: Call, app_id: UUID, function_id: UUID, query: FunctionDeletion) -> Deleted:
        """Delete a function with its versions, variables, triggers and records.

        One that a workflow calls is deleted only with `force=true`; the steps that call it then fail.
        """
        await self._functions.delete(call.app, call.actor, function_id, force=query.force)
        return Deleted("Function deleted.", function_id)

    @post(
        f"{_ONE}/versions",
        access=EDITOR,
        status=201,
        creates="version_id",
        again="deployed",
        other_statuses=(202,),
        body_media_type=_SOURCE_TYPES,
        body_schema=NewVersion | VersionForm,
        returns=FunctionVersion,
        errors=_SOURCE,
    )
    async def deploy_version(self, call: Call, app_id: UUID, function_id: UUID, body: SentVersion) -> Reply:
        """Deploy a version: files by path as JSON, or a zip archive in the part `file` of a form.

        The version is first loaded in a sandbox, and rejected with `SOURCE_INVALID` if that fails. It then becomes the
        active version, unless `activate` is false. If its packages have not been built yet, the answer is 202 and the
        version is `queued`: a background job builds, loads and activates it, and it becomes `ready` or `failed`.
        """
        new = body.fields
        source = await self._functions.source_of(call.app, function_id, body.archive or new)
        version = await self._functions.deploy(
            call.app, call.actor, function_id, UUID(call.new_id()), source, new.message, activate=new.activate
        )
        return _deployed(version)

    async def deployed(self, call: Call, function_id: UUID, version_id: UUID) -> Reply:
        """Return a version that an earlier, equal request deployed."""
        return _deployed(await self._functions.version_by_id(call.app, function_id, version_id))

    @get(f"{_ONE}/versions", access=VIEWER, errors=[FunctionNotFoundError])
    async def versions(self, call: Call, app_id: UUID, function_id: UUID, query: Paging) -> ItemPage[FunctionVersion]:
        """List versions, newest first."""
        return await self._functions.versions(call.app, function_id, query)

    @get(f"{_ONE}/versions/:version", access=VIEWER, errors=[FunctionNotFoundError, VersionNotFoundError])
    async def version(self, call: Call, app_id: UUID, function_id: UUID, version: str) -> FunctionVersionDetails:
        """Read a version with its build log."""
        return await self._functions.version(call.app, function_id, _number(version))

    @get(
        f"{_ONE}/versions/:version/source",
        access=EDITOR,
        errors=[FunctionNotFoundError, VersionNotFoundError],
        returns=FunctionSource,
    )
    async def source(self, call: Call, app_id: UUID, function_id: UUID, version: str) -> Reply:
        """Read the files of a version, as JSON or, with `Accept: application/zip`, as an archive."""
        if "application/zip" in (call.header(b"accept") or ""):
            packed = await self._functions.source(call.app, function_id, _number(version))
            return Reply(packed, content_type=b"application/zip")
        return Reply(json.encode(await self._functions.source_files(call.app, function_id, _number(version))))

    @post(
        f"{_ONE}/versions/:version/activate",
        access=EDITOR,
        errors=[FunctionNotFoundError, VersionNotFoundError, VersionNotReadyError],
    )
    async def activate(self, call: Call, app_id: UUID, function_id: UUID, version: str) -> Function:
        """Activate a version. Activate an earlier one to roll back."""
        return await self._functions.activate(call.app, call.actor, function_id, _number(version))

    @put(
        f"{_ONE}/draft",
        access=EDITOR,
        body_media_type=_SOURCE_TYPES,
        body_schema=NewDraft | DraftForm,
        returns=FunctionVersion,
        errors=_SOURCE,
    )
    async def put_draft(self, call: Call, app_id: UUID, function_id: UUID, body: SentDraft) -> Reply:
        """Store your draft, which only you can call; it replaces an earlier one, and is deleted after a day."""
        source = await self._functions.source_of(call.app, function_id, body.archive or body.fields)
        return Reply(json.encode(await self._functions.put_draft(call.app, call.actor, function_id, source)))

    @get(f"{_ONE}/draft", access=EDITOR, errors=[FunctionNotFoundError])
    async def draft(self, call: Call, app_id: UUID, function_id: UUID) -> FunctionDraft:
        """Read your draft, to continue it; nobody else can read it."""
        return await self._functions.draft(call.app, call.actor, function_id)

    @post(
        f"{_ONE}/invoke",
        access=EDITOR,
        rows=True,
        needs_room=False,
        returns=ConsoleInvocationResult,
        errors=[*_NOT_RUN, VersionNotFoundError],
    )
    async def invoke(self, call: Call, app_id: UUID, function_id: UUID, body: ConsoleInvokeRequest | None) -> Reply:
        """Call a function from the console: the active version, another version, or your draft. It need not be active.

        With `as_webhook`, the function is called like the first step of a triggered workflow; `rejected` is the
        response with which it would have rejected the request.
        """
        body = body or ConsoleInvokeRequest()
        row = await self._calls.find(call.app.app_id, str(function_id))
        payload, seconds = _of(body)
        context: dict[str, Any] = {"headers": shown_headers(call.scope["headers"]), "method": "POST"}
        if body.as_webhook is not None:
            payload, context = webhook_context(body.as_webhook)
        origin = CallOrigin(
            type=call.principal.kind,
            id=call.principal.actor_id,
            trigger="webhook" if body.as_webhook else "console",
            request_id=call.request_id,
            context=context,
        )
        is_draft = body.version == "draft"
        work = self._calls.invoke(
            call.app,
            row,
            payload,
            origin,
            seconds=seconds,
            version=None if isinstance(body.version, str) else body.version,
            draft_of=(call.principal.actor_id or "") if is_draft else None,
        )
        ended = await _unless_gone(call, work)
        # Who tries a function looks at its calls next.
        await self._calls.recorded()
        answer = ConsoleInvocationResult(
            **msgspec.structs.asdict(_result(ended)),
            logs=log_lines(ended.execution_id, ended.outcome.logs),
            start=ended.ran.start,
        )
        if body.as_webhook is not None and ended.outcome.status == "success":
            answer.rejected = rejection_of(ended.outcome.result) or UNSET
        return Reply(json.encode(answer))

    @get(f"{_ONE}/env", access=VIEWER, errors=[FunctionNotFoundError])
    async def variables(self, call: Call, app_id: UUID, function_id: UUID, query: Whole) -> VariableList:
        """List a function's variables, without their values."""
        return await self._variables.list(call.app, function_id)

    @put(
        f"{_ONE}/env/:variable",
        access=EDITOR,
        errors=[FunctionNotFoundError, InvalidVariableNameError, FunctionLimitError],
    )
    async def set_variable(
        self, call: Call, app_id: UUID, function_id: UUID, variable: str, body: NewValue
    ) -> Variable:
        """Set a variable of a function. No response contains its value."""
        return await self._variables.put(call.app, call.actor, function_id, variable, body.value)

    @patch(
        f"{_ONE}/env",
        access=EDITOR,
        errors=[FunctionNotFoundError, InvalidVariableNameError, VariableNotFoundError, FunctionLimitError],
    )
    async def set_variables(self, call: Call, app_id: UUID, function_id: UUID, body: VariableChanges) -> VariableList:
        """Set and delete several variables of a function atomically."""
        await self._variables.change(call.app, call.actor, function_id, body.set, body.delete)
        return await self._variables.list(call.app, function_id)

    @delete(f"{_ONE}/env/:variable", access=EDITOR, errors=[FunctionNotFoundError, VariableNotFoundError])
    async def delete_variable(self, call: Call, app_id: UUID, function_id: UUID, variable: str) -> DeletedVariable:
        """Delete a variable of a function."""
        return await self._variables.delete(call.app, call.actor, function_id, variable)

    @get(_ENV, access=VIEWER)
    async def app_variables(self, call: Call, app_id: UUID, query: Whole) -> VariableList:
        """List the variables that all functions of the app share, without their values."""
        return await self._variables.list(call.app, store.APP)

    @put(f"{_ENV}/:variable", access=EDITOR, errors=[InvalidVariableNameError, FunctionLimitError])
    async def set_app_variable(self, call: Call, app_id: UUID, variable: str, body: NewValue) -> Variable:
        """Set a variable of all functions of the app; a function's own variable of the same name takes precedence."""
        return await self._variables.put(call.app, call.actor, store.APP, variable, body.value)

    @delete(f"{_ENV}/:variable", access=EDITOR, errors=[VariableNotFoundError])
    async def delete_app_variable(self, call: Call, app_id: UUID, variable: str) -> DeletedVariable:
        """Delete a variable of all functions of the app."""
        return await self._variables.delete(call.app, call.actor, store.APP, variable)

    @get(f"{_ONE}/executions", access=VIEWER, errors=[FunctionNotFoundError])
    async def executions(
        self, call: Call, app_id: UUID, function_id: UUID, query: ExecutionQuery
    ) -> ItemPage[Execution]:
        """List recorded calls, newest first.

        All errors and all calls by the console, events and schedules are recorded, and a sample of the others.
        """
        return await self._executions.page(call.app, function_id, query, shows_errors=_is_editor(call))

    @get(f"{_ONE}/executions/:execution_id", access=VIEWER, errors=[FunctionNotFoundError, ExecutionNotFoundError])
    async def execution(self, call: Call, app_id: UUID, function_id: UUID, execution_id: UUID) -> ExecutionDetails:
        """Read the record of a call with its log; viewers cannot see logs and error messages."""
        return await self._executions.read(call.app, function_id, execution_id, shows_errors=_is_editor(call))

    @get(f"{_ONE}/logs", access=EDITOR, errors=[FunctionNotFoundError])
    async def logs(self, call: Call, app_id: UUID, function_id: UUID, query: LogQuery) -> LogPage:
        """Read log lines of recorded calls, newest first."""
        return await self._executions.logs(call.app, function_id, query)

    @get(
        f"{_ONE}/logs/stream",
        access=EDITOR,
        errors=[FunctionNotFoundError, TooManyStreamsError],
        request_headers=LAST_EVENT_ID,
    )
    async def log_stream(self, call: Call, app_id: UUID, function_id: UUID, query: ResumeQuery) -> Events:
        """Follow the calls of a function, as server-sent events.

        When the record of a call is written, there is a `log` event for each line of its log, and then an `execution`
        event. After a reconnection with `Last-Event-ID` events of the last seconds may come twice: drop those with an
        `execution_id` and an `index` that you have seen. `reset` says that too many events were missed to be sent.
        """
        return Events(await self._streams.follow(call.app, function_id, query.last_seen(call)))

    @get(f"{_ONE}/stats", access=VIEWER, errors=[FunctionNotFoundError])
    async def stats(self, call: Call, app_id: UUID, function_id: UUID, query: FunctionStatsQuery) -> FunctionStats:
        """Count calls over time by outcome; steps without calls are omitted."""
        return await self._executions.stats(call.app, function_id, query)

    @get("/v1/apps/:app_id/runtime", access=VIEWER)
    async def runtime(self, call: Call, app_id: UUID) -> RuntimeStates:
        """Read which runtimes this server has, and how it isolates them."""
        return await self._calls.runtimes()


class TriggerEndpoints(Endpoints, tag="Functions"):
    """What calls a function automatically."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers

    @post(
        f"{_ONE}/triggers",
        access=EDITOR,
        status=201,
        creates="trigger_id",
        again="made",
        errors=[FunctionNotFoundError, FunctionLimitError, UnknownEventTypeError, InvalidCronError, *_NO_SUBJECT],
    )
    async def create(self, call: Call, app_id: UUID, function_id: UUID, body: NewTrigger) -> Trigger:
        """Create a schedule or an event subscription that calls a function.

        A failed call is retried five times within about an hour; then it becomes a dead job of the app. Events are
        delivered at least once, in no particular order; `idempotencyKey` is the event's id.
        """
        return await self._triggers.create(call.app, call.actor, function_id, UUID(call.new_id()), body)

    async def made(self, call: Call, function_id: UUID, trigger_id: UUID) -> Trigger:
        """Return a trigger that was created."""
        return await self._triggers.read(call.app, function_id, trigger_id)

    @get(f"{_ONE}/triggers", access=VIEWER, errors=[FunctionNotFoundError])
    async def page(self, call: Call, app_id: UUID, function_id: UUID, query: Paging) -> ItemPage[Trigger]:
        """List triggers, oldest first."""
        return await self._triggers.page(call.app, function_id, query)

    @patch(
        f"{_ONE}/triggers/:trigger_id",
        access=EDITOR,
        errors=[FunctionNotFoundError, TriggerNotFoundError, UnknownEventTypeError, InvalidCronError, *_NO_SUBJECT],
    )
    async def change(
        self, call: Call, app_id: UUID, function_id: UUID, trigger_id: UUID, body: TriggerChange
    ) -> Trigger:
        """Change a trigger; absent fields keep their values."""
        return await self._triggers.change(call.app, call.actor, function_id, trigger_id, body)

    @delete(f"{_ONE}/triggers/:trigger_id", access=EDITOR, errors=[FunctionNotFoundError, TriggerNotFoundError])
    async def remove(self, call: Call, app_id: UUID, function_id: UUID, trigger_id: UUID) -> Deleted:
        """Delete a trigger."""
        await self._triggers.delete(call.app, call.actor, function_id, trigger_id)
        return Deleted("Trigger deleted.", trigger_id)

    @get(f"{_ONE}/triggers/:trigger_id/failures", access=VIEWER, errors=[FunctionNotFoundError, TriggerNotFoundError])
    async def failures(
        self, call: Call, app_id: UUID, function_id: UUID, trigger_id: UUID, query: Paging
    ) -> ItemPage[DeadJob]:
        """List the trigger's calls that failed permanently, newest first. They are kept for two weeks."""
        return await self._triggers.failures(call.app, function_id, trigger_id, query)

    @post(
        f"{_ONE}/triggers/:trigger_id/failures/:job_id/retry",
        access=EDITOR,
        errors=[FunctionNotFoundError, TriggerNotFoundError, JobNotFoundError],
    )
    async def retry(self, call: Call, app_id: UUID, function_id: UUID, trigger_id: UUID, job_id: UUID) -> DeadJobResult:
        """Retry a call that failed permanently, with all its attempts."""
        await self._triggers.retry(call.app, call.actor, function_id, trigger_id, job_id)
        return DeadJobResult("The call is due again.", job_id)


async def _unless_gone(call: Call, work: Awaitable[T]) -> T:
    """Return the result of `work`, which is cancelled if the client disconnects."""
    task = asyncio.current_task()
    assert task
    is_gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal is_gone
        await call.disconnected()
        is_gone = True
        task.cancel()

    def begin() -> None:
        nonlocal watching
        watching = asyncio.ensure_future(watch())

    # Most calls end before it pays to watch the client.
    timer = asyncio.get_running_loop().call_later(_WATCH_SECONDS, begin)
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and not task.uncancel():
            raise ClientDisconnectedError from None
        raise
    finally:
        timer.cancel()
        if watching:
            watching.cancel()


async def _sent(request: Incoming, kind: type[T]) -> tuple[T, tuple[bytes, str | None] | None]:
    """Return the version or draft in a request and, if it is a form, its archive and entry file."""
    content_type = request.headers.get(b"content-type", b"application/json")
    essence = content_type.partition(b";")[0].strip().lower()
    if essence == b"application/json":
        return json.decode(await request.body(request.limits.body_bytes), json.decoder(kind)), None
    if essence != b"multipart/form-data":
        raise UnsupportedMediaTypeError("Send JSON, or multipart/form-data with a zip archive as the part file.")
    archive, fields = None, dict[str, str]()
    async for part in Multipart(Body(request), content_type):
        if part.name == "file":
            archive = await part.read(request.limits.function_source_bytes)
        else:
            fields[part.name] = (await part.read(4096)).decode("utf-8", "replace")
    if archive is None:
        raise invalid("file", "file: must be a part with a zip archive.", "REQUIRED")
    entrypoint = fields.pop("entrypoint", None)
    try:
        return msgspec.convert({"files": {}, **fields}, kind, strict=False), (archive, entrypoint)
    except msgspec.ValidationError as error:
        raise json.field_error(error, kind) from None


def _deployed(version: FunctionVersion) -> Reply:
    return Reply(json.encode(version), 201 if version.status == "ready" else 202)


def _of(body: InvokeRequest | ConsoleInvokeRequest | None) -> tuple[bytes, float | None]:
    """Return the payload and the time limit of a call."""
    if body is None:
        return _EMPTY, None
    payload = _EMPTY if body.payload is UNSET else bytes(body.payload)
    if not payload.lstrip().startswith(b"{"):
        raise invalid("payload", "payload: must be an object.")
    return payload, None if body.timeout is UNSET else body.timeout


def _result(ended: Ended) -> InvocationResult:
    outcome = ended.outcome
    result = InvocationResult(
        success=outcome.status == "success",
        execution_id=ended.execution_id,
        result=msgspec.Raw(outcome.result),
        duration=round(outcome.duration, 3),
        status=outcome.status,
    )
    if outcome.status != "success":
        result.error, result.error_code = outcome.error or "", outcome.error_code or "FUNCTION_ERROR"
    return result


def _number(version: str) -> int:
    if not version.isdecimal() or len(version) > 9:
        raise VersionNotFoundError
    return int(version)


def _is_editor(call: Call) -> bool:
    return call.principal.may(Role.EDITOR)

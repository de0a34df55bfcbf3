"""Calls of functions: authorization, context, choice of sandbox, and records."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

import msgspec

from pilotis.data.tables.service import TableNotFoundError
from pilotis.db.pool import Database
from pilotis.functions import sources, store
from pilotis.functions.builds import Builds
from pilotis.functions.errors import (
    EgressRequiredError,
    EventLoopError,
    FunctionInactiveError,
    FunctionMemberRequiredError,
    FunctionNotDeployedError,
    FunctionNotFoundError,
    VersionNotFoundError,
)
from pilotis.functions.records import Record, Records
from pilotis.functions.runtime.call import Invocation, Outcome, Program
from pilotis.functions.runtime.egress import EgressPolicy
from pilotis.functions.runtime.frames import Frame
from pilotis.functions.runtime.isolation import Found
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.functions.runtime.pool import Pool
from pilotis.functions.runtime.types import Key, QueueTimeoutError, Ran, RuntimeUnavailableError, Wanted
from pilotis.functions.sources import Source
from pilotis.functions.store import FunctionRecord
from pilotis.functions.types import RuntimeState, RuntimeStates
from pilotis.functions.variables import Variables
from pilotis.http.api.inside import MAX_ANSWER
from pilotis.http.api.principals import (
    AppInfo,
    AppMember,
    AppPrincipal,
    FunctionCaller,
    InsufficientScopeError,
    MemberInfo,
    OAuthClient,
    PublicClient,
    ScopeRequiredError,
    SecretKeyRequiredError,
)
from pilotis.http.outgoing_allowance import parse_host
from pilotis.http.replies.reply import Reply
from pilotis.kit import json, spans
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import BadRequestError, NotFoundError, PayloadTooLargeError, invalid
from pilotis.kit.ids import is_uuid, uuid7
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.security.function_tokens.service import FunctionTokens

MAX_DEPTH = 5
MAX_PAYLOAD = 6 * 1024 * 1024
FRESH_SECONDS = 1.0
SANDBOXES_PER_VERSION = 8
_MAX_CACHED = 5_000
_HIDDEN = {b"authorization", b"cookie", b"proxy-authorization", b"x-public-key"}
# Routes that a call in the name of the function's caller may not use: functions could call each other endlessly.
ACT = "members:act"
"""The scope with which a function acts as a member."""
_NOT_AS_CALLER = frozenset({"functions:invoke", "workflows:execute"})


class CallInside(Protocol):
    """Serves a call of the app's API; see `Application.call_inside`."""

    async def __call__(
        self,
        principal: Any,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        deadline: float,
        scopes: frozenset[str] | None = None,
        request_id: str | None = None,
    ) -> Reply:
        """Return the response."""


class CallOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Who or what calls. `principal` is the caller over HTTP, for `ctx.asCaller`; `depth` is that of this call.

    `context` is merged into the function's context, `request_id` is that of the request that led to the call.
    """

    type: str
    id: str | None = None
    trigger: str = "invoke"
    principal: AppPrincipal | None = None
    depth: int = 0
    request_id: str | None = None
    idempotency_key: str | None = None
    attempt: int = 1
    may_wait: bool = True
    context: dict[str, Any] = {}
    workflow_execution_id: UUID | None = None
    step_id: str | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A finished call: its id, its outcome, the version that ran, and the time limit in seconds that it had."""

    execution_id: UUID
    version: int | None
    ran: Ran
    seconds: float

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        return self.ran.outcome


class _Cached(msgspec.Struct):
    row: FunctionRecord
    read_at: float


class Calls:
    """Runs calls of functions. `table_id` finds a table's id by its title, `member` the facts of a member by its id."""

    def __init__(
        self,
        database: Database,
        pool: Pool,
        records: Records,
        variables: Variables,
        builds: Builds,
        tokens: FunctionTokens,
        table_id: Callable[[AppInfo, str], Awaitable[UUID | None]],
        member: Callable[[UUID, str], Awaitable[MemberInfo | None]],
    ) -> None:
        self._database = database
        self.pool = pool
        self._records = records
        self._variables = variables
        self._builds = builds
        self._tokens = tokens
        self._table_id = table_id
        self._member = member
        self._cache: OrderedDict[tuple[UUID, str], _Cached] = OrderedDict()
        self._inside: CallInside | None = None

    def attach(self, call_inside: CallInside) -> None:
        """Set what serves calls of the app's API."""
        self._inside = call_inside

    def forget(self, app_id: str) -> None:
        """Clear the cached functions of an app."""
        for key in [key for key in self._cache if str(key[0]) == app_id]:
            del self._cache[key]

    def forget_all(self) -> None:
        """Clear all cached functions."""
        self._cache.clear()

    async def runtime_version(self, runtime: Runtime) -> str:
        """Return the version of a runtime on this server, or an empty text if it is not available."""
        found = await self.pool.found(runtime)
        return found.version or ""

    def isolation(self) -> str:
        """Return the weakest isolation found so far, `none` if a runtime has none, `unknown` if none was needed yet."""
        found = [one for one in map(self.pool.known, Runtime) if one is not None]
        if not found:
            return "unknown"
        levels = [one.isolation for one in found if one.isolation]
        return "none" if len(levels) < len(found) else max(levels, key=list(Isolation).index).value

    async def runtimes(self) -> RuntimeStates:
        """Return the state of this server's runtimes."""
        found = [await self.pool.found(runtime) for runtime in Runtime]
        levels = [one.isolation.value for one in found if one.isolation]
        return RuntimeStates(levels[0] if levels else None, [_state(one) for one in found])

    async def find(self, app_id: UUID, reference: str) -> FunctionRecord:
        """Return a function by its id or name, at most one second old; raises `FunctionNotFoundError`."""
        key = (app_id, reference)
        cached, moment = self._cache.get(key), time.monotonic()
        if cached is not None and moment - cached.read_at < FRESH_SECONDS:
            return cached.row
        function_id = UUID(reference) if is_uuid(reference) else None
        row = await store.for_calls(self._database.of(app_id), app_id, function_id, reference)
        if row is None:
            self._cache.pop(key, None)
            raise FunctionNotFoundError
        before = cached.row if cached else None
        if before is None or (before.active_version, before.revision) != (row.active_version, row.revision):
            self.pool.outdate(row.function_id, str(row.active_version), row.revision)
        self._cache[key] = _Cached(row, moment)
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return row

    async def invoke(
        self,
        app: AppInfo,
        row: FunctionRecord,
        payload: bytes,
        origin: CallOrigin,
        *,
        seconds: float | None = None,
        version: int | None = None,
        draft_of: str | None = None,
    ) -> Ended:
        """Run a call and return its outcome; raises the errors of calls that could not start.

        `seconds` shortens the function's time limit, `version` selects another version than the active one, and
        `draft_of` is the user whose draft is called.
        """
        described = {
            "pilotis.app_id": str(app.app_id),
            "pilotis.function_id": str(row.function_id),
            "pilotis.function.runtime": row.runtime,
            "pilotis.function.trigger": origin.trigger,
        }
        with spans.span("function", described, request_id=origin.request_id) as span:
            ended = await self._invoke(app, row, payload, origin, seconds, version, draft_of)
            span.set("pilotis.execution_id", str(ended.execution_id))
            span.set("pilotis.function.start", ended.ran.start)
            if ended.outcome.status != "success":
                span.fail(ended.outcome.error_code or ended.outcome.status)
            return ended

    async def _invoke(
        self,
        app: AppInfo,
        row: FunctionRecord,
        payload: bytes,
        origin: CallOrigin,
        seconds: float | None,
        version: int | None,
        draft_of: str | None,
    ) -> Ended:
        if origin.depth > MAX_DEPTH:
            raise EventLoopError
        if len(payload) > MAX_PAYLOAD:
            raise PayloadTooLargeError(f"The payload may have at most {MAX_PAYLOAD} bytes.")
        limits = app.limits
        if seconds is not None and seconds > limits.function_seconds_max:
            raise invalid("timeout", f"timeout: must be at most {limits.function_seconds_max} seconds.")
        seconds = min(seconds or row.timeout_seconds, row.timeout_seconds, limits.function_seconds_max)
        deadline = asyncio.get_running_loop().time() + seconds
        wanted = await self._wanted(app, row, version, draft_of, may_wait=origin.may_wait)
        took_effect()
        execution_id, started = uuid7(), datetime.now(UTC)
        # What no request has led to is traced by its first call.
        request_id = origin.request_id or str(execution_id)
        label = "draft" if draft_of else wanted.key[2]
        token = _Token(self._tokens, _as_function(app, row, execution_id, origin.depth), deadline)
        invocation = Invocation(
            payload=payload,
            context=self._context(row, label, execution_id, origin, seconds),
            deadline=deadline,
            cpu_seconds=seconds,
            api=self._api(app, row, origin, request_id, deadline, token),
            measure=origin.trigger != "invoke",
        )
        record = Record(
            app_id=app.app_id,
            function_id=row.function_id,
            runtime=row.runtime,
            execution_id=execution_id,
            version=label,
            trigger=origin.trigger,
            caller_type=origin.type,
            caller_id=origin.id,
            request_id=request_id,
            workflow_execution_id=origin.workflow_execution_id,
            step_id=origin.step_id,
            started_at=started,
            depth=origin.depth,
        )
        try:
            ran = await self.pool.run(wanted, invocation)
        except QueueTimeoutError:
            outcome = Outcome(status="timeout", error="The function took too long.", error_code="FUNCTION_TIMEOUT")
            ran = Ran(outcome=outcome, start="cold", queue_ms=seconds * 1000, load_ms=0)
        except asyncio.CancelledError:
            outcome = Outcome(status="error", error="The client disconnected.", error_code="CANCELLED")
            self._records.add(record, Ran(outcome=outcome, start="warm", queue_ms=0, load_ms=0))
            raise
        finally:
            await token.end()
        self._records.add(record, ran)
        number = int(label) if label.isdigit() else None
        return Ended(execution_id=execution_id, version=number, ran=ran, seconds=seconds)

    async def recorded(self) -> None:
        """Write the records of calls that have ended, rather than within the next second."""
        await self._records.try_to_flush()

    async def run_step(
        self,
        app: AppInfo,
        function_id: str,
        payload: bytes,
        *,
        execution_id: UUID,
        step_id: str,
        attempt: int,
        depth: int,
        seconds: float | None,
        version: int | None = None,
        context: dict[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Ended:
        """Call a function as a step of a workflow's execution; raises the errors of calls that are not run.

        `attempt` counts all tries of the step, which share one idempotency key. `context` is that of a webhook.
        """
        row = await self.find(app.app_id, function_id)
        limit = float(app.limits.function_seconds_max)
        origin = CallOrigin(
            type="workflow",
            id=str(execution_id),
            trigger="workflow" if context is None else "webhook",
            depth=depth,
            request_id=request_id,
            idempotency_key=f"{execution_id}:{step_id}",
            attempt=attempt,
            context=context or {},
            workflow_execution_id=execution_id,
            step_id=step_id,
        )
        return await self.invoke(
            app, row, payload, origin, seconds=None if seconds is None else min(seconds, limit), version=version
        )

    async def check(
        self, app: AppInfo, row: FunctionRecord, source: Source, digest: str | None, label: str, deadline: float
    ) -> list[str]:
        """Load a source and its build in a sandbox and return warnings; raises `LoadError`."""

        async def load() -> Program:
            return await self._program(row, source, digest)

        wanted = self._wanting(app, row, (app.app_id, row.function_id, label, row.revision), load)
        try:
            await self.pool.check(wanted, deadline)
        except RuntimeUnavailableError:
            return ["The source was not tested, because this server cannot run functions."]
        return []

    async def _wanted(
        self, app: AppInfo, row: FunctionRecord, version: int | None, draft_of: str | None, *, may_wait: bool
    ) -> Wanted:
        app_id, function_id = app.app_id, row.function_id
        if draft_of is not None:
            draft = await store.draft(self._database.of(app_id), app_id, function_id, draft_of)
            if draft is None:
                raise VersionNotFoundError("You have no draft of this function.")
            label = f"draft:{draft_of}:{draft.revision}"
        else:
            number = row.active_version if version is None else version
            if number is None:
                raise FunctionNotDeployedError
            draft, label = None, str(number)

        async def load() -> Program:
            stored = draft or await store.source(self._database.of(app_id), app_id, function_id, int(label))
            if stored is None:
                raise VersionNotFoundError
            source = Source(sources.unpack(stored.source), stored.entrypoint)
            return await self._program(row, source, stored.build_digest)

        key = (app_id, function_id, label, row.revision)
        return self._wanting(app, row, key, load)._replace(may_wait=may_wait)

    async def _program(self, row: FunctionRecord, source: Source, digest: str | None) -> Program:
        app_id, function_id = row.app_id, row.function_id
        env = await self._variables.of(app_id, function_id)
        return await self._builds.program(app_id, Runtime(row.runtime), source, digest, env)

    def _wanting(self, app: AppInfo, row: FunctionRecord, key: Key, load: Callable[[], Awaitable[Program]]) -> Wanted:
        return Wanted(
            key=key,
            runtime=Runtime(row.runtime),
            memory_mb=row.memory_mb,
            at_once=app.limits.function_at_once,
            waiting=app.limits.function_waiting,
            may_wait=True,
            per_version=SANDBOXES_PER_VERSION,
            load=load,
            egress=_egress(row),
        )

    def _context(
        self, row: FunctionRecord, version: str, execution_id: UUID, origin: CallOrigin, seconds: float
    ) -> dict[str, Any]:
        return {
            "headers": {},
            "method": "POST",
            "executionId": str(execution_id),
            "functionId": str(row.function_id),
            "functionName": row.name,
            "version": int(version) if version.isdigit() else "draft",
            "appId": str(row.app_id),
            "deadline": int((time.time() + seconds) * 1000),
            "caller": {"type": origin.type, "id": origin.id},
            # Who called is in `caller`; records tell apart what the console called.
            "trigger": {"type": "invoke" if origin.trigger == "console" else origin.trigger},
            "idempotencyKey": origin.idempotency_key or str(execution_id),
            "attempt": origin.attempt,
            "claims": None,
            "hasCaller": origin.principal is not None,
            **origin.context,
        }

    def _api(
        self, app: AppInfo, row: FunctionRecord, origin: CallOrigin, request_id: str, deadline: float, token: _Token
    ) -> Callable[[Frame], Awaitable[dict[str, Any]]]:
        scopes = token.caller.scopes

        async def answer(frame: Frame) -> dict[str, Any]:
            assert self._inside is not None
            if frame.t == "token":
                self._require_own_address(row)
                return {"status": 200, "headers": {}, "body": json.encode(await token.text())}
            if frame.caller:
                if origin.principal is None:
                    raise NotFoundError("This call has no caller.")
                principal: AppPrincipal = origin.principal
                allowed = scopes - _NOT_AS_CALLER
            elif frame.member is not None:
                if ACT not in scopes:
                    raise ScopeRequiredError(f"The function does not have the scope {ACT}.")
                member = await self._member(app.app_id, frame.member)
                if member is None:
                    raise MemberNotFoundError
                principal = AppMember(app, member)
                allowed = scopes - _NOT_AS_CALLER
            else:
                principal, allowed = token.caller, scopes
            path = await self._path(app, frame)
            reply = await self._inside(
                principal,
                frame.method,
                path,
                headers=_sendable(frame.headers),
                body=_bytes(frame.body),
                deadline=deadline,
                scopes=allowed,
                request_id=request_id,
            )
            return _frame_of(reply)

        return spans.bound(answer)

    def _require_own_address(self, row: FunctionRecord) -> None:
        policy, address = _egress(row), self.pool.own_address
        if policy is None or address is None or not policy.permits(address):
            raise EgressRequiredError

    async def _path(self, app: AppInfo, frame: Frame) -> str:
        path = frame.path.replace("{app}", str(app.app_id), 1)
        if not path.startswith(("/v1/", "/files/")):
            raise BadRequestError("Paths of the app's API start with /v1/, and those of files with /files/.")
        if frame.table is None:
            return path
        table = frame.table
        if not is_uuid(table):
            found = await self._table_id(app, table)
            if found is None:
                raise TableNotFoundError(f"The app has no table {table[:100]}.")
            table = str(found)
        return path.replace("{table}", table, 1)


class _Token:
    """The token of one call for calls over HTTP, which exists once the function asks for it."""

    def __init__(self, tokens: FunctionTokens, caller: FunctionCaller, deadline: float) -> None:
        self.caller = caller
        self._tokens, self._deadline = tokens, deadline
        self._lock = asyncio.Lock()
        self._text: str | None = None
        self._is_used = self._has_ended = False

    async def text(self) -> str:
        """Return the token, the same for the whole call."""
        async with self._lock:
            if self._has_ended:
                raise NotFoundError("The call has ended.")
            if self._text is None:
                # Even if this is cancelled, it may have been stored.
                self._is_used = True
                seconds = max(0.0, self._deadline - asyncio.get_running_loop().time())
                self._text = await self._tokens.issue(self.caller, seconds)
            return self._text

    async def end(self) -> None:
        """End the token, which is then invalid on every node."""
        self._has_ended = True
        if self._is_used:
            async with self._lock:
                await self._tokens.end(self.caller.app.app_id, self.caller.execution_id)


def require_invoke_access(row: FunctionRecord, principal: AppPrincipal) -> None:
    """Raise an error if the caller may not call the function, or the function is inactive."""
    access = row.invoke_access
    if isinstance(principal, OAuthClient) and row.oauth_scope not in principal.scopes:
        raise InsufficientScopeError
    trusted = principal.role is not None
    if access == "Secret" and not trusted:
        raise SecretKeyRequiredError
    if access == "AppMember" and not trusted and principal.member is None:
        raise FunctionMemberRequiredError
    if not row.is_active:
        raise FunctionInactiveError


def as_caller(principal: AppPrincipal) -> AppPrincipal | None:
    """Return the principal of `ctx.asCaller`: the public key, with the member if one called; None without a key."""
    if isinstance(principal, FunctionCaller | OAuthClient):
        return None
    if isinstance(principal, AppMember):
        return AppMember(principal.app, principal.member)
    return PublicClient(principal.app)


def shown_headers(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return a request's headers for a function in the plain form, without credentials."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in lines if name not in _HIDDEN}


def _egress(row: FunctionRecord) -> EgressPolicy | None:
    if row.egress_mode == "none":
        return None
    return EgressPolicy([parse_host(host) for host in row.egress_hosts] if row.egress_mode == "allowlist" else None)


def _as_function(app: AppInfo, row: FunctionRecord, execution_id: UUID, depth: int) -> FunctionCaller:
    return FunctionCaller(
        app=app,
        function_id=row.function_id,
        execution_id=execution_id,
        scopes=frozenset(row.scopes),
        depth=depth + 1,
    )


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the valid headers (RFC 9110, section 5.5), without those that frame an HTTP body."""
    try:
        for name, value in headers.items():
            name.encode("ascii")
            value.encode("latin-1")
            if any(letter in name + value for letter in "\r\n\0"):
                raise BadRequestError("A header contains a line break.")
    except UnicodeEncodeError:
        raise BadRequestError("A header contains a character outside Latin-1.") from None
    return {name: value for name, value in headers.items() if name.lower() not in {"host", "x-app-id"}}


def _bytes(text: str | None) -> bytes:
    try:
        return b"" if text is None else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise BadRequestError("The body is not valid base64.") from None


def _frame_of(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply.body, bytes)
    if len(reply.body) > MAX_ANSWER:
        raise PayloadTooLargeError(f"The response has more than {MAX_ANSWER} bytes; request less at a time.")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers}
    headers["content-type"] = reply.content_type.decode("latin-1")
    return {"status": reply.status or 200, "headers": headers, "body": reply.body}


def _state(found: Found) -> RuntimeState:
    return RuntimeState(
        name=found.runtime.value,
        version=found.version,
        is_available=found.isolation is not None,
        isolation=found.isolation and found.isolation.value,
        reason=found.reason,
    )

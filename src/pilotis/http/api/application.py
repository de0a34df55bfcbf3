"""The ASGI application: request, router, principal, typed decode, service, typed encode."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import structlog

from pilotis.http.api import binding, inside
from pilotis.http.api.addresses import client_address
from pilotis.http.api.authorize import authorizer
from pilotis.http.api.cookies import check_origin
from pilotis.http.api.cors import Cors, Headers
from pilotis.http.api.direct import DirectRoutes, Outcome, lines_of
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.error_styles import ErrorStyle, ErrorStyles
from pilotis.http.api.hosts import Area
from pilotis.http.api.idempotency import HEADER, Idempotency, IdempotencyStore, key_of
from pilotis.http.api.principals import (
    AppInfo,
    AppMember,
    Authenticator,
    Client,
    Presumption,
    Principal,
    QuotaExceededError,
)
from pilotis.http.api.rates import Limiter, Rates
from pilotis.http.api.repeating import repeated
from pilotis.http.api.request import (
    DEFAULT_LIMITS,
    Call,
    ClientDisconnectedError,
    Receive,
    Scope,
    Send,
    ServerBounds,
    request_id_of,
)
from pilotis.http.api.router import Match, Router
from pilotis.http.api.sending import send_early, send_file, send_stream
from pilotis.http.in_flight import UNCOUNTED_BYTES, InFlight, InFlightLimits
from pilotis.http.replies.errors import error_response, header_pairs
from pilotis.http.replies.events import Events, Pushed
from pilotis.http.replies.reply import Answer, FilePart, Reply, Stream
from pilotis.http.replies.streams import Streams
from pilotis.http.server.response_cache import ReadyAnswer, ReadyAnswers
from pilotis.http.server.single_write import header_lines, send_whole
from pilotis.kit import json, origin
from pilotis.kit.errors import (
    BadRequestError,
    MethodNotAllowedError,
    NotFoundError,
    OutcomeUnknownError,
    PilotisError,
    StorageFullError,
    UnavailableError,
)
from pilotis.kit.ids import is_uuid
from pilotis.limits import Limits

_log = structlog.get_logger("pilotis.request")

A = TypeVar("A")

Finished = Callable[[Call, int, float], None]
_Answering = Callable[[Call], Awaitable[Reply | ReadyAnswer]]
AreaHandler = Callable[[Call], Awaitable[Reply]]
"""Answers every request to the hosts of an area."""
CLIENT_CLOSED = 499
"""The status that is logged and counted if the client disconnected before its request was complete."""

_NOTHING: Headers = []
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LISTS = frozenset({b"accept", b"access-control-request-headers", b"if-match", b"if-none-match"})


class HostError(BadRequestError):
    """400 `INVALID_HOST`: the request has no `Host` header, or several (RFC 9112, section 3.2)."""

    code = "INVALID_HOST"
    message = "An HTTP/1.1 request has exactly one Host header."


_MAX_NAME = 255
FindId = Callable[[UUID, str], Awaitable[UUID | None]]
"""Takes the id of an app and a name; returns the id of the thing with that name in the app."""


async def _with_id(call: Call, values: tuple[str, ...], place: int, find: FindId) -> tuple[str, ...]:
    """Return the values of a path in which the name at a place is replaced by its id, if there is such a thing."""
    name = values[place]
    # No title and no name is longer, and none has the character that PostgreSQL cannot read.
    found = await find(call.app.app_id, name) if len(name) <= _MAX_NAME and "\0" not in name else None
    if found is None:
        return values
    call.path_values = (*values[:place], str(found), *values[place + 1 :])
    return call.path_values


class Application:
    """Serves an endpoint table. `finished` is called after every request with its status and duration in seconds.

    `require_room` raises `StorageFullError` while the disk has no room for what routes with `needs_room` store. At most
    `cache_bytes` of answers are kept.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        authenticator: Authenticator,
        limiter: Limiter,
        cors: Cors,
        trusted_proxies: Iterable[str] = (),
        finished: Finished,
        limits: Limits = DEFAULT_LIMITS,
        require_room: Callable[[], None] = lambda: None,
        base_url: str = "",
        idempotency: IdempotencyStore | None = None,
        names: Mapping[str, FindId] | None = None,
        cache_bytes: int = 1 << 20,
    ) -> None:
        self._named = {
            endpoint: (start.count("/:") - 1, find)
            for endpoint in endpoints
            for start, find in (names or {}).items()
            # Where no credential names an app, names mean nothing.
            if endpoint.access.any_of and (endpoint.path == start or endpoint.path.startswith(f"{start}/"))
        }
        self.endpoints = endpoints
        self._router: Router[Endpoint] = Router()
        for endpoint in endpoints:
            self._router.add(endpoint.method, endpoint.path, endpoint)
        self._authenticator = authenticator
        self._authorizers = {endpoint: authorizer(endpoint, authenticator) for endpoint in endpoints}
        self._rates = Rates(limiter, limits)
        self._cors = cors
        in_flight = InFlight(
            InFlightLimits(limits.in_flight_bytes, limits.app_in_flight_bytes, limits.client_in_flight_bytes)
        )
        self._bounds = ServerBounds(limits, in_flight, frozenset(trusted_proxies), base_url.rstrip("/"))
        self._error_styles = ErrorStyles(endpoint.error_styles for endpoint in endpoints)
        self._origins = {"own": base_url, "console": cors.console_origin}
        self._finished = finished
        self._require_room = require_room
        self._ready = ReadyAnswers(cache_bytes)
        self._idempotency = Idempotency(idempotency) if idempotency else None
        self.streams = Streams(limits)
        self.in_flight = 0

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of bodies and answers that are currently counted as in memory."""
        return self._bounds.in_flight.total

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3). WebSockets are rejected; the server itself handles start and stop."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        await self._serve(scope, receive, send, self._answer)

    def area(self, handler: AreaHandler, *, errors: ErrorStyle = "page") -> Area:
        """Return an ASGI application for other hosts (see `Hosts`) that passes every request to one handler.

        It shares limits, metrics, the log and sending with this application, but has no routes, credentials or CORS.
        """

        async def answer(call: Call) -> Reply:
            call.is_area = True
            return await self._answered(call, handler, errors)

        async def area(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._serve(scope, receive, send, answer)

        return area

    def direct(self, is_area: Callable[[bytes], bool]) -> DirectRoutes:
        """Return the routes that need no task; `is_area` tells whether a `Host` header names an area."""
        lines = lines_of(self._cors.answer(None, None))
        return DirectRoutes(self.endpoints, self, self._bounds, lines, is_area, self._ready)

    @property
    def known_public_key(self) -> Callable[[str, str | None], AppInfo | None]:
        """What returns the app of a key for pages of an origin, if it is known without asking the database."""
        return self._authenticator.known_public_key

    def known_member(self, app: AppInfo, token: str) -> AppMember | None:
        """Return the member of an access token of the app, whose session was not checked; None for any other token."""
        return self._authenticator.known_member(app, token)

    def presume(self, token: str) -> Presumption:
        """Begin the check of the session of such a token."""
        presumed = self._authenticator.presume(token)
        assert presumed is not None
        return presumed[2]

    def may_run(self, call: Call, endpoint: Endpoint) -> bool:
        """Return whether no rate limit counts the call; raises the error of one that may not store."""
        if endpoint.needs_room:
            self._require_right_to_store(call)
        return self._rates.applies(call, endpoint) is None

    def _require_right_to_store(self, call: Call) -> None:
        """Raise `StorageFullError`, or `QuotaExceededError` past a hard quota of the app."""
        self._require_room()
        app = call.principal.app
        if app is not None and app.exceeded is not None:
            raise QuotaExceededError(app.exceeded)

    @property
    def finished(self) -> Finished:
        """What records an answered request by its status, and the seconds that it took."""
        return self._finished

    async def resume(self, call: Call, begun: float, outcome: Outcome, send: Send) -> None:
        """Answer a call that was begun directly, and ended with an outcome, by the usual path."""

        async def ended(_: Call) -> Reply:
            if isinstance(outcome, (Exception, asyncio.CancelledError)):
                raise outcome
            assert outcome is not None
            return outcome

        async def answer(call: Call) -> Reply | ReadyAnswer:
            return await self._answered(call, self._dispatch if outcome is None else ended, None)

        await self._finish(call, send, answer, begun)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, answer: _Answering) -> None:
        started = time.perf_counter()
        headers = _by_name(scope["headers"])
        client = Client(client_address(scope, self._bounds.trusted_proxies), request_id_of(headers))
        await self._finish(Call(scope, receive, client, headers, self._bounds), send, answer, started)

    async def _finish(self, call: Call, send: Send, answer: _Answering, started: float) -> None:
        self.in_flight += 1
        try:
            status = await self._exchange(call, send, answer)
        except ClientDisconnectedError:
            status = CLIENT_CLOSED
        finally:
            self.in_flight -= 1
            if call.reservation is not None:
                call.reservation.release()
        self._finished(call, status, time.perf_counter() - started)

    async def _exchange(self, call: Call, send: Send, answer: _Answering) -> int:
        reply = await answer(call)
        cycle = call.cycle
        if isinstance(reply, ReadyAnswer):
            assert cycle is not None
            call.endpoint = reply.endpoint
            call.sent = len(reply.body)
            await send_whole(cycle, 200, reply.lines_for(call.request_id), reply.body)
            return 200
        if isinstance(reply.body, bytes) and len(reply.body) > UNCOUNTED_BYTES:
            reply = self._reserved(call, reply)
        status = reply.status or 200
        headers = self._headers(call, reply, status)
        body = reply.body
        if not isinstance(body, bytes):
            await self._send_stream(call, status, headers, body, send)
            return status
        body = b"" if call.scope["method"] == "HEAD" else body
        call.sent = len(body)
        if call.has_unread_body:
            if call.reservation is not None and len(body) <= UNCOUNTED_BYTES:
                # What has come of the body is gone; its rest may take half a minute, and is not kept.
                call.reservation.release()
            await send_early(call, status, headers, body, send)
        elif cycle is not None:
            await send_whole(cycle, status, header_lines(headers), body)
            self._ready.keep(call, reply, headers)
            if len(body) > UNCOUNTED_BYTES:
                # The answer stays in memory until the client has read nearly all of it.
                await cycle.flow.drain()
        else:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        return status

    async def _send_stream(
        self, call: Call, status: int, headers: Headers, body: Stream | FilePart | Answer, send: Send
    ) -> None:
        try:
            if isinstance(body, Stream):
                await send_stream(call, status, headers, body, send)
            elif isinstance(body, FilePart):
                await send_file(call, status, headers, body, send)
            else:
                await self._follow(call, status, headers, body, send)
        except ClientDisconnectedError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self.streams.is_stopping:
                raise
            # Too late for an error answer: the connection is cut, so that the client does not take a part for the
            # whole.
            _log.warning("cut off", request_id=call.request_id, error=type(error).__name__, exc_info=error)

    async def _follow(self, call: Call, status: int, headers: Headers, events: Answer, send: Send) -> None:
        async def check() -> None:
            assert call.endpoint is not None
            await self._authorizers[call.endpoint](call, call.path_values)
            if isinstance(events, Events) and events.recheck is not None:
                await events.recheck()

        if isinstance(events, Pushed):
            return await self.streams.hold(call, status, headers, events, send, check)
        assert isinstance(events, Events)
        try:
            await self.streams.follow(call, status, headers, events, send, check)
        finally:
            self.streams.release(call)

    async def _answer(self, call: Call) -> Reply | ReadyAnswer:
        return await self._answered(call, self._find_or_dispatch, None)

    async def _find_or_dispatch(self, call: Call) -> Reply | ReadyAnswer:
        # Cached answers bypass ASGI.
        return (call.cycle is not None and await self._ready.find(call)) or await self._dispatch(call)

    async def _answered(
        self, call: Call, handler: Callable[[Call], Awaitable[A]], style: ErrorStyle | None
    ) -> A | Reply:
        """Return the handler's answer, or the error answer."""
        try:
            if not call.is_inside:
                _check_host(call)
            return await handler(call)
        except PilotisError as error:
            if error.status >= 500:
                _log.warning("unavailable", request_id=call.request_id, code=error.code, exc_info=error.__cause__)
            return self._error(call, error, style)
        except ClientDisconnectedError:
            raise
        except asyncio.CancelledError:
            if call.is_inside or not self.streams.is_stopping:
                raise
            # What is unfinished when the time of a stop is over is cancelled.
            return self._error(call, _stopped(call), style)
        except Exception as error:
            _log.exception("failed", request_id=call.request_id, error=type(error).__name__)
            return self._error(call, PilotisError(), style)

    def _error(self, call: Call, error: PilotisError, style: ErrorStyle | None = None) -> Reply:
        call.error_code = error.code
        path = call.scope["path"]
        found = style or self._error_styles.of(path)
        # Who opens a mistyped address in a browser gets a page; programs, and the interface, never do.
        if found == "api" and error.status == 404 and not path.startswith("/v1/") and _is_opened(call):
            found = "site"
        return error_response(error, call.request_id, found)

    def _nothing_at(self, method: str, path: str) -> NotFoundError:
        """Return the error about a path without a route, which names the mistake that is made most."""
        if path.endswith("/") and self._router.find(method, path.rstrip("/")) is not None:
            return NotFoundError("Nothing was found at this address; leave out the slash at its end.")
        if path.startswith("/v1/"):
            return NotFoundError(f"{NotFoundError.message} The routes are described at /docs.")
        return NotFoundError()

    async def _dispatch(self, call: Call) -> Reply:
        method = call.scope["method"]
        match = self._router.find("GET" if method == "HEAD" else method, call.scope["path"], call.scope["raw_path"])
        if match is None:
            raise self._nothing_at(method, call.scope["path"])
        if method == "OPTIONS":
            wanted = call.header(b"access-control-request-method") or ""
            call.answer_headers.extend(self._cors.preflight(match.targets.get(wanted), call, _allow(match)))
        endpoint = match.targets.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            return _without_endpoint(method, match)
        call.endpoint, call.path_values = endpoint, match.values
        if endpoint.origins is not None and endpoint.origins != "any":
            check_origin(method, call.headers, self._origins[endpoint.origins])
        call.principal = await self._authorizers[endpoint](call, match.values)
        reply = await (self._run if call.presumption is None else self._run_meanwhile)(call, endpoint, match.values)
        if isinstance(reply.body, Events):
            await self._begin(call, reply.body)
        return reply

    async def _run(self, call: Call, endpoint: Endpoint, values: tuple[str, ...]) -> Reply:
        """Answer an authorized call."""
        rate = self._rates.applies(call, endpoint)
        if rate is not None:
            await self._rates.count(call, rate)
        if endpoint.needs_room is True:
            self._require_right_to_store(call)
        if (named := self._named.get(endpoint)) is not None and not is_uuid(values[named[0]]):
            values = await _with_id(call, values, *named)
        arguments = await binding.arguments(endpoint, call, values)
        if rate is not None and endpoint.cost is not None:
            await self._rates.count_body(call, endpoint, rate, arguments[-1])
        if callable(endpoint.needs_room):
            try:
                self._require_right_to_store(call)
            except (StorageFullError, QuotaExceededError):
                if endpoint.needs_room(arguments[-1]):
                    raise
        if HEADER in call.headers and endpoint.takes_idempotency_key and not call.is_inside:
            return await self._run_once(call, endpoint, arguments)
        return await self._handled(call, endpoint, arguments)

    async def _run_meanwhile(self, call: Call, endpoint: Endpoint, values: tuple[str, ...]) -> Reply:
        """Answer a call while its credential is being checked; an error of the credential precedes all others."""
        assert call.presumption is not None
        check, confirm, _ = call.presumption
        running = asyncio.create_task(self._run(call, endpoint, values))
        try:
            confirm(await check)
            return await running
        except BaseException:
            # Also for the time that it would take: that depends on rows that the caller may not see.
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()
            raise

    async def _handled(self, call: Call, endpoint: Endpoint, arguments: list[Any]) -> Reply:
        """Return the handler's answer; a change that loses against others runs again (`http.api.repeating`)."""
        token = origin.begin(call.request_id, endpoint.path)
        try:
            if endpoint.method in _SAFE:
                return _reply(endpoint, await endpoint.handler(call, *arguments))
            return await self._repeated(call, endpoint, arguments)
        finally:
            origin.end(token)

    async def _repeated(self, call: Call, endpoint: Endpoint, arguments: list[Any]) -> Reply:
        kept = len(call.answer_headers)

        async def run() -> Any:
            del call.answer_headers[kept:]
            return await endpoint.handler(call, *arguments)

        return _reply(endpoint, await repeated(run))

    async def _run_once(self, call: Call, endpoint: Endpoint, arguments: list[Any]) -> Reply:
        """Answer a call with an `Idempotency-Key`."""
        key = key_of(call)
        names = [*endpoint.parameters, *(["query"] if endpoint.query else []), *(["body"] if endpoint.body else [])]
        known = dict(zip(names, arguments, strict=False))

        async def run() -> Reply:
            return await self._handled(call, endpoint, arguments)

        async def read(resource_id: UUID) -> Reply:
            again = endpoint.again
            assert again is not None
            assert endpoint.creates is not None
            made = {**known, endpoint.creates: resource_id}
            return _reply(endpoint, await again.handler(call, *(made[name] for name in again.parameters)))

        if key is None or self._idempotency is None:
            return await run()
        return await self._idempotency.run(call, key, endpoint, known.get("body"), run, read)

    async def call_inside(
        self,
        principal: Principal,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        deadline: float,
        scopes: frozenset[str] | None = None,
        request_id: str | None = None,
    ) -> Reply:
        """Answer a call from inside this process; see `pilotis.http.api.inside`.

        `path` may have a query string; `deadline` is a time of the running loop's clock. The answer's body is bytes,
        also that of an error. `scopes` bound what the principal may call, `request_id` is that of the request that led
        to the call.
        """
        started = time.perf_counter()
        scope = inside.scope_of(method, path, headers or {}, body)
        by_name = _by_name(scope["headers"])
        client = Client("", request_id or request_id_of(by_name))
        call = Call(scope, inside.receive_of(body), client, by_name, self._bounds)
        call.principal, call.is_inside = principal, True

        async def answer(call: Call) -> Reply:
            match = self._router.find(scope["method"], scope["path"])
            if match is None:
                raise NotFoundError
            endpoint = match.targets.get(scope["method"])
            if endpoint is None:
                return _without_endpoint(scope["method"], match)
            call.endpoint, call.path_values = endpoint, match.values
            named = dict(zip(endpoint.parameters, match.values, strict=True))
            inside.require_access(endpoint, principal, named, scopes)
            try:
                async with asyncio.timeout_at(deadline):
                    return await inside.require_whole(call, await self._run(call, endpoint, match.values))
            except TimeoutError:
                raise inside.DeadlineExceededError from None

        try:
            reply = await self._answered(call, answer, "api")
        finally:
            if call.reservation is not None:
                call.reservation.release()
        status = reply.status or 200
        self._finished(call, status, time.perf_counter() - started)
        lines = [*call.answer_headers, *_standing(client), *reply.headers]
        return msgspec.structs.replace(reply, status=status, headers=lines)

    async def _begin(self, call: Call, events: Events) -> None:
        """Count a stream as open; close its source if the limit is reached."""
        try:
            self.streams.acquire(call)
        except PilotisError:
            await events.source.aclose()
            raise

    def _reserved(self, call: Call, reply: Reply) -> Reply:
        """Return the answer once its bytes are counted as in flight; return an error instead if there are too many."""
        assert isinstance(reply.body, bytes)
        try:
            call.reserve(len(reply.body))
        except PilotisError as error:
            return self._error(call, error)
        return reply

    def _headers(self, call: Call, reply: Reply, status: int) -> list[tuple[bytes, bytes]]:
        # 204 and 304 have no length (RFC 9110, section 8.6); OPTIONS gets the headers of its preflight.
        return [
            *(_NOTHING if status in {204, 304} else ((b"content-type", reply.content_type), *_length(reply.body))),
            (b"x-request-id", call.request_id.encode()),
            *(
                _NOTHING
                if call.is_area or call.scope["method"] == "OPTIONS"
                else self._cors.answer(call.endpoint, call)
            ),
            *call.answer_headers,
            *_standing(call.client),
            *reply.headers,
            *(cookie.header(secure=self._bounds.secure) for cookie in reply.cookies),
        ]


def _stopped(call: Call) -> PilotisError:
    """Return the error for a request that the server's stop has cut off."""
    if call.scope["method"] in _SAFE:
        return UnavailableError("The server is stopping. Try again shortly.")
    return OutcomeUnknownError(
        "The server stopped before the request was complete, so the outcome is unknown: its changes may have been "
        "applied. Check before you send it again."
    )


def _by_name(lines: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name; lines of a list header are joined (RFC 9110, section 5.3), else the last counts."""
    headers = dict(lines)
    if len(headers) < len(lines):
        for name in _LISTS & headers.keys():
            headers[name] = b", ".join(value for given, value in lines if given == name)
    return headers


def _check_host(call: Call) -> None:
    """Raise `HostError` unless there is exactly one `Host` (RFC 9112, section 3.2; HTTP/1.0 requests may have none)."""
    headers, scope = call.headers, call.scope
    if b"host" not in headers:
        if scope.get("http_version") != "1.0":
            raise HostError
    elif len(headers) < len(scope["headers"]) and sum(name == b"host" for name, _ in scope["headers"]) > 1:
        raise HostError


def _without_endpoint(method: str, match: Match[Endpoint]) -> Reply:
    if method == "OPTIONS":
        return Reply(b"", 204)
    allow = _allow(match)
    raise MethodNotAllowedError(f"This path takes {allow}.", headers={"Allow": allow})


def _allow(match: Match[Endpoint]) -> str:
    methods = set(match.targets) | ({"HEAD"} if "GET" in match.targets else set()) | {"OPTIONS"}
    return ", ".join(sorted(methods))


def _length(body: bytes | Stream | FilePart | Answer) -> Headers:
    size = len(body) if isinstance(body, bytes) else None if isinstance(body, Answer) else body.size
    return _NOTHING if size is None else [(b"content-length", b"%d" % size)]


def _standing(client: Client) -> Headers:
    return _NOTHING if client.standing is None else header_pairs(client.standing.headers())


def _reply(endpoint: Endpoint, result: Any) -> Reply:
    if type(result) is Reply:
        if result.status is None:
            return Reply(
                result.body, endpoint.status, result.headers, result.content_type, result.still_valid, result.cookies
            )
        return result
    if isinstance(result, Answer):
        return _reply(endpoint, result.reply())
    if result is None:
        return Reply(b"", 204)
    return Reply(json.encode(result), endpoint.status)


def _is_opened(call: Call) -> bool:
    """Return whether a browser opens the address as a page: its `Accept` begins so (Fetch, section 4.6)."""
    return call.scope["method"] == "GET" and (call.header(b"accept") or "").startswith("text/html")

"""Direct answers: the usual requests of the busiest routes, begun and ended by callbacks, without a task.

These are answers of the response cache, which are only confirmed, and those of direct handlers.

A route has a direct handler if its endpoint names one (`direct`). It is called for a request by HTTP/1.1 with a small
body and a public key, alone or with a member's token. It returns what begins the answer, or None; then the route's
handler answers. So every other case, and above all every error in a request, has one implementation: the handler.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeAlias

import msgspec

from pilotis.http.api import binding
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.principals import AppInfo, AppMember, Client, MemberInfo, Presumption, PublicClient
from pilotis.http.api.repeating import repeated
from pilotis.http.api.request import Call, Message, Receive, Scope, Send, ServerBounds, bearer_of, request_id_of
from pilotis.http.in_flight import UNCOUNTED_BYTES
from pilotis.http.replies.reply import Reply
from pilotis.http.server.known_heads import Request
from pilotis.http.server.response_cache import ReadyAnswer, ReadyAnswers
from pilotis.http.server.single_write import header_lines
from pilotis.kit import origin
from pilotis.kit.errors import PilotisError

Known = ParamSpec("Known")

MAX_BODY_BYTES = UNCOUNTED_BYTES
"""Larger bodies are counted and decoded in threads, by the usual path."""

_UUID = "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_PARAMETER = re.compile(r":\w+")
_JSON = b"application/json"
_GET: Scope = {"type": "http", "method": "GET"}


class StartOverError(Exception):
    """Nothing was changed, and the route's handler must answer instead, because the state it relied on has changed."""


Prepared: TypeAlias = tuple[Callable[[], asyncio.Future[Any]], Callable[[asyncio.Future[Any]], bytes]]
"""What a direct handler returns: what begins the work, and what turns its ended future into the body of the answer.

The latter raises `StartOverError`, or the error to answer. Until the work begins nothing has been read or changed.
"""


class OnceKnown(NamedTuple):
    """What a direct handler returns in place of `Prepared`, where the facts of who asks decide.

    `begin` gets the member with its facts, once its session was checked; None where nobody is signed in.
    """

    begin: Callable[[MemberInfo | None], asyncio.Future[Any]]
    finish: Callable[[asyncio.Future[Any]], bytes]


DirectHandler: TypeAlias = "Callable[..., Prepared | OnceKnown | None]"
"""Takes the call, the path's parameters as text, the query or body of the endpoint; None if the handler must answer."""
_Begun: TypeAlias = tuple[asyncio.Future[Any], Callable[[asyncio.Future[Any]], bytes]]


class Found(msgspec.Struct, frozen=True):
    """The route of a request: its endpoint, the header lines of its answers, the path's values and the query string.

    `scope` is as much of the request's as the call of a direct answer has; `ready` is the answer, if it is cached.
    """

    endpoint: Endpoint
    lines: bytes
    scope: Scope
    values: Sequence[str] = ()
    query_string: bytes = b""
    ready: ReadyAnswer | None = None


class Started(msgspec.Struct, frozen=True):
    """A request that is being answered."""

    found: Found
    call: Call
    begun: float
    future: asyncio.Future[Any]
    finish: Callable[[asyncio.Future[Any]], bytes]


Outcome: TypeAlias = "Reply | Exception | asyncio.CancelledError | None"
"""What the usual path must still do with a request: send a large answer, answer an error, or call the handler.

A request is cancelled when the server stops before it has ended.
"""


class Server(Protocol):
    """What direct answers need of the application."""

    in_flight: int

    @property
    def known_public_key(self) -> Callable[[str, str | None], AppInfo | None]:
        """What returns the app of a key for pages of an origin, if it is known without asking the database."""

    def known_member(self, app: AppInfo, token: str) -> AppMember | None:
        """Return the member of an access token of the app, whose session was not checked; None for any other token."""

    def presume(self, token: str) -> Presumption:
        """Begin the check of the session of such a token."""

    def may_run(self, call: Call, endpoint: Endpoint) -> bool:
        """Return whether no rate limit counts the call, and there is room for what it stores."""

    @property
    def finished(self) -> Callable[[Call, int, float], None]:
        """What records an answered request by its status, and the seconds that it took."""

    def resume(self, call: Call, begun: float, outcome: Outcome, send: Send) -> Awaitable[None]:
        """Answer a call by the usual path."""


class _Route(NamedTuple):
    pattern: re.Pattern[str]
    endpoint: Endpoint
    lines: bytes
    scope: Scope


class DirectRoutes:
    """The routes with direct handlers, and cached answers.

    `is_area` tells whether a `Host` header names an area of its own.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        server: Server,
        bounds: ServerBounds,
        cors_lines: bytes,
        is_area: Callable[[bytes], bool],
        ready: ReadyAnswers,
    ) -> None:
        self._server = server
        self._ready = ready
        self._known_public_key, self._finished = server.known_public_key, server.finished
        self._bounds = bounds
        self._is_area = is_area
        # By method and number of slashes: few patterns are tried for a request, most often one.
        self._routes: dict[tuple[bytes, int], list[_Route]] = {}
        for endpoint in endpoints:
            if endpoint.direct is not None:
                assert endpoint.cors == "public"
                pattern = re.compile(_PARAMETER.sub(_UUID, endpoint.path))
                route = _Route(pattern, endpoint, cors_lines, {"type": "http", "method": endpoint.method})
                self._routes.setdefault((endpoint.method.encode(), endpoint.path.count("/")), []).append(route)

    def find(self, method: bytes, target: bytes) -> Found | None:
        """Return the route of a request, if it may be answered directly."""
        target_path, _, query_string = target.partition(b"?")
        routes = self._routes.get((method, target_path.count(b"/")))
        if routes is None:
            return None
        path = target_path.decode("latin-1")
        for pattern, endpoint, lines, scope in routes:
            match = pattern.fullmatch(path)
            if match is not None:
                if query_string and endpoint.query is None:
                    return None
                return Found(endpoint, lines, scope, match.groups(), query_string)
        return None

    def find_ready(self, request: Request) -> Found | None:
        """Return the route of a whole request whose answer is cached."""
        answer = self._ready.of(request)
        return None if answer is None else Found(answer.endpoint, answer.lines, _GET, ready=answer)

    def begin(self, found: Found, request: Request, address: str) -> Started | None:
        """Begin the answer to a whole request, none of whose headers comes twice; None if the usual path must."""
        started = time.perf_counter()
        if found.ready is not None:
            return self._begin_check(found, found.ready, request, address, started)
        asker, headers = request.asker, request.headers
        if asker is None or address in self._bounds.trusted_proxies or self._is_area(asker.host):
            return None
        app = self._known_public_key(asker.key, asker.origin)
        if app is None:
            return None
        endpoint, token = found.endpoint, None
        call = Call(found.scope, _disconnected, Client(address, request_id_of(headers)), headers, self._bounds)
        call.principal, call.endpoint = PublicClient(app), endpoint
        try:
            if asker.has_token:
                token = bearer_of(headers)
                member = self._server.known_member(app, token) if token else None
                if member is None:
                    return None
                call.principal = member
            prepared = self._prepared(found, call, request) if self._server.may_run(call, endpoint) else None
            if prepared is None:
                return None
            if token is None:
                begun = (prepared.begin(None) if isinstance(prepared, OnceKnown) else prepared[0]()), prepared[1]
            else:
                presumption = self._server.presume(token)
                presumed = _Presumed(presumption, _beginning(prepared, presumption), prepared[1])
                if endpoint.only_reads and not isinstance(prepared, OnceKnown):
                    presumed.start()
                begun = presumed.ended, presumed.finish
        except PilotisError:
            return None
        self._server.in_flight += 1
        return Started(found, call, started, *begun)

    def _begin_check(
        self, found: Found, answer: ReadyAnswer, request: Request, address: str, started: float
    ) -> Started | None:
        """Begin to confirm a cached answer."""
        host = request.headers.get(b"host")
        if host is None or address in self._bounds.trusted_proxies or self._is_area(host):
            return None
        client = Client(address, request_id_of(request.headers))
        call = Call(found.scope, _disconnected, client, request.headers, self._bounds)
        call.endpoint = found.endpoint

        def finish(ended: asyncio.Future[bool]) -> bytes:
            if not self._ready.check(request, answer, ended):
                raise StartOverError
            return answer.body

        try:
            future = asyncio.ensure_future(answer.still_valid())
        except PilotisError:
            return None
        self._server.in_flight += 1
        return Started(found, call, started, future, finish)

    def _prepared(self, found: Found, call: Call, request: Request) -> Prepared | OnceKnown | None:
        endpoint = found.endpoint
        assert endpoint.direct is not None
        handler: DirectHandler = endpoint.direct
        if endpoint.query is not None:
            text, type_ = found.query_string, endpoint.query
            return handler(call, *found.values, binding.query(type_, text) if text else binding.no_query(type_))
        if endpoint.body is None:
            return handler(call, *found.values) if not request.body else None
        limits = call.limits
        if len(request.body) > (limits.body_bytes if endpoint.rows else limits.query_bytes):
            return None
        if request.headers.get(b"content-type", _JSON) != _JSON:
            return None
        return handler(call, *found.values, binding.decoded(endpoint, request.body, limits))

    def end(self, started: Started) -> bytes | Outcome:
        """Return the body of the answer, or the outcome with which the usual path must continue."""
        self._server.in_flight -= 1
        try:
            body = started.finish(started.future)
        except StartOverError:
            return None
        except (Exception, asyncio.CancelledError) as error:  # The usual path answers it.
            return error
        started.call.sent = len(body)
        return body if len(body) <= UNCOUNTED_BYTES else Reply(body, started.found.endpoint.status)

    def sent(self, started: Started) -> None:
        """Record a request whose answer was sent."""
        self._finished(started.call, started.found.endpoint.status, time.perf_counter() - started.begun)

    def resumed(self, started: Started, outcome: Outcome) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Return the ASGI application that answers a request by the usual path."""

        async def resume(scope: Scope, receive: Receive, send: Send) -> None:
            first = started.call
            call = Call(scope, receive, first.client, first.headers, self._bounds)
            call.principal, call.endpoint = first.principal, first.endpoint
            await self._server.resume(call, started.begun, outcome, send)

        return resume


class _Presumed:
    """Work of a caller whose credential is being checked; `ended` ends with both, or when the credential is refused."""

    def __init__(
        self,
        presumption: Presumption,
        begin: Callable[[], asyncio.Future[Any]],
        finish: Callable[[asyncio.Future[Any]], bytes],
    ) -> None:
        check, self._confirm = presumption.check, presumption.confirm
        self._begin, self._finish = begin, finish
        self._work: asyncio.Future[Any] | None = None
        self._is_accepted = False
        self.ended: asyncio.Future[None] = check.get_loop().create_future()
        check.add_done_callback(self._checked)

    def start(self) -> None:
        """Begin the work: at once if it only reads, else it begins once the credential was accepted."""
        try:
            self._work = self._begin()
        except PilotisError as error:  # `finish` raises it.
            self.ended.set_exception(error)
        else:
            self._work.add_done_callback(self._worked)

    def finish(self, ended: asyncio.Future[None]) -> bytes:
        """Return the body of the answer; raises the error of the credential, or of the work."""
        ended.result()
        assert self._work is not None
        return self._finish(self._work)

    def _checked(self, check: asyncio.Future[Any]) -> None:
        if self.ended.done():
            _ignore(check)
            return
        try:
            self._confirm(check.result())
        except Exception as error:  # `finish` raises it.
            self.ended.set_exception(error)
            return
        self._is_accepted = True
        if self._work is None:
            self.start()
        elif self._work.done():
            self.ended.set_result(None)

    def _worked(self, work: asyncio.Future[Any]) -> None:
        if self.ended.done():
            _ignore(work)
        elif self._is_accepted:
            self.ended.set_result(None)


def _beginning(prepared: Prepared | OnceKnown, presumption: Presumption) -> Callable[[], asyncio.Future[Any]]:
    if not isinstance(prepared, OnceKnown):
        return prepared[0]
    begin = prepared.begin
    return lambda: begin(presumption.member())


def working_for(
    call: Call, route: str, begin: Callable[Known, asyncio.Future[Any]]
) -> Callable[Known, asyncio.Future[Any]]:
    """Return what begins a task that works for the request; see `pilotis.kit.origin`."""

    def begin_for_call(*known: Known.args, **none: Known.kwargs) -> asyncio.Future[Any]:
        token = origin.begin(call.request_id, route)
        try:
            return begin(*known, **none)
        finally:
            origin.end(token)

    return begin_for_call


def reading_for(call: Call, route: str, prepared: Prepared | None) -> Prepared | None:
    """Return what was prepared, begun as such a task."""
    return None if prepared is None else (working_for(call, route, prepared[0]), prepared[1])


def writing_for(call: Call, route: str, write: Callable[Known, Awaitable[Any]]) -> Callable[Known, asyncio.Future[Any]]:
    """Return what begins a write as such a task: it runs again while it loses against others, as handlers do."""

    def begin(*known: Known.args, **none: Known.kwargs) -> asyncio.Future[Any]:
        return asyncio.ensure_future(repeated(partial(write, *known, **none)))

    return working_for(call, route, begin)


def _ignore(ended: asyncio.Future[Any]) -> None:
    """Take an outcome that nobody asks for any more, so that it is not told as an error without a reader."""
    _ = ended.cancelled() or ended.exception()


async def _disconnected() -> Message:
    """Receive nothing: the body of the request was taken."""
    return {"type": "http.disconnect"}


def lines_of(cors: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the header lines of every direct answer but its length and the request's id."""
    return header_lines([(b"content-type", _JSON), *cors])

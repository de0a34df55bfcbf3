"""uvicorn's HTTP protocol with limits: a maximum size of the request head, and time limits for every wait.

uvicorn leaves these to a reverse proxy, which Pilotis does not require. Without a limit, a single endless header would
use all memory, and most of the processor time until then.
"""

from __future__ import annotations

import asyncio
import math
import time
import weakref
from functools import partial
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pilotis.http.api.direct import MAX_BODY_BYTES, DirectRoutes, Found, Outcome, Started
from pilotis.http.api.request import ANSWERING, request_id_of
from pilotis.http.replies import errors
from pilotis.http.server.cached_answers import CachedAnswers
from pilotis.http.server.known_heads import MAX_BYTES, KnownHeads, Request, asker_of
from pilotis.http.server.single_write import direct_head
from pilotis.kit.errors import BadRequestError, PilotisError
from pilotis.kit.ids import uuid7_text
from pilotis.kit.pace import Pace
from pilotis.limits import Limits

MAX_HEAD_BYTES = 64 * 1024
# The body of a request with one of these comes in parts of its own, or after we have asked for it.
_UNUSUAL = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
_NOT_CACHED = _UNUSUAL | {b"content-length"}


class MalformedRequestError(BadRequestError):
    """400 `MALFORMED_REQUEST`: the received bytes are not an HTTP/1.1 request (RFC 9112)."""

    code = "MALFORMED_REQUEST"
    message = "This is not a valid HTTP/1.1 request."


class HeadTooLargeError(PilotisError):
    """431 `HEAD_TOO_LARGE`: the request line and headers are larger than 64 KiB."""

    status = 431
    code = "HEAD_TOO_LARGE"
    message = f"The request line and the headers are too large; at most {MAX_HEAD_BYTES} bytes are taken."


class _Woken:
    """In place of an event that nobody waits for."""

    def set(self) -> None:
        """Do nothing."""


class DirectExchange:
    """Stands in for uvicorn's cycle while a connection's request is answered directly; used again for each of them."""

    __slots__ = ("disconnected", "future", "keep_alive", "response_complete")

    more_body = False
    message_event = _Woken()

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = True
        self.future: asyncio.Future[Any] | None = None


class HttpProtocol(HttpToolsProtocol):
    """Passed to uvicorn as `http`. Requests rejected here get an error answer in the usual form."""

    stall_seconds = 60.0
    """Time limit for a request head."""
    bytes_per_second = 2000
    """Minimum rate at which a client reads an answer, after `grace_seconds`; with 0 only a pause of a minute counts."""
    grace_seconds = 30.0
    cached_answers: CachedAnswers | None = None
    """Answers that are sent at once."""
    direct: DirectRoutes | None = None
    """Routes that are answered without a task."""
    known_heads: KnownHeads | None = None
    """Heads that need not be parsed again."""

    # Whether the parser has taken all of the last request and nothing since; the bytes it takes now, if it had.
    _is_between = True
    _whole: bytes | None = None
    # Bytes since the last one that ended a head or belonged to a body: those of a head, or of a chunked body's trailer.
    _head_bytes = 0
    _head_due = 0.0
    _received = 0
    _at_body = False
    _upgrade_refused = False
    # The first is about the current request, the second about any request in the same received bytes.
    _is_answered = False
    _has_answered = False
    # The route of a request that is answered directly once its body is there, what of that has arrived, and the state.
    _found: Found | None = None
    _body: bytes = b""
    _exchange: DirectExchange | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _pace: Pace | None = None
    _unsent = 0
    _paused_at = 0.0
    # What the connection waits for is overdue then, by the loop's clock; and when its timer looks. An earlier timer
    # stays and looks again, because setting and cancelling one for each request costs as much as parsing it.
    _due = math.inf
    _timer_at = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, with a time limit."""
        super().connection_made(transport)
        self._wait_at_most(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        super().connection_lost(exc)
        super()._unset_keepalive_if_required()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Answer a request that is like an earlier one, or parse the bytes and set the time limit for the rest."""
        self._due = math.inf
        self._whole = data if self._is_between and len(data) <= MAX_BYTES else None
        if self._whole is not None and self._answer_known(data):
            # Empty lines between requests count for the next head alone.
            self._head_bytes = 0
            return
        self._at_body = self._has_answered = False
        self._received = len(data)
        try:
            self._parse(data)
        except httptools.HttpParserCallbackError as error:
            # The exception of a callback; the parser keeps it only as the context.
            refused = error.__context__
            self._refuse(refused if isinstance(refused, PilotisError) else MalformedRequestError())
            return
        except httptools.HttpParserError:
            self._refuse(MalformedRequestError())
            return
        if self._found is not None:
            # The rest of the body is still to come.
            self._begin_usually()
        if self._at_body:
            self._head_bytes = 0
        else:
            self._count(len(data))
        if self._head_bytes:
            self._wait_at_most(self._head_due - self.loop.time())
        elif self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            # Longer than `Call.chunks` waits, which answers a stalled body itself.
            self._wait_at_most(self.timeout_keep_alive)

    def on_message_begin(self) -> None:
        """Note that the parser is inside of a request."""
        self._is_between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the request, unless it must be parsed again or its answer is cached."""
        self._at_body = True
        if self._head_bytes + self._received > MAX_HEAD_BYTES and self._head_size() > MAX_HEAD_BYTES:
            raise HeadTooLargeError
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._upgrade_refused = True
            return
        self._is_answered = self.cached_answers is not None and self._send_cached(self.cached_answers)
        if not self._is_answered:
            self._found = self._find_direct()
            if self._found is None:
                super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a chunk of the body."""
        self._at_body = True
        if self._found is None:
            super().on_body(body)
        else:
            self._body += body
            if len(self._body) > MAX_BODY_BYTES:
                self._begin_usually()

    def on_message_complete(self) -> None:
        """End the request."""
        self._is_between = True
        if self._upgrade_refused or self._is_answered:
            return
        if self._found is not None:
            headers = dict(self.headers)
            request = Request(self.parser.get_method(), self.url, headers, asker_of(headers), self._body)
            if len(headers) == len(self.headers) and self._begin_directly(self._found, request):
                self._keep(request)
                return
            self._begin_usually()
        super().on_message_complete()
        if self._whole is None or self.parser.get_http_version() != "1.1" or not self.parser.should_keep_alive():
            return
        headers = dict(self.headers)
        if len(headers) == len(self.headers) and _UNUSUAL.isdisjoint(headers):
            self._keep(Request(self.parser.get_method(), self.url, headers, asker_of(headers), b""))

    def new_pace(self) -> Pace:
        """Return the `Pace` of a transfer on this connection."""
        return Pace(self.bytes_per_second, self.grace_seconds)

    def pause_writing(self) -> None:
        """Wait until the client has read the sent data, while it reads fast enough."""
        super().pause_writing()
        self._pace = self._pace or self.new_pace()
        self._unsent = self.transport.get_write_buffer_size()
        self._paused_at = self.loop.time()
        self._write_timer = self.loop.call_later(self._pace.seconds_left, self._check_writing)

    def resume_writing(self) -> None:
        """Resume sending."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
            self._count_taken()

    def on_response_complete(self) -> None:
        """Start the next of several pipelined requests, or wait for one."""
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            if self.flow.read_paused:
                self.flow.resume_reading()
            self._due = self.loop.time() + self.timeout_keep_alive
            if self._due < self._timer_at or self.timeout_keep_alive_task is None:
                self._wait_at_most(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long, unless the client is waiting for us."""
        self.timeout_keep_alive_task = None
        cycle = self.cycle
        if self._due == math.inf:
            return
        if (left := self._due - self.loop.time()) > 0:
            self._wait_at_most(left)
        elif cycle is not None and not cycle.response_complete and (self.flow.read_paused or not cycle.more_body):
            self._wait_at_most(self.stall_seconds)
        else:
            super().timeout_keep_alive_handler()

    def _unset_keepalive_if_required(self) -> None:
        self._due = math.inf

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._pace = None
        # Not the object itself, which refers to the scope: each request would be a reference cycle for the garbage
        # collector.
        cycle.scope["extensions"] = {ANSWERING: {"cycle": weakref.ref(cycle)}}
        super()._start_asgi_task(cycle, app)

    @property
    def _is_busy(self) -> bool:
        """Whether an earlier request is pending, or its answer is not sent."""
        cycle = self.cycle
        return (
            (cycle is not None and not cycle.response_complete) or self.flow.write_paused or self.transport.is_closing()
        )

    def _answer_known(self, data: bytes) -> bool:
        """Begin the request that these bytes are, if its head is known; return False to parse them."""
        request = None if self.known_heads is None or self._is_busy else self.known_heads.read(data)
        if request is None:
            return False
        direct, found = self.direct, None
        if direct is not None:
            found = direct.find(request.method, request.target) or direct.find_ready(request)
        if found is not None and self._begin_directly(found, request):
            return True
        answers = self.cached_answers
        is_cached = (
            answers is not None
            and request.method == b"GET"
            and _NOT_CACHED.isdisjoint(request.headers)
            and self._send(answers, request)
        )
        if not is_cached:
            self.cycle = self._new_cycle(request, keep_alive=True)
            self._start_asgi_task(self.cycle, self.app)
        return True

    def _keep(self, request: Request) -> None:
        """Keep the head of a request, if the request is all that has arrived."""
        if self._whole is not None and self.known_heads is not None:
            self.known_heads.keep(self._whole, request)

    def _find_direct(self) -> Found | None:
        """Return the route of the request whose head was read, if it may be answered without a task."""
        parser = self.parser
        if (
            self.direct is None
            or self._is_busy
            or self.expect_100_continue
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
        ):
            return None
        self._body = b""
        return self.direct.find(parser.get_method(), self.url)

    def _begin_usually(self) -> None:
        """Start the task of a request that was to be answered directly, with the part of its body that is there."""
        self._found = None
        super().on_headers_complete()
        if self._body:
            super().on_body(self._body)

    def _begin_directly(self, found: Found, request: Request) -> bool:
        """Begin the answer to a whole request; return False if it must be answered the usual way."""
        assert self.direct is not None
        address = self.client[0] if self.client else ""
        started = self.direct.begin(found, request, address)
        if started is None:
            return False
        self._found = self._pace = None
        exchange = self._exchange = self._exchange or DirectExchange()
        exchange.response_complete = False
        exchange.future = started.future
        self.cycle = exchange  # type: ignore[assignment]
        started.future.add_done_callback(partial(self._end_directly, started, request))
        return True

    def _end_directly(self, started: Started, request: Request, _: asyncio.Future[Any]) -> None:
        """Send the answer, or continue the usual way."""
        assert self.direct is not None
        exchange = self._exchange
        assert exchange is not None
        exchange.future = None
        answer = self.direct.end(started)
        if not isinstance(answer, bytes):
            self._resume(started, request, answer)
            return
        found = started.found
        exchange.response_complete = True
        if not self.transport.is_closing():
            head = direct_head(found.endpoint.status, self.server_state.default_headers)
            lines = b"content-length: %d\r\nx-request-id: %b\r\n" % (
                len(answer),
                started.call.client.request_id.encode(),
            )
            end = b"\r\n" if exchange.keep_alive else b"connection: close\r\n\r\n"
            self.transport.write(b"".join((head, found.lines, lines, end, answer)))
            if not exchange.keep_alive:
                self.transport.close()
        self.on_response_complete()
        self.direct.sent(started)

    def cancel_direct_answer(self) -> None:
        """Answer that the server stops, unless what is answered directly has ended. Others are tasks: uvicorn's."""
        if self._exchange is not None and self._exchange.future is not None:
            self._exchange.future.cancel()

    def _resume(self, started: Started, request: Request, outcome: Outcome) -> None:
        """Answer a request the usual way after all, with its scope and a task."""
        assert self.direct is not None
        exchange = self._exchange
        assert exchange is not None
        exchange.response_complete = True
        cycle = self._new_cycle(request, keep_alive=exchange.keep_alive)
        current: Any = self.cycle
        if current is exchange:
            self.cycle = cycle
        self._start_asgi_task(cycle, self.direct.resumed(started, outcome))  # type: ignore[arg-type]

    def _new_cycle(self, request: Request, *, keep_alive: bool) -> RequestResponseCycle:
        """Return uvicorn's object for a request that was not parsed, or not passed on, with its scope and its body."""
        url = httptools.parse_url(request.target)
        path = url.path.decode("ascii")
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": request.method.decode("ascii"),
            "root_path": self.root_path,
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": list(request.headers.items()),
            "state": self.app_state.copy(),
        }
        cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.body += request.body
        cycle.more_body, cycle.disconnected = False, self.transport.is_closing()
        # The body is there: whoever asks for it need not wait.
        cycle.message_event.set()
        return cycle

    def _send_cached(self, answers: CachedAnswers) -> bool:
        """Answer the request whose head was read, if its answer is cached and no earlier request is pending.

        Of several pipelined requests only one is answered this way: the others wait behind other connections.
        """
        parser = self.parser
        if (
            self._has_answered
            or self._is_busy
            or parser.get_method() != b"GET"
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
        ):
            return False
        headers = dict(self.headers)
        if len(headers) < len(self.headers) or not _NOT_CACHED.isdisjoint(headers):
            return False
        request = Request(b"GET", self.url, headers, asker_of(headers), b"")
        if not self._send(answers, request):
            return False
        self._has_answered = True
        self._keep(request)
        return True

    def _send(self, answers: CachedAnswers, request: Request) -> bool:
        """Send the answer to a GET request, if it is cached."""
        started = time.perf_counter()
        answer = answers.find(request.target, request.headers)
        if answer is None:
            return False
        request_id = request_id_of(request.headers)
        lines = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        last = b"x-request-id: %b\r\n\r\n" % request_id.encode()
        self._pace = None
        self.transport.write(b"".join([answer.head, *lines, last, answer.body]))
        self.on_response_complete()
        answers.sent(request_id, answer.status, time.perf_counter() - started)
        return True

    def _parse(self, data: bytes) -> None:
        """Feed the parser; a request for a protocol upgrade is parsed again as if it did not ask for it.

        A server may ignore `Upgrade` (RFC 9110, section 7.8). The parser does not: it takes the body for data of the
        other protocol. Java's HTTP client asks for HTTP/2 in its first request, even if that has a body.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                self._upgrade_refused = False
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = self._new_parser()

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # As in uvicorn: data that a client sends after its last request does not prevent the answer.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _head_without_upgrade(self) -> bytes:
        kept = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        version = self.parser.get_http_version().encode()
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.parser.get_method(), self.url, version, kept)

    def _count(self, size: int) -> None:
        if not self._head_bytes:
            self._head_due = self.loop.time() + self.stall_seconds
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HeadTooLargeError())

    def _head_size(self) -> int:
        """Return the approximate size of the request line and headers, in bytes."""
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _wait_at_most(self, seconds: float) -> None:
        if self.transport.is_closing():
            return
        self._due = self.loop.time() + seconds
        if self.timeout_keep_alive_task is None or self._due < self._timer_at:
            super()._unset_keepalive_if_required()
            self._timer_at = self._due
            self.timeout_keep_alive_task = self.loop.call_later(max(0.0, seconds), self.timeout_keep_alive_handler)

    def _check_writing(self) -> None:
        self._count_taken()
        assert self._pace is not None
        if self._pace.is_too_slow:
            self.transport.abort()
            return
        self._write_timer = self.loop.call_later(self._pace.seconds_left, self._check_writing)

    def _count_taken(self) -> None:
        """Count what the client has read since the last check, and how long that took."""
        assert self._pace is not None
        unsent, now = self.transport.get_write_buffer_size(), self.loop.time()
        self._pace.count(now - self._paused_at, max(0, self._unsent - unsent))
        self._unsent, self._paused_at = unsent, now

    def _refuse(self, error: PilotisError) -> None:
        """Answer a malformed request, and close the connection."""
        request_id = uuid7_text()
        body = errors.error_response(error, request_id).body
        assert isinstance(body, bytes)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[error.status] + head % (len(body), request_id.encode()) + body)
        self.transport.close()


def protocol_for(
    limits: Limits, answers: CachedAnswers | None = None, routes: DirectRoutes | None = None
) -> type[HttpProtocol]:
    """Return the protocol class with a server's minimum rate, its cached answers and its direct routes."""

    class LimitedProtocol(HttpProtocol):
        bytes_per_second = limits.transfer_bytes_per_second
        grace_seconds = float(limits.transfer_grace_seconds)
        cached_answers = answers
        direct = routes
        known_heads = KnownHeads()

    return LimitedProtocol

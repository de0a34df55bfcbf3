"""uvicorn's HTTP protocol with bounds: a head has a largest size, and nobody is waited for without end.

uvicorn leaves that to a proxy in front of it, which Pilotis does not ask for. Without a bound a single endless header
takes all memory, and most of the time on the way there.
"""

from __future__ import annotations

import asyncio
import sys
import weakref

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pilotis.http import failures
from pilotis.http.call import ANSWERING
from pilotis.kit.errors import BadRequestError, PilotisError
from pilotis.kit.ids import uuid7_text

MAX_HEAD_BYTES = 64 * 1024


class MalformedRequestError(BadRequestError):
    """400 `MALFORMED_REQUEST`: what came is no HTTP/1.1 request (RFC 9112)."""

    code = "MALFORMED_REQUEST"
    message = "This is not a valid HTTP/1.1 request."


class HeadTooLargeError(PilotisError):
    """431 `HEAD_TOO_LARGE`: request line and headers are larger than 64 KiB."""

    status = 431
    code = "HEAD_TOO_LARGE"
    message = f"The request line and the headers are too large; at most {MAX_HEAD_BYTES} bytes are taken."


class HttpProtocol(HttpToolsProtocol):
    """To be given to uvicorn as `http`. What is refused here gets the same shape of answer as everything else."""

    stall_seconds = 60.0
    """How long a head may take, and how long a client may take nothing of an answer."""

    # Bytes since the last one that ended a head or belonged to a body: those of a head, or of a chunked body's trailer.
    _head_bytes = 0
    _head_due = 0.0
    _at_body = False
    _upgrade_refused = False
    _write_timer: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, though not for ever."""
        super().connection_made(transport)
        self._wait_at_most(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the timers."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse what came, then see whether more of the same request is owed."""
        self._unset_keepalive_if_required()
        self._at_body = False
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(MalformedRequestError())
            return
        if self._at_body:
            self._head_bytes = 0
        else:
            self._count(len(data))
        if self._head_bytes:
            self._wait_at_most(self._head_due - self.loop.time())
        elif self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            # Longer than `Call.chunks` waits, which has an answer for it.
            self._wait_at_most(self.timeout_keep_alive)

    def on_headers_complete(self) -> None:
        """Start the request, unless it has to be parsed anew."""
        self._at_body = True
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._upgrade_refused = True
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on."""
        self._at_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        if not self._upgrade_refused:
            super().on_message_complete()

    def end_body(self) -> None:
        """Take the present request's body for ended: its rest was read from the socket, past the parser."""
        self.parser = self._new_parser()
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent, as long as it takes any of it."""
        super().pause_writing()
        self._unsent = sys.maxsize
        self._write_timer = self.loop.call_later(self.stall_seconds, self._check_writing)

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing came in time, unless it is the client who waits for us."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and (self.flow.read_paused or not cycle.more_body):
            self._wait_at_most(self.stall_seconds)
        else:
            super().timeout_keep_alive_handler()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        # Not the objects themselves, which have the scope: each request would be garbage that only the collector finds.
        cycle.scope["extensions"] = {ANSWERING: {"cycle": weakref.ref(cycle), "protocol": weakref.ref(self)}}
        super()._start_asgi_task(cycle, app)

    def _parse(self, data: bytes) -> None:
        """Feed the parser; a request that asks for another protocol is parsed again as if it did not.

        A server may ignore `Upgrade` (RFC 9110, section 7.8). The parser cannot: it takes the body for something of
        the other protocol. Java's client asks for HTTP/2 with its first request, whatever that has for a body.
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
        # As uvicorn does: what a client sends after its last request is no reason to keep the answer back.
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

    def _wait_at_most(self, seconds: float) -> None:
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(max(0.0, seconds), self.timeout_keep_alive_handler)

    def _check_writing(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.transport.abort()
            return
        self._unsent = unsent
        self._write_timer = self.loop.call_later(self.stall_seconds, self._check_writing)

    def _refuse(self, error: PilotisError) -> None:
        """Answer what never became a request, and close."""
        request_id = uuid7_text()
        body = failures.rendered(error, request_id).body
        assert isinstance(body, bytes)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[error.status] + head % (len(body), request_id.encode()) + body)
        self.transport.close()

"""The open event streams: their limits, heartbeats and ends.

Each stream waits for three things at once: the next event, the client's disconnection, and the server's stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Literal
from uuid import UUID

import structlog

from pilotis.http.api.cors import Headers
from pilotis.http.api.request import Call, ClientDisconnectedError, Send
from pilotis.http.replies.events import PING, RETRY, Event, Events, Pushed, bye
from pilotis.http.server.chunks import close_when_vanished, write_chunk
from pilotis.kit.errors import PilotisError, RateLimitedError, UnavailableError
from pilotis.limits import Limits

PING_SECONDS = 20.0
CHECK_SECONDS = 60.0
MAX_UNSENT_BYTES = 1_000_000
# One event is added to what its writer has found to be little enough.
_MAX_WRITTEN = 4 * MAX_UNSENT_BYTES
_GIVE_UP_SECONDS = 0.5
_ENDING = frozenset({401, 403, 404})

_log = structlog.get_logger("pilotis.streams")

Check = Callable[[], Awaitable[object]]
_End = Literal["gone", "stop", "over"]


class TooManyStreamsError(RateLimitedError):
    """429 `TOO_MANY_STREAMS`: the app has the maximum number of streams open."""

    code = "TOO_MANY_STREAMS"
    message = "The app has too many streams open. Close some of them."


class Streams:
    """The open streams of a process: at most `limits.streams`, and `app_streams` of each app."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_app: Counter[UUID | None] = Counter()
        self._ends: set[asyncio.Future[_End]] = set()
        self.is_stopping = False

    @property
    def count(self) -> int:
        """Return how many streams are open."""
        return self._by_app.total()

    def acquire(self, call: Call) -> None:
        """Count a stream that is about to start, until `release`; raises 429 or 503 errors."""
        app = call.principal.app
        if self.is_stopping or self.count >= self._limits.streams:
            raise UnavailableError
        if app is not None and self._by_app[app.app_id] >= app.limits.app_streams:
            raise TooManyStreamsError(headers={"Retry-After": "10"})
        self._by_app[None if app is None else app.app_id] += 1

    def release(self, call: Call) -> None:
        """Count a stream as ended."""
        app = call.principal.app
        self._by_app -= Counter({None if app is None else app.app_id: 1})

    def stop(self) -> None:
        """End all streams, and reject new ones."""
        self.is_stopping = True
        for end in self._ends:
            _set(end, "stop")

    async def follow(self, call: Call, status: int, headers: Headers, events: Events, send: Send, check: Check) -> None:
        """Send the events until the source or the server ends, the client disconnects, or the credential expires."""
        async with contextlib.aclosing(events.source) as source:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            if call.scope["method"] != "HEAD":
                end: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
                if self.is_stopping:
                    end.set_result("stop")
                self._ends.add(end)
                gone = asyncio.ensure_future(call.disconnected())
                gone.add_done_callback(lambda _: _set(end, "gone"))
                stream = _Stream(call, send, check, end)
                try:
                    reason = await stream.run(source)
                finally:
                    self._ends.discard(end)
                    gone.cancel()
                # The source has said itself that nothing follows.
                if not stream.is_over:
                    await _write(call, bye(reason), send)
            await _finish(call, send)

    async def hold(self, call: Call, status: int, headers: Headers, pushed: Pushed, send: Send, check: Check) -> None:
        """Keep an answer open to which others write, until they, the client, the server or the credential end it."""
        last = b""
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            if call.scope["method"] != "HEAD":
                end: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
                if self.is_stopping:
                    end.set_result("stop")
                self._ends.add(end)
                gone = asyncio.ensure_future(call.disconnected())
                gone.add_done_callback(lambda _: _set(end, "gone"))
                try:
                    last = await _held(call, pushed, _Outlet(call, send, end), check)
                finally:
                    self._ends.discard(end)
                    gone.cancel()
        finally:
            pushed.closed()
        if last:
            await _write(call, last, send)
        await _finish(call, send)


async def _held(call: Call, pushed: Pushed, outlet: _Outlet, check: Check) -> bytes:
    """Wait until an answer ends, and return what is sent last; raises `ClientDisconnectedError`."""
    if call.cycle is not None:
        close_when_vanished(call.cycle, PING_SECONDS)
    await _write(call, RETRY, outlet.send)
    opening = asyncio.ensure_future(pushed.opened(outlet))
    try:
        await asyncio.wait((opening, outlet.end), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
        while not outlet.end.done():
            await asyncio.wait((outlet.end, outlet.due), timeout=CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not outlet.end.done():
                # What becomes doubtful during the check is checked again.
                outlet.renew_due()
                try:
                    await check()
                except PilotisError as error:
                    if error.status in _ENDING:
                        return pushed.ending(error)
                    _log.warning("not checked", request_id=call.request_id, code=error.code)
    finally:
        opening.cancel()
        await asyncio.wait([opening])
    if outlet.end.result() == "gone":
        raise ClientDisconnectedError
    return pushed.ending(None) if outlet.end.result() == "stop" else b""


class _Outlet:
    """See `pilotis.http.replies.events.Outlet`."""

    def __init__(self, call: Call, send: Send, end: asyncio.Future[_End]) -> None:
        self._cycle = call.cycle
        self.send = send
        self.end = end
        self.due: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def renew_due(self) -> None:
        """Wait for the next `check_soon`."""
        if self.due.done():
            self.due = asyncio.get_running_loop().create_future()

    def check_soon(self) -> None:
        """See `Outlet.check_soon`."""
        if not self.due.done():
            self.due.set_result(None)

    def write(self, data: bytes) -> bool:
        """See `Outlet.write`."""
        return self._cycle is not None and not self.end.done() and write_chunk(self._cycle, data, _MAX_WRITTEN)

    @property
    def unsent(self) -> int:
        """See `Outlet.unsent`."""
        return 0 if self._cycle is None else self._cycle.transport.get_write_buffer_size()

    def close(self) -> None:
        """See `Outlet.close`."""
        _set(self.end, "over")


class _Stream:
    """One open stream."""

    def __init__(self, call: Call, send: Send, check: Check, end: asyncio.Future[_End]) -> None:
        self._call = call
        self._send = send
        self._check = check
        self._end = end
        self._now = asyncio.get_running_loop().time
        self._ping_at = self._now() + PING_SECONDS
        self._check_at = self._now() + CHECK_SECONDS
        self.is_over = False

    async def run(self, source: AsyncGenerator[Event]) -> str:
        """Send events and heartbeats; return why the stream ends, or None if its client has disconnected."""
        if self._call.cycle is not None:
            close_when_vanished(self._call.cycle, PING_SECONDS)
        await self._write(RETRY)
        following: asyncio.Future[Event] | None = None
        try:
            while True:
                following = following or asyncio.ensure_future(anext(source))
                seconds = min(self._ping_at, self._check_at) - self._now()
                await asyncio.wait(
                    (following, self._end), timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED
                )
                if self._end.done():
                    if self._end.result() == "gone":
                        raise ClientDisconnectedError
                    return "stop"
                if following.done():
                    try:
                        event = following.result()
                    except StopAsyncIteration:
                        return "end"
                    following = None
                    self.is_over = event.event == "end"
                    await self._write(event.encode())
                if not await self._keep_alive():
                    return "credential"
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait([following])

    async def _keep_alive(self) -> bool:
        """Send a heartbeat and check the credential when due; return whether the credential is still valid."""
        if self._now() >= self._check_at:
            self._check_at = self._now() + CHECK_SECONDS
            try:
                await self._check()
            except PilotisError as error:
                if error.status in _ENDING:
                    return False
                _log.warning("not checked", request_id=self._call.request_id, code=error.code)
        if self._now() >= self._ping_at:
            await self._write(PING)
        return True

    async def _write(self, data: bytes) -> None:
        await _write(self._call, data, self._send)
        self._ping_at = self._now() + PING_SECONDS


def _set(end: asyncio.Future[_End], how: _End) -> None:
    if not end.done():
        end.set_result(how)


async def _write(call: Call, data: bytes, send: Send) -> None:
    """Send bytes without waiting for the client; raises `ClientDisconnectedError` if it lags too far behind."""
    cycle = call.cycle
    if cycle is None:
        await send({"type": "http.response.body", "body": data, "more_body": True})
    elif not write_chunk(cycle, data, MAX_UNSENT_BYTES):
        raise ClientDisconnectedError


async def _finish(call: Call, send: Send) -> None:
    try:
        async with asyncio.timeout(_GIVE_UP_SECONDS):
            await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        if call.cycle is not None:
            call.cycle.transport.abort()

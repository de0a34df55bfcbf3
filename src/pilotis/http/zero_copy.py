"""Files go out without passing through this process: the kernel takes them from its page cache to the socket.

This is ASGI's extension `http.response.zerocopysend`, which uvicorn does not have. uvloop has no `sendfile` either, and
its transport keeps the socket to itself; so what is written here goes to a duplicate of the socket, once nothing that
the transport was given before is left.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from pilotis.http.call import ZERO_COPY, ClientDisconnectedError, Message, Receive, Scope, Send

_THREADS = 8
_MOST_BYTES = 4 << 20
_PAUSE_SECONDS = 0.005

Application = Callable[[Scope, Receive, Send], Any]
# What is not in the page cache is read from the disk while `sendfile` runs, so it does not run in the event loop.
_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sendfile")


class FileSending:
    """An application that is offered the extension, for one request of uvicorn's."""

    __slots__ = ("_application", "_cycle", "_send")

    def __init__(self, application: Application, cycle: RequestResponseCycle) -> None:
        self._application = application
        self._cycle = cycle
        self._send = cast("Send", cycle.send)

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> None:
        """Run the application."""
        scope["extensions"] = {ZERO_COPY: {}}
        await self._application(scope, receive, self._send_any)

    async def _send_any(self, message: Message) -> None:
        if message["type"] != ZERO_COPY:
            await self._send(message)
            return
        await self._send_file(message["file"], message["offset"], message["count"])
        await self._send({"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)})

    async def _send_file(self, file: int, offset: int, count: int) -> None:
        transport = self._cycle.transport
        if self._cycle.disconnected or transport.is_closing():
            raise ClientDisconnectedError
        # The transport may close its socket meanwhile, and the number come to stand for somebody else's.
        out = os.dup(transport.get_extra_info("socket").fileno())
        try:
            await self._transport_is_done()
            await _send_all(out, file, offset, count)
        except (BrokenPipeError, ConnectionResetError):
            self._cycle.disconnected = True
            transport.abort()
            raise ClientDisconnectedError from None
        finally:
            os.close(out)
        self._cycle.expected_content_length -= count

    async def _transport_is_done(self) -> None:
        transport = self._cycle.transport
        await asyncio.sleep(0)
        while transport.get_write_buffer_size() and not transport.is_closing():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_PAUSE_SECONDS)


async def _send_all(out: int, file: int, offset: int, count: int) -> None:
    end = offset + count
    while offset < end:
        sent = await _finished(_threads.submit(_send_some, out, file, offset, min(end - offset, _MOST_BYTES)))
        offset += sent
        if sent == 0:
            await _writable(out)


def _send_some(out: int, file: int, offset: int, count: int) -> int:
    """Send until there are no more bytes, or the socket takes none; return how many went."""
    sent = 0
    while sent < count:
        try:
            step = os.sendfile(out, file, offset + sent, count - sent)
        except BlockingIOError:
            break
        if not step:
            raise EOFError("The file is shorter than it was said to be.")
        sent += step
    return sent


async def _finished(work: Future[int]) -> int:
    """Wait for a thread's work to end, in any case: it uses descriptors that are to be closed."""
    future = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


async def _writable(file: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(file)

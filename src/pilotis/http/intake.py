"""Bodies of any length, taken piece by piece; large ones past the parser, from the socket, by a thread.

On the usual way each 64 KiB is copied five times, and wakes the event loop to be handed to a thread. A thread that
reads the socket itself copies a MiB once. The transport keeps its socket to itself, so a duplicate of it is read, while
the transport does not read.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from pilotis.http.call import Call, ClientDisconnectedError
from pilotis.http.protocol import HttpProtocol
from pilotis.kit.errors import PilotisError
from pilotis.kit.threads import finished

Sink = Callable[[memoryview], None]

_STALL_SECONDS = 60.0
_LARGE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_TURN_BYTES = 16 << 20
_WAKE_BYTES = 64 << 10
_PATIENCE_MILLISECONDS = 5
_threads = ThreadPoolExecutor(8, thread_name_prefix="intake")


class BodyStalledError(PilotisError):
    """408 `BODY_STALLED`: nothing more of the body came for a minute."""

    status = 408
    code = "BODY_STALLED"
    message = "Nothing more of the body came for a minute."


class Body(AsyncIterator[bytes]):
    """The body of a call, as it comes in; no more is read than is asked for. It is taken once, in either way.

    Both ways raise `BodyStalledError`, and `ClientDisconnectedError` where the body ends before its declared length.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._received = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece, usually of 64 KiB."""
        while not self._call.body_ended:
            if piece := await self._next():
                return piece
        raise StopAsyncIteration

    async def pour(self, sink: Sink) -> None:
        """Have a thread call the function with all pieces in order, each its own only for the time of the call.

        Raises whatever the function raises; when this ends, even by being cancelled, it is no longer called.
        """
        while not self._call.body_ended:
            piece = await self._next()
            rest = 0 if self._call.body_ended else _declared(self._call) - self._received
            protocol = self._call.protocol if rest >= _LARGE_BYTES else None
            if protocol is not None:
                # Before anything else is awaited: nothing more may reach the parser.
                protocol.flow.pause_reading()
            await finished(_threads.submit(sink, memoryview(piece)))
            if protocol is not None:
                await _pour_past_the_parser(protocol, rest, sink)
                self._call.body_ended = True

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(_STALL_SECONDS):
                message = await self._call.next_message()
        except TimeoutError:
            raise BodyStalledError from None
        piece: bytes = message.get("body", b"")
        self._received += len(piece)
        return piece


def _declared(call: Call) -> int:
    length = call.headers.get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


async def _pour_past_the_parser(protocol: HttpProtocol, count: int, sink: Sink) -> None:
    """Pour the last `count` bytes of the present request's body."""
    connection = protocol.transport.get_extra_info("socket")
    with socket.socket(fileno=os.dup(connection.fileno())) as incoming:
        try:
            while count:
                in_time = await _readable(incoming, min(count, _WAKE_BYTES))
                poured = await finished(_threads.submit(_pour_some, incoming, min(count, _TURN_BYTES), sink))
                if not (poured or in_time):
                    raise BodyStalledError
                count -= poured
            protocol.end_body()
        finally:
            # It is the transport's socket, too.
            _wake_at(incoming, 1)
            protocol.flow.resume_reading()


def _pour_some(incoming: socket.socket, count: int, sink: Sink) -> int:
    """Pour so many bytes, or as many as come without a pause; return how many."""
    buffer = memoryview(bytearray(min(count, _PIECE_BYTES)))
    patience = select.poll()
    patience.register(incoming, select.POLLIN)
    left = count
    while left:
        _wake_at(incoming, min(left, _PIECE_BYTES))
        is_slow = not patience.poll(_PATIENCE_MILLISECONDS)
        try:
            size = incoming.recv_into(buffer[:left])
        except BlockingIOError:
            break
        except ConnectionError:
            raise ClientDisconnectedError from None
        if not size:
            raise ClientDisconnectedError
        sink(buffer[:size])
        left -= size
        if is_slow:
            break
    return count - left


def _wake_at(incoming: socket.socket, count: int) -> None:
    """Have the kernel tell of so many bytes, or of the connection's end, but not of less."""
    incoming.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


async def _readable(incoming: socket.socket, count: int) -> bool:
    """Wait for so many bytes, or the connection's end; False if neither came in time."""
    _wake_at(incoming, count)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(incoming.fileno(), ready.set)
    try:
        async with asyncio.timeout(_STALL_SECONDS):
            await ready.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(incoming.fileno())
    return True

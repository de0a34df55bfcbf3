"""Sends files with `sendfile`: the kernel copies them from its page cache to the socket.

Neither uvicorn nor uvloop supports this, and the transport does not expose its socket. So the file is written to a
duplicate of the socket, once the transport has sent everything it was given before. On an encrypted connection the
transport gets the file instead.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from pilotis.http.api.request import ClientDisconnectedError
from pilotis.kit.pace import Pace
from pilotis.kit.threads import finished

_THREADS = 8
_MAX_BYTES = 4 << 20
_PAUSE_SECONDS = 0.005
# Bytes in the socket beyond what the network accepts only use memory, and would be sent while acknowledgements are
# processed: on a loopback by the receiver's processor, which made reads a third slower.
_MAX_UNSENT_BYTES = 128 << 10
# What is read and encrypted at a time: 128 and 512 kB take as much processor time.
_RECORDS_BYTES = 256 << 10

# Data that is not in the page cache is read from the disk during `sendfile`, so it runs outside the event loop.
_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sendfile")


async def send_file(cycle: RequestResponseCycle, file: int, offset: int, count: int, pace: Pace) -> None:
    """Send part of an open file as part of the body of uvicorn's current answer, whose length is declared.

    Raises `EOFError` if the file is shorter, and `ClientDisconnectedError` if the client disconnects or reads too
    slowly for `pace`. When it returns or is cancelled, the descriptor is no longer in use.
    """
    transport = cycle.transport
    if cycle.disconnected or transport.is_closing():
        raise ClientDisconnectedError
    if transport.get_extra_info("sslcontext") is not None:
        await _send_encrypted(cycle, file, offset, count)
        return
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
    # The transport may close its socket meanwhile, and its number may be reused.
    out = os.dup(connection.fileno())
    try:
        await _nothing_left(transport)
        await _send_all(out, file, offset, count, pace)
    except (BrokenPipeError, ConnectionResetError, TimeoutError):
        cycle.disconnected = True
        transport.abort()
        raise ClientDisconnectedError from None
    finally:
        os.close(out)
    cycle.expected_content_length -= count


async def _send_encrypted(cycle: RequestResponseCycle, file: int, offset: int, count: int) -> None:
    """Write the file to the transport as fast as the client reads; the protocol ends the connection of a slow one."""
    end = offset + count
    buffer = memoryview(bytearray(min(count, _RECORDS_BYTES)))
    while offset < end:
        size = min(end - offset, len(buffer))
        read = _read_cached(file, buffer[:size], offset)
        if read is None:
            read = await finished(_threads.submit(os.preadv, file, [buffer[:size]], offset))
        if not read:
            raise EOFError("The file is shorter than its declared length.")
        offset += read
        if cycle.flow.write_paused:
            await cycle.flow.drain()
        else:
            await asyncio.sleep(0)
        if cycle.disconnected or cycle.transport.is_closing():
            raise ClientDisconnectedError
        cycle.transport.write(buffer[:read])
        if cycle.transport.get_write_buffer_size():
            # What is not encrypted yet refers to it.
            buffer = memoryview(bytearray(len(buffer)))
    cycle.expected_content_length -= count


def _read_cached(file: int, buffer: memoryview, offset: int) -> int | None:
    """Read what is in the page cache, without a thread, and return how much; None if that cannot be done."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.preadv(file, [buffer], offset, os.RWF_NOWAIT)
    return None


async def _nothing_left(transport: asyncio.Transport) -> None:
    await asyncio.sleep(0)
    while transport.get_write_buffer_size() and not transport.is_closing():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_PAUSE_SECONDS)


async def _send_all(out: int, file: int, offset: int, count: int, pace: Pace) -> None:
    end = offset + count
    waited = 0.0
    while offset < end:
        sent = await finished(_threads.submit(_send_some, out, file, offset, min(end - offset, _MAX_BYTES)))
        offset += sent
        pace.count(waited, sent)
        waited = 0.0
        if sent == 0:
            waited = await _writable(out, pace.seconds_left)


def _send_some(out: int, file: int, offset: int, count: int) -> int:
    """Send until no bytes are left or the socket is full; return how many were sent."""
    sent = 0
    while sent < count:
        try:
            step = os.sendfile(out, file, offset + sent, count - sent)
        except BlockingIOError:
            break
        if not step:
            raise EOFError("The file is shorter than its declared length.")
        sent += step
    return sent


async def _writable(file: int, seconds: float) -> float:
    """Wait until the socket is writable, and return how long that took; raises `TimeoutError` after `seconds`."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ready = asyncio.Event()
    loop.add_writer(file, ready.set)
    try:
        async with asyncio.timeout(seconds):
            await ready.wait()
    finally:
        loop.remove_writer(file)
    return loop.time() - begun

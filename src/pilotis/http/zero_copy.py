"""Files go out without passing through this process: the kernel takes them from its page cache to the socket.

Neither uvicorn nor uvloop can do that, and the transport keeps the socket to itself; so what is sent here goes to a
duplicate of the socket, once nothing that the transport was given before is left.
"""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from pilotis.http.call import ClientDisconnectedError
from pilotis.kit.threads import finished

_THREADS = 8
_MOST_BYTES = 4 << 20
_PAUSE_SECONDS = 0.005
# What lies in a socket beyond what the network takes only fills memory, and it would be sent on as acknowledgements
# come in: on a loopback by the receiver's processor, which made reads a third slower.
_MOST_UNSENT_BYTES = 128 << 10

# What is not in the page cache is read from the disk while `sendfile` runs, so it does not run in the event loop.
_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sendfile")


async def send_file(cycle: RequestResponseCycle, file: int, offset: int, count: int) -> None:
    """Send a part of an open file as the body, or a part of it, of uvicorn's present answer, whose length is declared.

    Raises `ClientDisconnectedError`, and `EOFError` where the file is shorter. When it ends, even by being cancelled,
    the descriptor is no longer used.
    """
    transport = cycle.transport
    if cycle.disconnected or transport.is_closing():
        raise ClientDisconnectedError
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MOST_UNSENT_BYTES)
    # The transport may close its socket meanwhile, and the number come to stand for somebody else's.
    out = os.dup(connection.fileno())
    try:
        await _nothing_left(transport)
        await _send_all(out, file, offset, count)
    except (BrokenPipeError, ConnectionResetError):
        cycle.disconnected = True
        transport.abort()
        raise ClientDisconnectedError from None
    finally:
        os.close(out)
    cycle.expected_content_length -= count


async def _nothing_left(transport: asyncio.Transport) -> None:
    await asyncio.sleep(0)
    while transport.get_write_buffer_size() and not transport.is_closing():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_PAUSE_SECONDS)


async def _send_all(out: int, file: int, offset: int, count: int) -> None:
    end = offset + count
    while offset < end:
        sent = await finished(_threads.submit(_send_some, out, file, offset, min(end - offset, _MOST_BYTES)))
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


async def _writable(file: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(file)

"""Chunks of an answer without a known end, written without waiting for the client.

uvicorn's `send` waits until the client has read enough of the earlier data. While it waits, the answer cannot be ended,
and data piles up unnoticed.
"""

from __future__ import annotations

import socket

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def write_chunk(cycle: RequestResponseCycle, data: bytes, max_unsent: int) -> bool:
    """Write a chunk of a body without a declared length, and return True.

    If more than `max_unsent` bytes would wait for the client, the connection is cut and False returned.
    """
    transport = cycle.transport
    if cycle.disconnected or transport.is_closing():
        return False
    if transport.get_write_buffer_size() + len(data) > max_unsent:
        transport.abort()
        return False
    transport.write(b"%x\r\n%b\r\n" % (len(data), data) if cycle.chunked_encoding else data)
    return True


def close_when_vanished(cycle: RequestResponseCycle, seconds: float) -> None:
    """Let the kernel close the connection if sent bytes are not acknowledged in time (RFC 5482)."""
    connection = cycle.transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if connection is not None and option is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))

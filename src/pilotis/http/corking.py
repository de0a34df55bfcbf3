"""uvicorn's HTTP protocol, but what is written in one turn of the event loop leaves in one packet.

uvicorn writes an answer's head and its body apart, and uvloop sends each write at once. That makes two system calls
and two packets of nearly every answer; a client may even wake up twice.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pilotis.http.call import ANSWERING

_MOST_BYTES = 64 * 1024


class CorkedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a cork between it and its transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the cork between the protocol and its transport."""
        super().connection_made(cast("asyncio.Transport", _Cork(transport, self.loop)))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        cycle.scope["extensions"] = {ANSWERING: {"cycle": cycle}}
        super()._start_asgi_task(cycle, app)


class _Cork:
    """A transport that holds writes back until the loop's next turn, or until they are large."""

    __slots__ = ("_held", "_loop", "_size", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send the bytes, together with what else is written before the loop's next turn."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self._flush()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are still to be sent."""
        self._flush()
        return self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send what is held, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            held, self._held, self._size = self._held, [], 0
            self._transport.write(b"".join(held))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

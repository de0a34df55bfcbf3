"""A link between two parts of a cluster, which can be cut, silenced in one direction, slowed down, or led elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.accepting import accepting
from tests.database_proxy import DatabaseProxy, Direction, Statements, Streams

Opens = Callable[[], Awaitable[Streams]]
BOTH: frozenset[Direction] = frozenset({"request", "answer"})


class Link(DatabaseProxy):
    """Listens on a port of loopback, and passes on to where `leads_to` connects.

    What a silenced direction holds back is passed on when it is healed, as TCP does after a partition; connections that
    were closed meanwhile are lost with it. A link that leads nowhere closes each connection at once.
    """

    def __init__(self, leads_to: Opens | None) -> None:
        super().__init__(self._connect)
        self.leads_to = leads_to
        self.delay_seconds = 0.0
        self.port = 0
        self._silent: frozenset[Direction] = frozenset()
        self._healed = asyncio.Event()
        self._healed.set()
        self._left: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._listening: asyncio.Server | None = None

    async def open(self, port: int = 0) -> None:
        """Listen, by default on a free port."""
        self._listening = await self.serve(port)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._listening is not None:
            self._listening.close()
        self.cut_all()

    def silence(self, *directions: Direction) -> None:
        """Hold back all that goes in these directions, or in both if none is named, until `heal`."""
        self._silent = frozenset(directions) or BOTH
        self._healed.clear()

    def cut_after(self, size: int) -> None:
        """Close the connection in which this many bytes more have been answered."""
        self._left = size

    def heal(self) -> None:
        """End every fault."""
        self.delay_seconds = 0.0
        self.cut_chance = 0.0
        self._left = None
        self._silent = frozenset()
        self._healed.set()

    def cut_all(self) -> None:
        """Close all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connect(self) -> Streams:
        if self.leads_to is None:
            raise ConnectionRefusedError
        return await self.leads_to()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await super()._connected(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _loses(self, direction: Direction, data: bytes, statements: Statements) -> bool:
        # Whatever protocol it is, which need not be that of PostgreSQL.
        return direction == "answer" and self._random.random() < self.cut_chance

    async def _passing(self, direction: Direction, data: bytes) -> None:
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        while direction in self._silent:
            await self._healed.wait()
        if direction == "answer" and self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._left = None
                raise ConnectionResetError


def to_port(port: int) -> Opens:
    """Connect to a port of loopback."""
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: str) -> Opens:
    """Connect to a unix socket."""
    return lambda: asyncio.open_unix_connection(path)


@contextlib.asynccontextmanager
async def unavailable_store() -> AsyncIterator[int]:
    """An object store that answers each request with 503, and its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    async with accepting(answer) as port:
        yield port

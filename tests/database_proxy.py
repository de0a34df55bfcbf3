"""A proxy before a server's PostgreSQL that can fall silent, as a network or a host that is gone, or lose answers."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.services import address
from tests.support import Server

Direction = Literal["request", "answer"]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class DatabaseProxy:
    """Passes bytes on; `silent` makes it swallow all of them, those of new connections too, and answer nothing."""

    def __init__(self, open_connection: Callable[[], Awaitable[Streams]]) -> None:
        self._open = open_connection
        self.silent = False
        self.arguments: dict[str, Any] = {}
        self._direction: Direction | None = None
        self._skip = 0
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        self.cut_chance = 0.0
        self.cuts = 0
        self._cut: bytes | None = None
        self._random = random.Random(11)

    def cut(self, text: str) -> None:
        """Lose the answer to the next execution of a statement that contains the text, by closing its connection."""
        self._cut = text.encode()

    def hold(self, direction: Direction, number: int) -> None:
        """Hold back the message with this number, counted from 0 and from now on, until `release` is called."""
        self._direction, self._skip = direction, number
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Let the message go on that is held back."""
        self._direction = None
        self._released.set()

    async def serve(self, port: int = 0) -> asyncio.Server:
        """Listen on a port, by default a free one."""
        return await asyncio.start_server(self._connected, "127.0.0.1", port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await self._open()
        except OSError:
            # As where nobody listens, but for the moment in which the connection was there.
            writer.transport.abort()
            return
        statements = Statements()
        ways = [
            self._pass("request", reader, server_writer, statements),
            self._pass("answer", server_reader, writer, statements),
        ]
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        server_writer.close()
        writer.close()

    async def _pass(
        self,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        statements: "Statements",
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.silent:
                    continue
                if self._loses(direction, data, statements):
                    self.cuts += 1
                    return
                if self._direction == direction:
                    await self._count()
                await self._passing(direction, data)
                writer.write(data)
                await writer.drain()

    async def _passing(self, direction: Direction, data: bytes) -> None:
        """Called with all that passes, just before; a subclass may hold it up, or raise `ConnectionError` to cut it."""

    def _loses(self, direction: Direction, data: bytes, statements: "Statements") -> bool:
        """Whether this answer is to be lost, with the connection."""
        if direction == "request":
            executed = statements.executed(data)
            if self._cut and executed is not None and self._cut in executed:
                self._cut = None
                statements.is_doomed = True
            return False
        return statements.is_doomed or self._random.random() < self.cut_chance

    async def _count(self) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._direction = None
        self.held.set()
        await self._released.wait()


class Statements:
    """The prepared statements of one connection, as asyncpg sends them: one message of Parse or Bind begins a chunk."""

    def __init__(self) -> None:
        self._texts: dict[bytes, bytes] = {}
        self.is_doomed = False

    def executed(self, data: bytes) -> bytes | None:
        """Return the text of the statement that the chunk executes; None if it executes none."""
        if data[:1] == b"P":
            name, text = data[5:].split(b"\0")[:2]
            self._texts[name] = text
        elif data[:1] == b"B":
            return self._texts.get(data[5:].split(b"\0")[1])
        elif data[:1] == b"Q":
            return data[5:]
        return None


@contextlib.asynccontextmanager
async def proxied(server: Server) -> AsyncIterator[tuple[DatabaseProxy, dict[str, Any]]]:
    """A proxy before the server's database, and the arguments with which asyncpg connects by way of it."""
    real = address(server)
    if "dsn" in real:
        url = urlsplit(real["dsn"])
        proxy = DatabaseProxy(lambda: asyncio.open_connection(url.hostname, url.port or 5432))
    else:
        proxy = DatabaseProxy(lambda: asyncio.open_unix_connection(f"{real['host']}/.s.PGSQL.{real['port']}"))
    listening = await proxy.serve()
    port = listening.sockets[0].getsockname()[1]
    try:
        proxy.arguments = real | {"host": "127.0.0.1", "port": port, "ssl": False}
        yield proxy, proxy.arguments
    finally:
        listening.close()

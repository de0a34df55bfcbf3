"""A proxy before a server's PostgreSQL that can fall silent, as a network or a host that is gone."""

import asyncio
import contextlib
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
        self._direction: Direction | None = None
        self._skip = 0
        self.held = asyncio.Event()
        self._released = asyncio.Event()

    def hold(self, direction: Direction, number: int) -> None:
        """Hold back the message with this number, counted from 0 and from now on, until `release` is called."""
        self._direction, self._skip = direction, number
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Let the message go on that is held back."""
        self._direction = None
        self._released.set()

    async def serve(self) -> asyncio.Server:
        """Listen on a free port."""
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await self._open()
        ways = [self._pass("request", reader, server_writer), self._pass("answer", server_reader, writer)]
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        server_writer.close()
        writer.close()

    async def _pass(self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.silent:
                    continue
                if self._direction == direction:
                    await self._count()
                writer.write(data)
                await writer.drain()

    async def _count(self) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._direction = None
        self.held.set()
        await self._released.wait()


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
        yield proxy, real | {"host": "127.0.0.1", "port": port, "ssl": False}
    finally:
        listening.close()

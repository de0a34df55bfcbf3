"""The connections of httpx's asynchronous clients in tests, by asyncio alone.

httpx uses AnyIO, with which a request takes a third more of a processor; and the tests send a hundred thousand.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
from httpcore._async import connection_pool
from httpcore._utils import is_socket_readable


def use() -> None:
    """Let every asynchronous client connect in this way."""
    connection_pool.AutoBackend = _Network  # type: ignore[misc]


@contextlib.contextmanager
def _as(timeout: type[Exception], error: type[Exception]) -> Iterator[None]:
    """Raise httpx's errors in the place of Python's."""
    try:
        yield
    except TimeoutError as raised:
        raise timeout(str(raised)) from raised
    except OSError as raised:
        raise error(str(raised)) from raised


class _Connection(httpcore.AsyncNetworkStream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _as(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return
        with _as(httpcore.WriteTimeout, httpcore.WriteError):
            self._writer.write(buffer)
            async with asyncio.timeout(timeout):
                await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await asyncio.sleep(0)
        # One by TLS that has ended by itself cannot be aborted in Python 3.11.2, of Debian 12.
        with contextlib.suppress(AttributeError):
            self._writer.transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Connection":
        try:
            with _as(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout):
                    await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except BaseException:
            await self.aclose()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            # The end of a connection has been read, or will be as soon as the event loop comes to it.
            return (
                self._reader.at_eof()
                or self._writer.is_closing()
                or is_socket_readable(self._writer.get_extra_info("socket"))
            )
        names = {"ssl_object": "ssl_object", "client_addr": "sockname", "server_addr": "peername", "socket": "socket"}
        return self._writer.get_extra_info(names.get(info, info))


class _Network(httpcore.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Connection:
        with _as(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(
                    host, port, local_addr=(local_address, 0) if local_address else None
                )
        for option in socket_options or ():
            writer.get_extra_info("socket").setsockopt(*option)
        return _Connection(reader, writer)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> _Connection:
        with _as(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                return _Connection(*await asyncio.open_unix_connection(path))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

"""An HTTP server for tests: it records the exact bytes of each request and answers as configured."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from tests.accepting import accepting

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Received:
    """One request: its first line, its headers in their order and spelling, its body, and the bytes of it all."""

    method: str
    path: str
    pairs: list[tuple[str, str]]
    body: bytes
    raw: bytes
    connection: int

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.pairs}


Answer = bytes | Callable[[Received, asyncio.StreamWriter], Awaitable[None]]
"""The bytes to answer with, or a coroutine that writes them."""


@dataclass
class Receiver:
    """Listens on loopback. `answers` has the answer for each path; one that is not there answers 200."""

    answers: dict[str, Answer] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    port: int = 0
    scheme: str = "http"

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(
        cls, answers: Mapping[str, Answer] | None = None, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> AsyncIterator[Self]:
        receiver = cls(dict(answers or {}), scheme="https" if tls else "http")
        async with accepting(receiver._serve, host, ssl=tls, limit=2**20) as receiver.port:
            yield receiver

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                request = await _read(reader, number)
                self.received.append(request)
                self.in_flight += 1
                self.max_in_flight = max(self.max_in_flight, self.in_flight)
                try:
                    await self._answer(request, writer)
                finally:
                    self.in_flight -= 1
        writer.transport.abort() if writer.is_closing() else writer.close()

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        answer = self.answers.get(request.path, OK)
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
            if b"content-length" not in answer.lower() and b" 204 " not in answer:
                writer.close()
        else:
            await answer(request, writer)


async def _read(reader: asyncio.StreamReader, connection: int) -> Received:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    pairs = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for name, value in pairs if name.lower() == "content-length"), 0)
    body = await reader.readexactly(length)
    return Received(method, path, pairs, body, head + body, connection)

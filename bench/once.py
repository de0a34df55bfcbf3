"""Sends requests that cannot be repeated, each once, on keep-alive connections, unlike `bench.load`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.load import LoadError


class Request(NamedTuple):
    """One request; `target` is its path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Sent(NamedTuple):
    """The answers' bodies in the order of the requests, the seconds all took together, and each one's in order."""

    bodies: list[bytes]
    seconds: float
    latencies: list[float]


class _Connection(asyncio.Protocol):
    """Sends a request, waits for its answer, and sends the next unsent one."""

    def __init__(self, waiting: deque[tuple[int, bytes]], bodies: list[bytes], latencies: list[float]) -> None:
        self._waiting = waiting
        self._bodies = bodies
        self._latencies = latencies
        self._parser = httptools.HttpResponseParser(self)
        self.failure: str | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._bodies[self._number] += body

    def on_message_complete(self) -> None:
        self._latencies[self._number] = time.perf_counter() - self._begun
        if self._parser.get_status_code() >= 400:
            self.failure = f"{self._parser.get_status_code()}: {self._bodies[self._number]!r}"
            self._waiting.clear()
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.failure = self.failure or repr(error)
        self.closed.set_result(None)

    def _next(self) -> None:
        if not self._waiting:
            self._transport.close()
            return
        self._number, request = self._waiting.popleft()
        self._begun = time.perf_counter()
        self._transport.write(request)


def send(url: str, requests: Sequence[Request], connections: int) -> Sent:
    """Send every request once and return the answers; raises `LoadError` if one is refused."""
    return uvloop.run(_send(url, requests, connections))


async def _send(url: str, requests: Sequence[Request], connections: int) -> Sent:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    waiting = deque(enumerate(_encoded(address.netloc, request) for request in requests))
    bodies, latencies = [b""] * len(requests), [0.0] * len(requests)
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    opened = [
        (await loop.create_connection(lambda: _Connection(waiting, bodies, latencies), address.hostname, address.port))[
            1
        ]
        for _ in range(connections)
    ]
    await asyncio.gather(*(connection.closed for connection in opened))
    seconds = time.perf_counter() - begun
    if failure := next((connection.failure for connection in opened if connection.failure), None):
        raise LoadError(f"A request to {url} failed with {failure}.")
    return Sent(bodies, seconds, latencies)


def _encoded(host: str, request: Request) -> bytes:
    lines = [f"{request.method} {request.target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + request.body

"""A plain load generator for machines without wrk: `python -m bench.client URL METHOD FILE`.

It is slower than wrk and uses more of the machine: compare its figures only with each other.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httptools
import msgspec
import uvloop

from bench.load import Result


class _Connection(asyncio.Protocol):
    """One connection: sends a request, waits for its answer, sends the next."""

    def __init__(self, requests: Iterator[bytes], until: float) -> None:
        self._requests = requests
        self._until = until
        self._parser = httptools.HttpResponseParser(self)
        self._sent = 0.0
        self.latencies: list[float] = []
        self.failed = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.latencies.append(time.perf_counter() - self._sent)
        self.failed += self._parser.get_status_code() >= 400
        if time.perf_counter() < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.failed += error is not None
        self.closed.set_result(None)

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(next(self._requests))


def _encoded(method: str, host: str, headers: list[str], line: str) -> bytes:
    path, _, body = line.partition("\t")
    content = body.encode()
    length = [f"Content-Length: {len(content)}"] if content else []
    head = "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, *length])
    return head.encode() + b"\r\n\r\n" + content


async def _run(options: argparse.Namespace, lines: list[str]) -> Result:
    address = urlsplit(options.url)
    requests = [_encoded(options.method, address.netloc, options.headers, line) for line in lines]
    random.shuffle(requests)
    turns = itertools.cycle(requests)
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    until = begun + options.seconds
    connections = [
        (await loop.create_connection(lambda: _Connection(turns, until), address.hostname, address.port))[1]
        for _ in range(options.connections)
    ]
    await asyncio.gather(*(connection.closed for connection in connections))
    seconds = time.perf_counter() - begun
    latencies = sorted(one for connection in connections for one in connection.latencies)
    failed = sum(connection.failed for connection in connections)
    p50, p99 = (1000 * latencies[int(part * (len(latencies) - 1))] if latencies else 0.0 for part in (0.5, 0.99))
    return Result(len(latencies), seconds, failed, p50, p99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("url", "method", "file"):
        parser.add_argument(name)
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    lines = Path(options.file).read_text().splitlines()
    print(msgspec.json.encode(uvloop.run(_run(options, lines))).decode())


if __name__ == "__main__":
    main()

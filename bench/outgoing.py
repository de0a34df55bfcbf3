"""Processor time of one outgoing POST of 450 bytes on a keep-alive connection, compared with aiohttp alone.

    python bench/outgoing.py [requests]

The receiver is a separate process and is not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp
import uvloop

from pilotis.http.outgoing import Outgoing, OutgoingSettings, Reach
from pilotis.http.outgoing_types import OutgoingRequest

BODY = b"x" * 450
HEADERS = {"Content-Type": "application/json", "Idempotency-Key": "0199a1b2-0000-7000-8000-000000000000"}
ROUNDS = 5
LOOPBACK = OutgoingSettings(host="127.0.0.1", base_url="http://127.0.0.1")


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with 200."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(BODY))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")


def receiver(told: Connection) -> None:
    """Listen on a free port, and print it."""

    async def serve() -> None:
        server = await asyncio.start_server(receive, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


async def microseconds(count: int, post: Callable[[], Awaitable[object]]) -> float:
    """Return the processor time of one call."""
    begun = time.process_time()
    for _ in range(count):
        await post()
    return (time.process_time() - begun) / count * 1e6


async def measure(url: str, count: int) -> None:
    """Print the least of several rounds, in turn."""
    guarded = Outgoing(LOOPBACK)
    request = OutgoingRequest(url=url, headers=HEADERS, body=BODY)
    async with aiohttp.ClientSession() as session:

        async def bare() -> None:
            async with session.post(url, data=BODY, headers=HEADERS) as answer:
                await answer.read()

        async def ours() -> None:
            await guarded.send(request, reach=Reach.SERVER, seconds=15, max_bytes=65_536)

        await bare()
        await ours()
        rounds = [(await microseconds(count, bare), await microseconds(count, ours)) for _ in range(ROUNDS)]
    await guarded.close()
    least = [min(column) for column in zip(*rounds, strict=True)]
    print(f"aiohttp {least[0]:.0f} µs, guarded {least[1]:.0f} µs, ratio {least[1] / least[0]:.2f}")


def main() -> None:
    """Run the benchmark."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receiver, args=(theirs,), daemon=True)
    process.start()
    uvloop.run(measure(f"http://127.0.0.1:{ours.recv()}/hook", count))
    process.terminate()


if __name__ == "__main__":
    main()

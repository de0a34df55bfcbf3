"""What live rows cost, and how fast they are told: `python -m bench.realtime`.

One server with one worker. `deliveries` is how many events a second a thousand subscribers of all rows get while rows
are created, `bare` how many a bare server on the same event loop writes to as many sockets. `latency` is the time from
a create's request to the event, one at a time. Creates are compared with those in a table that nobody listens to. With
`--idle 10000` so many streams are opened first that are told nothing, and the server's memory and processor measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import uvloop

from bench.servers import Pilotis

_EVENT = b"event: change\ndata: " + b"x" * 300 + b"\n\n"


class Stream:
    """A subscriber as cheap as it can be: it counts events by their beginning."""

    def __init__(self) -> None:
        self.changes = 0
        self.ready = asyncio.Event()
        self.told = asyncio.Event()

    async def open(self, port: int, key: str, body: dict[str, Any], token: str | None = None) -> None:
        """Open a stream, and wait for `ready`."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        content = json.dumps(body).encode()
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        head = (
            f"POST /v1/public/realtime HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Public-Key: {key}\r\n{bearer}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)
        self._task = asyncio.create_task(self._read())
        await asyncio.wait_for(self.ready.wait(), 60)

    async def _read(self) -> None:
        while chunk := await self._reader.read(1 << 16):
            if not self.ready.is_set() and b"event: ready" in chunk:
                self.ready.set()
            number = chunk.count(b"event: change")
            if number:
                self.changes += number
                self.told.set()

    def close(self) -> None:
        """End the stream."""
        self._task.cancel()
        self._writer.close()


async def _bare(clients: int, seconds: float) -> float:
    """Return how many events a second a bare server writes to sockets of this process."""
    writers: list[asyncio.StreamWriter] = []

    async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]

    async def drain(reader: asyncio.StreamReader) -> None:
        while await reader.read(1 << 16):
            pass

    tasks = [asyncio.create_task(drain(reader)) for reader, _ in streams]
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for writer in writers:
            writer.write(_EVENT)
        number += len(writers)
        await asyncio.sleep(0)
    taken = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    server.close()
    return number / taken


def _used(pid: int) -> tuple[float, float]:
    """Return the memory, megabytes, and the seconds of a processor that a process and its children use."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    memory = seconds = 0.0
    for one in [str(pid), *children]:
        name = Path(f"/proc/{one}/comm").read_text().strip()
        if name.startswith("postgres"):
            continue
        memory += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return memory, seconds


async def _idle(server: Pilotis, number: int) -> dict[str, float]:
    """Measure streams of one table in which nothing changes."""
    key, port = server.headers["X-Public-Key"], int(server.url.rpartition(":")[2])
    async with httpx.AsyncClient(base_url=server.url, headers={"X-Public-Key": key}, timeout=60) as client:
        body = {"title": "idle", "schema": {"name": "string"}, "access_level": "Public"}
        answer = await client.post("/v1/public/tables", json=body)
        table_id = answer.json()["id"]
    before, _ = _used(server.pid)
    streams = [Stream() for _ in range(number)]
    for stream in streams:
        await stream.open(port, key, {"subscriptions": [{"id": "a", "table_id": table_id}]})
    _, began = _used(server.pid)
    await asyncio.sleep(30)
    memory, ended = _used(server.pid)
    for stream in streams:
        stream.close()
    return {
        f"memory of {number} idle streams, MB": memory - before,
        f"processor of {number} idle streams, %": (ended - began) / 30 * 100,
    }


async def _measure(server: Pilotis, clients: int, seconds: float) -> dict[str, float]:
    app = server.headers["X-Public-Key"]
    port = int(server.url.rpartition(":")[2])
    results: dict[str, float] = {}
    async with httpx.AsyncClient(base_url=server.url, headers={"X-Public-Key": app}, timeout=60) as client:

        async def table(**body: Any) -> str:
            schema = {"name": "string", "room": "string", "n": "int"}
            answer = await client.post("/v1/public/tables", json={"schema": schema, "access_level": "Public", **body})
            answer.raise_for_status()
            return str(answer.json()["id"])

        async def creating(table_id: str, number: int) -> int:
            path, done, end = f"/v1/public/tables/{table_id}/data", 0, time.perf_counter() + seconds

            async def one() -> None:
                nonlocal done
                while time.perf_counter() < end:
                    answer = await client.post(path, json={"data": {"name": "x", "room": "a", "n": done}})
                    answer.raise_for_status()
                    done += 1

            await asyncio.gather(*(one() for _ in range(number)))
            return done

        plain, watched = await table(title="plain"), await table(title="watched")
        listener = Stream()
        await listener.open(port, app, {"subscriptions": [{"id": "a", "table_id": watched}]})
        rates: dict[str, list[float]] = {plain: [], watched: []}
        for _ in range(3):
            for table_id in (plain, watched):
                rates[table_id].append(await creating(table_id, 16) / seconds)
        results["create, watched beside plain"] = median(rates[watched]) / median(rates[plain])
        times = []
        for _ in range(200):
            listener.told.clear()
            began = time.perf_counter()
            await client.post(f"/v1/public/tables/{watched}/data", json={"data": {"name": "x"}})
            await listener.told.wait()
            times.append((time.perf_counter() - began) * 1000)
        results["latency p50, ms"] = median(times)
        results["latency p99, ms"] = quantiles(times, n=100)[98]
        listener.close()

        streams = [Stream() for _ in range(clients)]
        for stream in streams:
            await stream.open(port, app, {"subscriptions": [{"id": "a", "table_id": watched}]})
        began = time.perf_counter()
        rows = await creating(watched, 4)
        for _ in range(1200):
            if sum(stream.changes for stream in streams) >= rows * clients:
                break
            await asyncio.sleep(0.05)
        taken = time.perf_counter() - began
        results[f"deliveries a second, {clients} streams"] = sum(stream.changes for stream in streams) / taken
        for stream in streams:
            stream.close()
    return results


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--idle", type=int, default=0)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    uvloop.install()
    streams = ("CLIENT_LIVE_STREAMS", "APP_LIVE_STREAMS", "LIVE_STREAMS", "LIVE_PER_MINUTE")
    os.environ |= {f"PILOTIS_LIMITS_{name}": "1000000" for name in streams}
    with tempfile.TemporaryDirectory() as directory, Pilotis(Path(directory)) as server:
        results = asyncio.run(_idle(server, given.idle)) if given.idle else {}
        results |= asyncio.run(_measure(server, given.clients, given.seconds))
    results["bare events a second"] = asyncio.run(_bare(given.clients, given.seconds))
    for name, value in results.items():
        sys.stdout.write(f"{name}: {value:,.2f}\n")


if __name__ == "__main__":
    main()

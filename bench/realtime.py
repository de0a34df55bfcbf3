"""What live rows cost, and how fast they are told: `python -m bench.realtime [--pocketbase PROGRAM] [--idle 10000]`.

One server with one worker. `deliveries` is how many events a second a thousand subscribers of all rows get while rows
are created, with the server's own processor time for each; `bare` is how many a bare server on the same event loop
writes to as many sockets, and with a program of PocketBase the same is measured of it, in turn with Pilotis. `latency`
is the time from a create's request to the event, one at a time. Creates are compared with those in a table that nobody
listens to. With `--idle 10000` so many streams are opened first that are told nothing, and the server's memory and
processor measured; then 100 rows a second are changed, each of which one of them is about.
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
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import uvloop

from bench.peers.pocketbase import PocketBase
from bench.servers import Pilotis

_EVENT = b"event: change\ndata: " + b"x" * 300 + b"\n\n"
_TURNS = 3
_CHANGES_A_SECOND = 100
_ROW = {"name": "x", "room": "a", "n": 1}


class Stream(asyncio.Protocol):
    """A subscriber as cheap as it can be: it counts the ends of events."""

    def __init__(self) -> None:
        self.events = 0
        self.first = b""
        self.begun = asyncio.Event()
        self.told = asyncio.Event()
        self._ends_line = False

    async def open(self, port: int, head: str, body: bytes = b"") -> None:
        """Send a request, and wait for the first event of its answer."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", port)
        self._transport.write(head.encode() + b"\r\n" + body)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.begun.wait(), 60)
        if b"\ndata:" not in self.first:
            raise RuntimeError(f"The stream did not begin: {self.first[:1000]!r}")

    async def listen(self, port: int, key: str, asked: dict[str, Any]) -> None:
        """Open a live stream, and wait for `ready`."""
        content = json.dumps(asked).encode()
        head = (
            f"POST /v1/public/realtime HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Public-Key: {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        )
        await self.open(port, head, content)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if not self.begun.is_set():
            self.first += data
            if b"\ndata:" in self.first or not self.first.startswith(b"HTTP/1.1 200"):
                self.begun.set()
            return
        number = data.count(b"\n\n") + (self._ends_line and data[:1] == b"\n")
        self._ends_line = data[-1:] == b"\n" and data[-2:] != b"\n\n"
        if number:
            self.events += number
            self.told.set()

    def close(self) -> None:
        """End the stream."""
        self._transport.close()


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
    """Measure streams of one table, each of its own room, while nothing changes and while few rows do."""
    key, port = server.headers["X-Public-Key"], int(server.url.rpartition(":")[2])
    async with httpx.AsyncClient(base_url=server.url, headers={"X-Public-Key": key}, timeout=60) as client:
        body = {"title": "idle", "schema": {"room": "string"}, "access_level": "Public"}
        answer = await client.post("/v1/public/tables", json=body)
        table_id = answer.json()["id"]
    _, quiet = _used(server.pid)
    await asyncio.sleep(10)
    before, quieter = _used(server.pid)
    streams = [Stream() for _ in range(number)]
    opened = time.perf_counter()
    for at in range(0, number, 20):
        rooms = [{"id": "a", "table_id": table_id, "where": {"room": str(n)}} for n in range(at, at + 20)]
        pairs = zip(streams[at : at + 20], rooms, strict=False)
        await asyncio.gather(*(stream.listen(port, key, {"subscriptions": [room]}) for stream, room in pairs))
    opened = time.perf_counter() - opened
    _, began = _used(server.pid)
    await asyncio.sleep(30)
    memory, ended = _used(server.pid)
    told = await _few_changes(server, table_id, number)
    for stream in streams:
        stream.close()
    return told | {
        f"memory of {number} idle streams, MB": memory - before,
        f"processor of {number} idle streams, %": (ended - began) / 30 * 100,
        "processor of the server without streams, %": (quieter - quiet) / 10 * 100,
        "streams opened a second": number / opened,
    }


async def _few_changes(server: Pilotis, table_id: str, rooms: int) -> dict[str, float]:
    """Measure what changes cost of which few streams are told, beside those in a table that nobody listens to."""
    used = []
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as client:
        body = {"title": "unheard", "schema": {"room": "string"}, "access_level": "Public"}
        plain = (await client.post("/v1/public/tables", json=body)).json()["id"]
        for table in (plain, table_id):
            _, before = _used(server.pid)
            began = time.perf_counter()
            for number in range(10 * _CHANGES_A_SECOND):
                await asyncio.sleep(max(0.0, began + number / _CHANGES_A_SECOND - time.perf_counter()))
                row = {"data": {"room": str(number % rooms)}}
                (await client.post(f"/v1/public/tables/{table}/data", json=row)).raise_for_status()
            used.append((_used(server.pid)[1] - before) / (time.perf_counter() - began) * 100)
    return {
        f"processor of {_CHANGES_A_SECOND} creates a second, %": used[0],
        f"the same, one of {rooms} rooms is told of each, %": used[1],
    }


async def _deliveries(
    name: str, streams: Sequence[Stream], pid: int, client: httpx.AsyncClient, path: str, row: Any, seconds: float
) -> dict[str, float]:
    """Return how many events a second subscribers get while rows are created, and the server's time for each."""
    before, end, done = sum(stream.events for stream in streams), time.perf_counter() + seconds, 0
    _, used = _used(pid)
    began = time.perf_counter()

    async def create() -> None:
        nonlocal done
        while time.perf_counter() < end:
            answer = await client.post(path, json=row)
            answer.raise_for_status()
            done += 1

    await asyncio.gather(*(create() for _ in range(4)))
    for _ in range(1200):
        if sum(stream.events for stream in streams) - before >= done * len(streams):
            break
        await asyncio.sleep(0.02)
    told = sum(stream.events for stream in streams) - before
    taken = time.perf_counter() - began
    return {
        f"{name}: deliveries a second, {len(streams)} streams": told / taken,
        f"{name}: processor for a delivery, µs": (_used(pid)[1] - used) / max(told, 1) * 1e6,
    }


async def _followers_of_pocketbase(server: PocketBase, clients: int) -> list[Stream]:
    """Make a collection of three columns, and subscribe to it."""
    port = int(server.url.rpartition(":")[2])
    fields = [{"name": "name", "type": "text"}, {"name": "room", "type": "text"}, {"name": "n", "type": "number"}]
    rules = dict.fromkeys(["listRule", "viewRule", "createRule"], "")
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        made = {"name": "watched", "type": "base", "fields": fields, **rules}
        (await client.post("/api/collections", json=made, headers=server.admin)).raise_for_status()
        streams = [Stream() for _ in range(clients)]
        for stream in streams:
            await stream.open(port, f"GET /api/realtime HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n")
            client_id = json.loads(stream.first.partition(b"data:")[2].partition(b"\n")[0])["clientId"]
            asked = {"clientId": client_id, "subscriptions": ["watched/*"]}
            (await client.post("/api/realtime", json=asked)).raise_for_status()
    return streams


async def _creating(client: httpx.AsyncClient, table_id: str, number: int, seconds: float) -> int:
    """Return how many rows were created in some seconds, a number of them side by side."""
    path, done, end = f"/v1/public/tables/{table_id}/data", 0, time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        while time.perf_counter() < end:
            answer = await client.post(path, json={"data": _ROW})
            answer.raise_for_status()
            done += 1

    await asyncio.gather(*(one() for _ in range(number)))
    return done


async def _measure(server: Pilotis, rival: PocketBase | None, clients: int, seconds: float) -> dict[str, float]:
    app = server.headers["X-Public-Key"]
    port = int(server.url.rpartition(":")[2])
    results: dict[str, float] = {}
    async with (
        httpx.AsyncClient(base_url=server.url, headers={"X-Public-Key": app}, timeout=60) as client,
        httpx.AsyncClient(base_url=server.url if rival is None else rival.url, timeout=60) as other,
    ):

        async def table(**body: Any) -> str:
            schema = {"name": "string", "room": "string", "n": "int"}
            answer = await client.post("/v1/public/tables", json={"schema": schema, "access_level": "Public", **body})
            answer.raise_for_status()
            return str(answer.json()["id"])

        plain, watched = await table(title="plain"), await table(title="watched")
        asked = {"subscriptions": [{"id": "a", "table_id": watched}]}
        listener = Stream()
        await listener.listen(port, app, asked)
        rates: dict[str, list[float]] = {plain: [], watched: []}
        for _ in range(_TURNS):
            for table_id in (plain, watched):
                rates[table_id].append(await _creating(client, table_id, 16, seconds) / seconds)
        results["create, watched beside plain"] = median(rates[watched]) / median(rates[plain])
        times = []
        for _ in range(200):
            listener.told.clear()
            began = time.perf_counter()
            await client.post(f"/v1/public/tables/{watched}/data", json={"data": _ROW})
            await listener.told.wait()
            times.append((time.perf_counter() - began) * 1000)
        results["latency p50, ms"] = median(times)
        results["latency p99, ms"] = quantiles(times, n=100)[98]
        listener.close()

        streams = [Stream() for _ in range(clients)]
        for stream in streams:
            await stream.listen(port, app, asked)
        theirs = [] if rival is None else await _followers_of_pocketbase(rival, clients)
        found: dict[str, list[float]] = {}
        for _ in range(_TURNS):
            path = f"/v1/public/tables/{watched}/data"
            turn = await _deliveries("Pilotis", streams, server.pid, client, path, {"data": _ROW}, seconds)
            if rival is not None:
                path = "/api/collections/watched/records"
                turn |= await _deliveries("PocketBase", theirs, rival.pids[0], other, path, _ROW, seconds)
            turn["bare: events a second"] = await _bare(clients, seconds)
            for name, value in turn.items():
                found.setdefault(name, []).append(value)
        for stream in [*streams, *theirs]:
            stream.close()
    return results | {name: median(values) for name, values in found.items()}


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--pocketbase", type=Path)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    uvloop.install()
    streams = ("CLIENT_LIVE_STREAMS", "APP_LIVE_STREAMS", "LIVE_STREAMS", "LIVE_PER_MINUTE")
    os.environ |= {f"PILOTIS_LIMITS_{name}": "1000000" for name in streams}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        place = Path(directory)
        server = stack.enter_context(Pilotis(place))
        results = asyncio.run(_idle(server, given.idle)) if given.idle else {}
        rival = stack.enter_context(PocketBase(given.pocketbase, place, 0)) if given.pocketbase else None
        results |= asyncio.run(_measure(server, rival, given.clients, given.seconds))
    for name, value in results.items():
        sys.stdout.write(f"{name}: {value:,.2f}\n")


if __name__ == "__main__":
    main()

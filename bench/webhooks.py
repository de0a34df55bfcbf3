"""Webhooks: deliveries a second beside bare loops, from a change to its receiver, and what listening costs.

    python -m bench.webhooks [DELIVERIES]

One Pilotis with one worker, and a receiver in a process of its own that answers 200 at once. The loops beside it send
as many POSTs of the same size, with as many in flight, and record nothing. All of it shares the machine's processors.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import aiohttp
import asyncpg
import httpx
import msgspec
import uvloop

from bench import load
from bench.load import Requests
from bench.servers import Pilotis
from pilotis.events.feature import EventsFeature
from pilotis.jobs.lanes import add_work
from pilotis.kit.ids import uuid7
from pilotis.server import Node
from pilotis.settings import Settings
from pilotis.webhooks import delivery_store, log_store
from pilotis.webhooks.target import KIND

BODY = b"x" * 450
HEADERS = {"Content-Type": "application/json", "Idempotency-Key": "0199a1b2-0000-7000-8000-000000000000"}
ROUNDS = 3
PENDING = 100_000
FANNED_OUT = 2_000


class Told(msgspec.Struct):
    """What the receiver reads of an event's row: the moment at which the request for its creation was sent."""

    sent: float


class _Row(msgspec.Struct):
    data: Told


class _Data(msgspec.Struct):
    row: _Row


class _Event(msgspec.Struct):
    data: _Data


class Receiver(asyncio.Protocol):
    """Answers each request with 200 and notes how long its event was under way; asks for a pause below `/paused`."""

    delays: list[float] = []  # noqa: RUF012 - of all connections
    decoder = msgspec.json.Decoder(_Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) > 0:
            lines = self.buffer[:head].lower()
            start = lines.index(b"content-length:") + len(b"content-length:")
            end = head + 4 + int(lines[start : (lines + b"\r").index(b"\r", start)])
            if len(self.buffer) < end:
                return
            body, self.buffer = self.buffer[head + 4 : end], self.buffer[end:]
            if body.startswith(b"{"):
                with contextlib.suppress(msgspec.ValidationError):
                    self.delays.append(time.monotonic() - self.decoder.decode(body).data.row.data.sent)
            if lines.startswith(b"post /paused"):
                self.transport.write(b"HTTP/1.1 429 Wait\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n")
            else:
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def receive(pipe: Connection) -> None:
    """Listen on a free port, tell it, and hand the delays over whenever asked."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Receiver, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])

        def answer() -> None:
            pipe.recv()
            os.set_blocking(pipe.fileno(), True)  # uvloop changed it; a long list does not fit the pipe at once
            pipe.send(list(Receiver.delays))
            Receiver.delays.clear()

        loop.add_reader(pipe.fileno(), answer)
        await server.serve_forever()

    uvloop.run(serve())


class Stage(NamedTuple):
    """The server, its database, the receiver, and an app with its owner's headers."""

    pilotis: Pilotis
    database: asyncpg.Connection
    receiver: Connection
    port: int
    app_id: UUID
    headers: dict[str, str]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call a route and return what it answers."""
        answer = httpx.request(method, self.pilotis.url + path, json=body, headers=self.headers, timeout=120)
        answer.raise_for_status()
        return answer.json()

    def table(self, title: str) -> str:
        """Create a table and return its id."""
        body = {"title": title, "schema": {"sent": "number", "text": "string"}, "access_level": "Public"}
        table_id: str = self.call("POST", "/v1/public/tables", body)["id"]
        return table_id

    def webhook(self, table_id: str, path: str, in_flight: int) -> UUID:
        """Create a webhook for the rows of a table and return its id."""
        url = f"http://127.0.0.1:{self.port}{path}"
        body = {"url": url, "event_types": ["row.created"], "table_ids": [table_id], "max_in_flight": in_flight}
        return UUID(self.call("POST", f"/v1/apps/{self.app_id}/webhooks", body)["id"])

    def delays(self) -> list[float]:
        """Return how long events were under way since this was asked last, in milliseconds."""
        self.receiver.send(None)
        return [1000 * delay for delay in self.receiver.recv()]

    async def settled(self, *, pending: bool = True) -> None:
        """Wait until every event is dispatched and, with `pending`, no delivery is pending."""
        outbox = f"select exists (select from app_{self.app_id.hex}.__events)"
        deliveries = "select exists (select from pilotis.deliveries where state = 'pending')"
        while await self.database.fetchval(outbox) or (pending and await self.database.fetchval(deliveries)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def deliveries(stage: Stage, endpoints: int, in_flight: int, count: int) -> None:
    """Send deliveries that are there already once more, and as many POSTs by bare loops, in turn."""
    table_id = stage.table(f"{endpoints} endpoints")
    webhooks = [stage.webhook(table_id, f"/{number}", in_flight) for number in range(endpoints)]
    for start in range(0, count // endpoints, 1000):
        rows = [{"sent": 0, "text": "t" * 100} for _ in range(min(1000, count // endpoints - start))]
        await asyncio.to_thread(stage.call, "POST", f"/v1/public/tables/{table_id}/data/bulk", {"data": rows})
    await stage.settled()
    rates: dict[str, list[float]] = {"ours": [], "httpx": [], "aiohttp": []}
    costs: dict[str, list[float]] = {"ours": [], "aiohttp": []}
    urls = [f"http://127.0.0.1:{stage.port}/{number}" for number in range(endpoints)]
    for _ in range(ROUNDS):
        begun, used = time.monotonic(), stage.pilotis.processor_seconds()
        await recover(stage, webhooks)
        await stage.settled()
        rates["ours"].append(count / (time.monotonic() - begun))
        costs["ours"].append((stage.pilotis.processor_seconds() - used) / count)
        rates["httpx"].append(await by_httpx(urls, endpoints * in_flight, count // 4))
        used = time.process_time()
        rates["aiohttp"].append(await by_aiohttp(urls, endpoints * in_flight, count))
        costs["aiohttp"].append((time.process_time() - used) / count)
    ours, slow, fast = (statistics.median(rates[name]) for name in ("ours", "httpx", "aiohttp"))
    own, bare = (1e6 * statistics.median(costs[name]) for name in ("ours", "aiohttp"))
    print(
        f"{endpoints} endpoints, {in_flight} in flight each: {ours:.0f} deliveries/s;"
        f" httpx {slow:.0f}, ratio {ours / slow:.2f}; aiohttp {fast:.0f}, ratio {ours / fast:.2f};"
        f" processor time of one: {own:.0f} µs, of aiohttp {bare:.0f} µs",
        flush=True,
    )
    for one in webhooks:
        stage.call("DELETE", f"/v1/apps/{stage.app_id}/webhooks/{one}")


async def recover(stage: Stage, webhooks: Sequence[UUID]) -> None:
    """Make all deliveries of webhooks pending again; the route for the last of them wakes the server for all."""
    *others, last = webhooks
    async with stage.database.transaction():
        await add_work(stage.database, KIND, [(stage.app_id, one) for one in others])
        for one in others:
            await log_store.recover(
                stage.database, stage.app_id, one, datetime(2026, 1, 1, tzinfo=UTC), None, None, ["succeeded"]
            )
    body = {"since": "2026-01-01T00:00:00Z", "include_succeeded": True}
    await asyncio.to_thread(stage.call, "POST", f"/v1/apps/{stage.app_id}/webhooks/{last}/recover", body)


async def by_httpx(urls: Sequence[str], in_flight: int, count: int) -> float:
    """Return the rate of a bare loop of httpx."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def post(url: str) -> None:
            await client.post(url, content=BODY, headers=HEADERS)

        return await looped(post, urls, in_flight, count)


async def by_aiohttp(urls: Sequence[str], in_flight: int, count: int) -> float:
    """Return the rate of a bare loop of aiohttp."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post(url: str) -> None:
            async with session.post(url, data=BODY, headers=HEADERS) as answer:
                await answer.read()

        return await looped(post, urls, in_flight, count)


async def looped(post: Callable[[str], Awaitable[None]], urls: Sequence[str], in_flight: int, count: int) -> float:
    """Return how many calls a second come to an end with so many in flight."""
    left = iter(range(count))

    async def work() -> None:
        for number in left:
            await post(urls[number % len(urls)])

    begun = time.monotonic()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return count / (time.monotonic() - begun)


async def delay(stage: Stage) -> None:
    """Measure from the request that creates a row to the receiver of its event: one at a time, and 500 a second."""
    table_id = stage.table("delays")
    webhook = stage.webhook(table_id, "/delays", 32)
    path = f"{stage.pilotis.url}/v1/public/tables/{table_id}/data"
    async with aiohttp.ClientSession(headers=stage.pilotis.headers | stage.headers) as session:

        async def create_row() -> None:
            body = {"data": {"sent": time.monotonic(), "text": "t" * 100}}
            async with session.post(path, json=body) as answer:
                assert answer.status == 201, await answer.text()

        for seconds, number in ((0.1, 100), (1 / 500, 3000)):
            await stage.settled()
            stage.delays()
            tasks, begun = [], time.monotonic()
            for index in range(number):
                await asyncio.sleep(max(0, begun + index * seconds - time.monotonic()))
                tasks.append(asyncio.create_task(create_row()))
            await asyncio.gather(*tasks)
            await stage.settled()
            found = sorted(stage.delays())
            print(
                f"from the request to the receiver, {1 / seconds:.0f} a second: p50 {found[len(found) // 2]:.1f} ms,"
                f" p99 {found[len(found) * 99 // 100]:.1f} ms",
                flush=True,
            )
    stage.call("DELETE", f"/v1/apps/{stage.app_id}/webhooks/{webhook}")


async def creates(stage: Stage, directory: Path) -> None:
    """Compare creates in a table that a webhook listens to with those in another table of the app.

    The deliveries of the first webhook compete with the creates for the machine; the second one's receiver has asked
    for a pause, so only the events themselves do.
    """
    headers = {**stage.headers, "Content-Type": "application/json"}
    for path, name in (("/creates", "while it delivers"), ("/paused", "while its receiver has a pause")):
        heard, unheard = stage.table(f"heard {name}"), stage.table(f"unheard {name}")
        webhook = stage.webhook(heard, path, 32)
        if path == "/paused":
            stage.call("POST", f"/v1/public/tables/{heard}/data", {"data": {"sent": 0}})
            resting = "select exists (select from pilotis.lanes where target_id = $1 and open_at > now())"
            while not await stage.database.fetchval(resting, webhook):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for connections in (1, 8):
            ratios, gaps = [], []
            for _ in range(ROUNDS):
                results = []
                for table_id in (heard, unheard):
                    line = (f"/v1/public/tables/{table_id}/data", '{"data":{"sent":0,"text":"ten letters"}}')
                    file = Requests("POST", [line]).write(directory / "requests")
                    results.append(
                        await asyncio.to_thread(load.run, stage.pilotis.url, "POST", file, headers, 1, connections)
                    )
                    await stage.settled(pending=path != "/paused")
                with_, without = results
                ratios.append(with_.rate / without.rate)
                gaps.append(with_.p50_ms - without.p50_ms)
            print(
                f"creates with a webhook, {name}, by creates without, {connections} connections:"
                f" {statistics.median(ratios):.2f}; p50 {statistics.median(gaps):+.2f} ms",
                flush=True,
            )
        stage.call("DELETE", f"/v1/apps/{stage.app_id}/webhooks/{webhook}")


async def pages(stage: Stage) -> None:
    """Read a page of a webhook with many deliveries pending."""
    target_id = uuid7()
    await stage.database.execute(
        """
        insert into pilotis.deliveries (app_id, delivery_id, target_id, event_app_id, event_id, event_type, state,
            next_attempt_at)
        select $1, pilotis.uuid7(), $2, $1, e.event_id, e.type, 'pending', now() - interval '1 s'
        from (select event_id, type from pilotis.events where app_id = $1 limit 1000) e,
            generate_series(1, $3::int / 1000)
        """,
        stage.app_id,
        target_id,
        PENDING,
    )
    await stage.database.execute("analyze pilotis.deliveries")
    times = []
    for _ in range(30):
        begun = time.perf_counter()
        found = await delivery_store.due(stage.database, stage.app_id, target_id, (), 100)  # type: ignore[arg-type]
        times.append(1000 * (time.perf_counter() - begun))
        assert len(found) == 100
    print(f"a page of {PENDING} pending deliveries: p50 {statistics.median(times):.1f} ms", flush=True)
    await stage.database.execute("delete from pilotis.deliveries where target_id = $1", target_id)


async def fan_out(stage: Stage, directory: Path) -> None:
    """Hand out events to ten webhooks, in this process; nobody sends what comes of it."""
    table_id = stage.table("fan-out")
    webhooks = [stage.webhook(table_id, f"/fan-out/{number}", 4) for number in range(10)]
    # Their lanes belong to a node that is here, and sends nothing.
    settings = Settings(data_dir=str(directory / "fan-out"), master_key="00" * 32)
    node = Node(settings, stage.pilotis.connect_arguments(), stage.pilotis.url)
    fan_out = node.made.get(EventsFeature).fan_out
    rates = []
    for _ in range(ROUNDS):
        await stage.database.execute(
            """
            insert into pilotis.events (app_id, event_id, type, table_id, actor_kind, data)
            select $1, pilotis.uuid7(), 'row.created', $2, 'system', $4::text::json from generate_series(1, $3::int)
            """,
            stage.app_id,
            UUID(table_id),
            FANNED_OUT,
            '{"row": {"id": "x", "data": {"text": "' + "t" * 200 + '"}}}',
        )
        begun, number = time.monotonic(), 0
        while (done := await fan_out.dispatch(stage.app_id)) > 0:
            number += done
        rates.append(number / (time.monotonic() - begun))
    print(f"fan-out to 10 webhooks: {statistics.median(rates):.0f} events/s", flush=True)
    await node.database.close()
    for one in webhooks:
        stage.call("DELETE", f"/v1/apps/{stage.app_id}/webhooks/{one}")


async def idle(stage: Stage, seconds: float = 10) -> None:
    """Count the transactions of a server that does nothing."""
    await stage.settled()
    # The periodic tasks of a new server run for the first time within its first minute.
    await asyncio.sleep(60)
    counted = "select sum(xact_commit + xact_rollback) from pg_stat_database where datname = current_database()"
    await asyncio.sleep(2)
    before = await stage.database.fetchval(counted)
    await asyncio.sleep(seconds)
    after = await stage.database.fetchval(counted)
    print(f"idle: {float(after - before) / seconds:.1f} transactions a second", flush=True)


@contextlib.asynccontextmanager
async def staged(directory: Path) -> AsyncIterator[Stage]:
    """Start a server and a receiver."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receive, args=(theirs,), daemon=True)
    process.start()
    with Pilotis(directory) as pilotis:
        app_id, headers = pilotis.owned_app()
        database = await asyncpg.connect(**pilotis.connect_arguments())
        yield Stage(pilotis, database, ours, ours.recv(), UUID(app_id), headers)
        await database.close()
    process.terminate()


async def measure(count: int) -> None:
    """Run everything."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        async with staged(directory) as stage:
            await deliveries(stage, 1, 32, count)
            await deliveries(stage, 50, 4, count)
            await delay(stage)
            await creates(stage, directory)
            await idle(stage)
            await fan_out(stage, directory)
            await pages(stage)


if __name__ == "__main__":
    uvloop.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000))

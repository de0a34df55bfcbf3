"""What a server answers when five times as many requests come as it can do: whom, how late, and with how much memory.

Requests come at a rate, whatever became of those before, as from many clients that know nothing of each other.
"""

import asyncio
import json
import time
from collections import Counter

import msgspec
import psutil

from tests.support import App

FACTOR = 5
ROWS = 100_000
_CONNECTIONS = 8
_GIVE_UP_SECONDS = 30
_GROUP = {"$group": {"_id": "$kind", "sum": {"$sum": "$number"}, "most": {"$max": "$number"}}}


class Phase(msgspec.Struct, kw_only=True):
    """What came of the requests of some seconds; latencies of those that were answered with 200, in milliseconds."""

    sent: int
    seconds: float
    statuses: dict[str, int]
    p50_ms: float
    p99_ms: float
    without_retry_after: int

    @property
    def goodput(self) -> float:
        """Requests per second that were answered with 200."""
        return self.statuses.get("200", 0) / self.seconds


class Overload(msgspec.Struct, kw_only=True):
    """Capacity, overload, and capacity afterwards; the server's memory in megabytes before and after."""

    capacity: Phase
    overload: Phase
    afterwards: Phase
    megabytes_before: float
    megabytes_after: float


class Experiment:
    """An app with a table that takes a while to be summed up."""

    def __init__(self, app: App, pid: int) -> None:
        self._app = app
        self._pid = pid
        self._host, _, port = app.server.url.removeprefix("http://").partition(":")
        self._port = int(port)

    async def run(self, seconds: float) -> Overload:
        """Measure capacity for some seconds, then overload it for twice as long, then measure again."""
        await self._prepare()
        await self._closed(seconds / 2)
        capacity = await self._closed(seconds)
        before = self._megabytes()
        overload = await self._open(FACTOR * capacity.goodput, 2 * seconds)
        after = self._megabytes()
        return Overload(
            capacity=capacity,
            overload=overload,
            afterwards=await self._closed(seconds),
            megabytes_before=before,
            megabytes_after=after,
        )

    async def _prepare(self) -> None:
        table = await self._app.table({"kind": "string", "number": "int"})
        async with self._app.client() as client:
            for start in range(0, ROWS, 1000):
                rows = [{"kind": f"kind {n % 50}", "number": n} for n in range(start, start + 1000)]
                answer = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
                assert answer.status_code == 201, answer.text
        self._table = table

    def _request(self, number: int) -> bytes:
        """Each asks for something else, since equal questions share an answer."""
        pipeline = [{"$match": {"number": {"$gte": number % ROWS // 2}}}, _GROUP]
        body = json.dumps({"table_id": self._table, "pipeline": pipeline}).encode()
        head = ["POST /v1/public/aggregate HTTP/1.1", f"Host: {self._host}:{self._port}"]
        head += [f"X-Public-Key: {self._app.public_key}", "Content-Type: application/json", "Connection: close"]
        head += [f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(head).encode() + body

    async def _closed(self, seconds: float) -> Phase:
        """Send the next request when the one before was answered, on a few connections."""
        collected = _Collected()
        end = time.monotonic() + seconds

        async def client() -> None:
            while time.monotonic() < end:
                await self._send(collected)

        await asyncio.gather(*(client() for _ in range(_CONNECTIONS)))
        return collected.phase(seconds)

    async def _open(self, rate: float, seconds: float) -> Phase:
        """Send requests at a rate for some seconds, and wait for the last answers, which counts as well."""
        collected = _Collected()
        began = time.monotonic()
        tasks = []
        for number in range(int(rate * seconds)):
            await asyncio.sleep(began + number / rate - time.monotonic())
            tasks.append(asyncio.create_task(self._send(collected)))
        await asyncio.gather(*tasks)
        # What is answered long afterwards was not done in the time that the requests came in.
        return collected.phase(time.monotonic() - began)

    async def _send(self, collected: "_Collected") -> None:
        began = time.monotonic()
        collected.sent += 1
        try:
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                try:
                    writer.write(self._request(collected.sent))
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.read()
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            collected.statuses[type(error).__name__] += 1
            return
        status = head.split(b" ", 2)[1].decode()
        collected.statuses[status] += 1
        if status == "200":
            collected.latencies.append(time.monotonic() - began)
        elif status in {"429", "503"} and b"retry-after" not in head.lower():
            collected.without_retry_after += 1

    def _megabytes(self) -> float:
        """The memory of the server's process that is its own."""
        return float(psutil.Process(self._pid).memory_full_info().uss) / 1e6


class _Collected:
    def __init__(self) -> None:
        self.sent = self.without_retry_after = 0
        self.statuses: Counter[str] = Counter()
        self.latencies: list[float] = []

    def phase(self, seconds: float) -> Phase:
        ordered = sorted(self.latencies) or [0.0]
        p50, p99 = (round(1000 * ordered[int(len(ordered) * part)], 1) for part in (0.5, 0.99))
        return Phase(
            sent=self.sent,
            seconds=seconds,
            statuses=dict(self.statuses),
            p50_ms=p50,
            p99_ms=p99,
            without_retry_after=self.without_retry_after,
        )

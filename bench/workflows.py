"""Workflows beside DBOS on the same PostgreSQL.

`python -m bench.workflows [--number 1000]` measures executions from the request to their end, and with `--bounds 2`, on
a server of three processes: resumption, an idle server, an app beside a full queue, 1,000 streams, and 50 schedules for
two minutes.

Pilotis runs one process and gets each execution by HTTP; DBOS, which has no server, is called in its own process. Rates
are executions a second, from the first that was created to the last that finished, with 32 clients. DBOS is
installed from PyPI into a temporary directory, and measured only with `--database-url`, because its tables need the
extension uuid-ossp, which the embedded PostgreSQL does not have. The URL is that of an empty database, whose user may
create another one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
import venv
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx

from bench import load
from bench.servers import Pilotis

_DBOS = "dbos==2.31.1"
_CLIENTS = 32
_STREAMS = 1000
_FUNCTION = "export default (payload) => payload"
_SLEEPS = "export default () => new Promise((done) => setTimeout(done, 20_000))"


class Side:
    """An app of Pilotis, and what is measured on it."""

    def __init__(self, client: httpx.AsyncClient, connection: asyncpg.Connection, app_id: str) -> None:
        self._client = client
        self._connection = connection
        self._app = f"/v1/apps/{app_id}"

    async def post(self, path: str, body: Any = None) -> Any:
        """Send a request below the app's path."""
        answer = await self._client.post(self._app + path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    async def function(self, name: str, source: str) -> None:
        """Create and deploy a function."""
        made = await self.post("/functions", {"name": name, "runtime": "javascript", "timeout_seconds": 60})
        await self.post(f"/functions/{made['id']}/versions", {"files": {"index.js": source}})

    async def workflow(self, name: str, steps: list[dict[str, Any]]) -> str:
        """Create a workflow and return its path."""
        return f"/workflows/{(await self.post('/workflows', {'name': name, 'steps': steps}))['id']}"

    async def rate(self, path: str, seconds: float) -> tuple[float, int]:
        """Start executions for so many seconds; return how many ended a second, and how many there were."""
        with tempfile.TemporaryDirectory() as name:
            lines = [(f"{self._app}{path}/execute", f'{{"input":{{"n":{n}}}}}') for n in range(100)]
            file = load.Requests("POST", lines).write(Path(name) / "requests")
            headers = {"Content-Type": "application/json", "Authorization": self._client.headers["Authorization"]}
            url = str(self._client.base_url)
            await asyncio.to_thread(load.run, url, "POST", file, headers, seconds, _CLIENTS)
        workflow_id = path.rpartition("/")[2]
        statement = """
            select count(*) filter (where finished_at is null) as open, count(*) as number,
                count(*) / extract(epoch from max(finished_at) - min(created_at))::float8 as rate
            from pilotis.workflow_executions where workflow_id = $1::text::uuid
        """
        while True:
            row = await self._connection.fetchrow(statement, workflow_id)
            assert row is not None
            if not row["open"]:
                return float(row["rate"]), int(row["number"])
            await asyncio.sleep(0.1)

    async def alone(self, path: str, number: int = 100) -> float:
        """Return the milliseconds from one execution's creation to its end while nothing else runs, as a median."""
        times: list[float] = []
        for n in range(number):
            execution_id = (await self.post(f"{path}/execute", {"input": {"n": n}}))["execution_id"]
            statement = """
                select extract(epoch from finished_at - created_at)::float8 * 1000 from pilotis.workflow_executions
                where execution_id = $1::text::uuid and finished_at is not null
            """
            while (took := await self._connection.fetchval(statement, execution_id)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            times.append(took)
        return statistics.median(times)

    async def cancelled(self, path: str, number: int = 20) -> float:
        """Return the milliseconds in which an execution is cancelled while its function runs, as a median."""
        times = []
        for _ in range(number):
            execution = f"{path}/executions/{(await self.post(f'{path}/execute', {}))['execution_id']}"
            while not (await self._client.get(self._app + execution)).json()["steps"]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.1)
            begun = time.perf_counter()
            ended = await self.post(f"{execution}/cancel")
            times.append((time.perf_counter() - begun) * 1000)
            if ended["status"] != "cancelled":
                raise RuntimeError(ended["status"])
        return statistics.median(times)

    async def beside(self, path: str, sleeping: str, other: Side, number: int = 20) -> float:
        """Return the milliseconds of `alone` while another app has 10,000 executions waiting."""
        await self._connection.execute(
            """
            insert into pilotis.workflow_executions
                (app_id, execution_id, workflow_id, version, status, trigger, trigger_type, input, timeout_seconds)
            select app_id, pilotis.uuid7(), workflow_id, 1, 'pending', '{"type":"manual"}', 'manual', '{}', 600
            from pilotis.workflows, generate_series(1, 10000) where workflow_id = $1::text::uuid
            """,
            sleeping.rpartition("/")[2],
        )
        try:
            return await self.alone(path, number)
        finally:
            await other.delete(sleeping)

    async def delete(self, path: str) -> None:
        """Delete what a path below the app's names."""
        (await self._client.delete(self._app + path)).raise_for_status()

    async def schedule_lags(self, number: int, minutes: int) -> list[float]:
        """Return by how many milliseconds the slots of so many schedules, each due every minute, were late."""
        for n in range(number):
            body = {"name": f"each-minute-{n}", "steps": [], "schedule_cron": "* * * * *"}
            await self.post("/workflows", body)
        statement = """
            select extract(epoch from created_at - (trigger->>'scheduled_for')::timestamptz)::float8 * 1000 as lag
            from pilotis.workflow_executions where trigger_type = 'schedule'
        """
        deadline = time.monotonic() + 60 * minutes + 30
        while len(rows := await self._connection.fetch(statement)) < number * minutes and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(1)
        return [row["lag"] for row in rows]

    async def resumed(self, path: str, number: signal.Signals, processes: Sequence[int]) -> float:
        """Return after how many seconds another process continues an execution whose process gets a signal.

        `processes` are those of the server by slot.
        """
        execution_id = (await self.post(f"{path}/execute", {}))["execution_id"]
        holder = """
            select n.slot from pilotis.workflow_executions x
            join pilotis.workflow_steps s using (app_id, execution_id) join pilotis.nodes n on n.node_id = x.owner
            where x.execution_id = $1::text::uuid and s.status = 'running'
        """
        while (slot := await self._connection.fetchval(holder, execution_id)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        pid = processes[slot]
        begun = await self._connection.fetchval("select clock_timestamp()")
        os.kill(pid, number)
        recovered = """
            select created_at from pilotis.workflow_events
            where execution_id = $1::text::uuid and type = 'execution.recovered'
        """
        while (moment := await self._connection.fetchval(recovered, execution_id)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if number == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
        await self.post(f"{path}/executions/{execution_id}/cancel")
        took: timedelta = moment - begun
        return took.total_seconds()

    async def streamed(self, path: str, number: int, rounds: int = 10) -> list[float]:
        """Return the milliseconds from an event's commit to each of so many clients of the workflow's stream."""
        url, token = urlsplit(str(self._client.base_url)), self._client.headers["authorization"]
        line = f"GET {self._app}{path}/executions/stream HTTP/1.1"
        request = f"{line}\r\nHost: {url.netloc}\r\nAuthorization: {token}\r\n\r\n"
        opened = []
        for _ in range(number):
            reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=2**20)
            writer.write(request.encode())
            await reader.readuntil(b"event: snapshot\n")
            opened.append((reader, writer))
        times: list[float] = []

        async def follow(reader: asyncio.StreamReader) -> None:
            await reader.readuntil(b"event: execution.completed\n")
            await reader.readuntil(b"data: ")
            data = json.loads(await reader.readline())
            times.append((datetime.now(UTC) - datetime.fromisoformat(data["timestamp"])).total_seconds() * 1000)

        for n in range(rounds):
            await self.post(f"{path}/execute", {"input": {"n": n}})
            await asyncio.gather(*(follow(reader) for reader, _ in opened))
        for _, writer in opened:
            writer.close()
        return times

    async def idle(self, seconds: float) -> float:
        """Return how many transactions a second the server makes while nothing runs."""
        statement = "select xact_commit from pg_stat_database where datname = current_database()"
        # Statistics are up to a second old, and this connection's own are part of them.
        await asyncio.sleep(5)
        before = await self._connection.fetchval(statement)
        await asyncio.sleep(seconds)
        await self._connection.execute("select pg_stat_clear_snapshot()")
        return float(await self._connection.fetchval(statement) - before - 2) / seconds

    async def told(self, path: str, number: int = 50) -> float:
        """Return the milliseconds from an event's commit to a client of the workflow's stream, as a median."""
        times: list[float] = []
        async with self._client.stream("GET", f"{self._app}{path}/executions/stream") as answer:
            lines = answer.aiter_lines()
            async for line in lines:
                if line.startswith("event: snapshot"):
                    break
            for n in range(number):
                await self.post(f"{path}/execute", {"input": {"n": n}})
                async for line in lines:
                    if not line.startswith("data: {"):
                        continue
                    data = json.loads(line[6:])
                    if "timestamp" in data:
                        sent = datetime.fromisoformat(data["timestamp"])
                        times.append((datetime.now(UTC) - sent).total_seconds() * 1000)
                    if data.get("type") == "execution.completed":
                        break
        return statistics.median(times)


async def measure(pilotis: Pilotis, to: dict[str, Any], seconds: float) -> dict[str, float]:
    """Return the figures of Pilotis."""
    app_id, headers = pilotis.owned_app()
    connection = await asyncpg.connect(**to)
    limits = httpx.Limits(max_connections=_CLIENTS + 8)
    async with httpx.AsyncClient(base_url=pilotis.url, headers=headers, timeout=60, limits=limits) as client:
        side = Side(client, connection, app_id)
        await side.function("echo", _FUNCTION)
        await side.function("sleeps", _SLEEPS)
        call = {"step_type": "function", "function_id": "echo"}
        tiny = await side.workflow("tiny", [{"step_type": "merge", "sources": []}])
        calling = await side.workflow("calling", [call])
        calling_11 = await side.workflow("calling-11", [call] * 11)
        sleeping = await side.workflow("sleeping", [{"step_type": "function", "function_id": "sleeps"}])
        for path in (tiny, calling):
            await side.rate(path, 1)
        found: dict[str, float] = {}
        for name, path in (("tiny", tiny), ("with a call", calling)):
            # What ran before, to warm up, is in another workflow's count.
            fresh = await side.workflow(f"{name} measured", (await _steps(client, app_id, path)))
            begun = pilotis.processor_seconds()
            found[f"{name} a second"], ran = await side.rate(fresh, seconds)
            found[f"{name}: processor µs"] = (pilotis.processor_seconds() - begun) * 1e6 / ran
        found["tiny: p50 ms"] = await side.alone(tiny)
        found["with a call: p50 ms"] = one = await side.alone(calling)
        found["a further call: p50 ms"] = (await side.alone(calling_11) - one) / 10
        found["cancelled: p50 ms"] = await side.cancelled(sleeping)
        found["event to client: p50 ms"] = await side.told(tiny)
    await connection.close()
    return found


async def measure_bounds(pilotis: Pilotis, to: dict[str, Any], minutes: int) -> dict[str, float]:
    """Return the figures that do not depend on the rate; the server has three processes."""
    app_id, headers = pilotis.owned_app()
    connection = await asyncpg.connect(**to)
    async with httpx.AsyncClient(base_url=pilotis.url, headers=headers, timeout=60) as client:
        side = Side(client, connection, app_id)
        found = {"idle: transactions a second": await side.idle(30)}
        await side.function("sleeps", _SLEEPS)
        sleeping = await side.workflow("sleeping", [{"step_type": "function", "function_id": "sleeps"}])
        tiny = await side.workflow("tiny", [{"step_type": "merge", "sources": []}])
        by_slot = pilotis.workers()
        found["silent process: resumed after s"] = await side.resumed(sleeping, signal.SIGSTOP, by_slot)
        found["killed process: resumed after s"] = await side.resumed(sleeping, signal.SIGKILL, by_slot)
        busy = (await client.post("/v1/apps", json={"name": "busy"})).json()["app_id"]
        other = Side(client, connection, busy)
        await other.function("sleeps", _SLEEPS)
        waiting = await other.workflow("sleeping", [{"step_type": "function", "function_id": "sleeps"}])
        found["beside 10,000 waiting: p50 ms"] = await side.beside(tiny, waiting, other)
        times = await side.streamed(tiny, _STREAMS)
        found[f"to {_STREAMS} clients: p50 ms"] = statistics.median(times)
        found[f"to {_STREAMS} clients: longest ms"] = max(times)
        lags = sorted(await side.schedule_lags(50, minutes))
        found["schedule lag: p50 ms"] = statistics.median(lags)
        found["schedule lag: p99 ms"] = lags[int(len(lags) * 0.99)]
    await connection.close()
    return found


async def _steps(client: httpx.AsyncClient, app_id: str, path: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = (await client.get(f"/v1/apps/{app_id}{path}")).json()["steps"]
    return steps


def dbos(url: str, directory: Path, number: int) -> dict[str, dict[str, float]]:
    """Return the figures of DBOS on the same PostgreSQL, in a database of its own."""
    place = directory / "dbos"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", _DBOS], check=True)

    async def create() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("create database dbos_bench")
        await connection.close()

    asyncio.run(create())
    own = urlsplit(url)._replace(path="/dbos_bench").geturl()
    side = Path(__file__).with_name("peers") / "dbos_side.py"
    done = subprocess.run([python, side, own, str(number)], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _print(figures: dict[str, float]) -> None:
    for title, value in figures.items():
        print(f"{title:32} {value:>10.2f}", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.workflows", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="for how long each kind of execution is started")
    parser.add_argument("--number", type=int, default=1000, help="executions of each kind of DBOS")
    parser.add_argument("--database-url", help="an empty database, to measure DBOS beside it")
    parser.add_argument(
        "--bounds",
        type=int,
        metavar="MINUTES",
        help="measure resumption, idleness, many streams, and schedules instead",
    )
    options = parser.parse_args()
    url = options.database_url
    if options.bounds:
        os.environ |= {"PILOTIS_LIMITS_STREAMS": str(_STREAMS), "PILOTIS_LIMITS_APP_STREAMS": str(_STREAMS)}
        with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name, Pilotis(Path(name), workers=3) as pilotis:
            _print(asyncio.run(measure_bounds(pilotis, pilotis.connect_arguments(), options.bounds)))
        return
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name, Pilotis(Path(name), url) as pilotis:
        to = {"dsn": url} if url else pilotis.connect_arguments()
        ours = asyncio.run(measure(pilotis, to, options.seconds))
        _print(ours)
        if url is None:
            return
        beside = dbos(url, Path(name), options.number)
        one, eleven = beside["steps_1"], beside["steps_11"]
        print(f"{'DBOS, one step, a second':28} {one['rate']:>10.1f}")
        print(f"{'DBOS, one step, p50 ms':28} {one['p50_ms']:>10.1f}")
        print(f"{'DBOS, a further step, ms':28} {(eleven['p50_ms'] - one['p50_ms']) / 10:>10.1f}")
        print(f"{'ratio of the rates':28} {ours['tiny a second'] / one['rate']:>10.1f}")


if __name__ == "__main__":
    main()

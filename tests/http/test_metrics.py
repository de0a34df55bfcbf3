"""Prometheus metrics: what is counted, by what labels, over several workers."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from pilotis.db.pool import Database
from pilotis.http import exposition, metric_families
from pilotis.http.metrics import Metrics
from pilotis.kit.metrics import Counter, CounterOf, Gauge, Histogram
from pilotis.server import endpoint_table
from tests.waiting import PATIENCE, until

TABLE = endpoint_table()
READ = next(endpoint for endpoint in TABLE if endpoint.path == "/v1/public/tables/:table_id")


@contextlib.asynccontextmanager
async def served(
    metrics: Metrics, directory: Path | None = None, allowed: exposition.Allowed = exposition.no_name
) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(exposition.serve(metrics, listening, directory, allowed))
        await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/metrics"
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_proxy_is_told_that_the_database_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    database = Database({"host": "127.0.0.1", "port": port, "user": "none", "database": "none"})

    async def allowed(_name: str) -> bool:
        return bool(await database.fetchval("select true"))

    async with served(Metrics(), allowed=allowed) as address, httpx.AsyncClient() as client:
        answer = await client.get(address.replace("/metrics", "/tls/allowed?name=www.example.com"))
    assert (answer.status_code, answer.text) == (503, "not known now\n")


async def test_numbers_that_cannot_be_written_are_written_later(tmp_path: Path):
    (obstacle := tmp_path / f"{os.getpid()}.new").mkdir()
    async with served(Metrics([state(3)]), tmp_path) as address:
        assert not any(name == "pilotis_requests_in_flight" for name, _ in await read(address))
        obstacle.rmdir()

        async def are_there() -> bool:
            return (await read(address)).get(("pilotis_requests_in_flight", ())) == 3

        await until(are_there)


async def read(address: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(address)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def state(number: float) -> Gauge:
    return Gauge("pilotis_requests_in_flight", "Requests being answered.", lambda: number)


def kinds(number: int) -> list[Counter | CounterOf | Histogram | Gauge]:
    """A metric of each kind, whose worker has counted to a number; the states of the whole are counted by the first."""
    sent, wait = Counter("pilotis_sent", "Sent.", ("result",)), Histogram("pilotis_wait_seconds", "Waited.")
    sent.add("good", number=number)
    wait.add(number)
    dead = {("functions.call", "dead"): number}
    return [
        sent,
        wait,
        Counter("pilotis_ended", "Never counted."),
        CounterOf("pilotis_seen", "Seen.", "type", lambda: {"row": number}),
        state(number),
        Gauge("pilotis_jobs", "Jobs.", lambda: dead if number == 1 else {}, ("kind", "state")),
        Gauge("pilotis_age", "The oldest.", lambda: number, is_largest=True),
        Gauge("pilotis_unknown", "Counted elsewhere.", lambda: None),
    ]


def total(samples: dict, status: str, route: str = READ.path, method: str = "GET") -> float:
    labels = (("method", method), ("route", route), ("status", status))
    return samples[("pilotis_requests_total", labels)]


async def test_requests_are_counted_by_route_and_class():
    metrics = Metrics([state(3)])
    for status, seconds in ((200, 0.0005), (200, 0.003), (404, 0.2), (503, 60.0)):
        metrics.count(READ, status, seconds)
    async with served(metrics) as address:
        samples = await read(address)
    assert (total(samples, "2xx"), total(samples, "4xx"), total(samples, "5xx")) == (2, 1, 1)
    route = (("method", "GET"), ("route", READ.path))
    assert abs(samples[("pilotis_request_seconds_total", route)] - 60.2035) < 1e-9
    name, area = "pilotis_request_duration_seconds", ("area", READ.tag)
    assert samples[(f"{name}_count", (area,))] == 4
    assert abs(samples[(f"{name}_sum", (area,))] - 60.2035) < 1e-9
    buckets = {
        bound: samples[(f"{name}_bucket", (area, ("le", bound)))] for bound in ("0.001", "0.005", "0.25", "10.0")
    }
    assert buckets == {"0.001": 1, "0.005": 2, "0.25": 3, "10.0": 3}
    assert samples[("pilotis_requests_in_flight", ())] == 3
    assert samples[("process_resident_memory_bytes", (("pid", str(os.getpid())),))] > 1_000_000


async def test_unknown_paths_make_no_labels():
    metrics = Metrics()
    for _ in range(100):
        metrics.count(None, 404, 0.001)
    async with served(metrics) as address:
        samples = await read(address)
    assert [labels for name, labels in samples if name == "pilotis_requests_total"] == [
        (("method", ""), ("route", ""), ("status", "4xx"))
    ]
    assert total(samples, "4xx", "", "") == 100


ENDED = """
import asyncio, socket, sys
from pathlib import Path
from pilotis.http import exposition
from tests.http.test_metrics import READ, Metrics, kinds

async def main():
    metrics = Metrics(kinds(7))
    for _ in range(5):
        metrics.count(READ, 200, 0.001)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(exposition.serve(metrics, listening, Path(sys.argv[1])))
        while not list(Path(sys.argv[1]).glob("*.metrics")):
            await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.wait([serving])

asyncio.run(main())
"""


async def test_workers_add_up_and_one_that_has_ended_keeps_its_counters(tmp_path: Path):
    subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        [sys.executable, "-c", ENDED, str(tmp_path)], check=True, timeout=PATIENCE, cwd=Path(__file__).parents[2]
    )
    metrics = Metrics(kinds(1))
    metrics.count(READ, 200, 0.001)
    async with served(metrics, tmp_path) as address:
        samples = await read(address)
        assert total(samples, "2xx") == 6
        assert samples[("pilotis_requests_in_flight", ())] == 1
        assert samples[("pilotis_jobs", (("kind", "functions.call"), ("state", "dead")))] == 1
        assert samples[("pilotis_age", ())] == 1
        assert samples[("pilotis_sent_total", (("result", "good"),))] == 8
        assert samples[("pilotis_seen_total", (("type", "row"),))] == 8
        assert samples[("pilotis_ended_total", ())] == 0
        assert samples[("pilotis_wait_seconds_sum", ())] == 8
        assert samples[("pilotis_wait_seconds_bucket", (("le", "5.0"),))] == 1
        assert samples[("pilotis_wait_seconds_count", ())] == 2
        assert [labels for name, labels in samples if name == "process_open_fds"] == [(("pid", str(os.getpid())),)]
        metrics.count(READ, 200, 0.001)

        async def published() -> bool:
            return total(await read(address), "2xx") == 7

        await until(published)


def test_jobs_are_counted_by_kind_and_result_over_all_workers():
    workers = [Metrics(), Metrics()]
    for worker in workers:
        worker.job_finished("blobs.delete", "completed", 0.5)
    workers[0].job_finished("blobs.delete", "dead", 2.0)
    registry = CollectorRegistry()
    registry.register(
        metric_families.Exposition(workers[0].declared, lambda: [worker.snapshot() for worker in workers])
    )
    for result, number, seconds in (("completed", 2, 1.0), ("dead", 1, 2.0)):
        labels = {"kind": "blobs.delete", "result": result}
        assert registry.get_sample_value("pilotis_job_attempts_total", labels) == number
        assert registry.get_sample_value("pilotis_job_seconds_total", labels) == seconds

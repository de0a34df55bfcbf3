"""Prometheus metrics, on a port of their own.

A request costs a dictionary look-up and three additions. What is exposed is made from those numbers when Prometheus
asks. With several workers each one writes its numbers to a file of a directory they share, once a second if they have
changed, and whichever answers adds the files up; a worker that has ended keeps its counters there, so that none goes
backwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import socket
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvicorn
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoint

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the duration histogram, in seconds."""

PUBLISH_SECONDS = 1.0
_MOST_CONNECTIONS = 16


class Series(msgspec.Struct):
    """The requests of one route: counts by the first digit of the status, counts by bucket, seconds in all."""

    method: str
    route: str
    classes: list[int]
    buckets: list[int]
    seconds: float = 0.0


class Gauges(NamedTuple):
    """A worker's state at a moment: requests in flight, and its database connections and those who wait for one."""

    in_flight: int = 0
    pool_open: int = 0
    pool_idle: int = 0
    pool_waiting: int = 0


class Snapshot(msgspec.Struct):
    """One worker's numbers."""

    process: int
    gauges: Gauges
    series: list[Series]


class Metrics:
    """Counts one process's requests; `gauges` tells its present state."""

    def __init__(self, gauges: Callable[[], Gauges]) -> None:
        self._gauges = gauges
        self._series: dict[Endpoint | None, Series] = {}

    def finished(self, call: Call, status: int, seconds: float) -> None:
        """Count a request. Paths that lead nowhere share one series, so a client cannot make labels."""
        series = self._series.get(call.endpoint) or self._add(call.endpoint)
        series.classes[status // 100] += 1
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
        series.seconds += seconds

    def snapshot(self) -> Snapshot:
        """Return the numbers as they stand."""
        return Snapshot(os.getpid(), self._gauges(), list(self._series.values()))

    async def serve(self, listening: socket.socket, directory: Path | None = None) -> None:
        """Serve `/metrics` on a listening socket until cancelled.

        Several workers share the socket and a directory, empty at the start, and each answers for all of them.
        """
        if directory is None:
            await _serve(lambda: [self.snapshot()], listening)
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish(directory))
            tasks.create_task(_serve(lambda: list(_published(directory)), listening))

    async def _publish(self, directory: Path) -> None:
        path = directory / f"{os.getpid()}.metrics"
        last = b""
        while True:
            data = msgspec.msgpack.encode(self.snapshot())
            if data != last:
                _write(path, data)
                last = data
            await asyncio.sleep(PUBLISH_SECONDS)

    def _add(self, endpoint: Endpoint | None) -> Series:
        method, route = (endpoint.method, endpoint.path) if endpoint else ("", "")
        series = Series(method, route, [0] * 6, [0] * (len(BUCKETS) + 1))
        self._series[endpoint] = series
        return series


async def _serve(snapshots: Callable[[], Sequence[Snapshot]], listening: socket.socket) -> None:
    registry = CollectorRegistry()
    registry.register(_Exposition(snapshots))
    config = uvicorn.Config(
        make_asgi_app(registry),
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
        server_header=False,
        proxy_headers=False,
    )
    server = _Server(config)
    try:
        await server.serve([listening])
    except asyncio.CancelledError:
        await server.shutdown([listening])
        raise


class _Server(uvicorn.Server):
    """A server beside the main one, which leaves signals to that one."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _Exposition(Collector):
    """Turns snapshots into metric families."""

    def __init__(self, snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshots = snapshots

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        snapshots = self._snapshots()
        series = _summed(one for snapshot in snapshots for one in snapshot.series)
        yield _requests(series)
        yield _durations(series)
        alive = [snapshot for snapshot in snapshots if _is_alive(snapshot.process)]
        yield from _states([snapshot.gauges for snapshot in alive])
        yield from _processes([snapshot.process for snapshot in alive])


def _requests(series: Sequence[Series]) -> Metric:
    family = CounterMetricFamily(
        "pilotis_requests", "Requests answered, by route and class of status.", labels=["method", "route", "status"]
    )
    for one in series:
        for digit, count in enumerate(one.classes):
            if count:
                family.add_metric([one.method, one.route, f"{digit}xx"], count)
    return family


def _durations(series: Sequence[Series]) -> Metric:
    family = HistogramMetricFamily(
        "pilotis_request_duration_seconds",
        "Time from a request's headers to its whole answer.",
        labels=["method", "route"],
    )
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    for one in series:
        counts = zip(bounds, itertools.accumulate(one.buckets), strict=True)
        family.add_metric([one.method, one.route], buckets=list(counts), sum_value=one.seconds)
    return family


def _states(gauges: Sequence[Gauges]) -> Iterator[Metric]:
    for name, help_ in (
        ("in_flight", "Requests being answered."),
        ("pool_open", "Open database connections."),
        ("pool_idle", "Open database connections that nobody uses."),
        ("pool_waiting", "Requests that wait for a database connection."),
    ):
        full = "pilotis_requests_in_flight" if name == "in_flight" else f"pilotis_database_{name}"
        yield GaugeMetricFamily(full, help_, value=sum(getattr(gauge, name) for gauge in gauges))


def _processes(processes: Sequence[int]) -> Iterator[Metric]:
    """Yield the usual `process_*` families with the worker's process id as a label."""
    families: dict[str, Metric] = {}
    for process in processes:
        for family in ProcessCollector(pid=functools.partial(int, process), registry=None).collect():
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                merged.add_sample(sample.name, {"pid": str(process)}, sample.value)
    yield from families.values()


def _summed(series: Iterable[Series]) -> list[Series]:
    sums: dict[tuple[str, str], Series] = {}
    for one in series:
        total = sums.setdefault(
            (one.method, one.route), Series(one.method, one.route, [0] * 6, [0] * (len(BUCKETS) + 1))
        )
        total.classes = [sum(pair) for pair in zip(total.classes, one.classes, strict=True)]
        total.buckets = [sum(pair) for pair in zip(total.buckets, one.buckets, strict=True)]
        total.seconds += one.seconds
    return list(sums.values())


def _published(directory: Path) -> Iterator[Snapshot]:
    for path in directory.glob("*.metrics"):
        yield msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)


def _write(path: Path, data: bytes) -> None:
    """Replace the file as a whole, so that a reader never sees half of it."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""Prometheus metrics, on their own port.

A request costs a dictionary lookup and three additions; the exposition is generated when Prometheus scrapes. With
several workers each one writes its numbers to a file in a shared directory, once a second if they have changed, and the
worker that answers the scrape adds the files up. The file of a worker that has ended stays, so that no counter
decreases.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import socket
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import uvicorn
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.request import Call

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the duration histogram, in seconds."""

DELIVERY_BUCKETS = (*BUCKETS[1:], 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the histograms of deliveries, in seconds."""

PUBLISH_SECONDS = 1.0
_MAX_CONNECTIONS = 16
_STATE_NAMES = {
    "in_flight": "pilotis_requests_in_flight",
    "streams": "pilotis_streams",
    "workflows_running": "pilotis_workflow_running",
    "strays": "pilotis_work_owned_not_running",
    "unattended": "pilotis_function_sandboxes_unattended",
}


class Series(msgspec.Struct):
    """The requests of one route: counts by the first digit of the status, counts by bucket, total seconds."""

    method: str
    route: str
    classes: list[int]
    buckets: list[int]
    seconds: float = 0.0


class JobSeries(msgspec.Struct):
    """The attempts of one job kind with the same result (`completed`, `failed`, `dead`)."""

    kind: str
    result: str
    number: int = 0
    seconds: float = 0.0


class Histogram(msgspec.Struct):
    """A distribution of durations: counts by bucket of `bounds`, and their sum in seconds."""

    bounds: tuple[float, ...]
    buckets: list[int]
    seconds: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> Self:
        """Return a histogram without durations."""
        return cls(bounds, [0] * (len(bounds) + 1))

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds


class DeliverySeries(msgspec.Struct):
    """The deliveries of webhooks that a process has ended, by result (`succeeded`, `failed`, `cancelled`).

    `attempts` are the durations of all attempts, `delays` the times from a change to the first attempt.
    """

    ended: dict[str, int] = {}
    attempts: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(DELIVERY_BUCKETS))
    delays: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(DELIVERY_BUCKETS))

    def count(self, result: str) -> None:
        """Count a delivery that has ended."""
        self.ended[result] = self.ended.get(result, 0) + 1


class FunctionSeries(msgspec.Struct):
    """The calls of functions that a process has ended, by runtime, status and start, separated by spaces.

    `seconds` are the durations of the functions themselves, `queues` the times before they got a sandbox, `loads` those
    until a sandbox that was not warm had loaded them. `kills` counts sandboxes killed by reason, `builds` counts builds
    by status, and `connections` counts those to other servers by outcome.
    """

    invocations: dict[str, int] = {}
    seconds: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(BUCKETS))
    queues: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(BUCKETS))
    loads: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(BUCKETS))
    kills: dict[str, int] = {}
    builds: dict[str, int] = {}
    connections: dict[str, int] = {}


class WorkflowSeries(msgspec.Struct):
    """The executions of workflows that a process has ended, by trigger and status, separated by a space.

    `seconds` are the times from the start to the end, `queues` those before the start, `lags` those from a schedule's
    slot to its execution. `skipped` counts slots without an execution, `triggers` requests to trigger URLs by outcome,
    `tokens` those of models by kind.
    """

    executions: dict[str, int] = {}
    seconds: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(DELIVERY_BUCKETS))
    queues: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(BUCKETS))
    lags: Histogram = msgspec.field(default_factory=lambda: Histogram.empty(BUCKETS))
    recoveries: int = 0
    lost_leases: int = 0
    skipped: int = 0
    triggers: dict[str, int] = {}
    tokens: dict[str, int] = {}

    def ended(self, trigger: str, status: str) -> None:
        """Count an execution that has ended."""
        name = f"{trigger} {status}"
        self.executions[name] = self.executions.get(name, 0) + 1

    def received(self, outcome: str) -> None:
        """Count a request to a trigger URL."""
        self.triggers[outcome] = self.triggers.get(outcome, 0) + 1


class Queued(NamedTuple):
    """How many background jobs of a kind are in a state: `waiting`, `running` or `dead`."""

    queue: str
    kind: str
    state: str
    number: int


class Lanes(NamedTuple):
    """How many queues of one target each, such as those of webhooks, are `waiting`, `held` or `resting`."""

    kind: str
    state: str
    number: int


class Gauges(NamedTuple):
    """A worker's current state: requests in flight, its database connections, and the requests that wait for one.

    `queued`, `lanes`, `events_waiting` and `workflows_pending` cover the whole database; one worker of a server reports
    them. `sandboxes` counts those of functions, by runtime and state, separated by a space; `streams` the open streams
    of events, `workflows_running` the executions of workflows in progress. `strays` counts the items of background work
    that the worker owns and does not run, for `strays_seconds`, `unattended` the sandboxes that are granted to a call
    that does not use them.
    """

    in_flight: int = 0
    pool_open: int = 0
    pool_idle: int = 0
    pool_waiting: int = 0
    queued: Sequence[Queued] = ()
    lanes: Sequence[Lanes] = ()
    events_waiting: int | None = None
    sandboxes: Mapping[str, int] = {}
    streams: int = 0
    workflows_running: int = 0
    workflows_pending: int | None = None
    strays: int = 0
    strays_seconds: float = 0.0
    unattended: int = 0


class Snapshot(msgspec.Struct):
    """One worker's numbers."""

    process: int
    gauges: Gauges
    series: list[Series]
    jobs: list[JobSeries] = []
    refused: dict[str, int] = {}
    events: dict[str, int] = {}
    deliveries: DeliverySeries = msgspec.field(default_factory=DeliverySeries)
    functions: FunctionSeries = msgspec.field(default_factory=FunctionSeries)
    workflows: WorkflowSeries = msgspec.field(default_factory=WorkflowSeries)


class Metrics:
    """Counts one process's requests.

    `gauges` returns its current state, `refused` the number of refused outgoing requests by reason, `events` the number
    of events that it has dispatched by type, `deliveries` and `workflows` are what webhooks and workflows count, and
    `functions` returns what functions count.
    """

    def __init__(
        self,
        gauges: Callable[[], Gauges],
        refused: Callable[[], dict[str, int]] = dict,
        events: Callable[[], dict[str, int]] = dict,
        deliveries: DeliverySeries | None = None,
        functions: Callable[[], FunctionSeries] = FunctionSeries,
        workflows: WorkflowSeries | None = None,
    ) -> None:
        self._gauges = gauges
        self._refused = refused
        self._events = events
        self._deliveries = deliveries or DeliverySeries()
        self._functions = functions
        self._workflows = workflows or WorkflowSeries()
        self._series: dict[Endpoint | None, Series] = {}
        self._jobs: dict[tuple[str, str], JobSeries] = {}

    def finished(self, call: Call, status: int, seconds: float) -> None:
        """Count a request."""
        self.count(call.endpoint, status, seconds)

    def count(self, endpoint: Endpoint | None, status: int, seconds: float) -> None:
        """Count a request of a route. Unknown paths share one series, so that clients cannot create labels."""
        series = self._series.get(endpoint) or self._add(endpoint)
        series.classes[status // 100] += 1
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
        series.seconds += seconds

    def job_finished(self, kind: str, result: str, seconds: float) -> None:
        """Count an attempt of a background job and its duration in seconds."""
        series = self._jobs.setdefault((kind, result), JobSeries(kind, result))
        series.number += 1
        series.seconds += seconds

    def snapshot(self) -> Snapshot:
        """Return the current numbers."""
        return Snapshot(
            os.getpid(),
            self._gauges(),
            list(self._series.values()),
            list(self._jobs.values()),
            self._refused(),
            self._events(),
            self._deliveries,
            self._functions(),
            self._workflows,
        )

    async def serve(self, listening: socket.socket, directory: Path | None = None) -> None:
        """Serve `/metrics` on a listening socket until cancelled.

        Several workers share the socket and a directory, which is empty at the start, and each of them answers for all.
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
        limit_concurrency=_MAX_CONNECTIONS,
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
    """A server next to the main one, to which it leaves signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _Exposition(Collector):
    """Converts snapshots to metric families."""

    def __init__(self, snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshots = snapshots

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        snapshots = self._snapshots()
        series = _summed(one for snapshot in snapshots for one in snapshot.series)
        yield _requests(series)
        yield _durations(series)
        yield from _jobs(one for snapshot in snapshots for one in snapshot.jobs)
        outgoing = "Outgoing requests refused, by reason."
        yield _counted("pilotis_outgoing_refused", outgoing, "reason", [snapshot.refused for snapshot in snapshots])
        dispatched = "Events dispatched, by type; those of apps' own types as own."
        yield _counted("pilotis_events", dispatched, "type", [snapshot.events for snapshot in snapshots])
        yield from _deliveries([snapshot.deliveries for snapshot in snapshots])
        yield from _functions([snapshot.functions for snapshot in snapshots])
        yield from _workflows([snapshot.workflows for snapshot in snapshots])
        alive = [snapshot for snapshot in snapshots if _is_alive(snapshot.process)]
        yield from _states([snapshot.gauges for snapshot in alive])
        yield _queued([snapshot.gauges for snapshot in alive])
        yield _lanes([snapshot.gauges for snapshot in alive])
        yield _sandboxes([snapshot.gauges for snapshot in alive])
        yield _total("pilotis_events_waiting", "Events in the database to be dispatched", "events_waiting", alive)
        yield _total("pilotis_workflow_pending", "Executions in the database to be run", "workflows_pending", alive)
        yield from _processes([snapshot.process for snapshot in alive])


def _requests(series: Sequence[Series]) -> Metric:
    family = CounterMetricFamily(
        "pilotis_requests", "Requests answered, by route and status class.", labels=["method", "route", "status"]
    )
    for one in series:
        for digit, count in enumerate(one.classes):
            if count:
                family.add_metric([one.method, one.route, f"{digit}xx"], count)
    return family


def _durations(series: Sequence[Series]) -> Metric:
    family = HistogramMetricFamily(
        "pilotis_request_duration_seconds",
        "Time from a request's headers to the end of its answer.",
        labels=["method", "route"],
    )
    for one in series:
        family.add_metric([one.method, one.route], buckets=_cumulative(BUCKETS, one.buckets), sum_value=one.seconds)
    return family


def _jobs(series: Iterable[JobSeries]) -> Iterator[Metric]:
    labels = ["kind", "result"]
    numbers = CounterMetricFamily("pilotis_job_attempts", "Attempts of background jobs, by result.", labels=labels)
    seconds = CounterMetricFamily("pilotis_job_seconds", "Duration of attempts of background jobs.", labels=labels)
    sums: dict[tuple[str, str], JobSeries] = {}
    for one in series:
        total = sums.setdefault((one.kind, one.result), JobSeries(one.kind, one.result))
        total.number += one.number
        total.seconds += one.seconds
    for place, total in sums.items():
        numbers.add_metric(place, total.number)
        seconds.add_metric(place, total.seconds)
    yield numbers
    yield seconds


def _counted(name: str, help_: str, labels: str, counts: Iterable[Mapping[str, int]]) -> Metric:
    """Return the sum of counts as a metric family. Several labels, and their values, are separated by spaces."""
    family = CounterMetricFamily(name, help_, labels=labels.split())
    sums: Counter[str] = Counter()
    for one in counts:
        sums.update(one)
    for value, number in sorted(sums.items()):
        family.add_metric(value.split(" ") if " " in labels else [value], number)
    return family


def _deliveries(series: Sequence[DeliverySeries]) -> Iterator[Metric]:
    help_ = "Deliveries of webhooks that have ended, by result."
    yield _counted("pilotis_deliveries", help_, "result", [one.ended for one in series])
    for name, help_, histograms in (
        ("pilotis_delivery_seconds", "Duration of attempts of deliveries.", [one.attempts for one in series]),
        (
            "pilotis_delivery_delay_seconds",
            "Time from a change to the first attempt of each of its deliveries.",
            [one.delays for one in series],
        ),
    ):
        yield _histogram(name, help_, histograms, DELIVERY_BUCKETS)


def _functions(series: Sequence[FunctionSeries]) -> Iterator[Metric]:
    ended = "Calls of functions that have ended."
    yield _counted("pilotis_function_invocations", ended, "runtime status start", [one.invocations for one in series])
    for name, help_, histograms in (
        ("seconds", "Duration of functions.", [one.seconds for one in series]),
        ("queue_seconds", "Time before a call got a sandbox.", [one.queues for one in series]),
        ("load_seconds", "Time until a sandbox had started or loaded a function.", [one.loads for one in series]),
    ):
        yield _histogram(f"pilotis_function_{name}", help_, histograms, BUCKETS)
    kills = "Sandboxes of functions killed, by reason."
    yield _counted("pilotis_function_kills", kills, "reason", [one.kills for one in series])
    yield _counted("pilotis_function_builds", "Builds of packages.", "status", [one.builds for one in series])
    egress = "Connections of functions to other servers."
    yield _counted("pilotis_egress_requests", egress, "outcome", [one.connections for one in series])


def _workflows(series: Sequence[WorkflowSeries]) -> Iterator[Metric]:
    family = CounterMetricFamily(
        "pilotis_workflow_executions", "Executions of workflows that have ended.", labels=["trigger", "status"]
    )
    for name, number in sorted(sum((Counter(one.executions) for one in series), Counter()).items()):
        family.add_metric(name.split(" "), number)
    yield family
    for name, help_, histograms, bounds in (
        ("seconds", "Duration of executions.", [one.seconds for one in series], DELIVERY_BUCKETS),
        ("queue_seconds", "Time before an execution started.", [one.queues for one in series], BUCKETS),
        (
            "schedule_lag_seconds",
            "Time from a schedule's slot to its execution's insertion.",
            [one.lags for one in series],
            BUCKETS,
        ),
    ):
        yield _histogram(f"pilotis_workflow_{name}", help_, histograms, bounds)
    for name, help_, numbers in (
        ("recoveries", "Executions continued after their process was lost.", [one.recoveries for one in series]),
        ("lost_leases", "Executions given up because another process holds them.", [one.lost_leases for one in series]),
        ("schedule_skipped", "Slots of schedules without an execution.", [one.skipped for one in series]),
    ):
        yield CounterMetricFamily(f"pilotis_workflow_{name}", help_, value=sum(numbers))
    requests = "Requests to trigger URLs: accepted, duplicate, or the code of the error."
    yield _counted("pilotis_trigger_requests", requests, "outcome", [one.triggers for one in series])
    yield _counted("pilotis_agent_tokens", "Tokens of agents' models.", "kind", [one.tokens for one in series])


def _histogram(name: str, help_: str, histograms: Iterable[Histogram], bounds: tuple[float, ...]) -> Metric:
    """Return the sum of histograms as a metric family."""
    family = HistogramMetricFamily(name, help_)
    total = Histogram.empty(bounds)
    for one in histograms:
        total.buckets = [sum(pair) for pair in zip(total.buckets, one.buckets, strict=True)]
        total.seconds += one.seconds
    family.add_metric([], buckets=_cumulative(bounds, total.buckets), sum_value=total.seconds)
    return family


def _cumulative(bounds: Sequence[float], buckets: Sequence[int]) -> list[tuple[str, int]]:
    return list(zip([*(str(bound) for bound in bounds), "+Inf"], itertools.accumulate(buckets), strict=True))


def _states(gauges: Sequence[Gauges]) -> Iterator[Metric]:
    for name, help_ in (
        ("in_flight", "Requests being answered."),
        ("pool_open", "Open database connections."),
        ("pool_idle", "Idle database connections."),
        ("pool_waiting", "Requests waiting for a database connection."),
        ("streams", "Open streams of events."),
        ("workflows_running", "Executions of workflows in progress."),
        ("unattended", "Sandboxes of functions that are granted to a call that does not use them."),
        ("strays", "Items of background work that a process owns and does not run."),
    ):
        full = _STATE_NAMES.get(name, f"pilotis_database_{name}")
        yield GaugeMetricFamily(full, help_, value=sum(getattr(gauge, name) for gauge in gauges))
    yield GaugeMetricFamily(
        "pilotis_work_owned_not_running_seconds",
        "For how long the oldest of these items has not been run.",
        value=max((gauge.strays_seconds for gauge in gauges), default=0.0),
    )


def _queued(gauges: Sequence[Gauges]) -> Metric:
    family = GaugeMetricFamily(
        "pilotis_jobs",
        "Background jobs in the database, by queue, kind and state; every server reports all of them.",
        labels=["queue", "kind", "state"],
    )
    for one in (one for gauge in gauges for one in gauge.queued):
        family.add_metric([one.queue, one.kind, one.state], one.number)
    return family


def _lanes(gauges: Sequence[Gauges]) -> Metric:
    family = GaugeMetricFamily(
        "pilotis_lanes",
        "Queues of one target each with waiting work, by kind and state; every server reports all of them.",
        labels=["kind", "state"],
    )
    for one in (one for gauge in gauges for one in gauge.lanes):
        family.add_metric([one.kind, one.state], one.number)
    return family


def _sandboxes(gauges: Sequence[Gauges]) -> Metric:
    family = GaugeMetricFamily("pilotis_function_sandboxes", "Sandboxes of functions.", labels=["runtime", "state"])
    for name, number in sorted(sum((Counter(gauge.sandboxes) for gauge in gauges), Counter()).items()):
        family.add_metric(name.split(" "), number)
    return family


def _total(name: str, help_: str, gauge: str, snapshots: Sequence[Snapshot]) -> Metric:
    """Return a number of the whole database, which one worker reports."""
    family = GaugeMetricFamily(name, f"{help_}; every server reports all of them.")
    for snapshot in snapshots:
        if (number := getattr(snapshot.gauges, gauge)) is not None:
            family.add_metric([], number)
    return family


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
    """Replace the file atomically, so that a reader never sees a partial one."""
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

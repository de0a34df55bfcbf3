"""Counts for Prometheus; `exposition` serves them on their own port.

A request costs a dictionary lookup and three additions; the exposition is generated when Prometheus scrapes. With
several workers each one writes its numbers to a file in a shared directory, once a second if they have changed, and the
worker that answers the scrape adds the files up. The file of a worker that has ended stays, so that no counter
decreases.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import msgspec

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.request import Call

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the duration histogram, in seconds."""

DELIVERY_BUCKETS = (*BUCKETS[1:], 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the histograms of deliveries, in seconds."""


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

    def _add(self, endpoint: Endpoint | None) -> Series:
        method, route = (endpoint.method, endpoint.path) if endpoint else ("", "")
        series = Series(method, route, [0] * 6, [0] * (len(BUCKETS) + 1))
        self._series[endpoint] = series
        return series

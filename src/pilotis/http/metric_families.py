"""Prometheus' metric families, from the snapshots of a server's workers. Imported with the first scrape."""

from __future__ import annotations

import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pilotis.http.metrics import (
    BUCKETS,
    DELIVERY_BUCKETS,
    DeliverySeries,
    FunctionSeries,
    Gauges,
    Histogram,
    JobSeries,
    Series,
    Snapshot,
    WorkflowSeries,
)

_STATE_NAMES = {
    "in_flight": "pilotis_requests_in_flight",
    "streams": "pilotis_streams",
    "workflows_running": "pilotis_workflow_running",
    "strays": "pilotis_work_owned_not_running",
    "unattended": "pilotis_function_sandboxes_unattended",
}


def application(snapshots: Callable[[], Sequence[Snapshot]]) -> Callable[..., Any]:
    """Return an ASGI application that answers with the sum of the snapshots."""
    registry = CollectorRegistry()
    registry.register(Exposition(snapshots))
    return make_asgi_app(registry)


class Exposition(Collector):
    """Converts snapshots to metric families."""

    def __init__(self, snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshots = snapshots

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the requests."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the families, each with the sums of all workers."""
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


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

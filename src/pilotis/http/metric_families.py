"""Prometheus' metric families, from the snapshots of a server's workers. Imported with the first scrape."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pilotis.http.metrics import Series, Snapshot
from pilotis.kit.metrics import BUCKETS, Counter, CounterFrom, CounterOf, Gauge, Histogram, Labels, Metric


def application(declared: Sequence[Metric], snapshots: Callable[[], Sequence[Snapshot]]) -> Callable[..., Any]:
    """Return an ASGI application that answers with the sum of the snapshots."""
    registry = prometheus.CollectorRegistry()
    registry.register(Exposition(declared, snapshots))
    return prometheus.make_asgi_app(registry)


class Exposition(Collector):
    """Converts snapshots to metric families; `declared` says which there are beside those of requests."""

    def __init__(self, declared: Sequence[Metric], snapshots: Callable[[], Sequence[Snapshot]]) -> None:
        self._declared = declared
        self._snapshots = snapshots

    def describe(self) -> Iterable[prometheus.Metric]:
        """Return nothing: what there is depends on the requests."""
        return []

    def collect(self) -> Iterator[prometheus.Metric]:
        """Yield the families, each with the sums of all workers; a state is that of the workers that run."""
        snapshots = self._snapshots()
        series = _summed(one for snapshot in snapshots for one in snapshot.requests)
        yield _requests(series)
        yield _seconds(series)
        yield _durations(snapshots)
        alive = [snapshot for snapshot in snapshots if _is_alive(snapshot.process)]
        for metric in self._declared:
            match metric:
                case Histogram():
                    yield _histogram(metric, snapshots)
                case Gauge():
                    yield _gauge(metric, alive)
                case CounterFrom():
                    yield _counter_from(metric, alive)
                case _:
                    yield _counter(metric, snapshots)
        yield from _processes([snapshot.process for snapshot in alive])


def _requests(series: Sequence[Series]) -> prometheus.Metric:
    family = CounterMetricFamily(
        "pilotis_requests", "Requests answered, by route and status class.", labels=["method", "route", "status"]
    )
    for one in series:
        for digit, count in enumerate(one.classes):
            if count:
                family.add_metric([one.method, one.route, f"{digit}xx"], count)
    return family


def _seconds(series: Sequence[Series]) -> prometheus.Metric:
    family = CounterMetricFamily(
        "pilotis_request_seconds",
        "Time from requests' headers to the end of their answers, by route.",
        labels=["method", "route"],
    )
    for one in series:
        family.add_metric([one.method, one.route], one.seconds)
    return family


def _durations(snapshots: Sequence[Snapshot]) -> prometheus.Metric:
    family = HistogramMetricFamily(
        "pilotis_request_duration_seconds",
        "The same as a distribution, by the area of the documentation.",
        labels=["area"],
    )
    for area in sorted({area for snapshot in snapshots for area in snapshot.areas}):
        found = [snapshot.areas[area] for snapshot in snapshots if area in snapshot.areas]
        buckets = [sum(counts) for counts in zip(*(one.buckets for one in found), strict=True)]
        family.add_metric([area], buckets=_cumulative(BUCKETS, buckets), sum_value=sum(one.seconds for one in found))
    return family


def _counter_from(counter: CounterFrom, alive: Sequence[Snapshot]) -> prometheus.Metric:
    family = CounterMetricFamily(counter.name, counter.help)
    if numbers := [snapshot.counters[counter.name][()] for snapshot in alive if snapshot.counters.get(counter.name)]:
        family.add_metric([], max(numbers))
    return family


def _counter(counter: Counter | CounterOf, snapshots: Sequence[Snapshot]) -> prometheus.Metric:
    family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
    sums: dict[Labels, float] = {} if counter.labels else {(): 0}
    for snapshot in snapshots:
        for values, number in snapshot.counters.get(counter.name, {}).items():
            sums[values] = sums.get(values, 0) + number
    for values, number in sorted(sums.items()):
        family.add_metric(values, number)
    return family


def _histogram(histogram: Histogram, snapshots: Sequence[Snapshot]) -> prometheus.Metric:
    family = HistogramMetricFamily(histogram.name, histogram.help)
    buckets, seconds = [0] * (len(histogram.bounds) + 1), 0.0
    for snapshot in snapshots:
        if found := snapshot.histograms.get(histogram.name):
            buckets = [sum(pair) for pair in zip(buckets, found.buckets, strict=True)]
            seconds += found.seconds
    family.add_metric([], buckets=_cumulative(histogram.bounds, buckets), sum_value=seconds)
    return family


def _gauge(gauge: Gauge, alive: Sequence[Snapshot]) -> prometheus.Metric:
    family = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
    states: dict[Labels, float] = {}
    for snapshot in alive:
        for values, state in snapshot.gauges.get(gauge.name, {}).items():
            before = states.get(values, 0)
            states[values] = max(before, state) if gauge.is_largest else before + state
    for values, state in sorted(states.items()):
        family.add_metric(values, state)
    return family


def _cumulative(bounds: Sequence[float], buckets: Sequence[int]) -> list[tuple[str, int]]:
    return list(zip([*(str(bound) for bound in bounds), "+Inf"], itertools.accumulate(buckets), strict=True))


def _processes(processes: Sequence[int]) -> Iterator[prometheus.Metric]:
    """Yield the usual `process_*` families with the worker's process id as a label."""
    families: dict[str, prometheus.Metric] = {}
    for process in processes:
        for family in prometheus.ProcessCollector(pid=functools.partial(int, process), registry=None).collect():
            merged = families.setdefault(family.name, prometheus.Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                merged.add_sample(sample.name, {"pid": str(process)}, sample.value)
    yield from families.values()


def _summed(series: Iterable[Series]) -> list[Series]:
    sums: dict[tuple[str, str], Series] = {}
    for one in series:
        total = sums.setdefault((one.method, one.route), Series(one.method, one.route, [0] * 6))
        total.classes = [sum(pair) for pair in zip(total.classes, one.classes, strict=True)]
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

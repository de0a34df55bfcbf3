"""Counts for Prometheus; `exposition` serves them on their own port.

A request costs a dictionary lookup and three additions; the exposition is generated when Prometheus scrapes. With
several workers each one writes its numbers to a file in a shared directory, once a second if they have changed, and the
worker that answers the scrape adds the files up. The file of a worker that has ended stays, so that no counter
decreases.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from pilotis.http.api.endpoint import Endpoint
from pilotis.kit.metrics import BUCKETS, Counter, Gauge, Histogram, Labels, Metric, Numbers


class Series(msgspec.Struct):
    """The requests of one route: counts by the first digit of the status, total seconds."""

    method: str
    route: str
    classes: list[int]
    seconds: float = 0.0


class _Route(msgspec.Struct):
    """A route's series, and the durations that it shares with the other routes of its area."""

    series: Series
    buckets: list[int]
    area: str


class Durations(msgspec.Struct):
    """A histogram's counts by bucket, and the sum in seconds."""

    buckets: list[int]
    seconds: float


class Snapshot(msgspec.Struct):
    """One worker's numbers: its requests, and the others by the names of the metrics."""

    process: int
    requests: list[Series]
    areas: dict[str, Durations]
    counters: dict[str, dict[Labels, float]]
    histograms: dict[str, Durations]
    gauges: dict[str, dict[Labels, float]]


class Metrics:
    """One process's numbers: it counts requests and attempts of jobs itself, `declared` what the others count."""

    def __init__(self, declared: Sequence[Metric] = ()) -> None:
        labels = ("kind", "result")
        self._attempts = Counter("pilotis_job_attempts", "Attempts of background jobs, by result.", labels)
        self._seconds = Counter("pilotis_job_seconds", "Duration of attempts of background jobs.", labels)
        self.declared: Sequence[Metric] = (self._attempts, self._seconds, *declared)
        self._routes: dict[Endpoint | None, _Route] = {}
        self._areas: dict[str, list[int]] = {}

    def count(self, endpoint: Endpoint | None, status: int, seconds: float) -> None:
        """Count a request of a route. Unknown paths share one series, so that clients cannot create labels.

        Durations are distributed by area, the tag of the documentation: a histogram for each route would be thousands
        of series.
        """
        route = self._routes.get(endpoint) or self._add(endpoint)
        series = route.series
        series.classes[status // 100] += 1
        series.seconds += seconds
        route.buckets[bisect_left(BUCKETS, seconds)] += 1

    def job_finished(self, kind: str, result: str, seconds: float) -> None:
        """Count an attempt of a background job and its duration in seconds."""
        self._attempts.add(kind, result)
        self._seconds.add(kind, result, number=seconds)

    def snapshot(self) -> Snapshot:
        """Return the current numbers."""
        histograms = [one for one in self.declared if isinstance(one, Histogram)]
        counters = [one for one in self.declared if not isinstance(one, Histogram | Gauge)]
        gauges = [one for one in self.declared if isinstance(one, Gauge)]
        return Snapshot(
            os.getpid(),
            [route.series for route in self._routes.values()],
            self._durations(),
            {one.name: _copied(one.read()) for one in counters},
            {one.name: Durations(one.buckets[:], one.sums[0]) for one in histograms},
            {one.name: _copied(one.read()) for one in gauges},
        )

    def _durations(self) -> dict[str, Durations]:
        sums = dict.fromkeys(self._areas, 0.0)
        for route in self._routes.values():
            sums[route.area] += route.series.seconds
        return {area: Durations(buckets[:], sums[area]) for area, buckets in self._areas.items()}

    def _add(self, endpoint: Endpoint | None) -> _Route:
        method, path, area = (endpoint.method, endpoint.path, endpoint.tag) if endpoint else ("", "", "")
        buckets = self._areas.setdefault(area, [0] * (len(BUCKETS) + 1))
        route = _Route(Series(method, path, [0] * 6), buckets, area)
        self._routes[endpoint] = route
        return route


def _copied(numbers: Numbers) -> dict[Labels, float]:
    return dict(numbers)

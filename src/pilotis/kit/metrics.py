"""What a process counts for Prometheus: counters, histograms and gauges.

A feature declares its metrics in `feature.py`, and counts with the objects that it declares. `Metrics` adds up those of
all workers, `metric_families` turns the sums into Prometheus' format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping

import msgspec

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histograms of what should take less than a second, in seconds."""

LONG_BUCKETS = (*BUCKETS[1:], 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the histograms of what may take minutes, in seconds."""

Labels = tuple[str, ...]
Numbers = Mapping[Labels, float]


class Counter(msgspec.Struct, frozen=True, eq=False):
    """A number for each combination of labels' values; it only grows. Prometheus' name of it ends in `_total`."""

    name: str
    help: str
    labels: Labels = ()
    numbers: dict[Labels, float] = msgspec.field(default_factory=dict)

    def add(self, *values: str, number: float = 1) -> None:
        """Count once, or a number, for the values of the labels."""
        self.numbers[values] = self.numbers.get(values, 0) + number

    def read(self) -> Numbers:
        """Return the numbers."""
        return self.numbers


class CounterOf(msgspec.Struct, frozen=True, eq=False):
    """A counter with one label whose numbers somebody else counts."""

    name: str
    help: str
    label: str
    count: Callable[[], Mapping[str, float]]

    @property
    def labels(self) -> Labels:
        """Its label."""
        return (self.label,)

    def read(self) -> Numbers:
        """Return the numbers."""
        return {(value,): number for value, number in self.count().items()}


class Histogram(msgspec.Struct, frozen=True, eq=False):
    """A distribution of durations: their counts by bucket of `bounds`, and their sum, in seconds."""

    name: str
    help: str
    bounds: tuple[float, ...] = BUCKETS
    buckets: list[int] = msgspec.field(default_factory=list)
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0])

    def __post_init__(self) -> None:
        self.buckets.extend([0] * (len(self.bounds) + 1 - len(self.buckets)))

    def add(self, seconds: float) -> None:
        """Count a duration; a negative one, from clocks that differ, counts as none."""
        seconds = max(seconds, 0.0)
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.sums[0] += seconds


class Gauge(msgspec.Struct, frozen=True, eq=False):
    """A current state by labels' values, read when it is asked for. Without labels it may be one number.

    The states of several workers are added, or the largest is taken. One that covers the whole database is read by one
    worker; the others return None.
    """

    name: str
    help: str
    state: Callable[[], Numbers | float | None]
    labels: Labels = ()
    is_largest: bool = False

    def read(self) -> Numbers:
        """Return the state by labels' values."""
        state = self.state()
        if state is None:
            return {}
        return state if isinstance(state, Mapping) else {(): state}


class CounterFrom(msgspec.Struct, frozen=True, eq=False):
    """A counter without labels that somebody else counts for the whole database, and one process of a server reads.

    The largest number that a worker knows is taken. None if it is not known.
    """

    name: str
    help: str
    count: Callable[[], float | None]

    @property
    def labels(self) -> Labels:
        """It has none."""
        return ()

    def read(self) -> Numbers:
        """Return the number."""
        number = self.count()
        return {} if number is None else {(): number}


class Counts:
    """The metrics that a feature counts with, as attributes."""

    def declared(self) -> list[Metric]:
        """Return all of them, in the order in which they were set."""
        return list(vars(self).values())


Metric = Counter | CounterOf | CounterFrom | Histogram | Gauge


class Survey(msgspec.Struct, frozen=True):
    """Something that one process of a server looks at twice a minute, such as the state of PostgreSQL."""

    name: str
    look: Callable[[], Awaitable[object]]


class Total(msgspec.Struct, frozen=True, eq=False):
    """A number of the whole database, which one process of a server counts from time to time."""

    name: str
    help: str
    count: Callable[[], Awaitable[int]]

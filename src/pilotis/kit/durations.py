"""Histograms of durations, and percentiles estimated from them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

BOUNDS_MS = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)
"""The upper bounds of all buckets but the last, which has none, in milliseconds."""

BUCKETS = len(BOUNDS_MS) + 1


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """Return the duration in milliseconds that a share of the requests did not exceed; None without any request.

    Within a bucket the durations are taken as evenly spread; one beyond the last bound is given as that bound.
    """
    total = sum(buckets)
    if not total:
        return None
    wanted = share * total
    edges = (0.0, *BOUNDS_MS)
    for (low, high), count, below in zip(pairwise(edges), buckets, (0, *accumulate(buckets)), strict=False):
        if count and below + count >= wanted:
            return round(low + (high - low) * max(0.0, wanted - below) / count, 3)
    return BOUNDS_MS[-1]

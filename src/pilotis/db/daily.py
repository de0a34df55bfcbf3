"""Counts by day, as statistics show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from asyncpg import Record


class DayCount(NamedTuple):
    """How many things happened on a day, given as `2026-01-31` in UTC, and how many of them failed."""

    day: str
    total: int
    failed: int


def day_counts(rows: Sequence[Record]) -> list[DayCount]:
    """Return rows with `day`, `total` and `failed` as counts."""
    return [DayCount(row["day"].date().isoformat(), row["total"], row["failed"]) for row in rows]

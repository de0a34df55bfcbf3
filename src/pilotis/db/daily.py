"""Counts by day, as statistics show them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from pilotis.db.pool import TenantDatabase
from pilotis.kit.clock import now
from pilotis.kit.ids import earliest_uuid7


class DayCount(NamedTuple):
    """How many things happened on a day, given as `2026-01-31` in UTC, and how many of them failed."""

    day: str
    total: int
    failed: int


class Counted(NamedTuple):
    """The numbers of things, and what happened by day, each by its name."""

    totals: Mapping[str, int]
    by_day: Mapping[str, list[DayCount]]


async def count(
    connection: TenantDatabase, app_id: UUID, days: int, totals: Mapping[str, str], by_day: Mapping[str, str]
) -> Counted:
    """Run queries that count, by their names, in one statement: a database may be far away.

    Those of `totals` select a number, those of `by_day` the `day`, the `total` and how many `failed`. In all of them
    `$1` is the app, `$2` the number of days until today, and `$3` an id that sorts before every UUIDv7 of these days.
    """
    parts = [
        f"select '{name}' as name, null::timestamptz as day, ({query}) as total, 0 as failed"
        for name, query in totals.items()
    ]
    parts += [f"select '{name}', day, total, failed from ({query}) by_day" for name, query in by_day.items()]
    # A day more allows for the clocks of processes.
    since = earliest_uuid7(int((now() - timedelta(days=days + 1)).timestamp() * 1000))
    rows = await connection.fetch(" union all ".join(parts), app_id, days, since)
    numbers: dict[str, int] = {}
    days_of: dict[str, list[DayCount]] = {name: [] for name in by_day}
    for name, day, total, failed in rows:
        if day is None:
            numbers[name] = total
        else:
            days_of[name].append(DayCount(day.date().isoformat(), total, failed))
    return Counted(numbers, days_of)

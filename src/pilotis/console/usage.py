"""What an app has, and what happened in it by day, apart from requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from pilotis.console.types import DayUsage, Usage
from pilotis.db import daily
from pilotis.db.pool import Database
from pilotis.kit.clock import now
from pilotis.plans.types import PlanUse


async def usage_of(
    database: Database,
    app_id: UUID,
    days: int,
    totals: Mapping[str, str],
    by_day_of: Mapping[str, str],
    plan: PlanUse,
) -> Usage:
    """Return how many things of each kind an app has, and what happened on each of the last `days` days.

    The queries `totals` and `by_day_of` count what `Usage` and `DayUsage` name; see `pilotis.db.daily`.
    """
    counted = await daily.count(database.of(app_id), app_id, days, totals, by_day_of)
    last = now().date()
    by_day: dict[str, dict[str, int]] = {(last - timedelta(days=ago)).isoformat(): {} for ago in reversed(range(days))}
    for name, counts in counted.by_day.items():
        for count in counts:
            # A day may begin between the question and now.
            if count.day in by_day:
                by_day[count.day] |= {name: count.total, f"failed_{name}": count.failed}
    days_used = [DayUsage(date=day, **counts) for day, counts in by_day.items()]
    return Usage(**counted.totals, by_day=days_used, plan=plan.name, quotas=plan.quotas)

"""What an app has, and what happened in it by day, apart from requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from pilotis.console.types import DayUsage, Usage
from pilotis.db import daily
from pilotis.db.pool import Database
from pilotis.kit.clock import now

_TOTALS = {
    "sites": "select count(*) from pilotis.web_storages where app_id = $1",
    "functions": "select count(*) from pilotis.functions where app_id = $1",
    "workflows": "select count(*) from pilotis.workflows where app_id = $1 and deleted_at is null",
    "webhooks": "select count(*) from pilotis.webhooks where app_id = $1",
}


async def usage_of(database: Database, app_id: UUID, days: int, by_day_queries: Mapping[str, str]) -> Usage:
    """Return how many things of each kind an app has, and what happened on each of the last `days` days.

    `by_day_queries` count what `DayUsage` names; see `pilotis.db.daily`.
    """
    counted = await daily.count(database.of(app_id), app_id, days, _TOTALS, by_day_queries)
    last = now().date()
    by_day: dict[str, dict[str, int]] = {(last - timedelta(days=ago)).isoformat(): {} for ago in reversed(range(days))}
    for name, counts in counted.by_day.items():
        for count in counts:
            # A day may begin between the question and now.
            if count.day in by_day:
                by_day[count.day] |= {name: count.total, f"failed_{name}": count.failed}
    return Usage(**counted.totals, by_day=[DayUsage(date=day, **counts) for day, counts in by_day.items()])

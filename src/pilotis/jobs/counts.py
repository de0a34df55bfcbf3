"""Counts of jobs, lanes and other work for metrics. One process counts them periodically, instead of on each scrape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs import lanes, store
from pilotis.jobs.lanes import LaneCount
from pilotis.jobs.store import JobCount

COUNT_SECONDS = 30.0
_SHARE = 20
"""The minimum ratio of the pause to the duration of counting."""
_log = structlog.get_logger("pilotis.jobs")


class JobCounts:
    """The latest counts; empty in a process that does not count. `counters` are the features' own, by name."""

    def __init__(self, database: Database, counters: Mapping[str, Callable[[], Awaitable[int]]] | None = None) -> None:
        self._database = database
        self._counters = counters or {}
        self.latest: Sequence[JobCount] = ()
        self.lanes: Sequence[LaneCount] = ()
        self.numbers: Mapping[str, int] = {}

    async def keep(self, seconds: float = COUNT_SECONDS) -> None:
        """Count every `seconds` until cancelled; less often if it takes long."""
        while True:
            started = time.monotonic()
            try:
                self.latest = await store.overview(self._database.of(BACKGROUND))
                self.lanes = await lanes.overview(self._database.of(BACKGROUND))
                self.numbers = {name: await count() for name, count in self._counters.items()}
            except Exception as error:
                # Stale counts would hide a problem.
                self.latest = self.lanes = ()
                self.numbers = {}
                _log.warning("jobs not counted", error=type(error).__name__)
            await asyncio.sleep(max(seconds, _SHARE * (time.monotonic() - started)))

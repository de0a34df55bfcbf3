"""Counts of jobs, lanes and other work for metrics. One process counts them periodically, instead of on each scrape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs import lanes, store
from pilotis.kit import clock
from pilotis.kit.metrics import Labels, Survey, Total

COUNT_SECONDS = 30.0
_SHARE = 20
"""The minimum ratio of the pause to the duration of counting."""
_log = structlog.get_logger("pilotis.jobs")


class JobCounts:
    """The latest counts, empty in a process that does not count, and those of `declared` by their names.

    `jobs` are by queue, kind and state (`waiting`, `running` or `dead`), `lanes` by kind and state: `waiting` (due),
    `held`, or `resting` until more is due.
    """

    def __init__(self, database: Database, declared: Sequence[Total] = (), surveys: Sequence[Survey] = ()) -> None:
        self._database = database
        self._declared = declared
        self._surveys = surveys
        self.jobs: dict[Labels, int] = {}
        self.lanes: dict[Labels, int] = {}
        self.totals: dict[str, int] = {}
        self.overdue_seconds: float | None = None
        """For how long the oldest waiting job has been due."""

    async def keep(self, seconds: float = COUNT_SECONDS) -> None:
        """Count every `seconds` until cancelled; less often if it takes long."""
        while True:
            started = time.monotonic()
            try:
                jobs = await store.overview(self._database.of(BACKGROUND))
                self.jobs = {(one.queue, one.kind, one.state): one.number for one in jobs}
                waiting = [one.oldest for one in jobs if one.state == "waiting"]
                self.overdue_seconds = max((clock.now() - min(waiting, default=clock.now())).total_seconds(), 0.0)
                found = await lanes.overview(self._database.of(BACKGROUND))
                self.lanes = {(one.kind, one.state): one.number for one in found}
                for total in self._declared:
                    self.totals[total.name] = await total.count()
            except Exception as error:
                # Stale counts would hide a problem.
                self.jobs, self.lanes = {}, {}
                self.totals.clear()
                self.overdue_seconds = None
                _log.warning("jobs not counted", error=type(error).__name__)
            for survey in self._surveys:
                try:
                    await survey.look()
                except Exception as error:
                    _log.warning("survey failed", what=survey.name, error=type(error).__name__)
            await asyncio.sleep(max(seconds, _SHARE * (time.monotonic() - started)))

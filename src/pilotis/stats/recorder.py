"""Counting requests: each node counts in memory and adds its counts to the database every few seconds.

What a request costs is one dictionary look-up. There is one tally an app, so memory is bounded by the number of apps;
what cannot be written stays for the next time. A node that is killed loses the counts of the last seconds.
"""

from __future__ import annotations

from uuid import UUID

from pilotis.db.flushing import FLUSH_SECONDS, Flushing
from pilotis.db.pool import Database
from pilotis.stats import store
from pilotis.stats.store import Tally


class RequestRecorder(Flushing):
    """Counts the requests that one node answers, by app."""

    what = "request counts"

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._database = database
        self._tallies: dict[UUID, list[int]] = {}

    def count(self, app_id: UUID, status: int) -> None:
        """Count a request that was answered with a status."""
        tally = self._tallies.get(app_id)
        if tally is None:
            tally = self._tallies[app_id] = [0, 0, 0]
        tally[0] += 1
        if status >= 400:
            tally[1 if status < 500 else 2] += 1

    async def flush(self) -> None:
        """Add what is counted to the database; if that fails, it stays counted."""
        tallies, self._tallies = self._tallies, {}
        if not tallies:
            return
        try:
            await store.add(self._database, [Tally(app_id, *counts) for app_id, counts in tallies.items()])
        except BaseException:
            for app_id, counts in tallies.items():
                present = self._tallies.setdefault(app_id, [0, 0, 0])
                self._tallies[app_id] = [a + b for a, b in zip(present, counts, strict=True)]
            raise

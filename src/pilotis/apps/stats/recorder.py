"""Counts requests: each node counts in memory, and adds its counts to the database every few seconds.

A request costs one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from pilotis.apps.stats import store
from pilotis.apps.stats.store import RequestCounts
from pilotis.db.buffered_writer import FLUSH_SECONDS, AppCounters
from pilotis.db.pool import Database


class RequestRecorder(AppCounters):
    """Counts by app the requests that one node serves."""

    what = "request counts"

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._database = database

    def count(self, app_id: UUID, status: int, sent: int = 0) -> None:
        """Count a request by the status of its response, and the bytes of its body."""
        counters = self._pending.get(app_id)
        if counters is None:
            counters = self._pending[app_id] = [0, 0, 0, 0]
        counters[0] += 1
        counters[3] += sent
        if status >= 400:
            counters[1 if status < 500 else 2] += 1

    async def add(self, counts: Mapping[UUID, Sequence[int]]) -> None:
        """Add the counts of apps to those of this hour."""
        await store.add(self._database, [RequestCounts(app_id, *own) for app_id, own in counts.items()])

"""Counts requests: each node counts in memory, and adds its counts to the database every few seconds.

A request costs one dictionary lookup. There is one entry per app, so memory is bounded by the number of apps;
counts that cannot be written are kept for the next flush. A node that is killed loses the counts of the last seconds.
"""

from __future__ import annotations

from uuid import UUID

from pilotis.apps.stats import store
from pilotis.apps.stats.store import RequestCounts
from pilotis.db.buffered_writer import FLUSH_SECONDS, BufferedWriter
from pilotis.db.pool import Database


class RequestRecorder(BufferedWriter):
    """Counts by app the requests that one node serves."""

    what = "request counts"

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._database = database
        self._pending: dict[UUID, list[int]] = {}

    def count(self, app_id: UUID, status: int, sent: int = 0) -> None:
        """Count a request by the status of its response, and the bytes of its body."""
        counters = self._pending.get(app_id)
        if counters is None:
            counters = self._pending[app_id] = [0, 0, 0, 0]
        counters[0] += 1
        counters[3] += sent
        if status >= 400:
            counters[1 if status < 500 else 2] += 1

    async def flush(self) -> None:
        """Add the counts to the database; if that fails, they are kept for the next attempt."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await store.add(self._database, [RequestCounts(app_id, *counts) for app_id, counts in pending.items()])
        except BaseException:
            for app_id, counts in pending.items():
                present = self._pending.setdefault(app_id, [0, 0, 0, 0])
                self._pending[app_id] = [a + b for a, b in zip(present, counts, strict=True)]
            raise

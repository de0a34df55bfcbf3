"""Counts what apps use: each node counts in memory, and adds its counts to the database every few seconds.

A node that is killed loses the counts of the last seconds.
"""

from __future__ import annotations

from uuid import UUID

from pilotis.apps.meter import store
from pilotis.apps.meter.store import Use
from pilotis.db.buffered_writer import FLUSH_SECONDS, BufferedWriter
from pilotis.db.pool import Database


class Meter(BufferedWriter):
    """Counts by app what one node does for it."""

    what = "metered use"

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._database = database
        self._pending: dict[UUID, list[int]] = {}

    def called(self, app_id: UUID, milliseconds: int) -> None:
        """Count the call of a function, and the time that it took."""
        counts = self._pending.setdefault(app_id, [0, 0, 0])
        counts[0] += 1
        counts[1] += milliseconds

    def mailed(self, app_id: UUID) -> None:
        """Count a mail that was sent."""
        self._pending.setdefault(app_id, [0, 0, 0])[2] += 1

    async def flush(self) -> None:
        """Add the counts to the database; if that fails, they are kept for the next attempt."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await store.add(self._database, [Use(app_id, *counts) for app_id, counts in pending.items()])
        except BaseException:
            for app_id, counts in pending.items():
                present = self._pending.setdefault(app_id, [0, 0, 0])
                self._pending[app_id] = [a + b for a, b in zip(present, counts, strict=True)]
            raise

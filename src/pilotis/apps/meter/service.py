"""Counts what apps use: each node counts in memory, and adds its counts to the database every few seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from pilotis.apps.meter import store
from pilotis.apps.meter.store import Use
from pilotis.db.buffered_writer import FLUSH_SECONDS, AppCounters
from pilotis.db.pool import Database


class Meter(AppCounters):
    """Counts by app what one node does for it."""

    what = "metered use"

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._database = database

    def called(self, app_id: UUID, milliseconds: int) -> None:
        """Count the call of a function, and the time that it took."""
        counts = self._pending.setdefault(app_id, [0, 0, 0])
        counts[0] += 1
        counts[1] += milliseconds

    def mailed(self, app_id: UUID) -> None:
        """Count a mail that was sent."""
        self._pending.setdefault(app_id, [0, 0, 0])[2] += 1

    async def add(self, counts: Mapping[UUID, Sequence[int]]) -> None:
        """Add the counts of apps to those of this month."""
        await store.add(self._database, [Use(app_id, *own) for app_id, own in counts.items()])

"""Counts in memory how long the statements take that rules limit, and adds the counts to the database now and then.

Planning is part of it: PostgreSQL plans a rule with many `$exists` for as long as it runs others. The counts are of the
last 24 hours. A node that is killed loses those of the last seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from uuid import UUID

from pilotis.data.rules import store
from pilotis.data.tables.schema import TableSchema
from pilotis.db.buffered_writer import BufferedWriter
from pilotis.db.pool import Database
from pilotis.kit.durations import BOUNDS_MS, BUCKETS, percentile

_SLOW_MS = 100.0
# Fewer say nothing about one in twenty.
_LEAST = 20


class RuleDurations(BufferedWriter):
    """Counts one node's statements under the rules of tables, by their durations."""

    what = "durations of rules"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._pending: dict[tuple[UUID, UUID], list[int]] = {}

    def record(self, table: TableSchema, seconds: float) -> None:
        """Count a statement under a table's rules."""
        key = table.app_id, table.table_id
        buckets = self._pending.get(key)
        if buckets is None:
            buckets = self._pending[key] = [0] * BUCKETS
        buckets[bisect_left(BOUNDS_MS, seconds * 1000)] += 1

    async def flush(self) -> None:
        """Add the counts to the database; if that fails, they stay in memory."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await store.add_durations(self._database, [(*key, buckets) for key, buckets in pending.items()])
        except BaseException:
            for key, buckets in pending.items():
                present = self._pending.setdefault(key, [0] * BUCKETS)
                self._pending[key] = [a + b for a, b in zip(present, buckets, strict=True)]
            raise

    async def slow(self, app_id: UUID) -> dict[UUID, float]:
        """Return the tables of an app under whose rules one in twenty statements took long, with these milliseconds."""
        found: dict[UUID, float] = {}
        for table_id, buckets in await store.durations(self._database.of(app_id), app_id):
            taken = percentile(buckets, 0.95)
            if sum(buckets) >= _LEAST and taken is not None and taken > _SLOW_MS:
                found[table_id] = taken
        return found

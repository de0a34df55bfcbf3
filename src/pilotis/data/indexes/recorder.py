"""Counts slow statements by access pattern, in memory, and adds the counts to the database every few seconds.

Fast statements are not counted: they need no index. There is one entry for each table and pattern, up to a limit. If a
flush fails, the next one retries its counts; a node that is killed loses the counts of the last seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pilotis.data.indexes import store
from pilotis.data.indexes.selection import LEAST_HITS, LEAST_MILLISECONDS
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.access_patterns import AccessPattern, AccessPatterns, encode
from pilotis.db.buffered_writer import BufferedWriter
from pilotis.db.pool import Database
from pilotis.jobs.queue import Jobs

SLOW_SECONDS = 0.002
MAINTAIN = "indexes.maintain"
"""The periodic task that builds the indexes for slow statements."""
_MAX_KEPT = 10_000


class AccessRecorder(BufferedWriter):
    """Counts the slow statements of one node, and their time, by table and access pattern."""

    what = "access patterns"

    def __init__(self, database: Database, jobs: Jobs | None = None, *, slow_seconds: float = SLOW_SECONDS) -> None:
        super().__init__()
        self._jobs = jobs
        self._database = database
        self.slow_seconds = slow_seconds
        self._pending: dict[tuple[UUID, UUID, str], list[float]] = {}

    def record(self, table: TableSchema, access: AccessPatterns, seconds: float) -> None:
        """Count a statement that took `seconds`, if it was slow."""
        if seconds < self.slow_seconds:
            return
        for use in access.patterns():
            self._add((table.app_id, table.table_id, encode(use)), 1, seconds * 1000)

    def expect(self, app_id: UUID, read_by: Sequence[tuple[UUID, AccessPattern]]) -> None:
        """Count what statements will need, by their tables, as if enough of them had been slow already."""
        for table_id, use in read_by:
            self._add((app_id, table_id, encode(use)), LEAST_HITS, LEAST_MILLISECONDS)

    async def flush(self) -> None:
        """Add the counts to the database; if that fails, they stay in memory."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await store.add_patterns(self._database, [(*key, hits, ms) for key, (hits, ms) in pending.items()])
        except BaseException:
            for key, (hits, milliseconds) in pending.items():
                self._add(key, hits, milliseconds)
            raise
        if self._jobs is not None:
            await self._jobs.request(MAINTAIN)

    def _add(self, key: tuple[UUID, UUID, str], hits: float, milliseconds: float) -> None:
        totals = self._pending.get(key)
        if totals is not None:
            totals[0] += hits
            totals[1] += milliseconds
        elif len(self._pending) < _MAX_KEPT:
            self._pending[key] = [hits, milliseconds]

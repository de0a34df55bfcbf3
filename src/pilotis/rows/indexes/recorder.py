"""Noting slow statements by what they read: in memory, added to the database every few seconds.

A statement that is quick costs nothing here; it needs no index. There is one tally a table and use, bounded in number;
what cannot be written stays for the next time, and a node that is killed loses the notes of the last seconds.
"""

from __future__ import annotations

from uuid import UUID

from pilotis.db.flushing import Flushing
from pilotis.db.pool import Database
from pilotis.rows.indexes import store
from pilotis.rows.indexes.uses import Notes, encode
from pilotis.tables.schema import TableSchema

SLOW_SECONDS = 0.002
_MOST_KEPT = 10_000


class UseRecorder(Flushing):
    """Counts the slow statements of one node, and how long they took, by table and use."""

    what = "notes of index uses"

    def __init__(self, database: Database, *, slow_seconds: float = SLOW_SECONDS) -> None:
        super().__init__()
        self._database = database
        self.slow_seconds = slow_seconds
        self._tallies: dict[tuple[UUID, UUID, str], list[float]] = {}

    def note(self, table: TableSchema, notes: Notes, seconds: float) -> None:
        """Count a statement that took `seconds`, if that was long."""
        if seconds < self.slow_seconds:
            return
        for use in notes.uses():
            self._add((table.app_id, table.table_id, encode(use)), 1, seconds * 1000)

    async def flush(self) -> None:
        """Add what is noted to the database; if that fails, it stays noted."""
        tallies, self._tallies = self._tallies, {}
        if not tallies:
            return
        try:
            await store.add_uses(self._database, [(*key, hits, ms) for key, (hits, ms) in tallies.items()])
        except BaseException:
            for key, (hits, milliseconds) in tallies.items():
                self._add(key, hits, milliseconds)
            raise

    def _add(self, key: tuple[UUID, UUID, str], hits: float, milliseconds: float) -> None:
        tally = self._tallies.get(key)
        if tally is not None:
            tally[0] += hits
            tally[1] += milliseconds
        elif len(self._tallies) < _MOST_KEPT:
            self._tallies[key] = [hits, milliseconds]

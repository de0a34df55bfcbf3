"""Noting slow statements by what they read: in memory, added to the database every few seconds.

A statement that is quick costs nothing here; it needs no index. There is one tally a table and use, bounded in number;
what cannot be written stays for the next time, and a node that is killed loses the notes of the last seconds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import structlog

from pilotis.db.pool import Database
from pilotis.rows.indexes import store
from pilotis.rows.indexes.uses import Notes, encode
from pilotis.tables.schema import TableSchema

SLOW_SECONDS = 0.002
FLUSH_SECONDS = 5.0
_MOST_KEPT = 10_000
_log = structlog.get_logger("pilotis.indexes")


class UseRecorder:
    """Counts the slow statements of one node, and how long they took, by table and use."""

    def __init__(self, database: Database, *, slow_seconds: float = SLOW_SECONDS) -> None:
        self._database = database
        self.slow_seconds = slow_seconds
        self._tallies: dict[tuple[UUID, UUID, str], list[float]] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, table: TableSchema, notes: Notes, seconds: float) -> None:
        """Count a statement that took `seconds`, if that was long."""
        if seconds < self.slow_seconds:
            return
        for use in notes.uses():
            self._add((table.app_id, table.table_id, encode(use)), 1, seconds * 1000)

    def start(self) -> None:
        """Add the notes to the database every few seconds from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Add what is noted, and no more."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._try_to_flush()

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

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self._try_to_flush()

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            _log.warning("notes of uses wait", error=type(error).__name__)

"""Writes checkpoints: those of one app that arrive together in one statement and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from asyncpg import Record

from pilotis.db.batching import Batchers, or_alone
from pilotis.db.pool import Database
from pilotis.workflows import execution_store
from pilotis.workflows.execution_store import HeldCheckpoint

MAX_SHARED = 32 * 1024
"""What has more characters gets a statement of its own, which may take longer."""


class Checkpoints:
    """Writes the checkpoints of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batchers: Batchers[UUID, tuple[UUID, HeldCheckpoint], Record | None] = Batchers(self._write)

    async def write(self, app_id: UUID, point: HeldCheckpoint) -> Record | None:
        """Write a checkpoint and return the row of its execution; None if this process no longer holds it."""
        if point.size <= MAX_SHARED and (row := await self._batchers.submit(app_id, (app_id, point))):
            return row
        # Alone: it waits for the lock on its row, and fails by its own fault only.
        written = await execution_store.write(self._database.of(app_id), app_id, [point])
        return written.get(point.execution_id)

    async def _write(self, points: Sequence[tuple[UUID, HeldCheckpoint]]) -> Sequence[Record | None]:
        return await or_alone(self._write_all(points[0][0], [point for _, point in points]), len(points))

    async def _write_all(self, app_id: UUID, points: Sequence[HeldCheckpoint]) -> list[Record | None]:
        written = await execution_store.write(self._database.of(app_id), app_id, points)
        return [written.get(point.execution_id) for point in points]

"""Writes checkpoints: those of one app that arrive together in one statement and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import asyncpg

from pilotis.db.batching import Batchers
from pilotis.db.pool import Database
from pilotis.workflows import checkpoint_store
from pilotis.workflows.checkpoint_store import HeldCheckpoint, Written

MAX_SHARED = 32 * 1024
"""What has more characters gets a statement of its own, which may take longer."""


class Checkpoints:
    """Writes the checkpoints of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batchers: Batchers[UUID, tuple[UUID, HeldCheckpoint], Written | None] = Batchers(self._write)

    async def write(self, app_id: UUID, point: HeldCheckpoint) -> Written | None:
        """Write a checkpoint and return its execution; None if this process no longer holds it."""
        if point.size <= MAX_SHARED:
            # One of several may have made their statement fail, which then wrote nothing.
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError):
                if row := await self._batchers.submit(app_id, (app_id, point)):
                    return row
        # Alone: it waits for the lock on its row, and fails by its own fault only.
        (written,) = await self._write([(app_id, point)])
        return written

    async def _write(self, points: Sequence[tuple[UUID, HeldCheckpoint]]) -> list[Written | None]:
        app_id = points[0][0]
        held = [point for _, point in points]
        written = await checkpoint_store.write(self._database.of(app_id), app_id, held)
        return [written.get(point.execution_id) for point in held]

"""When public keys were last used: requests record it in memory, and a task writes it in batches."""

from __future__ import annotations

import asyncio
import contextlib
from uuid import UUID

import asyncpg

from pilotis.apps import key_store
from pilotis.db.pool import Database
from pilotis.kit.errors import PilotisError

_GATHER_SECONDS = 1.0


class LastUse:
    """Collects keys for a second and writes them in one statement, which skips keys used within the last minute."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used: set[tuple[UUID, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def record(self, app_id: UUID, key: str) -> None:
        """Record that a key was used, without waiting."""
        self._used.add((app_id, key))
        if self._task is None:
            self._task = asyncio.create_task(self._write_later())

    async def stop(self) -> None:
        """Write the recorded uses."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._write()

    async def _write_later(self) -> None:
        try:
            await asyncio.sleep(_GATHER_SECONDS)
        finally:
            self._task = None
        await self._write()

    async def _write(self) -> None:
        used, self._used = self._used, set()
        if used:
            # Last use is informative only; an unreachable database is reported elsewhere.
            with contextlib.suppress(PilotisError, asyncpg.PostgresError):
                await key_store.touch_public_keys(self._database, used)

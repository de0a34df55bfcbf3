"""When public keys were last used: noted by a request in passing, written together a moment later."""

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
    """Gathers keys for a second and writes them in one statement, which leaves keys used within the minute alone."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._used: set[tuple[UUID, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def note(self, app_id: UUID, key: str) -> None:
        """Note that a key is in use; waits for nothing."""
        self._used.add((app_id, key))
        if self._task is None:
            self._task = asyncio.create_task(self._write_later())

    async def stop(self) -> None:
        """Write what is noted."""
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
            # It only informs; a database that is away has more to say elsewhere.
            with contextlib.suppress(PilotisError, asyncpg.PostgresError):
                await key_store.touch_public_keys(self._database, used)

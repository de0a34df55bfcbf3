"""The messages that channels keep for those who join: written in batches, read when a stream begins."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

import asyncpg
import structlog

from pilotis.data.realtime import kept_store
from pilotis.data.realtime.channel_rules import Keeping
from pilotis.data.realtime.kept_store import History, Kept
from pilotis.db.pool import Database
from pilotis.kit.errors import PilotisError

_GATHER_SECONDS = 0.02
_PRUNE_SECONDS = 1.0
_MAX_WAITING = 20_000
"""How many messages of an app wait to be stored. While the database cannot be reached later ones are not kept."""

_log = structlog.get_logger("pilotis.realtime")


class ChannelHistory:
    """The kept messages of one app, as one process writes and reads them."""

    def __init__(self, database: Database, app_id: UUID) -> None:
        self._database = database
        self._app_id = app_id
        self._waiting: list[Kept] = []
        self._limits: dict[str, int] = {}
        self._pruned_at: dict[str, float] = {}
        self._writing: asyncio.Task[None] | None = None

    def keep(self, message: Kept, keeping: Keeping) -> None:
        """Store a message soon."""
        if len(self._waiting) < _MAX_WAITING:
            self._waiting.append(message)
        self._limits[message.name] = keeping.messages
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def stored(self) -> None:
        """Wait until the messages of this process are stored."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def read(self, name: str, keeping: Keeping, after: UUID | None, since: float) -> History:
        """Return a channel's kept messages; see `kept_store.history`."""
        await self.stored()
        return await kept_store.history(
            self._database, self._app_id, name, keeping.messages, keeping.seconds, after, since
        )

    async def _write(self) -> None:
        await asyncio.sleep(_GATHER_SECONDS)
        while self._waiting:
            messages, self._waiting = self._waiting, []
            limits, self._limits = self._limits, {}
            try:
                await kept_store.keep(self._database, self._app_id, messages)
                await self._prune(limits)
            except (PilotisError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                _log.warning("messages not kept", app_id=str(self._app_id), number=len(messages))

    async def _prune(self, limits: dict[str, int]) -> None:
        now = time.monotonic()
        due = {name: most for name, most in limits.items() if now - self._pruned_at.get(name, 0.0) > _PRUNE_SECONDS}
        if due:
            await kept_store.prune(self._database, self._app_id, list(due), list(due.values()))
        self._pruned_at = {name: at for name, at in self._pruned_at.items() if now - at <= _PRUNE_SECONDS}
        self._pruned_at |= dict.fromkeys(due, now)

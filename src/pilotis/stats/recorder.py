"""Counting requests: each node counts in memory and adds its counts to the database every few seconds.

What a request costs is one dictionary look-up. There is one tally an app, so memory is bounded by the number of apps;
what cannot be written stays for the next time. A node that is killed loses the counts of the last seconds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import structlog

from pilotis.db.pool import Database
from pilotis.stats import store
from pilotis.stats.store import Tally

FLUSH_SECONDS = 5.0
_log = structlog.get_logger("pilotis.stats")


class RequestRecorder:
    """Counts the requests that one node answers, by app."""

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._tallies: dict[UUID, list[int]] = {}
        self._task: asyncio.Task[None] | None = None

    def count(self, app_id: UUID, status: int) -> None:
        """Count a request that was answered with a status."""
        tally = self._tallies.get(app_id)
        if tally is None:
            tally = self._tallies[app_id] = [0, 0, 0]
        tally[0] += 1
        if status >= 400:
            tally[1 if status < 500 else 2] += 1

    def start(self) -> None:
        """Add the counts to the database every few seconds from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Add what is counted, and no more."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._try_to_flush()

    async def flush(self) -> None:
        """Add what is counted to the database; if that fails, it stays counted."""
        tallies, self._tallies = self._tallies, {}
        if not tallies:
            return
        try:
            await store.add(self._database, [Tally(app_id, *counts) for app_id, counts in tallies.items()])
        except BaseException:
            for app_id, counts in tallies.items():
                present = self._tallies.setdefault(app_id, [0, 0, 0])
                self._tallies[app_id] = [a + b for a, b in zip(present, counts, strict=True)]
            raise

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._try_to_flush()

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            _log.warning("request counts wait", error=type(error).__name__)

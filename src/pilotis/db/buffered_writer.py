"""Buffers counts of a node in memory, and writes them to the database every few seconds."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar
from uuid import UUID

import structlog

FLUSH_SECONDS = 5.0
_log = structlog.get_logger("pilotis.buffered_writer")


class BufferedWriter(ABC):
    """Calls `flush` periodically and at the end; a failure is logged under `what`, and the next flush retries."""

    what: ClassVar[str]

    def __init__(self, seconds: float = FLUSH_SECONDS) -> None:
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def flush(self) -> None:
        """Write the buffer to the database; on failure keep the buffer and raise."""

    def start(self) -> None:
        """Start flushing periodically."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Flush one last time and stop."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.try_to_flush()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self.try_to_flush()

    async def try_to_flush(self) -> None:
        """Flush once; a failure is logged, and the next flush retries."""
        try:
            await self.flush()
        except Exception as error:
            _log.warning("buffer not written", what=self.what, error=type(error).__name__)


class AppCounters(BufferedWriter):
    """Adds up a row of numbers for each app.

    There is one row per app, so memory is bounded by the number of apps. Counts that cannot be written are kept for the
    next flush; a node that is killed loses those of the last seconds.
    """

    def __init__(self, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._pending: dict[UUID, list[int]] = {}

    @abstractmethod
    async def add(self, counts: Mapping[UUID, Sequence[int]]) -> None:
        """Add the counts of apps to those in the database."""

    async def flush(self) -> None:
        """Add the counts to the database; if that fails, they are kept for the next attempt."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await self.add(pending)
        except BaseException:
            for app_id, counts in pending.items():
                present = self._pending.get(app_id, [0] * len(counts))
                self._pending[app_id] = [a + b for a, b in zip(present, counts, strict=True)]
            raise

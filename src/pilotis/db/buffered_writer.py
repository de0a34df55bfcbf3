"""Buffers counts of a node in memory, and writes them to the database every few seconds."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar

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
        await self._try_to_flush()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._try_to_flush()

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            _log.warning("buffer not written", what=self.what, error=type(error).__name__)

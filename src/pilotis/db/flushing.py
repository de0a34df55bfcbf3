"""What a node counts in memory, written to the database every few seconds."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar

import structlog

FLUSH_SECONDS = 5.0
_log = structlog.get_logger("pilotis.flushing")


class Flushing(ABC):
    """Calls `flush` every few seconds and once at the end; a failure is logged under `what` and tried again later."""

    what: ClassVar[str]

    def __init__(self, seconds: float = FLUSH_SECONDS) -> None:
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def flush(self) -> None:
        """Write what is counted; if that fails, it stays counted and the exception is raised."""

    def start(self) -> None:
        """Flush every few seconds from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Flush once more, and then no more."""
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
            _log.warning("not written yet", what=self.what, error=type(error).__name__)

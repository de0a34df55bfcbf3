"""Shares of the connection pool, so that one tenant's slow queries leave connections for everybody else."""

from __future__ import annotations

import asyncio
from typing import Self

from pilotis.kit.errors import UnavailableError


class Share:
    """How many connections one tenant holds at once: `async with share:` around each use of the pool.

    Raises `UnavailableError` when none of its own comes free in time.
    """

    def __init__(self, most: int, wait_seconds: float) -> None:
        self._turns = asyncio.Semaphore(most)
        self._wait_seconds = wait_seconds

    async def __aenter__(self) -> Self:
        if not self._turns.locked():
            await self._turns.acquire()
            return self
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise UnavailableError("This app runs too many slow queries at once. Try again shortly.") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._turns.release()

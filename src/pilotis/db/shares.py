"""Shares of the connection pool, so that one tenant's slow queries leave connections for everybody else."""

from __future__ import annotations

import asyncio
from collections import deque

from pilotis.kit.errors import UnavailableError


class Share:
    """How many connections one tenant holds at once: `async with share:` around each use of the pool.

    Raises `UnavailableError` when none of its own comes free in time.
    """

    __slots__ = ("__weakref__", "_free", "_wait_seconds", "_waiting")

    def __init__(self, most: int, wait_seconds: float) -> None:
        self._free = most
        self._wait_seconds = wait_seconds
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        await self._wait()

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        # A timer of its own is a good deal cheaper than `asyncio.timeout`, and most of a busy tenant's requests wait.
        end = loop.call_later(self._wait_seconds, _too_late, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            raise
        finally:
            end.cancel()

    def _pass_on(self) -> None:
        """Give a turn to who waits longest, or back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _too_late(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(UnavailableError("This app runs too many slow queries at once. Try again shortly."))

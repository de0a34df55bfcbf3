"""The concurrent attempts of one process, shared fairly between apps. Pure asyncio."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from uuid import UUID

MAX_ATTEMPTS = 256
"""Maximum concurrent attempts of one process."""


class AttemptSlots:
    """Grants slots for attempts.

    The last quarter is reserved for apps that hold less than a quarter, so that unresponsive receivers of one app
    cannot delay deliveries of others. Of the waiting apps, the one that holds the fewest comes first.
    """

    def __init__(self, total: int = MAX_ATTEMPTS) -> None:
        self._free = total
        self._share = total // 4
        self._held: Counter[UUID] = Counter()
        self._waiting: dict[UUID, deque[asyncio.Future[None]]] = {}

    async def acquire(self, app_id: UUID) -> None:
        """Wait for a slot."""
        if self._may_take(app_id):
            self._take(app_id)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(app_id, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release(app_id)
            raise

    def release(self, app_id: UUID) -> None:
        """Return a slot."""
        self._free += 1
        self._held[app_id] -= 1
        if not self._held[app_id]:
            del self._held[app_id]
        self._grant()

    def _may_take(self, app_id: UUID) -> bool:
        return self._free > (0 if self._held[app_id] < self._share else self._share)

    def _take(self, app_id: UUID) -> None:
        self._free -= 1
        self._held[app_id] += 1

    def _grant(self) -> None:
        while self._waiting:
            app_id = min(self._waiting, key=self._held.__getitem__)
            if not self._may_take(app_id):
                return
            waiting = self._waiting[app_id]
            granted = waiting.popleft()
            if not waiting:
                del self._waiting[app_id]
            # A cancelled waiter no longer waits.
            if not granted.done():
                self._take(app_id)
                granted.set_result(None)

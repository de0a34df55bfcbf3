"""Turns: of those in this process that name the same keys, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """Locks by key, each kept only while somebody has it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, keys: Iterable[str], seconds: float) -> AsyncGenerator[None]:
        """Have the turn on all keys within the block; raises `TimeoutError` if it does not come in so many seconds."""
        # In one order, so that no two wait for each other.
        ordered = sorted(set(keys))
        # Where nobody has a lock or waits for one, nothing is waited for, and no timer is needed.
        is_free = not any(key in self._locks for key in ordered)
        taken: list[asyncio.Lock] = []
        try:
            async with asyncio.timeout(None if is_free else seconds):
                for key in ordered:
                    lock = self._lock(key)
                    await lock.acquire()
                    taken.append(lock)
            yield
        finally:
            for lock in taken:
                lock.release()

    def _lock(self, key: str) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

"""KeyedLocks: tasks of this process that use the same keys run one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class KeyedLocks:
    """Locks by key. A lock exists only while it is held or waited for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, keys: Iterable[str], seconds: float) -> AsyncGenerator[None]:
        """Hold the locks of all keys within the block; raises `TimeoutError` after `seconds` of waiting."""
        # Always in the same order, which prevents deadlocks.
        ordered = sorted(set(keys))
        # If all locks are free, there is no wait and no timer is needed.
        is_free = not any(key in self._locks for key in ordered)
        acquired: list[asyncio.Lock] = []
        try:
            async with asyncio.timeout(None if is_free else seconds):
                for key in ordered:
                    lock = self._lock(key)
                    await lock.acquire()
                    acquired.append(lock)
            yield
        finally:
            for lock in acquired:
                lock.release()

    def _lock(self, key: str) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

"""Turns: of those in this process that name the same keys, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """Locks by key, each kept only while somebody has it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, keys: Iterable[str], seconds: float) -> AsyncGenerator[None]:
        """Have the turn on all keys within the block; raises `TimeoutError` if it does not come in so many seconds."""
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(seconds):
                # In one order, so that no two wait for each other.
                for key in sorted(set(keys)):
                    await stack.enter_async_context(self._lock(key))
            yield

    def _lock(self, key: str) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

"""Password hashes: argon2id (RFC 9106) in a bounded pool of threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pilotis.kit.errors import UnavailableError

_MOST_WAITING = 512

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Passwords:
    """Hashes and verifies passwords with m=19 MiB, t=2, p=1, one thread a core; argon2 runs without the GIL."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="argon2")
        self._waiting = 0
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """Return the hash in PHC string format."""
        return await self._run(self._hasher.hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether the password is the stored hash's. Without a stored hash it takes as long, and is false."""
        if self._nobody is None:
            self._nobody = await self.hash("nobody has this password")
        matches = await self._run(self._matches, stored or self._nobody, password)
        return matches and stored is not None

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _matches(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        if self._waiting >= _MOST_WAITING:
            raise UnavailableError("Too many sign-ins at once. Try again shortly.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            self._waiting -= 1

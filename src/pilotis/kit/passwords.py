"""Password hashes: argon2id (RFC 9106), as libsodium has it, in a bounded pool of threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

from pilotis.kit.errors import UnavailableError

MEMORY_KIB = 19 * 1024
PASSES = 2
_MOST_WAITING = 512
# The hash of no known password: checking against it takes as long as against anybody's.
_NOBODY = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1${'A' * 22}${'A' * 43}"

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Passwords:
    """Hashes and verifies passwords with m=19 MiB, t=2, p=1, one thread a core; argon2 runs without the GIL.

    Past `most_waiting` calls at once further ones are refused with `UnavailableError`: a queue that nobody waits
    for to the end only makes everybody late.
    """

    def __init__(self, *, most_waiting: int = _MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="argon2")
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """Return the hash in PHC string format."""
        return await self._run(self._hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether the password is the stored hash's. Without a stored hash it takes as long, and is false."""
        matches = await self._run(self._matches, stored or _NOBODY, password)
        return matches and stored is not None

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _hash(self, password: str) -> str:
        return argon2id.str(password.encode(), opslimit=PASSES, memlimit=MEMORY_KIB * 1024).decode()

    def _matches(self, stored: str, password: str) -> bool:
        try:
            return argon2id.verify(stored.encode(), password.encode())
        except CryptoError:
            return False

    async def _run(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        if self._waiting >= self._most_waiting:
            raise UnavailableError("Too many sign-ins at once. Try again shortly.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            self._waiting -= 1

"""Password hashes: argon2id (RFC 9106) by libsodium, in a bounded thread pool."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from pilotis.kit import foreign_passwords
from pilotis.kit.errors import UnavailableError

MEMORY_KIB = 19 * 1024
PASSES = 2
_MAX_WAITING = 512

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Passwords:
    """Hashes and verifies passwords, in one thread per core; argon2 runs without the GIL.

    New hashes use m=`memory_kib`, t=`passes` and p=1; hashes with other parameters remain valid, and so do those that
    other products have made, see `kit/foreign_passwords.py`.

    Beyond `max_waiting` concurrent calls further ones fail with `UnavailableError`: in a longer queue all callers would
    wait past their deadline.
    """

    def __init__(self, *, memory_kib: int = MEMORY_KIB, passes: int = PASSES, max_waiting: int = _MAX_WAITING) -> None:
        self._memory_bytes = memory_kib * 1024
        self._passes = passes
        # The hash of an unknown password: checking against it takes as long as against a real one.
        self._unknown = f"$argon2id$v=19$m={memory_kib},t={passes},p=1${'A' * 22}${'A' * 43}"
        self._max_waiting = max_waiting
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="argon2")
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """Return the hash in PHC string format."""
        return await self._run(self._hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Return whether the password matches the stored hash. Without one it takes as long, and returns False."""
        matches = await self._run(self._matches, stored or self._unknown, password)
        return matches and stored is not None

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # libsodium is imported when it is first needed, by one of the threads: it would delay each start.
    def _hash(self, password: str) -> str:
        from nacl.pwhash import argon2id

        return argon2id.str(
            unicodedata.normalize("NFC", password).encode(), opslimit=self._passes, memlimit=self._memory_bytes
        ).decode()

    def _matches(self, stored: str, password: str) -> bool:
        # Older hashes were computed from the password exactly as it was sent. An unknown account takes as many
        # attempts.
        attempts = dict.fromkeys([unicodedata.normalize("NFC", password), password])
        return any(_matches(stored, attempt) for attempt in attempts)

    async def _run(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        if self._waiting >= self._max_waiting:
            raise UnavailableError("Too many sign-ins at once. Try again shortly.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            self._waiting -= 1


def _matches(stored: str, password: str) -> bool:
    if foreign_passwords.is_foreign(stored):
        found = foreign_passwords.matches(stored, password.encode())
        if found is not None:
            return found
    from nacl.exceptions import CryptoError
    from nacl.pwhash import argon2i, argon2id

    try:
        scheme = argon2i if stored.startswith("$argon2i$") else argon2id
        return bool(scheme.verify(stored.encode(), password.encode()))
    except CryptoError:
        return False

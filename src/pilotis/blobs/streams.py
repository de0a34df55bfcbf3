"""Uploads on their way in: regrouped into batches, with their size and digest verified."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from pilotis.blobs.errors import DigestMismatchError, SizeMismatchError

BATCH_BYTES = 1 << 20


async def batches(chunks: AsyncIterator[bytes], size: int) -> AsyncGenerator[bytes]:
    """Yield the same bytes in batches of about 1 MiB.

    Raises `SizeMismatchError` as soon as there is a byte too many, before giving it out, or at the end if some lack.
    """
    pending: list[bytes] = []
    waiting = total = 0
    async for chunk in chunks:
        pending.append(chunk)
        waiting += len(chunk)
        total += len(chunk)
        if total > size:
            raise SizeMismatchError(f"More bytes came than the {size} that were declared.")
        if waiting >= BATCH_BYTES:
            yield b"".join(pending)
            pending, waiting = [], 0
    if total < size:
        raise SizeMismatchError(f"Only {total} bytes came of the {size} that were declared.")
    if pending:
        yield b"".join(pending)


class Pieces:
    """What comes in, in pieces of exactly `step` bytes and a rest.

    An error ends them early, after all that came before it; `error` then has it.
    """

    def __init__(self, chunks: AsyncIterator[bytes], step: int) -> None:
        self._chunks = chunks
        self._step = step
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the pieces, none of them empty."""
        pending = bytearray()
        try:
            async for chunk in self._chunks:
                pending += chunk
                while len(pending) >= self._step:
                    yield bytes(memoryview(pending)[: self._step])
                    del pending[: self._step]
        except Exception as error:
            self.error = error
        if pending:
            yield bytes(pending)


class Digest:
    """The SHA-256 of what went by."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        """Take in more bytes; takes 0.5 to 3 ms for a MiB and lets other threads run."""
        self._hash.update(data)

    async def watch(self, stream: AsyncIterator[bytes], expected: bytes | None) -> AsyncGenerator[bytes]:
        """Yield the same batches; instead of ending, raises `DigestMismatchError` if they are not the expected ones."""
        async for batch in stream:
            await asyncio.to_thread(self.update, batch)
            yield batch
        self.verify(expected)

    def verify(self, expected: bytes | None) -> None:
        """Raise `DigestMismatchError` unless the digest is the expected one, if there is one."""
        if expected is not None and self._hash.digest() != expected:
            raise DigestMismatchError

    @property
    def hex(self) -> str:
        """The digest so far in lower-case hexadecimal."""
        return self._hash.hexdigest()

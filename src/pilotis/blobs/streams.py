"""Regroups incoming uploads into batches, and verifies their size and digest."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from pilotis.blobs.errors import DigestMismatchError, SizeMismatchError

BATCH_BYTES = 1 << 20


async def batches(chunks: AsyncIterator[bytes], size: int) -> AsyncGenerator[bytes]:
    """Yield the same bytes in batches of about 1 MiB.

    Raises `SizeMismatchError` before yielding a byte too many, or at the end if bytes are missing.
    """
    pending: list[bytes] = []
    waiting = total = 0
    async for chunk in chunks:
        pending.append(chunk)
        waiting += len(chunk)
        total += len(chunk)
        if total > size:
            raise SizeMismatchError(f"More bytes arrived than the {size} that were declared.")
        if waiting >= BATCH_BYTES:
            yield b"".join(pending)
            pending, waiting = [], 0
    if total < size:
        raise SizeMismatchError(f"Only {total} of the {size} declared bytes arrived.")
    if pending:
        yield b"".join(pending)


class Pieces:
    """Incoming bytes in pieces of exactly `step` bytes and a remainder.

    An error of the source ends the iteration early, after all bytes before it; `error` then holds it.
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
    """The SHA-256 of the bytes that passed through."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes; takes 0.5 to 3 ms per MiB and releases the GIL."""
        self._hash.update(data)

    async def watch(self, stream: AsyncIterator[bytes], expected: bytes | None) -> AsyncGenerator[bytes]:
        """Yield the same batches; at the end, raises `DigestMismatchError` if the digest is not the expected one."""
        async for batch in stream:
            await asyncio.to_thread(self.update, batch)
            yield batch
        self.verify(expected)

    def verify(self, expected: bytes | None) -> None:
        """Raise `DigestMismatchError` if there is an expected digest and this one differs."""
        if expected is not None and self._hash.digest() != expected:
            raise DigestMismatchError

    @property
    def hex(self) -> str:
        """The digest so far in lower-case hexadecimal."""
        return self._hash.hexdigest()

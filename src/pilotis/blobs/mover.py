"""Copies the blobs of one object store to another while servers use both.

Everything below `blobs/` is copied; what is unfinished, below `staging/` and `drafts/`, ends where it began. A blob
never changes under its key, so one that the target already has with the same size is not copied again: a move that was
interrupted continues where it was. A blob is verified against the size and the SHA-256 that the database, or else the
source, has for it, and the target has it only after that. Nothing is deleted from the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

import structlog

from pilotis.blobs.errors import (
    BlobNotFoundError,
    BlobStoreUnavailableError,
    DigestMismatchError,
    SizeMismatchError,
)
from pilotis.blobs.moving import side_by_side, transfer
from pilotis.blobs.protocol import BlobInfo, BlobStore

_BATCH_SIZE = 200
_CONCURRENT = 4
_TRIES = 4
_FIRST_PAUSE = 1.0
_log = structlog.get_logger("pilotis.blobs")

Digests = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Returns the SHA-256 that the database has for keys; not every key has one."""


class Mover:
    """One run of a move. Its numbers grow while it runs."""

    def __init__(self, source: BlobStore, target: BlobStore, digests: Digests) -> None:
        self._source = source
        self._target = target
        self._digests = digests
        self.copied = 0
        self.copied_bytes = 0
        self.already_there = 0
        self.wrong: list[str] = []
        """Keys whose bytes in the source are not those of the database, so they were not copied."""

    async def run(self) -> None:
        """Copy what the target lacks. Raises `StorageFullError` and `BlobStoreUnavailableError`; then run again."""
        slots = asyncio.Semaphore(_CONCURRENT)
        async with aclosing(self._absent()) as batches:
            async for batch in batches:
                digests = await self._digests([info.key for info in batch])
                try:
                    async with asyncio.TaskGroup() as group:
                        for info in batch:
                            group.create_task(self._copy(slots, info, digests.get(info.key)))
                except ExceptionGroup as errors:
                    raise errors.exceptions[0] from errors

    async def _absent(self) -> AsyncGenerator[list[BlobInfo]]:
        batch: list[BlobInfo] = []
        async with aclosing(self._source.list("blobs")) as ours, aclosing(self._target.list("blobs")) as theirs:
            async for info, there in side_by_side(ours, theirs):
                if info is None:
                    continue
                if there is not None and there.size == info.size:
                    self.already_there += 1
                    continue
                batch.append(info)
                if len(batch) == _BATCH_SIZE:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def _copy(self, slots: asyncio.Semaphore, listed: BlobInfo, sha256: bytes | None) -> None:
        async with slots:
            try:
                size = await self._copy_again(listed.key, sha256)
            except BlobNotFoundError:
                return  # deleted since it was listed
            except (DigestMismatchError, SizeMismatchError) as error:
                _log.error("blob not moved", key=listed.key, reason=error.text)
                self.wrong.append(listed.key)
                return
            self.copied += 1
            self.copied_bytes += size

    async def _copy_again(self, key: str, sha256: bytes | None) -> int:
        """Copy a blob, several times if a store fails: the outcome may be unknown, and a repetition does no harm."""
        for attempt in range(_TRIES):
            try:
                info = await self._source.stat(key)
                if info is None:
                    raise BlobNotFoundError
                stored = await transfer(self._source, info, self._target, key, sha256)
                # A server deletes from the source first. If it did so meanwhile, it may have looked for the blob in the
                # target before it was there.
                if await self._source.stat(key) is None:
                    await self._target.delete([key])
                    raise BlobNotFoundError
                return stored.size
            except BlobStoreUnavailableError:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_FIRST_PAUSE * 2**attempt)
        raise AssertionError

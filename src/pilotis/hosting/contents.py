"""The contents of an app's sites: bytes by their SHA-256, each stored once.

A content has a row, and its bytes are stored next to those of the app's files, under its own key. Before bytes are
stored, their key is marked for deletion in a day; the transaction that inserts the row removes the mark. So a process
that dies in between leaves nothing behind. A new content never reuses a key, so the deletion of collected bytes cannot
affect bytes that were stored again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar
from uuid import UUID

from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.hosting import content_store, media
from pilotis.hosting.types import FileEntry
from pilotis.hosting.zips import Archive, Entry
from pilotis.kit.ids import uuid7
from pilotis.kit.threads import finished

BATCH_FILES = 500
BATCH_BYTES = 16 << 20
SMALL_BYTES = 4 << 20
"""Incoming contents up to this size are held in memory."""
_CONCURRENT_PUTS = 8
_OCTETS = "application/octet-stream"

Result = TypeVar("Result")


class Content(NamedTuple):
    """Bytes in memory with their SHA-256."""

    sha256: bytes
    data: bytes


def prefix_of(app_id: UUID) -> str:
    """Return the prefix of the keys of an app's contents; a UUID follows."""
    return f"blobs/{app_id}/"


def key_of(app_id: UUID, blob_id: UUID) -> str:
    """Return the key of a content's bytes in one form."""
    return f"{prefix_of(app_id)}{blob_id}"


class Contents:
    """Stores contents."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
        # Inflating and hashing mostly release the interpreter's lock.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="hosting")

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a slow function in one of few threads and return its result."""
        return await finished(self._threads.submit(function, *arguments))

    async def sizes(self, app_id: UUID, hashes: Iterable[bytes]) -> dict[bytes, int]:
        """Return the sizes of the contents that exist, and protect them from collection for a day."""
        return await content_store.touch_blobs(self._database.of(app_id), app_id, hashes)

    async def store_archive(self, app_id: UUID, archive: Archive) -> dict[str, FileEntry]:
        """Store the files of an archive and return its manifest.

        Raises `InvalidZipError`, `StorageFullError`, `BlobStoreUnavailableError`. Memory is bounded: two batches of
        `BATCH_BYTES`, one being read while the other is stored.
        """
        manifest: dict[str, FileEntry] = {}
        batches = _batches(archive.entries)
        reading = self._begin_reading(archive, next(batches, None))
        try:
            while reading is not None:
                contents = await reading
                reading = self._begin_reading(archive, next(batches, None))
                for path, content in contents.items():
                    manifest[path] = FileEntry(content.sha256, len(content.data), media.content_type(path))
                await self.store_all(app_id, contents.values())
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.wait([reading])
        for entry in archive.entries:
            if entry.info.file_size > SMALL_BYTES:
                sha256 = await self._store_large(app_id, archive, entry)
                manifest[entry.path] = FileEntry(sha256, entry.info.file_size, media.content_type(entry.path))
        return manifest

    async def store_all(self, app_id: UUID, contents: Iterable[Content]) -> None:
        """Store the new contents."""
        by_hash = {content.sha256: content.data for content in contents}
        known = await self.sizes(app_id, by_hash)
        new = [(sha256, uuid7(), data) for sha256, data in by_hash.items() if sha256 not in known]
        if not new:
            return
        await content_store.mark_for_deletion(
            self._database, app_id, [key_of(app_id, blob_id) for _, blob_id, _ in new]
        )
        await _gather(
            (self._put(app_id, blob_id, _once(data), len(data), sha256) for sha256, blob_id, data in new),
            _CONCURRENT_PUTS,
        )
        await self._insert(app_id, [(sha256, blob_id, len(data)) for sha256, blob_id, data in new])

    async def store_stream(self, app_id: UUID, chunks: AsyncIterator[bytes], size: int, sha256: bytes) -> None:
        """Store a content as it arrives; raises `SizeMismatchError`, `DigestMismatchError`, or as `chunks` does."""
        blob_id = uuid7()
        key = key_of(app_id, blob_id)
        await content_store.mark_for_deletion(self._database, app_id, [key])
        try:
            await self._put(app_id, blob_id, chunks, size, sha256)
        except BaseException:
            await asyncio.shield(content_store.delete_soon(self._database, app_id, [key]))
            raise
        await self._insert(app_id, [(sha256, blob_id, size)])

    async def read(self, app_id: UUID, blob_id: UUID) -> bytes:
        """Return the bytes of a content; raises `BlobNotFoundError`."""
        async with contextlib.aclosing(self._blobs.open(key_of(app_id, blob_id))) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def put_form(self, app_id: UUID, data: bytes) -> UUID:
        """Store a compressed form of a content under a marked key, and return its id."""
        blob_id = uuid7()
        await content_store.mark_for_deletion(self._database, app_id, [key_of(app_id, blob_id)])
        await self._put(app_id, blob_id, _once(data), len(data), None)
        return blob_id

    async def _put(
        self, app_id: UUID, blob_id: UUID, chunks: AsyncIterator[bytes], size: int, sha256: bytes | None
    ) -> None:
        await self._blobs.put(key_of(app_id, blob_id), chunks, size=size, content_type=_OCTETS, sha256=sha256)

    async def _insert(self, app_id: UUID, new: Sequence[tuple[bytes, UUID, int]]) -> None:
        async with self._database.transaction(app_id) as connection:
            await content_store.insert_blobs(connection, app_id, new, prefix_of(app_id))

    async def _store_large(self, app_id: UUID, archive: Archive, entry: Entry) -> bytes:
        """Store an entry that is read twice rather than held in memory, and return its SHA-256."""
        sha256 = await self.in_thread(_hash, archive.chunks(entry))
        if sha256 not in await self.sizes(app_id, [sha256]):
            await self.store_stream(app_id, self._in_chunks(archive.chunks(entry)), entry.info.file_size, sha256)
        return sha256

    async def _in_chunks(self, chunks: Iterator[bytes]) -> AsyncGenerator[bytes]:
        while chunk := await self.in_thread(next, chunks, b""):
            yield chunk

    def _begin_reading(
        self, archive: Archive, entries: Sequence[Entry] | None
    ) -> asyncio.Task[dict[str, Content]] | None:
        return None if entries is None else asyncio.create_task(self.in_thread(_read, archive, entries))


def hashed(data: bytes) -> Content:
    """Return bytes with their SHA-256."""
    return Content(hashlib.sha256(data).digest(), data)


def _read(archive: Archive, entries: Sequence[Entry]) -> dict[str, Content]:
    return {entry.path: hashed(archive.read(entry)) for entry in entries}


def _hash(chunks: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the small entries in batches of bounded number and size."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if entry.info.file_size > SMALL_BYTES:
            continue
        if batch and (len(batch) >= BATCH_FILES or size + entry.info.file_size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.info.file_size
    if batch:
        yield batch


async def _gather(work: Iterable[Awaitable[object]], at_once: int) -> None:
    """Await the given awaitables with bounded concurrency; at the first failure cancel the rest and raise it."""
    pending = iter(work)

    async def run() -> None:
        for one in pending:
            await one

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(run())
    except BaseExceptionGroup as error:
        raise error.exceptions[0] from None
    finally:
        for one in pending:
            if asyncio.iscoroutine(one):
                one.close()


async def _once(data: bytes) -> AsyncGenerator[bytes]:
    yield data

"""Variants of images: created on the first request, then stored as blobs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.files import media
from pilotis.files.errors import ImageTooLargeError, NotAnImageError
from pilotis.files.images import store as variant_store
from pilotis.files.images.workers import ImageWorkers
from pilotis.files.keys import blob_key
from pilotis.files.recipes import MAX_SOURCE_BYTES, Recipe, recipe
from pilotis.files.records import LinkedFile
from pilotis.files.types import LinkQuery
from pilotis.files.uploads import store as upload_store
from pilotis.kit.errors import StorageFullError, UnavailableError
from pilotis.kit.ids import uuid7

_Key: TypeAlias = tuple[UUID, UUID, str]


class _Variant(NamedTuple):
    """What differs from the file: the bytes are at `blob_id`, or in `data` if they are not stored."""

    size: int
    sha256: bytes
    blob_id: UUID | None = None
    data: bytes | None = None


class Variants:
    """Finds or creates variants; concurrent requests of a process for the same variant share the work."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
        self._workers = ImageWorkers()
        self._under_way: dict[_Key, asyncio.Task[_Variant]] = {}

    async def of(self, file: LinkedFile, query: LinkQuery, accept: str) -> LinkedFile:
        """Return the variant of a file for a link.

        Raises `NotAnImageError`, `InvalidImageError`, `ImageTooLargeError`, `UnavailableError`, `BlobNotFoundError`.
        """
        wanted = _recipe(file.mime_type, query, accept)
        if file.size > MAX_SOURCE_BYTES:
            raise ImageTooLargeError
        own = await self._stored(file, wanted) or await self._created(file, wanted)
        return msgspec.structs.replace(
            file,
            name=_named(file, wanted),
            mime_type=f"image/{wanted.format}",
            size=own.size,
            sha256=own.sha256,
            blob_id=own.blob_id or file.blob_id,
            data=own.data,
        )

    async def stop(self) -> None:
        """Cancel the variants in progress."""
        under_way = list(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def encoded(self, app_id: UUID, data: bytes, mime_type: str, *, side: int) -> bytes:
        """Return an image, in this type, encoded again as WebP with at most `side` pixels on each side.

        Nothing is stored. Raises `NotAnImageError`, `InvalidImageError`, `ImageTooLargeError`, `UnavailableError`.
        """
        wanted = recipe(mime_type, side, side, "contain", "webp", None)
        if wanted is None:
            raise NotAnImageError
        return await self._workers.make(app_id, _once(data), wanted)

    async def _stored(self, file: LinkedFile, wanted: Recipe) -> _Variant | None:
        row = await variant_store.find(self._database, file.app_id, file.file_id, file.blob_id, wanted.name)
        if row is None:
            return None
        if row.is_stale:
            await variant_store.record_use(self._database, file.app_id, file.file_id, wanted.name)
        return _Variant(row.size, row.sha256, row.blob_id)

    async def _created(self, file: LinkedFile, wanted: Recipe) -> _Variant:
        key = (file.file_id, file.blob_id, wanted.name)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._make(file, wanted))
            task.add_done_callback(lambda done: self._end(key, done))
        # A client that disconnects does not cancel the work for other clients.
        return await asyncio.shield(task)

    def _end(self, key: _Key, task: asyncio.Task[_Variant]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # No task waits for it if all clients have disconnected.

    async def _make(self, file: LinkedFile, wanted: Recipe) -> _Variant:
        # It may have been stored since this request looked it up.
        if kept := await self._stored(file, wanted):
            return kept
        source = self._blobs.open(blob_key(file.app_id, file.blob_id))
        data = await self._workers.make(file.app_id, source, wanted)
        made = _Variant(len(data), hashlib.sha256(data).digest(), data=data)
        # A variant that cannot be stored is still sent.
        with suppress(UnavailableError, StorageFullError):
            if blob_id := await self._store(file, wanted, data, made.sha256):
                return _Variant(made.size, made.sha256, blob_id)
        return made

    async def _store(self, file: LinkedFile, wanted: Recipe, data: bytes, sha256: bytes) -> UUID | None:
        app_id, file_id, blob_id = file.app_id, file.file_id, uuid7()
        if not await variant_store.fits_quota(self._database.of(app_id), app_id, file_id, len(data)):
            return None
        key = blob_key(app_id, blob_id)
        await upload_store.mark_for_deletion(self._database.of(app_id), app_id, key)
        await self._blobs.put(key, _once(data), size=len(data), content_type=f"image/{wanted.format}")
        async with self._database.transaction(app_id) as connection:
            is_stored = await variant_store.keep(
                connection, app_id, file_id, file.blob_id, wanted.name, blob_id=blob_id, size=len(data), sha256=sha256
            )
        return blob_id if is_stored else None


def _recipe(mime_type: str, query: LinkQuery, accept: str) -> Recipe:
    written: str | None = query.format
    if query.format == "auto":
        written = "webp" if "image/webp" in accept.lower() else None
    wanted = recipe(media.essence(mime_type), query.width, query.height, query.fit, written, query.quality)
    if wanted is None:
        raise NotAnImageError
    return wanted


def _named(file: LinkedFile, wanted: Recipe) -> str:
    """Return the file name of a variant: the file's own, unless its format differs."""
    if media.essence(file.mime_type) == f"image/{wanted.format}":
        return file.name
    return f"{PurePosixPath(file.name).stem}.{wanted.format}"


async def _once(data: bytes) -> AsyncGenerator[bytes]:
    yield data

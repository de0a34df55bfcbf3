"""Variants of images: created on the first request, then stored as blobs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from uuid import UUID

from asyncpg import Record

from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.files import media
from pilotis.files.errors import ImageTooLargeError, NotAnImageError
from pilotis.files.images import store as variant_store
from pilotis.files.images.workers import ImageWorkers
from pilotis.files.keys import blob_key
from pilotis.files.recipes import MAX_SOURCE_BYTES, Recipe, recipe
from pilotis.files.types import LinkQuery
from pilotis.files.uploads import store as upload_store
from pilotis.kit.errors import StorageFullError, UnavailableError
from pilotis.kit.ids import uuid7

# A file's row, or a copy with the values of a variant: `blob_id`, `mime_type`, `name`, `size`,
# `sha256`, and `data` with the bytes of a variant that is not stored.
Content: TypeAlias = Record | dict[str, Any]
_Key: TypeAlias = tuple[UUID, UUID, str]


class Variants:
    """Finds or creates variants; concurrent requests of a process for the same variant share the work."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
        self._workers = ImageWorkers()
        self._under_way: dict[_Key, asyncio.Task[dict[str, Any]]] = {}

    async def of(self, file: Content, query: LinkQuery, accept: str) -> Content:
        """Return the variant of a file for a link.

        Raises `NotAnImageError`, `InvalidImageError`, `ImageTooLargeError`, `UnavailableError`, `BlobNotFoundError`.
        """
        wanted = _recipe(file["mime_type"], query, accept)
        if file["size"] > MAX_SOURCE_BYTES:
            raise ImageTooLargeError
        own = await self._stored(file, wanted) or await self._created(file, wanted)
        return {**file, **own, "mime_type": f"image/{wanted.format}", "name": _named(file, wanted)}

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

    async def _stored(self, file: Content, wanted: Recipe) -> dict[str, Any] | None:
        row = await variant_store.find(self._database, file["app_id"], file["file_id"], file["blob_id"], wanted.name)
        if row is None:
            return None
        if row["is_stale"]:
            await variant_store.record_use(self._database, file["app_id"], file["file_id"], wanted.name)
        return {"blob_id": row["blob_id"], "size": row["size"], "sha256": row["sha256"]}

    async def _created(self, file: Content, wanted: Recipe) -> dict[str, Any]:
        key = (file["file_id"], file["blob_id"], wanted.name)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._make(file, wanted))
            task.add_done_callback(lambda done: self._end(key, done))
        # A client that disconnects does not cancel the work for other clients.
        return await asyncio.shield(task)

    def _end(self, key: _Key, task: asyncio.Task[dict[str, Any]]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # No task waits for it if all clients have disconnected.

    async def _make(self, file: Content, wanted: Recipe) -> dict[str, Any]:
        # It may have been stored since this request looked it up.
        if kept := await self._stored(file, wanted):
            return kept
        source = self._blobs.open(blob_key(file["app_id"], file["blob_id"]))
        data = await self._workers.make(file["app_id"], source, wanted)
        made = {"size": len(data), "sha256": hashlib.sha256(data).digest()}
        # A variant that cannot be stored is still sent.
        with suppress(UnavailableError, StorageFullError):
            if blob_id := await self._store(file, wanted, data, made):
                return {"blob_id": blob_id, **made}
        return {"data": data, **made}

    async def _store(self, file: Content, wanted: Recipe, data: bytes, made: dict[str, Any]) -> UUID | None:
        app_id, file_id, blob_id = file["app_id"], file["file_id"], uuid7()
        if not await variant_store.fits_quota(self._database.of(app_id), app_id, file_id, len(data)):
            return None
        key = blob_key(app_id, blob_id)
        await upload_store.mark_for_deletion(self._database.of(app_id), app_id, key)
        await self._blobs.put(key, _once(data), size=len(data), content_type=f"image/{wanted.format}")
        async with self._database.transaction(app_id) as connection:
            is_stored = await variant_store.keep(
                connection, app_id, file_id, file["blob_id"], wanted.name, blob_id=blob_id, **made
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


def _named(file: Content, wanted: Recipe) -> str:
    """Return the file name of a variant: the file's own, unless its format differs."""
    if media.essence(file["mime_type"]) == f"image/{wanted.format}":
        return str(file["name"])
    return f"{PurePosixPath(file['name']).stem}.{wanted.format}"


async def _once(data: bytes) -> AsyncGenerator[bytes]:
    yield data

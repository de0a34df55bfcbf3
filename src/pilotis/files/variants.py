"""Variants of images: made when somebody first asks for them, then kept as blobs."""

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
from pilotis.files import media, upload_store, variant_store
from pilotis.files.errors import ImageTooLargeError, NotAnImageError
from pilotis.files.image_workers import ImageWorkers
from pilotis.files.keys import blob_key
from pilotis.files.recipes import MOST_SOURCE_BYTES, Recipe, recipe
from pilotis.files.types import LinkQuery
from pilotis.kit.errors import UnavailableError
from pilotis.kit.ids import uuid7

# A file's row, or the same with what a variant has of its own in it: `blob_id`, `mime_type`, `name`, `size`,
# `sha256`, and `data` with the bytes of a variant that is not kept.
Content: TypeAlias = Record | dict[str, Any]
_Key: TypeAlias = tuple[UUID, UUID, str]


class Variants:
    """Finds variants, or has them made: each once in a process, however many ask for it at the same time."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs
        self._workers = ImageWorkers()
        self._under_way: dict[_Key, asyncio.Task[dict[str, Any]]] = {}

    async def of(self, file: Content, query: LinkQuery, accept: str) -> Content:
        """Return the variant of a file that the link asks for.

        Raises `NotAnImageError`, `InvalidImageError`, `ImageTooLargeError`, `UnavailableError`, `BlobNotFoundError`.
        """
        wanted = _recipe(file["mime_type"], query, accept)
        if file["size"] > MOST_SOURCE_BYTES:
            raise ImageTooLargeError
        own = await self._kept(file, wanted) or await self._made(file, wanted)
        return {**file, **own, "mime_type": f"image/{wanted.format}", "name": _named(file, wanted)}

    async def stop(self) -> None:
        """Give up what is being made."""
        under_way = list(self._under_way.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _kept(self, file: Content, wanted: Recipe) -> dict[str, Any] | None:
        row = await variant_store.find(self._database, file["app_id"], file["file_id"], file["blob_id"], wanted.name)
        if row is None:
            return None
        if row["is_stale"]:
            await variant_store.note_use(self._database, file["app_id"], file["file_id"], wanted.name)
        return {"blob_id": row["blob_id"], "size": row["size"], "sha256": row["sha256"]}

    async def _made(self, file: Content, wanted: Recipe) -> dict[str, Any]:
        key = (file["file_id"], file["blob_id"], wanted.name)
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._make(file, wanted))
            task.add_done_callback(lambda done: self._end(key, done))
        # Whoever leaves does not take it from the others.
        return await asyncio.shield(task)

    def _end(self, key: _Key, task: asyncio.Task[dict[str, Any]]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # It is nobody's any more if all have left.

    async def _make(self, file: Content, wanted: Recipe) -> dict[str, Any]:
        # It may have been kept since this request looked.
        if kept := await self._kept(file, wanted):
            return kept
        source = self._blobs.open(blob_key(file["app_id"], file["blob_id"]))
        data = await self._workers.make(file["app_id"], source, wanted)
        made = {"size": len(data), "sha256": hashlib.sha256(data).digest()}
        # One that cannot be kept is sent all the same.
        with suppress(UnavailableError):
            if blob_id := await self._keep(file, wanted, data, made):
                return {"blob_id": blob_id, **made}
        return {"data": data, **made}

    async def _keep(self, file: Content, wanted: Recipe, data: bytes, made: dict[str, Any]) -> UUID | None:
        app_id, file_id, blob_id = file["app_id"], file["file_id"], uuid7()
        if not await variant_store.has_room(self._database, app_id, file_id, len(data)):
            return None
        key = blob_key(app_id, blob_id)
        await upload_store.bury(self._database, app_id, key)
        await self._blobs.put(key, _once(data), size=len(data), content_type=f"image/{wanted.format}")
        async with self._database.transaction() as connection:
            is_kept = await variant_store.keep(
                connection, app_id, file_id, file["blob_id"], wanted.name, blob_id=blob_id, **made
            )
        return blob_id if is_kept else None


def _recipe(mime_type: str, query: LinkQuery, accept: str) -> Recipe:
    written: str | None = query.format
    if query.format == "auto":
        written = "webp" if "image/webp" in accept.lower() else None
    wanted = recipe(media.essence(mime_type), query.width, query.height, query.fit, written, query.quality)
    if wanted is None:
        raise NotAnImageError
    return wanted


def _named(file: Content, wanted: Recipe) -> str:
    """Return the name to save a variant under: the file's own, unless it is of another format."""
    if media.essence(file["mime_type"]) == f"image/{wanted.format}":
        return str(file["name"])
    return f"{PurePosixPath(file['name']).stem}.{wanted.format}"


async def _once(data: bytes) -> AsyncGenerator[bytes]:
    yield data

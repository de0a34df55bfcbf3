"""Ends what is left over: uploads nobody completed, bytes of deleted files, and what a crash may have forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from asyncpg import Connection

from pilotis.blobs.protocol import BlobInfo, BlobStore
from pilotis.db.pool import Database
from pilotis.files import upload_store, variant_store
from pilotis.files.keys import DRAFTS

_AT_ONCE = 500


class Reconciliation(NamedTuple):
    """What was found: blobs that nothing refers to, with their bytes, and files whose blobs are missing."""

    orphans: list[str]
    orphan_bytes: int
    missing: list[str]
    deleted: int


class Cleaning:
    """Keeps database and object store in step."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    async def reap_uploads(self, connection: Connection) -> int:
        """End uploads whose time is over, and return how many."""
        total = 0
        while count := await upload_store.reap(connection, _AT_ONCE):
            total += count
        return total

    async def delete_dead_blobs(self, connection: Connection) -> int:
        """Delete bytes that nothing refers to any more, once readers have let go of them; return how many."""
        total = 0
        while rows := await upload_store.due_blobs(connection, _AT_ONCE):
            keys = [row["key"] for row in rows]
            await self._blobs.delete([key for key in keys if not key.startswith(DRAFTS)])
            for key in keys:
                if key.startswith(DRAFTS):
                    await self._blobs.discard(key)
            await upload_store.forget_blobs(connection, keys)
            total += len(keys)
        return total

    async def delete_unused_variants(self, connection: Connection) -> int:
        """Delete variants of images that nobody has asked for in a long time, and return how many."""
        total = 0
        while count := await variant_store.delete_unused(connection, _AT_ONCE):
            total += count
        return total

    async def reconcile(self, before: timedelta, *, apply: bool) -> Reconciliation:
        """Compare database and object store both ways, leaving out what is younger than `before`.

        `apply` deletes blobs that nothing refers to, and forgets variants whose bytes are missing, so that they are
        made anew. Files whose bytes are missing are only told of: what to do about them is for people.
        """
        cut_off = datetime.now(UTC) - before
        orphans: list[BlobInfo] = []
        async with self._database.transaction() as connection:
            await upload_store.begin_comparison(connection)
            for folder in ("blobs", "staging", "drafts"):
                async for batch in _batches(self._blobs, folder):
                    await upload_store.note_seen(connection, [info.key for info in batch])
                    known = await upload_store.known_keys(connection, [info.key for info in batch])
                    orphans += [info for info in batch if info.key not in known and info.modified_at < cut_off]
            missing = await upload_store.unseen_files(connection, cut_off)
            if apply:
                await variant_store.forget_unseen(connection, cut_off)
        if apply:
            await self._delete(orphans)
        return Reconciliation(
            [info.key for info in orphans],
            sum(info.size for info in orphans),
            missing,
            len(orphans) if apply else 0,
        )

    async def _delete(self, orphans: Sequence[BlobInfo]) -> None:
        for start in range(0, len(orphans), _AT_ONCE):
            await self._blobs.delete([info.key for info in orphans[start : start + _AT_ONCE]])


async def _batches(blobs: BlobStore, folder: str) -> AsyncGenerator[list[BlobInfo]]:
    batch: list[BlobInfo] = []
    async with contextlib.aclosing(blobs.list(folder)) as listed:
        async for info in listed:
            batch.append(info)
            if len(batch) == _AT_ONCE:
                yield batch
                batch = []
    yield batch

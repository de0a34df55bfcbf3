"""Cleans up abandoned uploads, bytes of deleted files, and what crashes left behind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import structlog
from asyncpg import Connection

from pilotis.blobs.protocol import BlobInfo, BlobStore
from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.files.images import store as variant_store
from pilotis.files.keys import DRAFTS
from pilotis.files.records import PendingDeletion
from pilotis.files.uploads import store as upload_store
from pilotis.kit.reports import Report

_BATCH_SIZE = 500
_FAILURES_IN_A_ROW = 5
MISSING = Report(
    "The object store lacks the bytes of {} of {} files that were looked for.",
    "If it was given another place, set previous_blob_store to the place before and run pilotis storage move;"
    " otherwise restore them from a backup.",
)
"""The sentence about `missing_sample`."""
_log = structlog.get_logger("pilotis.files")


class _Outcome(NamedTuple):
    """The claimed blobs that were deleted, and those that were not tried; the others wait for their next attempt."""

    deleted: Sequence[PendingDeletion]
    untried: Sequence[PendingDeletion]


class Reconciliation(NamedTuple):
    """The result of a comparison: orphaned blobs with their size, and files whose blobs are missing.

    `unfinished_uploads` is the number of multipart uploads to the store that never ended.
    """

    orphans: list[str]
    orphan_bytes: int
    missing: list[str]
    deleted: int
    unfinished_uploads: int


class Cleaning:
    """Keeps the database and the object store consistent."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    async def expire_uploads(self, connection: Connection) -> int:
        """Delete expired uploads and return their number."""
        total = 0
        while count := await upload_store.expire(connection, _BATCH_SIZE):
            total += count
        return total

    async def delete_pending_blobs(self, connection: Connection) -> int:
        """Delete unreferenced blobs after their last possible reader; return their number.

        A blob that cannot be deleted is logged and retried later with increasing delays, and does not block others.
        """
        total = 0
        while blobs := await upload_store.claim_due_blobs(connection, _BATCH_SIZE):
            outcome = await self._delete_claimed(blobs)
            await upload_store.record_deleted_blobs(connection, outcome.deleted)
            total += len(outcome.deleted)
            if outcome.untried:
                await upload_store.release_blobs(connection, outcome.untried)
                break
        return total

    async def _delete_claimed(self, blobs: Sequence[PendingDeletion]) -> _Outcome:
        """Delete blobs in bulk, or one by one if that fails; stop if the store seems to be unavailable."""
        try:
            await self._delete_blobs(blobs)
        except Exception as error:
            _log.warning("deleting blobs one by one", blobs=len(blobs), error=repr(error))
        else:
            return _Outcome(blobs, [])
        deleted: list[PendingDeletion] = []
        failures = 0
        for place, blob in enumerate(blobs, start=1):
            try:
                await self._delete_blobs([blob])
            except Exception as error:
                _log.warning("blob not deleted yet", key=blob.key, error=repr(error))
                failures += 1
                if failures == _FAILURES_IN_A_ROW:
                    return _Outcome(deleted, blobs[place:])
            else:
                deleted.append(blob)
                failures = 0
        return _Outcome(deleted, [])

    async def _delete_blobs(self, blobs: Sequence[PendingDeletion]) -> None:
        keys = [blob.key for blob in blobs]
        await self._blobs.delete([key for key in keys if not key.startswith(DRAFTS)])
        for key in keys:
            if key.startswith(DRAFTS):
                await self._blobs.discard(key)

    async def delete_unused_variants(self, connection: Connection) -> int:
        """Delete variants of images that have not been used for a long time, and return their number."""
        total = 0
        while count := await variant_store.delete_unused(connection, _BATCH_SIZE):
            total += count
        return total

    async def reconcile(self, before: timedelta, *, apply: bool) -> Reconciliation:
        """Compare database and object store in both directions, ignoring what is newer than `before`.

        `apply` deletes orphaned blobs, ends multipart uploads that a killed server left, and deletes variants whose
        bytes are missing, so that they are created again.
        Files whose bytes are missing are only reported: an operator must decide what to do.
        """
        cut_off = datetime.now(UTC) - before
        orphans: list[BlobInfo] = []
        async with self._database.transaction(BACKGROUND) as connection:
            await upload_store.begin_comparison(connection)
            for folder in ("blobs", "staging", "drafts"):
                async for batch in _batches(self._blobs, folder):
                    await upload_store.record_seen(connection, [info.key for info in batch])
                    known = await upload_store.known_keys(connection, [info.key for info in batch])
                    orphans += [info for info in batch if info.key not in known and info.modified_at < cut_off]
            missing = await upload_store.unseen_files(connection, cut_off)
            if apply:
                await variant_store.delete_unseen(connection, cut_off)
        if apply:
            await self._delete(orphans)
        unfinished = await self._blobs.end_unfinished(cut_off, apply=apply)
        return Reconciliation(
            [info.key for info in orphans],
            sum(info.size for info in orphans),
            missing,
            len(orphans) if apply else 0,
            unfinished,
        )

    async def unfinished(self) -> list[str]:
        """Return the keys of unfinished uploads and deployments in the store, also of those that end in minutes."""
        found: list[str] = []
        async with self._database.transaction(BACKGROUND) as connection:
            for folder in ("staging", "drafts"):
                async for batch in _batches(self._blobs, folder):
                    found += await upload_store.known_keys(connection, [info.key for info in batch])
        return found

    async def missing_sample(self) -> tuple[int, int]:
        """Look for the bytes of a few files; return how many are missing, and of how many."""
        keys = await upload_store.sample_keys(self._database)
        return sum([await self._blobs.stat(key) is None for key in keys]), len(keys)

    async def orphan_sample(self) -> tuple[int, int]:
        """Compare the first blobs of the store; return how many belong to no file, and of how many that are a day old.

        Crashes and abandoned uploads leave some, which younger ones may still become files.
        """
        cut_off = datetime.now(UTC) - timedelta(days=1)
        found: list[str] = []
        async with contextlib.aclosing(_batches(self._blobs, "blobs")) as batches:
            async for batch in batches:
                found = [info.key for info in batch if info.modified_at < cut_off]
                break
        async with self._database.transaction(BACKGROUND) as connection:
            known = await upload_store.known_keys(connection, found)
        return len(set(found) - known), len(found)

    async def _delete(self, orphans: Sequence[BlobInfo]) -> None:
        for start in range(0, len(orphans), _BATCH_SIZE):
            await self._blobs.delete([info.key for info in orphans[start : start + _BATCH_SIZE]])


async def _batches(blobs: BlobStore, folder: str) -> AsyncGenerator[list[BlobInfo]]:
    batch: list[BlobInfo] = []
    async with contextlib.aclosing(blobs.list(folder)) as listed:
        async for info in listed:
            batch.append(info)
            if len(batch) == _BATCH_SIZE:
                yield batch
                batch = []
    yield batch

"""Copying new blobs into the backup store, each minute with the log: `pilotis.pending_copies` has those that wait.

Triggers queue a blob in the transaction from which on the database names it, so that one which commits late is seen
late, and none is missed. A row is deleted after its blob is in the store; a process that is killed in between copies
the blob again. As long as a row is there, the blob is not deleted, whatever becomes of its file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog
from asyncpg import Connection

from pilotis.backup import files, notes
from pilotis.backup.place import Place, connected
from pilotis.blobs.protocol import BlobStore
from pilotis.files import copy_store
from pilotis.files.copy_store import PendingCopy
from pilotis.floor import open_blobs
from pilotis.kit.clock import rfc3339

NOTE = "copies.json"
_BATCH = 500
_SMALL_BYTES = 1 << 20
_PARALLEL = 8
_FAILURES_IN_A_ROW = 5
_log = structlog.get_logger("pilotis.backup")


class Copies(msgspec.Struct, frozen=True):
    """The blobs in the queue when it was looked at last: their number, and since when the oldest waits.

    `held_bytes` are those of blobs that would be deleted if they did not wait. All blobs that the database named at
    `until` are in the store.
    """

    waiting: int = 0
    since: datetime | None = None
    held_bytes: int = 0
    until: str | None = None


def noted(data_dir: Path) -> Copies:
    """Return what the server has noted of the queue."""
    return notes.read(data_dir / NOTE, Copies) or Copies()


async def note(data_dir: Path, connection: Connection, asked_at: datetime | None = None) -> None:
    """Note what is in the queue; what was there at `asked_at` was tried since."""
    queue = await copy_store.queue(connection)
    until = noted(data_dir).until if asked_at is None else rfc3339(min(asked_at, queue.since or asked_at))
    copies = Copies(*queue, until)
    await asyncio.to_thread(notes.write, data_dir / NOTE, copies)


async def look(data_dir: Path, connect_arguments: dict[str, Any]) -> None:
    """Note what is in the queue; raises what the database raises."""
    connection = await connected(connect_arguments)
    try:
        await note(data_dir, connection)
    finally:
        await connection.close()


async def forget(data_dir: Path, connect_arguments: dict[str, Any]) -> None:
    """Let nothing wait: the next backup copies those that the database then names."""
    connection = await connected(connect_arguments)
    try:
        await copy_store.remove_all(connection)
        await note(data_dir, connection)
    finally:
        await connection.close()


async def copy(place: Place, connect_arguments: dict[str, Any]) -> None:
    """Copy what waits, oldest first, until nothing does.

    A blob that cannot be copied is passed over; if several in a row cannot, raises what the last one raised.
    """
    connection = await connected(connect_arguments)
    try:
        blobs = open_blobs(place.settings)
        try:
            while await _copy_batch(place, connection, blobs):
                pass
        finally:
            await blobs.close()
    finally:
        await connection.close()


async def _copy_batch(place: Place, connection: Connection, blobs: BlobStore) -> bool:
    """Copy some; return whether there are more."""
    asked_at, waiting = await copy_store.oldest(connection, _BATCH)
    copied = failures = 0
    try:
        for group in _groups(waiting):
            copying = (files.copy_one(blobs, place.store, place.key, one.key) for one in group)
            outcomes = await asyncio.gather(*copying, return_exceptions=True)
            done = [one for one, outcome in zip(group, outcomes, strict=True) if isinstance(outcome, bool)]
            await copy_store.remove(connection, done)
            copied += len(done)
            for one, outcome in zip(group, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    failures += 1
                    _log.warning("blob not copied to the backup store yet", key=one.key, reason=repr(outcome))
                    if failures >= _FAILURES_IN_A_ROW:
                        raise outcome
                else:
                    failures = 0
                    if not outcome:
                        _log.warning("blob missing, so not copied to the backup store", key=one.key)
    finally:
        await note(place.data_dir, connection, asked_at)
    return len(waiting) == _BATCH and copied > 0


def _groups(waiting: Sequence[PendingCopy]) -> list[list[PendingCopy]]:
    """Return which blobs are copied at once: several small ones, or a large one."""
    groups: list[list[PendingCopy]] = [[]]
    for one in waiting:
        is_large = one.size > _SMALL_BYTES
        if is_large or len(groups[-1]) == _PARALLEL or (groups[-1] and groups[-1][0].size > _SMALL_BYTES):
            groups.append([])
        groups[-1].append(one)
    return [group for group in groups if group]

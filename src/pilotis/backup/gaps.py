"""Gaps of the log: what waits for the store is dropped when it takes `spool_bytes`, and a new backup follows.

A server whose store stays away must not fill its disk, and what fills it stops writes. So the log of the spool is
dropped as a whole, and goes on being dropped until the store is there: without the beginning the rest is worth nothing.
Then the store gets an entry about the gap, the log from there on, and a backup. The moments between the gap's beginning
and the end of that backup cannot be restored, and everything that lists moments says so.

A note in the data directory comes before the first segment is deleted, and goes when the backup is there. So a process
that is killed at any step leaves a state from which the next one goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from pilotis.backup import notes, streams, wal
from pilotis.backup.catalogue import Backup
from pilotis.backup.encryption import BackupKey
from pilotis.backup.errors import BackupError, DamagedError
from pilotis.backup.place import Place
from pilotis.blobs.protocol import BlobStore
from pilotis.kit.clock import now, rfc3339

FOLDER = "gaps"
NOTE = "gap.json"
BATCH = 32
"""How many files of the log are stored before what waits is measured again."""
_log = structlog.get_logger("pilotis.backup")


class Gap(msgspec.Struct, frozen=True):
    """A gap in the log of the store: from the segment `first` to the one before `following`, in lower case.

    Rows until `since` are in the log before it. `following` is None while the log is being dropped.
    """

    first: str
    since: str
    dropped_at: float
    following: str | None = None

    def follows(self, backup: Backup) -> bool:
        """Whether the log that follows a backup leads into the gap."""
        return _position(self.first) >= _position(backup.start_wal)

    def is_bridged_by(self, backup: Backup) -> bool:
        """Whether a backup begins after the gap."""
        return self.following is not None and _position(backup.start_wal) >= _position(self.following)

    def __str__(self) -> str:
        return (
            f"The log from {self.first.upper()} on, with what was written after {self.since}, was dropped: the backup"
            " store was away, and what waited for it had reached spool_bytes."
        )


class _Entry(msgspec.Struct):
    gap: Gap
    mac: str


def noted(data_dir: Path) -> Gap | None:
    """Return the gap after which there is no backup yet."""
    return notes.read(data_dir / NOTE, Gap)


def seconds(data_dir: Path) -> float:
    """Return for how long there has been such a gap; 0 if there is none."""
    gap = noted(data_dir)
    return max(0.0, time.time() - gap.dropped_at) if gap else 0.0


def drop(data_dir: Path) -> bool:
    """Drop the log that waits, and return whether there was any. Call it with the lock on the spool."""
    cluster = data_dir / "postgres"
    segments = wal.waiting_segments(cluster)
    if not segments:
        return False
    gap = noted(data_dir)
    if gap is None or gap.following is not None:
        since = wal.shipped_until(cluster) or rfc3339(now())
        notes.write(data_dir / NOTE, Gap(min(segments), since, time.time()))
    for paths in segments.values():
        for path in paths:
            path.unlink()
    return True


def bridge(data_dir: Path, backup: Backup) -> None:
    """Forget the gap that is noted if a backup begins after it."""
    gap = noted(data_dir)
    if gap is not None and gap.is_bridged_by(backup):
        (data_dir / NOTE).unlink()


async def ship(place: Place) -> int:
    """Store some of the log that waits, as `wal.ship`; before what follows a gap, an entry about the gap."""
    await _close(place)
    return await wal.ship(place.cluster, place.store, place.key, limit=BATCH)


async def _close(place: Place) -> None:
    gap = noted(place.data_dir)
    if gap is None or gap.following is not None:
        return
    segments = wal.waiting_segments(place.cluster)
    if not segments:
        return
    following = min(segments)
    if following == gap.first:
        # Whoever began to drop the log was killed before it did.
        (place.data_dir / NOTE).unlink()
        return
    closed = msgspec.structs.replace(gap, following=following)
    entry = msgspec.json.encode(_Entry(closed, place.key.sign(_signed(closed))))
    await streams.put(place.store, f"{FOLDER}/{gap.first}.json", entry)
    await asyncio.to_thread(notes.write, place.data_dir / NOTE, closed)
    _log.error("the log has a gap", reason=str(closed), following=following.upper())


async def all_gaps(store: BlobStore, key: BackupKey) -> list[Gap]:
    """Return the gaps in the order of the log; raises `DamagedError` for an entry that was changed."""
    found = []
    async for info in store.list(FOLDER):
        try:
            entry = msgspec.json.decode(await streams.get(store, info.key), type=_Entry)
        except msgspec.MsgspecError:
            raise DamagedError(f"{info.key} in the backup store is damaged.") from None
        if not key.is_signed(_signed(entry.gap), entry.mac) or info.key != f"{FOLDER}/{entry.gap.first}.json":
            raise DamagedError(f"{info.key} in the backup store was changed, or was written with another backup key.")
        found.append(entry.gap)
    return sorted(found, key=lambda gap: _position(gap.first))


async def require_none(place: Place, backup: Backup) -> None:
    """Raise `BackupError` if the log that a backup needs itself has a gap."""
    gap = after(await all_gaps(place.store, place.key), backup)
    if gap is not None and _position(gap.first) <= _position(backup.end_wal):
        raise BackupError(f"This is no backup: its log has a gap. {gap}")


def after(gaps: Sequence[Gap], backup: Backup) -> Gap | None:
    """Return the first gap to which the log that follows a backup leads."""
    return next((gap for gap in gaps if gap.follows(backup)), None)


async def remove_before(store: BlobStore, gaps: Sequence[Gap], first: str) -> None:
    """Delete the entries of gaps that end before a segment."""
    gone = [gap for gap in gaps if gap.following is not None and _position(gap.following) <= _position(first)]
    await store.delete([f"{FOLDER}/{gap.first}.json" for gap in gone])


def _position(segment: str) -> str:
    return segment.lower()[8:24]


def _signed(gap: Gap) -> bytes:
    return b"gap\n" + msgspec.json.encode(gap)

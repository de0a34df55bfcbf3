"""The write-ahead log: from the spool, to which PostgreSQL archives it, to the backup store.

PostgreSQL's `basic_archive` writes each finished segment durably into the spool, a folder of the cluster that base
backups leave out. From there it is compressed, encrypted and stored under its own name, in the order of the log, and
then deleted. Who may ship holds a lock on the spool, so that a server and a command can try at any time.

While the store is away the segments are compressed in the spool: `archive_timeout` ends one in each minute in which
something is written, 16 MiB of almost nothing on a quiet server, and a gigabyte an hour. What is left grows with what
is written, until writes are rejected for want of disk space (`write_reserve_bytes`).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from pilotis.backup import notes, streams
from pilotis.backup.encryption import BackupKey
from pilotis.backup.errors import BackupError, DamagedError
from pilotis.blobs.protocol import BlobStore
from pilotis.db.embedded.cluster import WAL_SPOOL
from pilotis.kit.clock import rfc3339
from pilotis.kit.disk import sync_directory, sync_file

FOLDER = "wal"
NOTE = "shipped.json"
_LOCK = "pilotis.lock"
_COMPRESSED = ".zlib"
_NEW = "pilotis.new"
_READY = ".ready"
ARCHIVED_SECONDS = 10.0
"""In what time PostgreSQL writes a segment to the spool, unless something keeps it from that."""
_NAME = re.compile(r"[0-9A-F]{24}|[0-9A-F]{8}\.history|[0-9A-F]{24}\.[0-9A-F]{8}\.backup")
_SEGMENT = re.compile(r"[0-9a-f]{24}")
SEGMENT_BYTES = 16 << 20
_BLOCK_BYTES = 64 << 10
_PER_LOG = (1 << 32) // SEGMENT_BYTES


class ForeignLogError(BackupError):
    """Another server has stored other bytes under the same name: both have the same store."""


class Spool(NamedTuple):
    """What waits for the store: the number of files, their bytes, and for how many seconds the oldest has waited.

    `unarchived` of the files are not in the spool: for some seconds PostgreSQL could not write them there, for example
    because the disk is full.
    """

    files: int
    bytes: int
    seconds: float
    unarchived: int


def spool_of(cluster: Path) -> Path:
    """Return the spool of a cluster."""
    return cluster / WAL_SPOOL


def waiting(cluster: Path) -> Spool:
    """Return what waits."""
    since, size, unarchived = [], 0, 0
    for name in _names(cluster):
        with suppress(FileNotFoundError):
            status = (spool_of(cluster) / name).stat()
            since.append(status.st_mtime)
            size += status.st_size
    for name in _listed(cluster / "pg_wal" / "archive_status"):
        if name.endswith(_READY) and _NAME.fullmatch(name.removesuffix(_READY)):
            with suppress(FileNotFoundError):
                marked_at = (cluster / "pg_wal" / "archive_status" / name).stat().st_mtime
                size += (cluster / "pg_wal" / name.removesuffix(_READY)).stat().st_size
                since.append(marked_at)
                unarchived += time.time() - marked_at > ARCHIVED_SECONDS
    return Spool(len(since), size, max(0.0, time.time() - min(since, default=time.time())), unarchived)


@contextmanager
def shipping(cluster: Path) -> Generator[bool]:
    """Hold the lock on the spool during the block, if nobody else does; yield whether it is held."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(spool_of(cluster) / _LOCK, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def is_waiting(cluster: Path) -> bool:
    """Whether a file is in the spool."""
    return bool(_names(cluster))


def waiting_segments(cluster: Path) -> dict[str, list[Path]]:
    """Return the segments in the spool by their names in lower case, each with the files that have it."""
    found: dict[str, list[Path]] = {}
    for file_name in _names(cluster):
        name = file_name.removesuffix(_COMPRESSED).lower()
        if _SEGMENT.fullmatch(name):
            found.setdefault(name, []).append(spool_of(cluster) / file_name)
    return found


async def ship(cluster: Path, store: BlobStore, key: BackupKey, *, limit: int | None = None) -> int:
    """Store what waits in the order of the log, and delete it from the spool; return how many files that were.

    With a `limit` not more than so many. Call it with the lock. Raises `ForeignLogError`, and what the store raises;
    then the rest waits.
    """
    folder, count = key.of(FOLDER), 0
    until: float | None = None
    try:
        for file_name in _names(cluster)[:limit]:
            path = spool_of(cluster) / file_name
            name = file_name.removesuffix(_COMPRESSED)
            place = f"{FOLDER}/{name.lower()}"
            data = await asyncio.to_thread(_read, path)
            if await store.stat(place) is not None:
                # Stored by a process that died before it deleted the file, or by another server.
                if await _opened(store, key, name.lower()) != data:
                    raise ForeignLogError(
                        f"The backup store has another {name}: another server archives to it too. Give each its own"
                        " store."
                    )
            else:
                sealed = await asyncio.to_thread(lambda: folder.seal(place, zlib.compress(data, 1)))  # noqa: B023
                await streams.put(store, place, sealed)
            if _SEGMENT.fullmatch(name.lower()):
                until = path.stat().st_mtime
            path.unlink()
            count += 1
    finally:
        if until is not None:
            _note(cluster, until)
    return count


class _Shipped(msgspec.Struct):
    until: datetime


def _note(cluster: Path, until: float) -> None:
    notes.write(cluster.parent / NOTE, _Shipped(datetime.fromtimestamp(until, UTC)))


def shipped_until(cluster: Path) -> str | None:
    """Return when PostgreSQL archived the last segment that this server stored, usually a second after its end.

    What was committed in it is in the store.
    """
    note = notes.read(cluster.parent / NOTE, _Shipped)
    return rfc3339(note.until) if note else None


def compress(cluster: Path) -> int:
    """Compress the segments in the spool, and return how many that were. Call it with the lock; raises OSError.

    A segment is there under one of its names at any time, and both are the same if there are two.
    """
    spool, count = spool_of(cluster), 0
    for name in _names(cluster):
        if _SEGMENT.fullmatch(name.lower()):
            new = spool / _NEW
            new.unlink(missing_ok=True)
            try:
                # Created exclusively and renamed: the folder belongs to a user whose links root must not follow.
                with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(zlib.compress(_read(spool / name), 1))
                    file.flush()
                    sync_file(file.fileno())
                os.utime(new, ns=((status := (spool / name).stat()).st_atime_ns, status.st_mtime_ns))
                new.replace(spool / f"{name}{_COMPRESSED}")
            except OSError:
                new.unlink(missing_ok=True)
                raise
            sync_directory(spool)
            (spool / name).unlink()
            count += 1
    return count


async def segments(store: BlobStore) -> list[str]:
    """Return the names of the stored segments and histories, in lower case, in their order."""
    return [info.key.removeprefix(f"{FOLDER}/") async for info in store.list(FOLDER)]


async def restore_to(
    folder: Path, store: BlobStore, key: BackupKey, first: str, before: str | None = None
) -> str | None:
    """Write the log from a segment on, up to the one before another, for PostgreSQL; return the last segment.

    Raises `DamagedError` where it has a gap before its end.
    """
    names = [name for name in await segments(store) if not name.endswith(".backup") and _is_from(name, first.lower())]
    if before is not None:
        names = [name for name in names if name.endswith(".history") or not _is_from(name, before.lower())]
    _require_no_gap(first.lower(), {name[8:] for name in names if _SEGMENT.fullmatch(name)})
    for name in names:
        data = await _opened(store, key, name)
        await asyncio.to_thread(_write_sparse, folder / _file_name(name), data)
    return next((name for name in reversed(names) if _SEGMENT.fullmatch(name)), None)


def _require_no_gap(first: str, positions: set[str]) -> None:
    """Raise `DamagedError` unless the positions, on whatever timelines, follow one another from the first one on."""
    expected = first
    for position in sorted(positions):
        if position != expected[8:]:
            raise DamagedError(f"The write-ahead log in the store has a gap: {expected.upper()} is missing.")
        expected = following(expected)


async def require_whole(store: BlobStore, key: BackupKey, first: str, last: str, before: str | None = None) -> str:
    """Read the log from one segment to its end, or to `before`, on the same timeline, and return the last segment.

    Raises `DamagedError` for one that is damaged or missing, up to `last` at least.
    """
    expected, found = first.lower(), ""
    for name in await segments(store):
        if not _SEGMENT.fullmatch(name) or name < expected or name[:8] != first[:8].lower():
            continue
        if before is not None and _is_from(name, before.lower()):
            break
        if name != expected:
            raise DamagedError(f"The write-ahead log in the store has a gap: {expected.upper()} is missing.")
        await _opened(store, key, name)
        found, expected = name, following(name)
    if found < last.lower():
        raise DamagedError(f"The write-ahead log in the store ends too early: {last.upper()} is missing.")
    return found.upper()


def following(name: str) -> str:
    """Return the name of the segment after one, in lower case."""
    timeline, log, segment = int(name[:8], 16), int(name[8:16], 16), int(name[16:], 16)
    log, segment = (log + 1, 0) if segment + 1 == _PER_LOG else (log, segment + 1)
    return f"{timeline:08x}{log:08x}{segment:08x}"


async def remove_before(store: BlobStore, first: str) -> int:
    """Delete the segments before one, on whatever timeline, and return how many they were."""
    position = first.lower()[8:]
    old = [name for name in await segments(store) if not name.endswith(".history") and name[8:24] < position]
    for at in range(0, len(old), 500):
        await store.delete([f"{FOLDER}/{name}" for name in old[at : at + 500]])
    return len(old)


def _is_from(name: str, first: str) -> bool:
    return name.endswith(".history") or name[8:24] >= first[8:24]


async def _opened(store: BlobStore, key: BackupKey, name: str) -> bytes:
    place = f"{FOLDER}/{name}"
    sealed = await streams.get(store, place)
    return await asyncio.to_thread(lambda: zlib.decompress(key.of(FOLDER).open(place, sealed)))


def _names(cluster: Path) -> list[str]:
    """Return the files in the spool in the order of the log: histories first, which a new timeline begins with."""
    found = [name for name in _listed(spool_of(cluster)) if _NAME.fullmatch(name.removesuffix(_COMPRESSED))]
    return sorted(found, key=lambda name: (name[:8], not name.endswith(".history"), name))


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return []


def _read(path: Path) -> bytes:
    """Return the bytes of a file in the spool, which may be compressed there."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        data = file.read()
    return zlib.decompress(data) if path.suffix == _COMPRESSED else data


def _write_sparse(path: Path, data: bytes) -> None:
    """Write a file, in which blocks of zeros take no room: most of a segment that `archive_timeout` ended early."""
    with path.open("xb") as file:
        for at in range(0, len(data), _BLOCK_BYTES):
            block = data[at : at + _BLOCK_BYTES]
            if block.strip(b"\0"):
                file.seek(at)
                file.write(block)
        file.truncate(len(data))


def _file_name(name: str) -> str:
    """Return the name of a segment or history as PostgreSQL writes it."""
    head, dot, tail = name.partition(".")
    return head.upper() + dot + tail

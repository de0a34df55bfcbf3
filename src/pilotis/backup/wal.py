"""The write-ahead log: from the spool, to which PostgreSQL archives it, to the backup store.

PostgreSQL's `basic_archive` writes each finished segment durably into the spool, a folder of the cluster that base
backups leave out. From there it is compressed, encrypted and stored under its own name, in the order of the log, and
then deleted. Who may ship holds a lock on the spool, so that a server and a command can try at any time.
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
from pathlib import Path
from typing import NamedTuple

from pilotis.backup import streams
from pilotis.backup.encryption import BackupKey
from pilotis.backup.errors import BackupError, DamagedError
from pilotis.blobs.protocol import BlobStore
from pilotis.db.embedded.cluster import WAL_SPOOL

FOLDER = "wal"
_LOCK = "pilotis.lock"
_NAME = re.compile(r"[0-9A-F]{24}|[0-9A-F]{8}\.history|[0-9A-F]{24}\.[0-9A-F]{8}\.backup")
_SEGMENT = re.compile(r"[0-9a-f]{24}")
SEGMENT_BYTES = 16 << 20
_PER_LOG = (1 << 32) // SEGMENT_BYTES


class ForeignLogError(BackupError):
    """Another server has stored other bytes under the same name: both have the same store."""


class Spool(NamedTuple):
    """What waits in the spool: the number of files, their bytes, and for how many seconds the oldest has waited."""

    files: int
    bytes: int
    seconds: float


def spool_of(cluster: Path) -> Path:
    """Return the spool of a cluster."""
    return cluster / WAL_SPOOL


def waiting(cluster: Path) -> Spool:
    """Return what waits."""
    found = []
    for name in _names(cluster):
        with suppress(FileNotFoundError):
            found.append((spool_of(cluster) / name).stat())
    oldest = min((one.st_mtime for one in found), default=time.time())
    return Spool(len(found), sum(one.st_size for one in found), max(0.0, time.time() - oldest))


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


async def ship(cluster: Path, store: BlobStore, key: BackupKey) -> int:
    """Store what waits in the order of the log, and delete it from the spool; return how many files that were.

    Call it with the lock. Raises `ForeignLogError`, and what the store raises; then the rest waits.
    """
    folder, count = key.of(FOLDER), 0
    for name in _names(cluster):
        path = spool_of(cluster) / name
        place = f"{FOLDER}/{name.lower()}"
        data = await asyncio.to_thread(_read, path)
        if await store.stat(place) is not None:
            # Stored by a process that died before it deleted the file, or by another server.
            if await _opened(store, key, name.lower()) != data:
                raise ForeignLogError(
                    f"The backup store has another {name}: another server archives to it too. Give each its own store."
                )
        else:
            sealed = await asyncio.to_thread(lambda: folder.seal(place, zlib.compress(data, 1)))  # noqa: B023
            await streams.put(store, place, sealed)
        path.unlink()
        count += 1
    return count


async def segments(store: BlobStore) -> list[str]:
    """Return the names of the stored segments and histories, in lower case, in their order."""
    return [info.key.removeprefix(f"{FOLDER}/") async for info in store.list(FOLDER)]


async def restore_to(folder: Path, store: BlobStore, key: BackupKey, first: str) -> str | None:
    """Write the log from a segment on into a folder for PostgreSQL; return the last segment.

    Raises `DamagedError` where it has a gap before its end.
    """
    names = [name for name in await segments(store) if not name.endswith(".backup") and _is_from(name, first.lower())]
    _require_no_gap(first.lower(), {name[8:] for name in names if _SEGMENT.fullmatch(name)})
    for name in names:
        data = await _opened(store, key, name)
        await asyncio.to_thread((folder / _file_name(name)).write_bytes, data)
    return next((name for name in reversed(names) if _SEGMENT.fullmatch(name)), None)


def _require_no_gap(first: str, positions: set[str]) -> None:
    """Raise `DamagedError` unless the positions, on whatever timelines, follow one another from the first one on."""
    expected = first
    for position in sorted(positions):
        if position != expected[8:]:
            raise DamagedError(f"The write-ahead log in the store has a gap: {expected.upper()} is missing.")
        expected = following(expected)


async def require_whole(store: BlobStore, key: BackupKey, first: str, last: str) -> str:
    """Read the log from one segment to its end on the same timeline, and return the last segment.

    Raises `DamagedError` for one that is damaged or missing, up to `last` at least.
    """
    expected, found = first.lower(), ""
    for name in await segments(store):
        if not _SEGMENT.fullmatch(name) or name < expected or name[:8] != first[:8].lower():
            continue
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
    try:
        names = os.listdir(spool_of(cluster))  # noqa: PTH208
    except FileNotFoundError:
        return []
    found = [name for name in names if _NAME.fullmatch(name)]
    return sorted(found, key=lambda name: (name[:8], not name.endswith(".history"), name))


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read()


def _file_name(name: str) -> str:
    """Return the name of a segment or history as PostgreSQL writes it."""
    head, dot, tail = name.partition(".")
    return head.upper() + dot + tail

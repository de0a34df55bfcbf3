"""The bytes of files: each blob once for all backups, under a name that says nothing about it.

A blob never changes under its key. So what the database names when a backup ends is compared with what the store has,
and the rest is copied. Each backup has a list of the names, by which `prune` knows what nothing needs any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.backup import streams
from pilotis.backup.encryption import BackupKey
from pilotis.blobs.errors import BlobNotFoundError
from pilotis.blobs.protocol import BlobStore

FOLDER = "files"
_NAME_BYTES = 32
_OCTETS = "application/octet-stream"
_NAMED = """
    select 'blobs/' || app_id || '/' || blob_id from (
        select app_id, blob_id from pilotis.files where blob_id is not null
        union all select app_id, blob_id from pilotis.variants
        union all select app_id, blob_id from pilotis.web_blobs
        union all select app_id, brotli_id from pilotis.web_blobs where brotli_id is not null
        union all select app_id, gzip_id from pilotis.web_blobs where gzip_id is not null
    ) named
    where $1::uuid is null or app_id = $1
"""


class Copied(NamedTuple):
    """The number of blobs that the database names, of those the new ones, and of those the missing ones."""

    named: int
    new: int
    missing: int


async def copy(connection: Connection, blobs: BlobStore, store: BlobStore, key: BackupKey, list_folder: str) -> Copied:
    """Copy the blobs that the store lacks, and store the list of all that the database names in `list_folder`."""
    known = {name async for name in _stored(store)}
    counts = [0, 0, 0]

    async def names() -> AsyncGenerator[bytes]:
        async with connection.transaction(readonly=True):
            await connection.execute("set local idle_in_transaction_session_timeout = 0")
            async for (blob_key,) in connection.cursor(_NAMED, None, prefetch=1000):
                name = key.name_of(blob_key)
                digest = bytes.fromhex(name)
                counts[0] += 1
                if digest not in known:
                    if not await _copy_one(blobs, store, key, blob_key, name):
                        counts[2] += 1
                        continue
                    known.add(digest)
                    counts[1] += 1
                yield digest

    async with aclosing(names()) as found:
        await streams.write(store, key.of(list_folder), list_folder, found)
    return Copied(*counts)


async def _copy_one(blobs: BlobStore, store: BlobStore, key: BackupKey, blob_key: str, name: str) -> bool:
    folder = f"{FOLDER}/{name}"
    try:
        async with aclosing(blobs.open(blob_key)) as chunks:
            await streams.write(store, key.of(folder), folder, chunks)
    except BlobNotFoundError:
        return False
    return True


async def _stored(store: BlobStore) -> AsyncIterator[bytes]:
    async for info in store.list(FOLDER):
        _, name, part = info.key.split("/")
        if part.endswith(streams.END):
            yield bytes.fromhex(name)


async def stored_bytes(store: BlobStore) -> int:
    """Return the bytes of all blobs in the store."""
    size = 0
    async for info in store.list(FOLDER):
        size += info.size
    return size


async def listed(store: BlobStore, key: BackupKey, list_folder: str) -> AsyncGenerator[bytes]:
    """Yield the names of a backup's list, each of 32 bytes."""
    rest = b""
    async for data in streams.read(store, key.of(list_folder), list_folder):
        whole = rest + data
        end = len(whole) // _NAME_BYTES * _NAME_BYTES
        for at in range(0, end, _NAME_BYTES):
            yield whole[at : at + _NAME_BYTES]
        rest = whole[end:]


async def restore(
    connection: Connection, target: BlobStore, store: BlobStore, key: BackupKey, app_id: UUID | None = None
) -> Copied:
    """Write the blobs that a restored database names, of one app or of all.

    Those that the store lacks are counted as missing.
    """
    known = {name async for name in _stored(store)}
    named = new = missing = 0
    async with connection.transaction(readonly=True):
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        async for (blob_key,) in connection.cursor(_NAMED, app_id, prefetch=1000):
            named += 1
            name = key.name_of(blob_key)
            if bytes.fromhex(name) not in known:
                missing += 1
            elif await target.stat(blob_key) is None:
                await _restore_one(target, store, key, blob_key, name)
                new += 1
    return Copied(named, new, missing)


async def _restore_one(target: BlobStore, store: BlobStore, key: BackupKey, blob_key: str, name: str) -> None:
    folder = f"{FOLDER}/{name}"
    parts = [info.key async for info in store.list(folder)]
    # Every part but the last one is full, so the last one says how large the blob is.
    place = parts[-1].rpartition("/")[2]
    last = await asyncio.to_thread(key.of(folder).open, place, await streams.get(store, parts[-1]))
    size = (len(parts) - 1) * streams.PART_BYTES + len(last)

    async def chunks() -> AsyncGenerator[bytes]:
        if len(parts) == 1:
            yield last
            return
        async for part in streams.read(store, key.of(folder), folder):
            yield part

    async with aclosing(chunks()) as found:
        await target.put(blob_key, found, size=size, content_type=_OCTETS)


async def check(store: BlobStore, key: BackupKey, list_folder: str, every: int) -> tuple[int, list[str]]:
    """Return how many of a backup's blobs the store has, and which it lacks; every so-many-th is read to its end."""
    known = {name async for name in _stored(store)}
    count, missing = 0, []
    async for digest in listed(store, key, list_folder):
        if digest not in known:
            missing.append(digest.hex())
            continue
        if count % every == 0:
            folder = f"{FOLDER}/{digest.hex()}"
            async for _ in streams.read(store, key.of(folder), folder):
                pass
        count += 1
    return count, missing


async def remove_unlisted(store: BlobStore, key: BackupKey, list_folders: list[str]) -> int:
    """Delete the blobs that none of the backups with these lists names, and return how many they were."""
    needed = {name for folder in list_folders async for name in listed(store, key, folder)}
    gone: dict[str, list[str]] = {}
    async for info in store.list(FOLDER):
        _, name, _ = info.key.split("/")
        if bytes.fromhex(name) not in needed:
            gone.setdefault(name, []).append(info.key)
    keys = [one for several in gone.values() for one in several]
    for at in range(0, len(keys), 500):
        await store.delete(keys[at : at + 500])
    return len(gone)

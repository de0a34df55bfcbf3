"""The bytes of files: each blob once for all backups, under a name that says nothing about it.

A blob never changes under its key. New ones are copied with the log (`copies`). What the database names when a backup
ends is compared with what the store has, and the rest is copied. Each backup has a list of the names, by which `prune`
knows what nothing needs any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
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


_FILES_OF = """
    select app_id, path from (
        select 'blobs/' || app_id || '/' || blob_id as key, app_id, path from pilotis.files where blob_id is not null
        union all
        select 'blobs/' || v.app_id || '/' || v.blob_id, v.app_id, 'an image variant of ' || f.path
        from pilotis.variants v join pilotis.files f using (app_id, file_id)
        union all
        select 'blobs/' || b.app_id || '/' || form.id, b.app_id, 'a file of a site, ' || coalesce((
            select min(w.path) from pilotis.web_files w where w.app_id = b.app_id and w.sha256 = b.sha256
        ), 'not in use')
        from pilotis.web_blobs b cross join lateral (values (b.blob_id), (b.brotli_id), (b.gzip_id)) form (id)
    ) named
    where key = any($1::text[]) order by app_id, path
"""
_MAX_NAMED = 1000


class MissingFile(msgspec.Struct, frozen=True):
    """A file that the rows name, and that the store lacks: its app and its path."""

    app_id: UUID
    path: str


class RestoredFiles(NamedTuple):
    """The number of blobs that the restored database names, the keys of the missing ones, and what some of them are."""

    named: int
    missing: list[str]
    missing_files: list[MissingFile]


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
                    if not await copy_one(blobs, store, key, blob_key):
                        counts[2] += 1
                        continue
                    known.add(digest)
                    counts[1] += 1
                yield digest

    async with aclosing(names()) as found:
        await streams.write(store, key.of(list_folder), list_folder, found)
    return Copied(*counts)


async def copy_one(blobs: BlobStore, store: BlobStore, key: BackupKey, blob_key: str) -> bool:
    """Copy a blob, also if the store has it; False if it is missing."""
    folder = f"{FOLDER}/{key.name_of(blob_key)}"
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
) -> RestoredFiles:
    """Write the blobs that a restored database names, of one app or of all, and say which of them the store lacks."""
    known = {name async for name in _stored(store)}
    named = 0
    missing: list[str] = []
    async with connection.transaction(readonly=True):
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        async for (blob_key,) in connection.cursor(_NAMED, app_id, prefetch=1000):
            named += 1
            name = key.name_of(blob_key)
            if bytes.fromhex(name) not in known:
                missing.append(blob_key)
            elif await target.stat(blob_key) is None:
                await _restore_one(target, store, key, blob_key, name)
        rows = await connection.fetch(_FILES_OF, missing[:_MAX_NAMED]) if missing else []
    return RestoredFiles(named, missing, [MissingFile(*row) for row in rows])


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


async def lost(store: BlobStore, key: BackupKey, list_folder: str, keys: Sequence[str]) -> int:
    """Return how many of the blobs were in the store when a backup was made."""
    if not keys:
        return 0
    wanted = {bytes.fromhex(key.name_of(one)) for one in keys}
    return len(wanted & {name async for name in listed(store, key, list_folder)})


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


async def remove_unlisted(store: BlobStore, key: BackupKey, list_folders: list[str], before: datetime) -> int:
    """Delete the blobs from before a moment that no backup with one of these lists names; return how many they were.

    Those that were stored since may be named at a moment between two backups. The moment is one of the store's clock.
    """
    needed = {name for folder in list_folders async for name in listed(store, key, folder)}
    gone: dict[str, list[str]] = {}
    young = set()
    async for info in store.list(FOLDER):
        _, name, _ = info.key.split("/")
        if info.modified_at >= before:
            young.add(name)
        elif bytes.fromhex(name) not in needed:
            gone.setdefault(name, []).append(info.key)
    keys = [one for name, several in gone.items() if name not in young for one in several]
    for at in range(0, len(keys), 500):
        await store.delete(keys[at : at + 500])
    return len(gone.keys() - young)

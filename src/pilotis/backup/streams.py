"""Streams in the backup store: objects `<folder>/00000`, `00001` … and the last with `.end` after its number.

Until the last one is there, a stream is none. Memory: two parts of 8 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime

from pilotis.backup.encryption import FolderKey
from pilotis.backup.errors import DamagedError
from pilotis.blobs.errors import BlobNotFoundError
from pilotis.blobs.protocol import BlobStore

PART_BYTES = 8 << 20
END = ".end"
_OCTETS = "application/octet-stream"


async def put(store: BlobStore, key: str, data: bytes) -> None:
    """Store an object."""

    async def once() -> AsyncGenerator[bytes]:
        yield data

    await store.put(key, once(), size=len(data), content_type=_OCTETS)


async def get(store: BlobStore, key: str) -> bytes:
    """Return an object; raises `DamagedError` if the store does not have it."""
    try:
        return b"".join([chunk async for chunk in store.open(key)])
    except BlobNotFoundError:
        raise DamagedError(f"{key} is missing in the backup store.") from None


async def write(store: BlobStore, key: FolderKey, folder: str, chunks: AsyncIterator[bytes]) -> int:
    """Store a stream, each part while the next one is read, and return the number of bytes that the store has."""
    sending: asyncio.Task[int] | None = None
    number, total = 0, 0
    buffer = bytearray()

    async def send(name: str, data: bytes) -> int:
        sealed = await asyncio.to_thread(key.seal, name, data)
        await put(store, f"{folder}/{name}", sealed)
        return len(sealed)

    try:
        async for chunk in chunks:
            buffer += chunk
            # One byte more than a part: whether it is the last one must be known.
            while len(buffer) > PART_BYTES:
                part = bytes(buffer[:PART_BYTES])
                del buffer[:PART_BYTES]
                if sending is not None:
                    total += await sending
                sending = asyncio.create_task(send(f"{number:05}", part))
                number += 1
        if sending is not None:
            total += await sending
            sending = None
        return total + await send(f"{number:05}{END}", bytes(buffer))
    finally:
        if sending is not None:
            sending.cancel()
            await asyncio.wait([sending])


async def read(store: BlobStore, key: FolderKey, folder: str) -> AsyncGenerator[bytes]:
    """Yield the parts of a stream in their order; raises `DamagedError`."""
    names = [info.key.rpartition("/")[2] async for info in store.list(folder)]
    numbers = [name.removesuffix(END) for name in names]
    if not names or not names[-1].endswith(END) or numbers != [f"{number:05}" for number in range(len(names))]:
        raise DamagedError(f"{folder} in the backup store is not complete: parts are missing.")
    for name in names:
        sealed = await get(store, f"{folder}/{name}")
        yield await asyncio.to_thread(key.open, name, sealed)


async def stored_at(store: BlobStore, folder: str) -> datetime | None:
    """Return when the first part of a stream was stored, by the store's clock; None if it is missing."""
    async for info in store.list(folder):
        return info.modified_at
    return None


async def remove(store: BlobStore, folder: str) -> None:
    """Delete all objects of a folder."""
    keys: list[str] = []
    async for info in store.list(folder):
        keys.append(info.key)
        if len(keys) == 500:
            await store.delete(keys)
            keys = []
    await store.delete(keys)

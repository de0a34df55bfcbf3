"""What tests of object stores share."""

import hashlib
from collections.abc import AsyncIterator
from random import Random

from pilotis.blobs.protocol import BlobInfo, BlobStore

MIB = 1 << 20


def content(size: int, seed: int = 0) -> bytes:
    return Random(seed).randbytes(size)


async def chunked(data: bytes, step: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(data), step):
        yield data[start : start + step]


async def put(store: BlobStore, key: str, data: bytes, content_type: str = "image/png", **more: bytes) -> BlobInfo:
    return await store.put(key, chunked(data), size=len(data), content_type=content_type, **more)


async def read(store: BlobStore, key: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in store.open(key, start, end)])


async def keys(store: BlobStore, prefix: str = "", after: str | None = None) -> list[str]:
    return [info.key async for info in store.list(prefix, after)]


def hex_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

"""Programs that tests run in a process of their own, to kill them, limit them, or measure them."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.kit.errors import StorageFullError
from tests.blobs.conftest import opened
from tests.blobs.support import MIB, chunked, keys, put, read

KEY = "blobs/a/1"


async def stall(url: str, key: str) -> None:
    """Upload 20 MiB less a byte, say so, and wait to be killed."""

    async def body() -> AsyncIterator[bytes]:
        async for chunk in chunked(bytes(20 * MIB - 1)):
            yield chunk
        await asyncio.sleep(1)
        print("stalled", flush=True)
        await asyncio.sleep(3600)

    await opened(url, Path()).put(key, body(), size=20 * MIB, content_type="image/png")


async def repeat(url: str, key: str) -> None:
    """Put and copy blobs for ever; say so of each that is acknowledged."""
    store = opened(url, Path())
    print("started", flush=True)
    for number in range(1_000_000):
        source, target = f"staging/{key}/{number}", f"blobs/{key}/{number}"
        await put(store, source, f"{number}".encode() * 100_000)
        await store.copy(source, target)
        print(target, flush=True)


async def overfill(url: str, key: str) -> None:
    """Upload more than there is room for; print what happened."""
    store = opened(url, Path())
    await put(store, "blobs/a/0", b"before")
    try:
        await put(store, key, bytes(16 * MIB))
    except StorageFullError:
        print("full", flush=True)
    print(await keys(store), list((Path(url) / "tmp").iterdir()), flush=True)
    await put(store, key, bytes(MIB))
    print(len(await read(store, key)), flush=True)


async def limited(url: str, key: str) -> None:
    """As `overfill`, under a limit on the size of files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * MIB, resource.RLIM_INFINITY))
    await overfill(url, key)


async def read_only(url: str, key: str) -> None:
    """Write into a file system that became read-only; print what happened."""
    store = opened(url, Path())
    await put(store, key, b"before")
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", url], check=True)
    try:
        await put(store, key, b"after")
    except BlobStoreUnavailableError:
        print("unavailable", await read(store, key), await store.check(), flush=True)


async def measure(url: str, key: str) -> None:
    """Upload and read 160 MiB; print by how many bytes the process' memory grew at most."""
    store = opened(url, Path())
    block = os.urandom(64 << 10)

    async def body(blocks: int) -> AsyncIterator[bytes]:
        for _ in range(blocks):
            yield block

    await store.put(key, body(16), size=MIB, content_type="image/png")
    before = _peak()
    await store.put(key, body(16 * 160), size=160 * MIB, content_type="image/png")
    total = 0
    async for chunk in store.open(key):
        total += len(chunk)
    assert total == 160 * MIB
    print(_peak() - before, flush=True)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    signal.alarm(600)
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))

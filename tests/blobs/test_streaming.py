"""Large streams into the directory: whole, hashed while they are written, or not there at all."""

import asyncio
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pilotis.blobs import hashing
from pilotis.blobs.errors import BlobStoreUnavailableError, DigestMismatchError, SizeMismatchError
from pilotis.blobs.local import LocalStore
from pilotis.blobs.writing import FileWriter
from pilotis.kit.errors import StorageFullError
from tests.blobs.support import MIB, content, hex_sha256, put, read

SIZE = 9 * MIB + 4321


class Streamed:
    """A stream that gives its pieces out, and then may fail."""

    def __init__(self, data: bytes, piece: int = MIB, error: Exception | None = None) -> None:
        self._data = data
        self._piece = piece
        self._error = error
        self.streamed = 0

    def __aiter__(self) -> "Streamed":
        return self

    async def __anext__(self) -> bytes:
        part = self._data[self.streamed : self.streamed + self._piece]
        if part:
            self.streamed += len(part)
            return part
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


def left(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("piece", [1000, 65_536, 65_537, MIB, 7 * MIB])
async def test_it_comes_out_as_it_went_in(store: LocalStore, piece: int):
    data = content(SIZE)
    info = await store.put(
        "a/b", Streamed(data, piece), size=SIZE, content_type="a/b", sha256=bytes.fromhex(hex_sha256(data))
    )
    assert (info.size, info.sha256) == (SIZE, hex_sha256(data))
    assert await read(store, "a/b") == data


async def test_what_is_not_as_it_was_said_to_be_leaves_nothing(store: LocalStore, tmp_path: Path):
    data = content(SIZE)
    too_long = Streamed(data)
    with pytest.raises(SizeMismatchError):
        await store.put("a/b", too_long, size=5 * MIB, content_type="a/b")
    assert too_long.streamed == 6 * MIB
    with pytest.raises(SizeMismatchError):
        await store.put("a/b", Streamed(data), size=SIZE + 1, content_type="a/b")
    with pytest.raises(DigestMismatchError):
        await store.put("a/b", Streamed(data), size=SIZE, content_type="a/b", sha256=bytes(32))
    with pytest.raises(KeyError):
        await store.put("a/b", Streamed(data, error=KeyError()), size=SIZE, content_type="a/b")
    assert await store.stat("a/b") is None
    assert left(tmp_path) == []


async def test_a_disk_that_fails_leaves_nothing(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data, write, preadv = content(SIZE), os.write, os.preadv

    def full(file: int, part: bytes) -> int:
        if len(part) > 100_000:
            raise OSError(errno.ENOSPC, "full")
        return write(file, part)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFullError):
        await store.put("a/b", Streamed(data), size=SIZE, content_type="a/b")
    monkeypatch.setattr(os, "write", write)

    def broken(file: int, buffers: list[memoryview], offset: int) -> int:
        if offset > 2 * MIB:
            raise OSError(errno.EIO, "broken")
        return preadv(file, [buffers[0][:MIB]], offset)

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(BlobStoreUnavailableError):
        await store.put("a/b", Streamed(data), size=SIZE, content_type="a/b")
    monkeypatch.setattr(os, "preadv", lambda file, buffers, offset: 0)
    with pytest.raises(BlobStoreUnavailableError):
        await store.put("a/b", Streamed(data), size=SIZE, content_type="a/b")
    monkeypatch.setattr(os, "preadv", preadv)
    assert left(tmp_path) == []
    await put(store, "a/b", data)
    assert await read(store, "a/b") == data


async def test_more_uploads_than_threads_take_turns(store: LocalStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hashing, "_STEPS_IN_A_TURN", 1)
    monkeypatch.setattr(hashing, "_STEP_BYTES", 65_537)
    datas = [content(SIZE + number) for number in range(24)]
    puts = (
        store.put(f"a/{number}", Streamed(data), size=len(data), content_type="a/b")
        for number, data in enumerate(datas)
    )
    infos = await asyncio.gather(*puts)
    assert [info.sha256 for info in infos] == [hex_sha256(data) for data in datas]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_store_that_closes_meanwhile_is_an_error_and_no_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
):
    """Its threads take nothing more, neither at the first step nor at a later one."""
    monkeypatch.setattr(hashing, "_STEPS_IN_A_TURN", 1)
    helpers = ThreadPoolExecutor(1)
    is_held = threading.Event()
    helpers.submit(is_held.wait)
    writer = FileWriter(tmp_path, helpers)
    if steps:
        writer.write(content(MIB))
    helpers.shutdown(wait=False)
    is_held.set()
    with pytest.raises(RuntimeError):
        write_all(writer)
    writer.close()
    assert list(tmp_path.iterdir()) == []


def write_all(writer: FileWriter) -> None:
    writer.write(content(MIB))
    writer.finish(None)

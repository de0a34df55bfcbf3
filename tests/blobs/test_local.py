"""What the directory adds to the contract: files that can be sent as they are, folders, and many names."""

import asyncio
import fcntl
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from pilotis.blobs import local, writing
from pilotis.blobs.errors import BlobNotFoundError, DraftLockedError, InvalidKeyError, SizeMismatchError
from pilotis.blobs.local import LocalStore
from pilotis.blobs.protocol import Draft
from tests.blobs.support import MIB, chunked, content, hex_sha256, keys, put, read
from tests.waiting import until


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    return tmp_path / "blobs" / "objects"


async def test_the_file_itself(store: LocalStore, objects: Path):
    await put(store, "blobs/a/1", b"bytes")
    assert (objects / "blobs" / "a" / "1").read_bytes() == b"bytes"
    file = store.open_file("blobs/a/1")
    assert file is not None
    await store.delete(["blobs/a/1"])
    assert os.pread(file, 100, 1) == b"ytes", "An open file is read to its end as it was."
    assert not os.get_inheritable(file)
    os.close(file)
    assert store.open_file("blobs/a/1") is None
    assert store.open_file("blobs/a") is None
    assert store.open_file("blobs/a/1/2") is None


async def test_nobody_else_on_the_machine_may_read(store: LocalStore, tmp_path: Path):
    await put(store, "blobs/a/1", b"bytes")
    for path in (tmp_path / "blobs").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


async def test_nothing_stays_in_tmp(store: LocalStore, tmp_path: Path):
    await put(store, "staging/a/1", b"bytes")
    await store.copy("staging/a/1", "blobs/a/1")
    await store.copy("staging/a/1", "blobs/a/1")
    with pytest.raises(BlobNotFoundError):
        await store.copy("staging/a/2", "blobs/a/1")
    with pytest.raises(SizeMismatchError):
        await store.put("blobs/a/2", chunked(content(5000)), size=4000, content_type="a/b")
    upload = asyncio.ensure_future(store.put("blobs/a/2", stalled(), size=5 * MIB, content_type="a/b"))
    await until(lambda: list((tmp_path / "blobs" / "tmp").iterdir()))
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert list((tmp_path / "blobs" / "tmp").iterdir()) == []


async def test_an_upload_that_is_cancelled_while_its_file_is_created_leaves_nothing(store: LocalStore, tmp_path: Path):
    for _ in range(300):
        upload = asyncio.ensure_future(store.put("blobs/a/1", stalled(), size=5 * MIB, content_type="a/b"))
        await asyncio.sleep(0)
        await asyncio.sleep(random.random() / 2000)
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
    assert list((tmp_path / "blobs" / "tmp").iterdir()) == []


async def stalled() -> AsyncIterator[bytes]:
    yield bytes(2 * MIB)
    await asyncio.sleep(3600)


async def test_no_key_is_the_folder_of_another(store: LocalStore):
    await put(store, "a/b", b"x")
    for key in ("a", "a/b/c"):
        with pytest.raises(InvalidKeyError):
            await put(store, key, b"y")
        with pytest.raises(BlobNotFoundError):
            await read(store, key)
        with pytest.raises(InvalidKeyError):
            await store.copy("a/b", key)
        assert await store.stat(key) is None
        await store.delete([key])
    assert await read(store, "a/b") == b"x"


async def test_a_copy_takes_no_room(store: LocalStore, objects: Path):
    await put(store, "staging/a/1", content(1000))
    await store.copy("staging/a/1", "blobs/a/1")
    assert (objects / "staging/a/1").samefile(objects / "blobs/a/1")


async def test_a_copy_where_links_are_used_up(store: LocalStore, objects: Path, tmp_path: Path):
    await put(store, "staging/a/1", content(1000))
    source = objects / "staging/a/1"
    most = os.pathconf(source, "PC_LINK_MAX")
    if most > 70_000:
        pytest.skip("needs a file system with few links to a file, as ext4")
    (tmp_path / "links").mkdir()
    for number in range(most - source.stat().st_nlink):
        os.link(source, tmp_path / "links" / str(number))
    with suppress(OSError):
        os.link(source, tmp_path / "links" / "more")
        pytest.skip("needs a file system with few links to a file, as ext4")
    copied = await store.copy("staging/a/1", "blobs/a/1")
    assert (copied.sha256, copied.content_type) == (hex_sha256(content(1000)), "image/png")
    assert not (objects / "blobs/a/1").samefile(source)


async def test_without_extended_attributes_the_rest_is_known(store: LocalStore, objects: Path):
    info = await put(store, "a", b"bytes")
    path = objects / "a"
    if not os.listxattr(path):
        pytest.skip("this file system has no extended attributes")
    os.removexattr(path, writing._ATTRIBUTE)
    bare = await store.stat("a")
    assert bare is not None
    assert (bare.size, bare.sha256, bare.content_type, bare.modified_at) == (5, None, None, info.modified_at)
    assert bare.etag
    assert (await store.copy("a", "b")).size == 5


async def test_a_folder_of_many_names_is_listed_in_pages(store: LocalStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "_NAMES_PER_SCAN", 10)
    monkeypatch.setattr(local, "_LIST_BATCH", 7)
    names = sorted([f"a/{number:03}" for number in range(95)] + [f"a/{number:03}-/x" for number in range(50, 60)])
    for name in names:
        path = store._objects / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert await keys(store) == names
    assert await keys(store, "a", after="a/040") == names[41:]


async def test_check_finds_nothing_wrong(store: LocalStore):
    assert [problem for problem in await store.check() if "MB are free" not in problem] == []
    assert await keys(store) == []


async def test_two_processes_share_the_directory(store: LocalStore, tmp_path: Path):
    other = LocalStore(tmp_path / "blobs")
    await put(store, "a", b"x")
    assert await read(other, "a") == b"x"
    await other.close()


async def test_a_file_that_got_its_final_name_meanwhile_is_not_appended_to(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another process finishes the draft between this one's opening and locking it."""
    objects = tmp_path / "blobs" / "objects"
    data = content(100_000)
    (draft,) = [step async for step in store.append("drafts/a/1", Draft(), chunked(data), size=len(data))]
    lock = fcntl.flock

    def late(file: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        (objects / "blobs").mkdir()
        (objects / "drafts" / "a" / "1").rename(objects / "blobs" / "1")
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(DraftLockedError):
        await anext(store.append("drafts/a/1", Draft(), chunked(b"x"), size=len(data)))
    assert draft.size == len(data)
    assert await read(store, "blobs/1") == data

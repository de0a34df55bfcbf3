"""Equal blobs of one app share their bytes in a directory, and nothing else."""

import asyncio
import errno
import os
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pilotis.blobs.local import LocalStore
from pilotis.blobs.protocol import Draft
from tests.blobs.support import content, hex_sha256, keys, put, read

DATA = content(100_000)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    opened = LocalStore(tmp_path / "blobs")
    await put(opened, "probe/a", b"x")
    if not os.listxattr(tmp_path / "blobs/objects/probe/a"):
        pytest.skip("this file system has no extended attributes")
    await opened.delete(["probe/a"])
    yield opened
    await opened.close()


def files(tmp_path: Path, below: str) -> list[Path]:
    return sorted(path for path in (tmp_path / "blobs" / below).rglob("*") if path.is_file())


def distinct(paths: list[Path]) -> int:
    return len({path.stat().st_ino for path in paths})


async def test_equal_blobs_of_one_folder_are_one_file(store: LocalStore, tmp_path: Path):
    for key in ("blobs/a/1", "blobs/a/2", "blobs/a/3"):
        info = await put(store, key, DATA)
        assert info.sha256 == hex_sha256(DATA)
        assert await store.stat(key) == info
    assert distinct(files(tmp_path, "objects")) == 1
    assert await keys(store) == ["blobs/a/1", "blobs/a/2", "blobs/a/3"]
    await store.delete(["blobs/a/2", "blobs/a/1"])
    assert await read(store, "blobs/a/3") == DATA
    assert len(files(tmp_path, "contents")) == 1
    await store.delete(["blobs/a/3", "blobs/a/3"])
    assert files(tmp_path, "contents") == files(tmp_path, "objects") == files(tmp_path, "tmp") == []


async def test_another_app_another_type_and_other_bytes_have_files_of_their_own(store: LocalStore, tmp_path: Path):
    await put(store, "blobs/a/1", DATA)
    await put(store, "blobs/b/1", DATA)
    await put(store, "blobs/a/2", DATA[:-1])
    await put(store, "blobs/a/3", DATA, content_type="another/type")
    assert distinct(files(tmp_path, "objects")) == 4
    third = await store.stat("blobs/a/3")
    assert third is not None
    assert third.content_type == "another/type"


async def test_what_is_replaced_lets_go_of_its_content(store: LocalStore, tmp_path: Path):
    await put(store, "blobs/a/1", DATA)
    await put(store, "blobs/a/1", b"others")
    assert [path.name[:64] for path in files(tmp_path, "contents")] == [hex_sha256(b"others")]
    await put(store, "blobs/a/1", b"others")
    assert await read(store, "blobs/a/1") == b"others"
    assert distinct(files(tmp_path, "objects") + files(tmp_path, "contents")) == 1


async def test_a_draft_finds_its_bytes_too(store: LocalStore, tmp_path: Path):
    await put(store, "blobs/a/1", DATA, content_type="a/b")
    draft = [grown async for grown in store.append("drafts/a/1", Draft(), chunks(DATA), size=len(DATA))][-1]
    for _ in range(2):  # a repeat has the same result
        await store.finish("drafts/a/1", draft, "blobs/a/2", size=len(DATA), content_type="a/b")
    await store.discard("drafts/a/1")
    await store.finish("drafts/a/1", draft, "blobs/a/2", size=len(DATA), content_type="a/b")
    assert await read(store, "blobs/a/2") == DATA
    assert distinct(files(tmp_path, "objects")) == 1
    await store.delete(["blobs/a/1", "blobs/a/2"])
    assert files(tmp_path, "contents") == files(tmp_path, "objects") == []


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


@pytest.mark.parametrize("error", [errno.EMLINK, errno.EPERM])
async def test_where_a_file_takes_no_more_names(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
):
    await put(store, "blobs/a/1", DATA)

    def refuse(*_: object) -> None:
        raise OSError(error, "no more")

    monkeypatch.setattr(os, "link", refuse)
    await put(store, "blobs/a/2", DATA)
    await put(store, "blobs/a/3", b"new")
    assert distinct(files(tmp_path, "objects")) == 3
    await store.delete(["blobs/a/1", "blobs/a/3"])
    assert await read(store, "blobs/a/2") == DATA
    assert files(tmp_path, "contents") == []


async def churn(tmp_path: Path, store: LocalStore, key_of: Callable[[int], str]) -> list[bytes]:
    """Put and delete a few contents, all at the same time, by two stores on one directory; returns the contents."""
    other = LocalStore(tmp_path / "blobs")
    order = random.Random(1)
    contents = [content(1000 + number) for number in range(3)]

    async def act(number: int) -> None:
        here, key = (store, other)[number % 2], key_of(number)
        for _ in range(20):
            if order.random() < 0.6:
                await put(here, key, order.choice(contents))
            else:
                await here.delete([key])

    await asyncio.gather(*(act(number) for number in range(40)))
    await other.close()
    for path in files(tmp_path, "contents"):
        assert path.name.startswith(hex_sha256(path.read_bytes()) + ".")
    for key in await keys(store):
        info = await store.stat(key)
        data = await read(store, key)
        assert info is not None
        assert data in contents
        assert info.sha256 == hex_sha256(data)
    return contents


async def test_uploads_that_come_and_go_at_once_leave_nothing(store: LocalStore, tmp_path: Path):
    await churn(tmp_path, store, "blobs/a/{}".format)
    blobs = {path.stat().st_ino for path in files(tmp_path, "objects")}
    assert {path.stat().st_ino for path in files(tmp_path, "contents")} == blobs
    await store.delete(await keys(store))
    assert files(tmp_path, "contents") == files(tmp_path, "tmp") == files(tmp_path, "objects") == []


async def test_a_content_has_its_own_name_whoever_else_writes_to_its_keys(store: LocalStore, tmp_path: Path):
    contents = await churn(tmp_path, store, lambda number: f"blobs/a/{number % 4}")
    # A name may be left over, for the next blob with this content.
    for number, data in enumerate(contents):
        await put(store, f"blobs/a/new{number}", data)
        assert await read(store, f"blobs/a/new{number}") == data
    assert files(tmp_path, "tmp") == []

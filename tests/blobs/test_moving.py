"""Two stores during a move, and the copying from one to the other."""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from pilotis.blobs import mover as mover_module
from pilotis.blobs.errors import BlobNotFoundError, BlobStoreUnavailableError
from pilotis.blobs.local import LocalStore
from pilotis.blobs.mover import Mover
from pilotis.blobs.moving import MovingStore
from pilotis.blobs.objects import PART_BYTES, ObjectStore
from pilotis.blobs.protocol import BlobInfo, BlobStore, Draft
from pilotis.kit.errors import StorageFullError
from tests.blobs.support import chunked, content, keys, put, read
from tests.waiting import until

KEYS = [f"blobs/a/{number}" for number in range(7)]


@pytest.fixture(params=[False, True], ids=["to the object store", "to the directory"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MovingStore]:
    """A directory and an object store, in both orders."""
    current, previous = ObjectStore(MemoryStore()), LocalStore(tmp_path / "files")
    made = MovingStore(previous, current) if request.param else MovingStore(current, previous)
    yield made
    await made.close()


async def no_digests(_: Sequence[str]) -> Mapping[str, bytes]:
    return {}


def mover(store: MovingStore, target: BlobStore | None = None) -> Mover:
    return Mover(store.previous, target or store.current, no_digests)


async def test_both_stores_are_one(pair: MovingStore):
    for store, key in ((pair.previous, "blobs/a/1"), (pair.current, "blobs/a/2"), (pair.previous, "blobs/b/1")):
        await put(store, key, content(1000))
    await put(pair.current, "blobs/b/1", content(1000))
    await put(pair, "blobs/b/2", content(2000, 1))
    assert await pair.previous.stat("blobs/b/2") is None
    assert await keys(pair) == ["blobs/a/1", "blobs/a/2", "blobs/b/1", "blobs/b/2"]
    assert await keys(pair, "blobs/b") == ["blobs/b/1", "blobs/b/2"]
    assert await keys(pair, after="blobs/a/2") == ["blobs/b/1", "blobs/b/2"]
    for key in ("blobs/a/1", "blobs/a/2"):
        assert await read(pair, key, 10, 20) == content(1000)[10:20]
        assert await read(pair, key, 5000) == b""
        info = await pair.stat(key)
        assert info is not None
        assert info.size == 1000
    with pytest.raises(BlobNotFoundError):
        await read(pair, "blobs/a/3")
    # What is staged in the previous store is completed in the current one.
    await put(pair.previous, "staging/a/1", content(3000, 2))
    await pair.copy("staging/a/1", "blobs/c/1")
    assert await read(pair.current, "blobs/c/1") == content(3000, 2)
    with pytest.raises(BlobNotFoundError):
        await pair.copy("staging/a/2", "blobs/c/2")
    await pair.delete(await keys(pair))
    assert await keys(pair.current) + await keys(pair.previous) == []
    assert await pair.check() == []


async def test_a_draft_ends_in_the_store_in_which_it_began(pair: MovingStore):
    data = content(2 * PART_BYTES)
    for begun, key in ((pair.previous, "drafts/a/1"), (pair.current, "drafts/a/2")):
        draft, target = Draft(), key.replace("drafts", "blobs")
        for store, start, end in ((begun, 0, PART_BYTES), (pair, PART_BYTES, len(data))):
            assert not draft.size or await pair.has_draft(key, draft, size=len(data))
            async for step in store.append(key, draft, chunked(data[start:end]), size=len(data)):
                draft = step
        for _ in range(2):
            await pair.finish(key, draft, target, size=len(data), content_type="image/png")
            assert await read(begun, target) == data
        await pair.discard(key)
        assert await keys(pair, "drafts") == []
    lost = Draft(1000, ((0, "0123456789abcdef"),))
    assert not await pair.has_draft("drafts/a/3", lost, size=2000)
    with pytest.raises(BlobNotFoundError):
        await anext(pair.append("drafts/a/3", lost, chunked(b"x"), size=2000))


class Faulty(ObjectStore):
    """Fails to answer every third upload, once it has it, and from some number on before it has it."""

    def __init__(self, last: int) -> None:
        super().__init__(MemoryStore())
        self.puts, self.last = 0, last
        self.fails_once: Callable[[], bool] = lambda: True

    async def put(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        number = self.puts = self.puts + 1
        if number > self.last:
            await until(self.fails_once)
            raise BlobStoreUnavailableError
        info = await super().put(key, chunks, size=size, content_type=content_type, sha256=sha256)
        if number % 3 == 0:
            raise BlobStoreUnavailableError
        return info


async def test_a_move_that_was_interrupted_continues(pair: MovingStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mover_module, "_FIRST_PAUSE", 0.001)
    for number, key in enumerate(KEYS):
        await put(pair.previous, key, content(500, number), "text/plain")
    await put(pair.previous, "staging/a/1", b"unfinished")
    target = Faulty(5)
    first = mover(pair, target)
    # The failure ends the others, which may have been answered and not counted yet.
    target.fails_once = lambda: first.copied >= 4
    with pytest.raises(BlobStoreUnavailableError):
        await first.run()
    target.last = 1000
    second = mover(pair, target)
    await second.run()
    assert second.already_there >= first.copied >= 4
    assert second.copied + second.already_there == len(KEYS)
    assert await keys(target) == KEYS
    for number, key in enumerate(KEYS):
        assert await read(target, key) == content(500, number)
    third = mover(pair, target)
    await third.run()
    assert (third.copied, third.already_there) == (0, len(KEYS))


async def test_bytes_that_are_not_those_of_the_database_are_not_moved(pair: MovingStore):
    for number, key in enumerate(KEYS):
        await put(pair.previous, key, content(500, number))
    # A blob of another size is not taken for the same.
    await put(pair.current, KEYS[0], b"short")

    async def digests(asked: Sequence[str]) -> Mapping[str, bytes]:
        assert set(asked) <= set(KEYS)
        return {KEYS[0]: hashlib.sha256(content(500, 0)).digest(), KEYS[1]: bytes(32)}

    moving = Mover(pair.previous, pair.current, digests)
    await moving.run()
    assert moving.wrong == [KEYS[1]]
    assert await keys(pair.current) == [key for key in KEYS if key != KEYS[1]]
    assert await read(pair.current, KEYS[0]) == content(500, 0)


async def test_a_blob_that_is_deleted_meanwhile_is_not_left(pair: MovingStore, monkeypatch: pytest.MonkeyPatch):
    await put(pair.previous, KEYS[0], b"x")
    store = pair.current.put

    async def late(key: str, chunks: AsyncIterator[bytes], **more: object) -> BlobInfo:
        await pair.delete([key])
        return await store(key, chunks, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(pair.current, "put", late)
    moving = mover(pair)
    await moving.run()
    assert (moving.copied, moving.wrong, await keys(pair)) == (0, [], [])


async def test_a_full_disk_ends_the_move(tmp_path: Path):
    previous = ObjectStore(MemoryStore())
    for key in KEYS:
        await put(previous, key, b"x")
    full = LocalStore(tmp_path / "full", reserve_bytes=2**62)
    with pytest.raises(StorageFullError):
        await Mover(previous, full, no_digests).run()
    assert await keys(full) == []
    assert list((tmp_path / "full" / "tmp").iterdir()) == []
    await full.close()

"""What every object store keeps to; see `pilotis.blobs.protocol`."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pilotis.blobs.errors import (
    BlobNotFoundError,
    DigestMismatchError,
    DraftLockedError,
    InvalidKeyError,
    SizeMismatchError,
)
from pilotis.blobs.objects import PART_BYTES
from pilotis.blobs.protocol import BlobInfo, BlobStore, Draft
from tests.blobs.conftest import opened
from tests.blobs.support import MIB, chunked, content, hex_sha256, keys, put, read
from tests.waiting import PATIENCE

pytestmark = pytest.mark.share(0.34)

KEY = "blobs/0198c0de-0000-7000-8000-000000000000/0198c0de-0000-7000-8000-000000000001"
BOTH_WAYS = [100_000, PART_BYTES + 100_000]
"""Object stores take the second size in parts."""


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 3])
async def test_what_goes_in_comes_out(store: BlobStore, size: int):
    data = content(size)
    before = datetime.now(UTC) - timedelta(seconds=2)
    info = await put(store, KEY, data, sha256=hashlib.sha256(data).digest())
    assert (info.key, info.size, info.sha256, info.content_type) == (KEY, size, hex_sha256(data), "image/png")
    assert before <= info.modified_at <= datetime.now(UTC) + timedelta(seconds=2)
    assert await read(store, KEY) == data
    known = await store.stat(KEY)
    assert known is not None
    assert (known.key, known.size, known.etag) == (KEY, size, info.etag)
    assert known.sha256 in {None, info.sha256}
    assert known.content_type in {None, "image/png"}
    assert abs(known.modified_at - info.modified_at) < timedelta(seconds=2)


@pytest.mark.parametrize("step", [1, 7, MIB - 1, 3 * MIB])
async def test_chunks_may_be_of_any_length(store: BlobStore, step: int):
    data = content(2000 if step < 10 else 4 * MIB)
    await store.put(KEY, chunked(data, step), size=len(data), content_type="text/plain")
    assert await read(store, KEY) == data


async def test_a_put_replaces_what_was_there(store: BlobStore):
    first = await put(store, KEY, content(5000, 1))
    second = await put(store, KEY, content(5000, 2), "text/plain")
    assert first.etag != second.etag
    assert await read(store, KEY) == content(5000, 2)
    assert await keys(store) == [KEY]


@pytest.mark.parametrize("size", BOTH_WAYS)
@pytest.mark.parametrize("off", [-1, 1, -50_000, 50_000])
async def test_another_size_than_declared(store: BlobStore, size: int, off: int):
    data = content(size + off)
    with pytest.raises(SizeMismatchError):
        await store.put(KEY, chunked(data), size=size, content_type="image/png")
    assert await store.stat(KEY) is None
    assert await keys(store) == []


async def test_a_body_without_end_is_cut_off_at_the_declared_size(store: BlobStore):
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            yield bytes(1000)

    with pytest.raises(SizeMismatchError):
        await store.put(KEY, endless(), size=10_000, content_type="image/png")
    assert given == 11


@pytest.mark.parametrize("size", BOTH_WAYS)
async def test_another_digest_than_declared(store: BlobStore, size: int):
    with pytest.raises(DigestMismatchError):
        await put(store, KEY, content(size), sha256=hashlib.sha256(b"other").digest())
    assert await store.stat(KEY) is None


@pytest.mark.parametrize("size", BOTH_WAYS)
async def test_a_refused_put_leaves_what_was_there(store: BlobStore, size: int):
    await put(store, KEY, b"before")
    with pytest.raises(SizeMismatchError):
        await store.put(KEY, chunked(content(size)), size=size + 1, content_type="image/png")
    with pytest.raises(DigestMismatchError):
        await put(store, KEY, content(size), sha256=bytes(32))
    assert await read(store, KEY) == b"before"


@pytest.mark.parametrize("size", BOTH_WAYS)
async def test_the_error_of_a_broken_connection_comes_through(store: BlobStore, size: int):
    async def broken() -> AsyncIterator[bytes]:
        async for chunk in chunked(content(size - 1)):
            yield chunk
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await store.put(KEY, broken(), size=size, content_type="image/png")
    assert await store.stat(KEY) is None


@pytest.mark.parametrize("size", BOTH_WAYS)
async def test_a_cancelled_put_leaves_nothing(store: BlobStore, size: int):
    reached = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        async for chunk in chunked(content(size - 1)):
            yield chunk
        reached.set()
        await asyncio.sleep(60)

    upload = asyncio.ensure_future(store.put(KEY, stalled(), size=size, content_type="image/png"))
    await reached.wait()
    assert await store.stat(KEY) is None, "visible before it was whole"
    assert await keys(store) == []
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await store.stat(KEY) is None


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, None),
        (0, 1),
        (1, None),
        (299_999, None),
        (299_999, 300_000),
        (100, 200),
        (262_143, 262_145),
        (0, 300_000),
        (0, 900_000),
        (299_999, 900_000),
        (300_000, None),
        (300_000, 300_001),
        (900_000, None),
        (900_000, 900_001),
        (10, 10),
        (10, 5),
        (0, 0),
    ],
)
async def test_ranges(store: BlobStore, start: int, end: int | None):
    data = content(300_000)
    await put(store, KEY, data)
    assert await read(store, KEY, start, end) == (data[start:end] if end is None or end > start else b"")


async def test_ranges_of_an_empty_blob(store: BlobStore):
    await put(store, KEY, b"")
    for start, end in [(0, None), (0, 1), (1, None), (1, 2)]:
        assert await read(store, KEY, start, end) == b""


@pytest.mark.parametrize(("start", "end"), [(0, None), (0, 10), (5, None), (5, 5)])
async def test_reading_what_is_not_there(store: BlobStore, start: int, end: int | None):
    with pytest.raises(BlobNotFoundError):
        await read(store, KEY, start, end)
    assert await store.stat(KEY) is None
    assert store.open_file(KEY) is None


async def test_a_large_blob_comes_in_small_chunks_and_reading_can_end_early(store: BlobStore):
    data = content(3 * MIB)
    await put(store, KEY, data)
    reading = store.open(KEY)
    first = await anext(reading)
    await reading.aclose()
    assert 0 < len(first) <= MIB
    assert data.startswith(first)


async def test_a_blob_replaced_while_it_is_read_is_not_mixed_with_the_new_one(store: BlobStore):
    old, new = content(3 * MIB, 1), content(3 * MIB, 2)
    await put(store, KEY, old)
    reading = store.open(KEY)
    got = await anext(reading)
    await put(store, KEY, new)
    async for chunk in reading:
        got += chunk
    assert got == old
    assert await read(store, KEY) == new


async def test_concurrent_puts_on_one_key(store: BlobStore):
    contents = [content(400_000, seed) for seed in range(6)]
    await put(store, KEY, contents[0])
    puts = [asyncio.ensure_future(put(store, KEY, data)) for data in contents]
    while not all(upload.done() for upload in puts):
        assert await read(store, KEY) in contents
    await asyncio.gather(*puts)
    assert await read(store, KEY) in contents
    assert await keys(store) == [KEY]


@pytest.mark.parametrize("size", [0, *BOTH_WAYS])
async def test_copy(store: BlobStore, size: int):
    data = content(size)
    await put(store, "staging/a/1", data)
    copied = await store.copy("staging/a/1", "blobs/a/1")
    assert (copied.key, copied.size) == ("blobs/a/1", size)
    assert copied.sha256 in {None, hex_sha256(data)}
    assert copied.content_type in {None, "image/png"}
    assert await store.stat("blobs/a/1") == copied
    assert await read(store, "blobs/a/1") == data
    assert await read(store, "staging/a/1") == data


async def test_a_copy_lives_on_its_own(store: BlobStore):
    await put(store, "staging/a/1", b"first")
    await store.copy("staging/a/1", "blobs/a/1")
    await put(store, "staging/a/1", b"second")
    assert await read(store, "blobs/a/1") == b"first"
    await store.delete(["staging/a/1"])
    assert await read(store, "blobs/a/1") == b"first"


async def test_a_copy_replaces_what_was_there_and_can_be_repeated(store: BlobStore):
    await put(store, "blobs/a/1", b"old")
    await put(store, "staging/a/1", b"new")
    await store.copy("staging/a/1", "blobs/a/1")
    await store.copy("staging/a/1", "blobs/a/1")
    assert await read(store, "blobs/a/1") == b"new"
    assert await keys(store) == ["blobs/a/1", "staging/a/1"]


async def test_a_copy_replaces_at_once(store: BlobStore):
    await put(store, "staging/a/1", content(1000, 1))
    await put(store, "blobs/a/1", content(1000, 2))
    end = asyncio.get_running_loop().time() + 1

    async def copy_on() -> None:
        while asyncio.get_running_loop().time() < end:
            await put(store, "staging/a/1", content(1000, 1))
            await store.copy("staging/a/1", "blobs/a/1")

    async def read_on() -> None:
        while asyncio.get_running_loop().time() < end:
            assert await read(store, "blobs/a/1") in {content(1000, 1), content(1000, 2)}

    await asyncio.gather(copy_on(), *(read_on() for _ in range(5)))


async def test_copies_of_what_is_just_being_put(store: BlobStore):
    await put(store, "staging/a/1", b"first")
    uploads = asyncio.ensure_future(repeat_put(store, "staging/a/1", 10))
    async with asyncio.timeout(PATIENCE):
        while not uploads.done():
            await asyncio.gather(*(store.copy("staging/a/1", f"blobs/a/{number}") for number in range(12)))
    await uploads
    assert await read(store, "blobs/a/0") in {b"first", content(1000)}


async def repeat_put(store: BlobStore, key: str, times: int) -> None:
    for _ in range(times):
        await put(store, key, content(1000))


async def test_a_copy_of_nothing(store: BlobStore):
    await put(store, "blobs/a/1", b"old")
    with pytest.raises(BlobNotFoundError):
        await store.copy("staging/a/1", "blobs/a/1")
    assert await read(store, "blobs/a/1") == b"old"


async def test_delete(store: BlobStore):
    for number in range(3):
        await put(store, f"blobs/a/{number}", b"x")
    await store.delete(["blobs/a/0", "blobs/a/missing", "blobs/b/missing", "blobs/a/2"])
    assert await keys(store) == ["blobs/a/1"]
    await store.delete(["blobs/a/0"])
    await store.delete([])


async def test_delete_of_many(store: BlobStore):
    many = [f"blobs/a/{number}" for number in range(150)]
    for key in (many[0], many[-1]):
        await put(store, key, b"x")
    await store.delete(many)
    assert await keys(store) == []


async def test_list_goes_by_key(store: BlobStore):
    names = ["a/b/c", "a/b-c/d", "a/b.c/d", "a/b_c/d", "a/b/c-d", "a-b/c", "a/z", "a0/c", "a.b", "z", "0"]
    for name in names:
        await put(store, name, name.encode())
    assert await keys(store) == sorted(names)
    listed = [info async for info in store.list("")]
    assert all(info.size == len(info.key) for info in listed)
    for info in listed:
        known = await store.stat(info.key)
        assert known is not None
        assert abs(known.modified_at - info.modified_at) < timedelta(seconds=2)


async def test_list_below_a_folder(store: BlobStore):
    names = ["a/b/1", "a/b/2", "a/bc/1", "a/b-c/1", "a/c", "b/b/1"]
    for name in names:
        await put(store, name, b"x")
    assert await keys(store, "a/b") == ["a/b/1", "a/b/2"]
    assert await keys(store, "a/b/") == ["a/b/1", "a/b/2"]
    assert await keys(store, "a") == sorted(name for name in names if name.startswith("a/"))
    assert await keys(store, "missing") == []


async def test_list_goes_on_after_a_key(store: BlobStore):
    names = ["a/1", "a/2", "a/20", "b-1/2", "b/1/2", "c"]
    for name in names:
        await put(store, name, b"x")
    for position, name in enumerate(names):
        assert await keys(store, after=name) == names[position + 1 :], name
    for between in ["0", "a", "a/10", "b", "b/1", "b/1/3", "b/9", "d"]:
        assert await keys(store, after=between) == [name for name in names if name > between], between


NO_KEYS = ["", "/", "a//b", "/a", "a/", ".", "..", "a/../b", "a/./b", ".a", "a/.b", "A", "ä", "한"]
NO_KEYS += ["a b", "a\0b", "a\n", "a\\b", "a%2fb", "a:b", "a?b", "a" * 201, "/".join(["a" * 100] * 6)]


@pytest.mark.parametrize("key", NO_KEYS)
async def test_what_is_no_key(store: BlobStore, key: str):
    with pytest.raises(InvalidKeyError):
        await put(store, key, b"x")
    with pytest.raises(InvalidKeyError):
        await read(store, key)
    with pytest.raises(InvalidKeyError):
        await store.stat(key)
    with pytest.raises(InvalidKeyError):
        await store.copy(key, "a")
    await put(store, "a", b"x")
    with pytest.raises(InvalidKeyError):
        await store.copy("a", key)
    with pytest.raises(InvalidKeyError):
        await store.delete(["a", key])
    with pytest.raises(InvalidKeyError):
        store.presign_put(key, size=1, content_type="a/b", sha256=None, expires_seconds=1)
    with pytest.raises(InvalidKeyError):
        store.presign_get(key, expires_seconds=1)
    with pytest.raises(InvalidKeyError):
        store.open_file(key)
    assert await keys(store) == ["a"]


@pytest.mark.parametrize("key", ["a", "0", "-", "_", "a.b-c_d", "a" * 200, "/".join(["a" * 100] * 5), "a/b/c/d/e"])
async def test_what_is_a_key(store: BlobStore, key: str):
    await put(store, key, b"x")
    assert await read(store, key) == b"x"
    assert await keys(store) == [key]


async def test_many_at_once(store: BlobStore):
    names = [f"blobs/a/{number:03}" for number in range(60)]
    await asyncio.gather(*(put(store, name, name.encode()) for name in names))
    assert await asyncio.gather(*(read(store, name) for name in names)) == [name.encode() for name in names]


DRAFT = "drafts/a/1"
GROWN = "blobs/a/1"
MUCH = 2 * PART_BYTES + 300_000


async def grow(store: BlobStore, draft: Draft, data: bytes, size: int, *, whole: bool = False) -> list[Draft]:
    """Append to a draft; all that was yielded."""
    steps: list[Draft] = []
    await gather_steps(steps, store.append(DRAFT, draft, chunked(data), size=size, whole=whole))
    return steps


async def gather_steps(steps: list[Draft], appending: AsyncIterator[Draft]) -> None:
    async for step in appending:
        steps.append(step)


async def finished(store: BlobStore, draft: Draft, size: int, **more: bytes) -> BlobInfo:
    return await store.finish(DRAFT, draft, GROWN, size=size, content_type="image/png", **more)


@pytest.mark.parametrize(
    "lengths",
    [
        [MUCH],
        [1, MUCH - 1],
        [100_000] * 7,
        pytest.param([PART_BYTES - 1, 1, 1, PART_BYTES, 300_000 - 1], marks=pytest.mark.whole),
        [PART_BYTES, PART_BYTES],
        [5, 0, 5],
        pytest.param([0], marks=pytest.mark.whole),
        [],
    ],
)
@pytest.mark.parametrize("whole", [False, True])
async def test_a_draft_grows_into_a_blob(store: BlobStore, lengths: list[int], whole: bool):
    data = content(sum(lengths))
    draft = Draft()
    for length in lengths:
        steps = await grow(store, draft, data[draft.size : draft.size + length], len(data), whole=whole)
        assert [step.size for step in steps] == sorted({step.size for step in steps} - {draft.size})
        assert len(steps) == (1 if length else 0) or not whole
        expected = draft.size + length
        draft = steps[-1] if steps else draft
        assert draft.size == expected
    assert await store.stat(GROWN) is None
    assert await keys(store, "blobs") == []
    info = await finished(store, draft, len(data), sha256=hashlib.sha256(data).digest())
    assert (info.key, info.size, info.sha256, info.content_type) == (GROWN, len(data), hex_sha256(data), "image/png")
    assert await read(store, GROWN) == data
    known = await store.stat(GROWN)
    assert known is not None
    assert (known.size, known.etag, known.sha256 or info.sha256) == (len(data), info.etag, info.sha256)
    await store.discard(DRAFT)
    assert await keys(store) == [GROWN]


async def test_a_draft_can_be_continued_by_another_process(url: str, tmp_path: Path):
    data = content(MUCH)
    first, second = opened(url, tmp_path), opened(url, tmp_path)
    draft = (await grow(first, Draft(), data[: MUCH - 500_000], MUCH))[-1]
    draft = (await grow(second, draft, data[MUCH - 500_000 :], MUCH))[-1]
    await finished(first, draft, MUCH)
    assert await read(second, GROWN) == data
    await asyncio.gather(first.close(), second.close())


@pytest.mark.parametrize("come", [0, 1, 250_000, PART_BYTES + 5])
@pytest.mark.parametrize("before", [0, 7])
async def test_what_came_of_a_broken_append_is_kept(store: BlobStore, come: int, before: int):
    data = content(before + come + 10)
    draft = (await grow(store, Draft(), data[:before], len(data)) or [Draft()])[-1]

    async def broken() -> AsyncIterator[bytes]:
        async for chunk in chunked(data[before : before + come]):
            yield chunk
        raise ConnectionResetError

    steps = [draft]
    with pytest.raises(ConnectionResetError):
        await gather_steps(steps, store.append(DRAFT, draft, broken(), size=len(data)))
    draft = steps[-1]
    assert draft.size == before + come
    draft = (await grow(store, draft, data[before + come :], len(data)))[-1]
    await finished(store, draft, len(data))
    assert await read(store, GROWN) == data


@pytest.mark.parametrize("come", [1, 250_000, PART_BYTES + 5])
async def test_nothing_is_kept_of_a_broken_append_that_is_to_be_whole(store: BlobStore, come: int):
    data = content(1000 + come)
    draft = (await grow(store, Draft(), data[:1000], len(data)))[-1]
    before = await keys(store)

    async def broken() -> AsyncIterator[bytes]:
        async for chunk in chunked(content(come, 2)):
            yield chunk
        raise ConnectionResetError

    steps: list[Draft] = []
    with pytest.raises(ConnectionResetError):
        await gather_steps(steps, store.append(DRAFT, draft, broken(), size=len(data), whole=True))
    assert steps == []
    assert await keys(store) == before
    draft = (await grow(store, draft, data[1000:], len(data)))[-1]
    await finished(store, draft, len(data))
    assert await read(store, GROWN) == data


@pytest.mark.parametrize("lost", [3, 200_000, PART_BYTES + 9])
async def test_what_was_not_acknowledged_is_dropped(store: BlobStore, lost: int):
    """As after a crash between the bytes and the note that they are there."""
    data = content(1000 + PART_BYTES)
    draft = (await grow(store, Draft(), data[:1000], len(data)))[-1]
    async with aclosing(store.append(DRAFT, draft, chunked(content(lost, 3)), size=len(data))) as forgotten:
        assert (await anext(forgotten)).size > 1000
    draft = (await grow(store, draft, data[1000:], len(data)))[-1]
    assert draft.size == len(data)
    await finished(store, draft, len(data))
    assert await read(store, GROWN) == data


async def test_of_two_appends_at_once_one_is_locked_out_or_written_beside(store: BlobStore):
    """Where a store cannot lock, what the late one writes is not what the other's draft is made of."""
    data = content(3000)
    draft = (await grow(store, Draft(), data[:1000], len(data)))[-1]
    begun, going = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        yield content(500, 9)
        await going.wait()

    async with aclosing(store.append(DRAFT, draft, slow(), size=len(data))) as appending:
        late = asyncio.ensure_future(anext(appending))
        await begun.wait()
        try:
            won = (await grow(store, draft, data[1000:], len(data)))[-1]
        except DraftLockedError:
            won = None
        going.set()
        assert (await late).size == 1500
    if won is None:
        won = (await grow(store, draft, data[1000:], len(data)))[-1]
    await finished(store, won, len(data))
    assert await read(store, GROWN) == data


async def test_a_draft_of_other_bytes_than_declared(store: BlobStore):
    data = content(5000)
    draft = (await grow(store, Draft(), data, len(data)))[-1]
    with pytest.raises(DigestMismatchError):
        await finished(store, draft, len(data), sha256=bytes(32))
    assert await store.stat(GROWN) is None
    with pytest.raises(SizeMismatchError):
        await finished(store, draft, len(data) + 1)
    await finished(store, draft, len(data))
    assert await read(store, GROWN) == data


@pytest.mark.parametrize("size", BOTH_WAYS)
async def test_finishing_can_be_repeated(store: BlobStore, size: int):
    data = content(size)
    draft = (await grow(store, Draft(), data, size))[-1]
    first = await finished(store, draft, size)
    again = await finished(store, draft, size)
    assert (again.size, again.sha256) == (first.size, first.sha256)
    await store.discard(DRAFT)
    assert await read(store, GROWN) == data


async def test_a_draft_whose_bytes_are_gone(store: BlobStore):
    data = content(5000)
    draft = (await grow(store, Draft(), data, 9000))[-1]
    await store.discard(DRAFT)
    assert await keys(store) == []
    await store.discard(DRAFT)
    with pytest.raises(BlobNotFoundError):
        await grow(store, draft, data, 9000)
    with pytest.raises(BlobNotFoundError):
        await finished(store, draft, 5000)
    assert await store.stat(GROWN) is None
    assert (await grow(store, Draft(), data, 9000))[-1].size == 5000


async def test_drafts_are_listed_below_their_keys(store: BlobStore):
    await grow(store, Draft(), content(PART_BYTES + 10), 2 * PART_BYTES)
    found = await keys(store, "drafts")
    assert found
    assert all(f"{key}/".startswith(f"{DRAFT}/") for key in found)
    await store.delete(found)
    assert await keys(store) == []


@pytest.mark.parametrize("key", ["", "A", "a/../b", ".a"])
async def test_what_is_no_key_of_a_draft(store: BlobStore, key: str):
    with pytest.raises(InvalidKeyError):
        await anext(store.append(key, Draft(), chunked(b"x"), size=1))
    with pytest.raises(InvalidKeyError):
        await store.finish(key, Draft(), "a", size=0, content_type="a/b")
    with pytest.raises(InvalidKeyError):
        await store.finish(DRAFT, Draft(), key, size=0, content_type="a/b")

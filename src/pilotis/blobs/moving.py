"""Two object stores during a move from one to the other: what is not found in the one is looked for in the other."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime

from pilotis.blobs.errors import BlobNotFoundError, DigestMismatchError
from pilotis.blobs.protocol import BlobInfo, BlobStore, Draft, UploadTicket

_UNTYPED = "application/octet-stream"


class MovingStore:
    """A `BlobStore` that writes to `current`, and also reads from `previous` and deletes there.

    A blob below `blobs/` never changes, so it is the same in both. `pilotis.blobs.mover` copies the blobs.
    """

    def __init__(self, current: BlobStore, previous: BlobStore) -> None:
        self.current = current
        self.previous = previous

    async def put(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """See `BlobStore.put`."""
        return await self.current.put(key, chunks, size=size, content_type=content_type, sha256=sha256)

    async def append(
        self, key: str, draft: Draft, chunks: AsyncIterator[bytes], *, size: int, whole: bool = False
    ) -> AsyncGenerator[Draft]:
        """See `BlobStore.append`: a draft grows in the store in which it began."""
        store = self.current
        if draft.size and not await self.current.has_draft(key, draft, size=size):
            store = self.previous
        async with aclosing(store.append(key, draft, chunks, size=size, whole=whole)) as grown:
            async for step in grown:
                yield step

    async def finish(
        self, key: str, draft: Draft, target: str, *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """See `BlobStore.finish`: the blob is in the draft's store."""
        try:
            return await self.current.finish(key, draft, target, size=size, content_type=content_type, sha256=sha256)
        except BlobNotFoundError:
            return await self.previous.finish(key, draft, target, size=size, content_type=content_type, sha256=sha256)

    async def has_draft(self, key: str, draft: Draft, *, size: int) -> bool:
        """See `BlobStore.has_draft`."""
        return await self.current.has_draft(key, draft, size=size) or await self.previous.has_draft(
            key, draft, size=size
        )

    async def discard(self, key: str) -> None:
        """See `BlobStore.discard`."""
        await self.previous.discard(key)
        await self.current.discard(key)

    async def open(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """See `BlobStore.open`."""
        async with _first_found(self.current.open(key, start, end), self.previous.open(key, start, end)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def ping(self) -> None:
        """See `BlobStore.ping`: both stores are needed."""
        await self.current.ping()
        await self.previous.ping()

    async def stat(self, key: str) -> BlobInfo | None:
        """See `BlobStore.stat`."""
        return await self.current.stat(key) or await self.previous.stat(key)

    async def copy(self, source: str, target: str) -> BlobInfo:
        """See `BlobStore.copy`: into the current store, from the previous one through this server."""
        try:
            return await self.current.copy(source, target)
        except BlobNotFoundError:
            info = await self.previous.stat(source)
            if info is None:
                raise
            return await transfer(self.previous, info, self.current, target)

    async def delete(self, keys: Sequence[str]) -> None:
        """See `BlobStore.delete`. The previous store first: see `Mover`."""
        await self.previous.delete(keys)
        await self.current.delete(keys)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[BlobInfo]:
        """See `BlobStore.list`: what is in both is listed once."""
        async with (
            aclosing(self.current.list(prefix, after)) as ours,
            aclosing(self.previous.list(prefix, after)) as old,
        ):
            async for info, other in side_by_side(ours, old):
                if (found := info or other) is not None:
                    yield found

    def presign_put(
        self, key: str, *, size: int, content_type: str, sha256: bytes | None, expires_seconds: int
    ) -> UploadTicket | None:
        """See `BlobStore.presign_put`."""
        return self.current.presign_put(
            key, size=size, content_type=content_type, sha256=sha256, expires_seconds=expires_seconds
        )

    def presign_get(
        self, key: str, *, expires_seconds: int, disposition: str | None = None, content_type: str | None = None
    ) -> str | None:
        """Return None: which store has the blob is not known without a request."""
        self.current.presign_get(
            key, expires_seconds=expires_seconds, disposition=disposition, content_type=content_type
        )
        return None

    def open_file(self, key: str) -> int | None:
        """See `BlobStore.open_file`."""
        file = self.current.open_file(key)
        return self.previous.open_file(key) if file is None else file

    def require_space(self, size: int) -> None:
        """See `BlobStore.require_space`."""
        self.current.require_space(size)

    async def end_unfinished(self, before: datetime, *, apply: bool) -> int:
        """See `BlobStore.end_unfinished`."""
        found = [await store.end_unfinished(before, apply=apply) for store in (self.current, self.previous)]
        return sum(found)

    async def hints(self) -> builtins.list[str]:
        """See `BlobStore.hints`: about the current store."""
        return await self.current.hints()

    async def check(self, origin: str = "https://example.com") -> builtins.list[str]:
        """See `BlobStore.check`: of both stores."""
        problems = await self.current.check(origin)
        return problems + [f"The previous object store: {one}" for one in await self.previous.check(origin)]

    async def close(self) -> None:
        """See `BlobStore.close`."""
        await self.current.close()
        await self.previous.close()


def parts_of(store: BlobStore) -> Sequence[BlobStore]:
    """Return the store itself, or the two of a move."""
    return (store.current, store.previous) if isinstance(store, MovingStore) else (store,)


async def transfer(
    source: BlobStore, info: BlobInfo, target: BlobStore, key: str, sha256: bytes | None = None
) -> BlobInfo:
    """Copy a blob from one store to another, to `key`; return what was stored.

    `sha256` is the digest from the database; without it that which the source has stored counts, if any. Raises
    `SizeMismatchError` or `DigestMismatchError` if the source's bytes are others, and what `open` and `put` raise.
    """
    if sha256 is not None and info.sha256 is not None and info.sha256 != sha256.hex():
        raise DigestMismatchError
    expected = sha256 or (bytes.fromhex(info.sha256) if info.sha256 else None)
    async with aclosing(source.open(info.key)) as chunks:
        return await target.put(
            key, chunks, size=info.size, content_type=info.content_type or _UNTYPED, sha256=expected
        )


async def side_by_side(
    ours: AsyncGenerator[BlobInfo], others: AsyncGenerator[BlobInfo]
) -> AsyncGenerator[tuple[BlobInfo | None, BlobInfo | None]]:
    """Yield the blobs of two lists in key order, those with the same key together."""
    one, other = await anext(ours, None), await anext(others, None)
    while one or other:
        if other is None or (one is not None and one.key < other.key):
            yield one, None
            one = await anext(ours, None)
        elif one is None or other.key < one.key:
            yield None, other
            other = await anext(others, None)
        else:
            yield one, other
            one, other = await anext(ours, None), await anext(others, None)


@asynccontextmanager
async def _first_found(*ways: AsyncGenerator[bytes]) -> AsyncGenerator[AsyncGenerator[bytes]]:
    """Give the chunks of the first of these iterations that finds its blob; raises `BlobNotFoundError`."""
    error: BlobNotFoundError | None = None
    for way in ways:
        async with aclosing(way):
            try:
                first = await anext(way, None)
            except BlobNotFoundError as missing:
                error = missing
                continue
            yield _with_first(first, way)
            return
    assert error is not None
    raise error


async def _with_first(first: bytes | None, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    if first is not None:
        yield first
        async for chunk in rest:
            yield chunk

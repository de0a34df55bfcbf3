"""The object store that features see.

A blob is bytes under a key. It appears whole or not at all, and what was acknowledged survives a power cut. Every
implementation passes the tests in `tests/blobs/test_contract.py`.

Keys are ASCII paths such as `blobs/{app_id}/{blob_id}`; `keys.check_key` has the rule. No key may be the folder of
another: with `a/b` there is no `a`.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

import msgspec


class BlobInfo(msgspec.Struct, frozen=True):
    """What a store knows of a blob.

    `size` in bytes; `etag` changes with the content, and a copy may have another one; `sha256` in lower-case
    hexadecimal. `sha256` and `content_type` are None where a store did not keep them: the database is their record.
    """

    key: str
    size: int
    etag: str
    sha256: str | None
    content_type: str | None
    modified_at: datetime


class Draft(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a blob has come that arrives bit by bit: its first `size` bytes are durable.

    Whoever lets it grow keeps this between one `append` and the next. `runs` is the store's own: where the parts are.
    """

    size: int = 0
    runs: tuple[tuple[int, str], ...] = ()


class UploadTicket(msgspec.Struct, frozen=True):
    """How a client sends bytes to the store itself: this method, to this URL, with these headers exactly.

    `Content-Length` is bound too, but HTTP clients set it by themselves and browsers forbid to, so it is not listed.
    """

    url: str
    method: str
    headers: dict[str, str]


@runtime_checkable
class Pourable(Protocol):
    """A stream of bytes that can be had from threads as well, which costs less than from the event loop."""

    async def pour(self, sink: Callable[[memoryview], None]) -> None:
        """Call the function with all pieces in order, in one thread at a time; what it is given is its own only then.

        Raises what iterating would, and whatever the function raises.
        """
        ...


class BlobStore(Protocol):
    """Bytes under keys. Besides the errors named, each method raises `BlobStoreUnavailableError`.

    A key that is not of the right form raises `InvalidKeyError`.
    """

    async def put(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """Store exactly `size` bytes, in place of what was under the key; they are durable when this returns.

        The answer's `sha256` is computed from the bytes. Raises `SizeMismatchError`, `DigestMismatchError` (the bytes
        do not have the 32-byte digest `sha256`), `StoreFullError`, and whatever `chunks` raises; then the key is as it
        was before.
        """
        ...

    def append(
        self, key: str, draft: Draft, chunks: AsyncIterator[bytes], *, size: int, whole: bool = False
    ) -> AsyncGenerator[Draft]:
        """Add bytes to a draft, and yield how far it has come whenever more of them are durable.

        The draft is what was yielded last, at first `Draft()`; what a process left behind it that died is dropped.
        `key` is one of `drafts/`, no blob: only `append`, `finish` and `discard` know it. `size` is that of the blob
        to be, the same each time; whoever calls keeps `chunks` within it. Where `chunks` raises, what came until then
        is kept and yielded before the error comes through; if `whole`, it is dropped, and nothing is yielded but the
        end. Raises `DraftLockedError` (the last one is still at it), `BlobNotFoundError` (the draft's bytes are gone),
        `StoreFullError`.
        """
        ...

    async def finish(
        self, key: str, draft: Draft, target: str, *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """Make a blob of a draft that has all its `size` bytes; a repeat, after a crash, comes to the same end.

        The answer's `sha256` is computed from the bytes. Raises as `append` does, and `DigestMismatchError`; then the
        draft is as it was before. `discard` what is left of it afterwards.
        """
        ...

    async def discard(self, key: str) -> None:
        """Delete a draft's bytes; a key without any is no error."""
        ...

    def open(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """Yield the bytes [start, end) in chunks, as far as there are any; `end` None is the end of the blob.

        The first step raises `BlobNotFoundError`. A blob replaced meanwhile is read to its end as it was, or the
        iteration fails; contents are never mixed.
        """
        ...

    async def stat(self, key: str) -> BlobInfo | None:
        """Return what is known of the blob, or None if there is none."""
        ...

    async def copy(self, source: str, target: str) -> BlobInfo:
        """Copy within the store, replacing `target` at once; raises `BlobNotFoundError`, `StoreFullError`."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete blobs; a key without one is no error."""
        ...

    def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[BlobInfo]:
        """Yield the blobs below a folder such as `blobs` (`""`: all) whose keys come after `after`, in key order.

        Made for reconciling: it is slow, its memory is bounded, and it leaves out `sha256` and `content_type`.
        """
        ...

    def presign_put(
        self, key: str, *, size: int, content_type: str, sha256: bytes | None, expires_seconds: int
    ) -> UploadTicket | None:
        """Let a client store bytes of exactly this size, type and digest itself, until the ticket expires.

        The ticket can be used more than once, so the key must be one of `staging/`. None: this store cannot bind size
        and type; send the bytes through `put`.
        """
        ...

    def presign_get(
        self, key: str, *, expires_seconds: int, disposition: str | None = None, content_type: str | None = None
    ) -> str | None:
        """Return a URL that reads the blob from the store, with these headers on its answer; None: use `open`."""
        ...

    def open_file(self, key: str) -> int | None:
        """Return a descriptor of the file that holds the blob, for the caller to read and to close.

        None: there is no such file here; use `open`. Blocks for one look at the file system.
        """
        ...

    async def check(self, origin: str = "https://example.com") -> builtins.list[str]:
        """Try the store out and return what is wrong in sentences; `origin` is that of pages which upload directly."""
        ...

    async def close(self) -> None:
        """Give back threads and connections."""
        ...

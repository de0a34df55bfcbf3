"""The interface of object stores.

A blob is a sequence of bytes under a key. It appears complete or not at all, and acknowledged bytes survive a power
cut. Every implementation passes the tests in `tests/blobs/test_contract.py`.

Keys are ASCII paths such as `blobs/{app_id}/{blob_id}`; `keys.check_key` defines them. No key may be the folder of
another: with `a/b` there is no `a`.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class BlobInfo(msgspec.Struct, frozen=True):
    """The metadata of a blob.

    `size` is in bytes; `etag` changes with the content, and a copy may have another one; `sha256` is lower-case
    hexadecimal. `sha256` and `content_type` are None if the store did not store them: the database contains them too.
    """

    key: str
    size: int
    etag: str
    sha256: str | None
    content_type: str | None
    modified_at: datetime


class Draft(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of a resumable upload: its first `size` bytes are durable.

    The caller stores it between one `append` and the next. `runs` is internal to the store: it locates the parts.
    """

    size: int = 0
    runs: tuple[tuple[int, str], ...] = ()


class UploadTicket(msgspec.Struct, frozen=True):
    """How a client sends bytes directly to the store: with this method to this URL with exactly these headers.

    `Content-Length` is signed too, but it is not listed: HTTP clients set it themselves, and browsers do not let
    scripts set it.
    """

    url: str
    method: str
    headers: dict[str, str]


class BlobStore(Protocol):
    """Stores bytes under keys. In addition to the listed errors, each method raises `BlobStoreUnavailableError`.

    An invalid key raises `InvalidKeyError`.
    """

    async def put(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """Store exactly `size` bytes, replacing the blob under the key; they are durable when this returns.

        The returned `sha256` is computed from the bytes. Raises `SizeMismatchError`, `DigestMismatchError` (the digest
        differs from the 32 bytes of `sha256`), `StorageFullError`, and any exception of `chunks`; then the key is
        unchanged.
        """
        ...

    def append(
        self, key: str, draft: Draft, chunks: AsyncIterator[bytes], *, size: int, whole: bool = False
    ) -> AsyncGenerator[Draft]:
        """Append bytes to a draft, and yield its progress whenever more bytes are durable.

        `draft` is the last value yielded, at first `Draft()`; bytes that a dead process wrote beyond it are dropped.
        `key` is one below `drafts/`, which only `append`, `finish` and `discard` use. `size` is the size of the final
        blob, the same in each call; the caller keeps `chunks` within it. If `chunks` raises, the bytes up to then are
        stored and yielded before the error propagates; with `whole` they are dropped, and only the complete draft is
        yielded. Raises `DraftLockedError` (the previous call is still running), `BlobNotFoundError` (the draft's bytes
        are missing), `StorageFullError`.
        """
        ...

    async def finish(
        self, key: str, draft: Draft, target: str, *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """Turn a draft with all its `size` bytes into a blob; a repeat after a crash has the same result.

        The returned `sha256` is computed from the bytes. Raises as `append` does, and `DigestMismatchError`; then the
        draft is unchanged. Call `discard` afterwards to delete its remains.
        """
        ...

    async def has_draft(self, key: str, draft: Draft, *, size: int) -> bool:
        """Return whether the store has the last of a draft's acknowledged bytes, and so can continue it."""
        ...

    async def discard(self, key: str) -> None:
        """Delete a draft's bytes; a key without any is not an error."""
        ...

    def open(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """Yield the bytes [start, end) in chunks, as far as they exist; `end` None is the end of the blob.

        The first step raises `BlobNotFoundError`. If the blob is replaced in the meantime, the old content is read to
        its end, or the iteration fails; contents are never mixed.
        """
        ...

    async def ping(self) -> None:
        """Ask the store for almost nothing; raises `BlobStoreUnavailableError`, also if its bucket is missing."""
        ...

    async def stat(self, key: str) -> BlobInfo | None:
        """Return the blob's metadata, or None if it does not exist."""
        ...

    async def copy(self, source: str, target: str) -> BlobInfo:
        """Copy within the store, atomically replacing `target`; raises `BlobNotFoundError`, `StorageFullError`."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete blobs; a key without one is not an error."""
        ...

    def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[BlobInfo]:
        """Yield the blobs below a folder such as `blobs` (`""`: all) whose keys come after `after`, in key order.

        Meant for reconciliation: it is slow, uses bounded memory, and omits `sha256` and `content_type`.
        """
        ...

    def presign_put(
        self, key: str, *, size: int, content_type: str, sha256: bytes | None, expires_seconds: int
    ) -> UploadTicket | None:
        """Let a client store bytes of exactly this size, type and digest directly, until the ticket expires.

        The ticket can be used more than once, so the key must be below `staging/`. Returns None if this store cannot
        enforce size and type; then send the bytes through `put`.
        """
        ...

    def presign_get(
        self, key: str, *, expires_seconds: int, disposition: str | None = None, content_type: str | None = None
    ) -> str | None:
        """Return a URL that reads the blob from the store, with these response headers; if None, use `open`."""
        ...

    def open_file(self, key: str) -> int | None:
        """Return a file descriptor of the blob, for the caller to read and close.

        If None, there is no local file; use `open`. Blocks for one lookup in the file system.
        """
        ...

    def require_space(self, size: int) -> None:
        """Raise `StorageFullError` if a blob of this size would certainly not fit. Reserves nothing."""
        ...

    async def end_unfinished(self, before: datetime, *, apply: bool) -> int:
        """Find uploads of a killed server, begun before a moment, whose parts are not listed; return their number.

        With `apply` they are deleted.
        """
        ...

    async def hints(self) -> builtins.list[str]:
        """Return advice for the operator about a store that works, as sentences."""
        ...

    async def check(self, origin: str = "https://example.com") -> builtins.list[str]:
        """Test the store and return problems as sentences; `origin` is that of pages that upload directly."""
        ...

    async def close(self) -> None:
        """Release threads and connections."""
        ...

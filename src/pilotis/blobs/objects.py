"""Blobs in an object store, through `obstore`: S3 and compatible servers, Google Cloud Storage, Azure."""

from __future__ import annotations

import asyncio
import base64
import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple

import obstore
import structlog
from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Backend

from pilotis.blobs.check import check_direct_uploads, check_round_trip, distrust
from pilotis.blobs.errors import BlobNotFoundError, BlobStoreUnavailableError, SizeMismatchError
from pilotis.blobs.keys import check_key, check_prefix
from pilotis.blobs.parts import Part, Run, last_key, parts
from pilotis.blobs.presign import Presigner
from pilotis.blobs.protocol import BlobInfo, Draft, UploadTicket
from pilotis.blobs.streams import BATCH_BYTES, Digest, Pieces, batches
from pilotis.blobs.unfinished import NO_RULE, MultipartUploads
from pilotis.kit import clock
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import StorageFullError, UnavailableError

PART_BYTES = 8 << 20
_MAX_PARTS = 10_000
_CONCURRENT_PARTS = 3
_READ_BYTES = 256 << 10
_LIST_BATCH = 1000
_COPY_BYTES = 5 << 30
_SILENT_SECONDS = 5.0
_DIGEST = "sha256"
_FULL_WORDS = ("Insufficient Storage", "QuotaExceeded", "XMinioStorageFull")
_log = structlog.get_logger("pilotis.blobs")


class Probe(NamedTuple):
    """With what the store is tried as a hostile client would: its bucket and prefix as a path, and a signer for it."""

    place: str
    signer: Presigner


class ObjectStore:
    """A `BlobStore` over one of obstore's stores; clients upload to it directly if there is a presigner.

    The store itself copies blobs smaller than `copy_bytes`; S3 copies up to 5 GiB in one request.
    """

    def __init__(
        self,
        backend: Backend,
        presigner: Presigner | None = None,
        *,
        patient: Backend | None = None,
        probe: Probe | None = None,
        multipart: MultipartUploads | None = None,
        copy_bytes: int = _COPY_BYTES,
    ) -> None:
        """`patient` leads to the same store and waits for minutes: for copies, and for joining parts."""
        self._backend = backend
        self._patient = patient or backend
        self._presigner = presigner
        self.probe = probe
        self._multipart = multipart
        self.takes_direct_uploads = True
        """False for a store to which clients must not upload directly; see `pilotis.blobs.watch`."""
        self._copy_bytes = copy_bytes

    async def ping(self) -> None:
        """See `BlobStore.ping`: one request for a list, which fails without the bucket."""
        with _errors():
            async for _ in obstore.list(self._backend, "staging/check/", chunk_size=1):
                break

    async def put(
        self, key: str, chunks: AsyncIterator[bytes], *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """See `BlobStore.put`. From 8 MiB on as a multipart upload with three parts in flight."""
        check_key(key)
        took_effect()
        digest = Digest()
        stream = _Stream(digest.watch(batches(chunks, size), sha256))
        attributes = {"Content-Type": content_type}
        if size <= PART_BYTES:
            body = b"".join([batch async for batch in stream])
            result = await self._put(key, body, attributes | {_DIGEST: digest.hex}, stream)
        else:
            attributes |= {_DIGEST: sha256.hex()} if sha256 else {}
            result = await self._put(key, stream, attributes, stream, chunk_size=_part_bytes(size))
        return BlobInfo(key, size, _bare(result["e_tag"]), digest.hex, content_type, clock.now())

    async def append(
        self, key: str, draft: Draft, chunks: AsyncIterator[bytes], *, size: int, whole: bool = False
    ) -> AsyncGenerator[Draft]:
        """See `BlobStore.append`: one object per 8 MiB; the last, shorter one is rewritten with the bytes that follow.

        obstore cannot resume another request's multipart upload, so `finish` concatenates the parts.
        """
        check_key(key)
        part_bytes = _part_bytes(size)
        run = Run(key, draft, part_bytes)
        if draft.size and run.taken_over is None and not await self.has_draft(key, draft, size=size):
            raise BlobNotFoundError
        pieces = Pieces(_joined(await self._read_part(run.taken_over), chunks), part_bytes)
        total = draft.size - (run.taken_over.size if run.taken_over else 0)
        async for piece in pieces:
            total += len(piece)
            if total > draft.size:
                with _errors():
                    await obstore.put_async(self._backend, run.next_key(), piece, use_multipart=False)
                if not whole:
                    yield run.draft(total)
                    await self._forget(run)
        if pieces.error is not None:
            await self.delete(run.keys if whole else ())
            raise pieces.error
        if whole and total > draft.size:
            yield run.draft(total)
            await self._forget(run)

    async def finish(
        self, key: str, draft: Draft, target: str, *, size: int, content_type: str, sha256: bytes | None = None
    ) -> BlobInfo:
        """See `BlobStore.finish`: the parts pass through this server once."""
        check_key(key)
        if draft.size != size:
            raise SizeMismatchError
        chunks = self._prepend(parts(key, draft, _part_bytes(size)))
        return await self.put(target, chunks, size=size, content_type=content_type, sha256=sha256)

    async def has_draft(self, key: str, draft: Draft, *, size: int) -> bool:
        """See `BlobStore.has_draft`: one HEAD request."""
        try:
            last = last_key(key, draft, _part_bytes(size))
        except BlobNotFoundError:
            return False
        if await self.stat(last) is not None:
            return True
        # Without a bucket nothing is found.
        await self.ping()
        return False

    async def discard(self, key: str) -> None:
        """See `BlobStore.discard`."""
        await self.delete([info.key async for info in self.list(key)])

    async def open(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """See `BlobStore.open`: chunks of about 256 KiB, at most 1 MiB."""
        answer = await self._get(key, start, end)
        if answer is None:
            return
        with _errors(may_be_absent=True):
            async for chunk in answer.stream(_READ_BYTES):
                for at in range(0, len(chunk), BATCH_BYTES):
                    yield bytes(chunk[at : at + BATCH_BYTES])

    async def stat(self, key: str) -> BlobInfo | None:
        """See `BlobStore.stat`: one HEAD request."""
        check_key(key)
        try:
            with _errors(may_be_absent=True):
                answer = await obstore.get_async(self._backend, key, options={"head": True})
        except BlobNotFoundError:
            return None
        return _info(key, answer.meta, answer.attributes)

    async def copy(self, source: str, target: str) -> BlobInfo:
        """See `BlobStore.copy`: by the store itself, or through this server above the size that the store copies."""
        check_key(target)
        took_effect()
        info = await self.stat(source)
        if info is None:
            raise BlobNotFoundError
        if info.size > self._copy_bytes:
            return await self._copy_through(info, target)
        with _errors(may_be_absent=True):
            await obstore.copy_async(self._patient, source, target)
        copied = await self.stat(target)
        if copied is None:
            raise BlobStoreUnavailableError
        return copied

    async def delete(self, keys: Sequence[str]) -> None:
        """See `BlobStore.delete`: in bulk if the store supports it."""
        paths = [check_key(key) for key in keys]
        if not paths:
            return
        took_effect()
        with _errors():
            try:
                await obstore.delete_async(self._backend, paths)
            except FileNotFoundError:
                await self._delete_singly(paths)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[BlobInfo]:
        """See `BlobStore.list`. Keys of other programs in the same bucket are listed as they are."""
        folder = check_prefix(prefix) or None
        with _errors():
            async for batch in obstore.list(self._backend, folder, offset=after, chunk_size=_LIST_BATCH):
                for meta in batch:
                    yield _info(meta["path"], meta, {})

    def presign_put(
        self, key: str, *, size: int, content_type: str, sha256: bytes | None, expires_seconds: int
    ) -> UploadTicket | None:
        """See `BlobStore.presign_put`."""
        check_key(key)
        if self._presigner is None or not self.takes_direct_uploads:
            return None
        headers = {"Content-Type": content_type}
        if sha256 is not None:
            headers["x-amz-checksum-sha256"] = base64.b64encode(sha256).decode()
        bound = headers | {"Content-Length": str(size)}
        url = self._presigner.sign("PUT", key, expires_seconds=expires_seconds, headers=bound)
        return UploadTicket(url, "PUT", headers)

    def presign_get(
        self, key: str, *, expires_seconds: int, disposition: str | None = None, content_type: str | None = None
    ) -> str | None:
        """See `BlobStore.presign_get`."""
        check_key(key)
        if self._presigner is None:
            return None
        asked = {"response-content-disposition": disposition, "response-content-type": content_type}
        query = {name: value for name, value in asked.items() if value is not None}
        return self._presigner.sign("GET", key, expires_seconds=expires_seconds, query=query)

    def open_file(self, key: str) -> int | None:
        """Return None: the bytes are not on this machine."""
        check_key(key)
        return None

    async def check(self, origin: str = "https://example.com") -> builtins.list[str]:
        """See `BlobStore.check`: credentials, clock, and direct uploads with their CORS."""
        problems = await check_round_trip(self) or await check_direct_uploads(self, origin)
        if not problems and self.probe is not None and (reason := await distrust(self, *self.probe)):
            problems.append(reason)
        return problems

    async def end_unfinished(self, before: datetime, *, apply: bool) -> int:
        """See `BlobStore.end_unfinished`; 0 without keys to sign the requests."""
        if self._multipart is None:
            return 0
        found = [upload async for upload in self._multipart.list() if upload.began_at < before]
        for upload in found if apply else ():
            await self._multipart.abort(upload)
        return len(found)

    async def hints(self) -> builtins.list[str]:
        """See `BlobStore.hints`: about the bucket's lifecycle."""
        return [NO_RULE] if self._multipart is not None and await self._multipart.has_no_rule() else []

    def require_space(self, size: int) -> None:
        """See `BlobStore.require_space`: an object store manages its own space."""

    async def close(self) -> None:
        """See `BlobStore.close`; connections end with the object."""

    async def _put(
        self, key: str, body: bytes | _Stream, attributes: dict[str, str], stream: _Stream, **options: Any
    ) -> Any:
        options |= {"use_multipart": body is stream, "max_concurrency": _CONCURRENT_PARTS}
        try:
            with _errors():
                backend = self._patient if body is stream else self._backend
                return await obstore.put_async(backend, key, body, attributes=attributes, **options)
        except UnavailableError:
            if stream.error is not None:
                raise stream.error from None
            raise

    async def _get(self, key: str, start: int, end: int | None) -> obstore.GetResult | None:
        """Return the answer to a GET, or None if the range contains no byte of the blob."""
        check_key(key)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            with _errors(may_be_absent=True):
                if end is not None and end > start:
                    return await obstore.get_async(self._backend, key, options={"range": (start, end)})
                if end is None and start:
                    return await obstore.get_async(self._backend, key, options={"range": {"offset": start}})
                if end is None:
                    return await obstore.get_async(self._backend, key)
        except BlobStoreUnavailableError:
            if (not start and end is None) or loop.time() - begun > _SILENT_SECONDS:
                # Asked again, a store that was silent would be silent again.
                raise
            info = await self.stat(key)
            if info is None or start < info.size:
                raise
            return None
        if await self.stat(key) is None:
            raise BlobNotFoundError
        return None

    async def _read_part(self, part: Part | None) -> bytes:
        if part is None:
            return b""
        data = b"".join([chunk async for chunk in self.open(part.key, 0, part.size)])
        if len(data) < part.size:
            raise BlobNotFoundError
        return data

    async def _prepend(self, found: Iterator[Part]) -> AsyncGenerator[bytes]:
        for part in found:
            async for chunk in self.open(part.key, 0, part.size):
                yield chunk

    async def _forget(self, run: Run) -> None:
        """Delete the part that a run has replaced, to which nothing refers any more."""
        if run.taken_over is not None:
            await self.delete([run.taken_over.key])
            run.taken_over = None

    async def _copy_through(self, info: BlobInfo, target: str) -> BlobInfo:
        sha256 = bytes.fromhex(info.sha256) if info.sha256 else None
        content_type = info.content_type or "application/octet-stream"
        return await self.put(target, self.open(info.key), size=info.size, content_type=content_type, sha256=sha256)

    async def _delete_singly(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._backend, path)


class _Stream:
    """An async iterator that records its error, to tell a caller's `OSError` from one of the store."""

    def __init__(self, stream: AsyncGenerator[bytes]) -> None:
        self._stream = stream
        self.error: Exception | None = None

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self.error = error
            raise


@contextmanager
def _errors(*, may_be_absent: bool = False) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise _translated(error, may_be_absent) from error


def _translated(error: Exception, may_be_absent: bool) -> Exception:
    text = str(error)
    if not isinstance(error, FileNotFoundError):
        # In the store's own words, which the answer does not repeat.
        _log.warning("object store", says=text.partition("\n\nDebug source")[0][:500])
    if may_be_absent and isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
        return BlobNotFoundError()
    return StorageFullError() if any(words in text for words in _FULL_WORDS) else BlobStoreUnavailableError()


def _info(key: str, meta: Any, attributes: Any) -> BlobInfo:
    modified_at: datetime = meta["last_modified"]
    sha256, content_type = attributes.get(_DIGEST), attributes.get("Content-Type")
    return BlobInfo(key, meta["size"], _bare(meta["e_tag"]), sha256, content_type, modified_at)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    if first:
        yield first
    async for chunk in rest:
        yield chunk


def _bare(etag: str | None) -> str:
    return (etag or "").strip('"')


def _part_bytes(size: int) -> int:
    return max(PART_BYTES, -(-size // _MAX_PARTS))

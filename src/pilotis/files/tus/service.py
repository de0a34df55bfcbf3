"""Resumable uploads by tus 1.0.0 (https://tus.io/protocols/resumable-upload), on the same rows as other uploads.

An upload's bytes grow in the object store as a draft. The database records its progress after the bytes are durable, so
bytes lost in a crash were never acknowledged. One request at a time appends to it, under a lease; a request that has
lost its lease cannot acknowledge anything. Once all bytes have arrived they become a blob, and the upload is received
like any other. If acknowledged bytes are missing, for example because the server was given another object store, the
upload is cancelled, and the client starts a new one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import msgspec

from pilotis.blobs.errors import BlobNotFoundError, DigestMismatchError, DraftLockedError, SizeMismatchError
from pilotis.blobs.protocol import BlobStore, Draft
from pilotis.db.pool import Database
from pilotis.files.errors import (
    UploadAlreadyReceivedError,
    UploadExpiredError,
    UploadFinishingError,
    UploadLostError,
    UploadNotFoundError,
    UploadOffsetMismatchError,
    UploadSignatureInvalidError,
)
from pilotis.files.keys import blob_key, draft_key
from pilotis.files.records import UploadRecord
from pilotis.files.signatures import UrlSigner, expiry
from pilotis.files.tus import headers as tus
from pilotis.files.tus import store
from pilotis.files.types import NewUpload, Resumable, UploadPermit, UploadQuery
from pilotis.files.uploads import leases
from pilotis.files.uploads import store as upload_store
from pilotis.files.uploads.service import Uploads
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit.ids import uuid7

Headers = Mapping[bytes, bytes]


class Progress(NamedTuple):
    """The progress of an upload: offset, size, expiry of its URL (seconds since 1970), and its metadata."""

    offset: int
    size: int
    expires: int
    metadata: str


class ResumableUploads:
    """Resumable uploads. `largest` is the largest size of any file, in bytes."""

    def __init__(
        self, database: Database, blobs: BlobStore, signer: UrlSigner, uploads: Uploads, *, largest: int
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._signer = signer
        self._uploads = uploads
        self.largest = largest

    async def create(
        self, app: AppInfo, principal: Principal, storage_id: UUID, headers: Headers, chunks: AsyncIterator[bytes]
    ) -> tuple[UploadPermit, Progress]:
        """Authorize an upload like `Uploads.presign` and reserve its space; the body may contain its first bytes.

        If the body is invalid, the upload is cancelled, because the client never learns its URL.
        """
        new = tus.wanted(headers)
        resumable = Resumable(_encoded(Draft()), tus.metadata_text(headers))
        if isinstance(new, NewUpload):
            presigned = await self._uploads.presign(app, principal, storage_id, new, resumable=resumable)
        else:
            presigned = await self._uploads.presign_path(
                app, principal, storage_id, new.path, new.file, resumable=resumable
            )
        upload_id, query = _parse_url(presigned.upload_url)
        try:
            if tus.has_body(headers):
                begun = await self.append(upload_id, query, {**headers, b"upload-offset": b"0"}, chunks)
            else:
                begun = await self.progress(upload_id, query)
        except UploadFinishingError:
            upload, expires = await self._checked(upload_id, query)
            begun = _progress(upload, upload.size, expires)
        except Exception:
            await self.end(upload_id, query)
            raise
        headers_to_send = {"Tus-Resumable": tus.VERSION.decode(), "Content-Type": tus.OFFSET_TYPE}
        return msgspec.structs.replace(presigned, method="PATCH", headers=headers_to_send), begun

    async def progress(self, upload_id: UUID, query: UploadQuery) -> Progress:
        """Return the progress of an upload.

        If all bytes have arrived but the server died before it received the upload, this finishes it: a client with
        nothing left to send sends nothing. Raises `UploadLostError` if acknowledged bytes are missing.
        """
        upload, expires = await self._checked(upload_id, query)
        draft = _draft(upload)
        if upload.state not in _OPEN:
            return _progress(upload, draft.size, expires)
        if draft.size == upload.size:
            await self._uploads.finishing.run(upload_id, partial(self._finish_claimed, upload))
        elif not await self._has_bytes(upload):
            # Unless a request is just replacing them.
            async with self._claimed(upload) as (claimed, _):
                draft = _draft(claimed)
                if not await self._has_bytes(claimed):
                    raise await self._lost(upload)
        return _progress(upload, draft.size, expires)

    async def append(
        self, upload_id: UUID, query: UploadQuery, headers: Headers, chunks: AsyncIterator[bytes]
    ) -> Progress:
        """Append a request's bytes to an upload, and receive it with the last ones; return its progress."""
        tus.check_type(headers)
        offset = tus.number(headers, "Upload-Offset")
        checksum = tus.checksum(headers)
        upload, expires = await self._checked(upload_id, query)
        size = upload.size
        _check_offset(upload, offset)
        _check_length(headers, size - offset)
        if upload.state not in _OPEN:
            return _progress(upload, offset, expires)
        async with contextlib.AsyncExitStack() as stack:
            claimed, attempt = await stack.enter_async_context(self._claimed(upload))
            _check_offset(claimed, offset)
            chunks = _bounded(checksum.watch(chunks) if checksum else chunks, size - offset)
            draft = await self._add(claimed, attempt, chunks, whole=checksum is not None)
            if draft.size == size:
                # The claim now belongs to the work, which may outlast this request.
                work = partial(self._finish_within, stack.pop_all(), claimed, attempt, draft)
                await self._uploads.finishing.run(upload_id, work)
        return _progress(upload, draft.size, expires)

    async def end(self, upload_id: UUID, query: UploadQuery) -> None:
        """Cancel an upload and delete its bytes and its reservation. A request still sending finds it deleted."""
        upload, _ = await self._checked(upload_id, query)
        if not await upload_store.end(self._database, upload.app_id, upload_id):
            raise UploadAlreadyReceivedError
        # The pending deletion would delete them a little later; this frees the space sooner.
        await self._blobs.discard(_key(upload))

    async def _checked(self, upload_id: UUID, query: UploadQuery) -> tuple[UploadRecord, int]:
        expires = expiry(query.expires)
        if expires is None:
            raise UploadSignatureInvalidError
        upload = await upload_store.by_id(self._database, upload_id)
        if upload is None or upload.draft is None:
            raise UploadNotFoundError
        size, mime_type = upload.size, upload.mime_type
        if not self._signer.accepts_resumable_upload(query.signature, upload_id, expires, size, mime_type):
            raise UploadSignatureInvalidError
        if expires <= time.time():
            raise UploadExpiredError
        return upload, expires

    @contextlib.asynccontextmanager
    async def _claimed(self, upload: UploadRecord) -> AsyncGenerator[tuple[UploadRecord, UUID]]:
        """Lock an upload for a block; raises `DraftLockedError` if another request has locked it."""
        app_id, upload_id, attempt = upload.app_id, upload.upload_id, uuid7()
        claimed = await store.claim(self._database, upload, attempt, self._uploads.node_id())
        if claimed is None:
            raise await self._claim_error(upload_id)
        keep = partial(store.keep, self._database, app_id, upload_id, attempt)
        try:
            async with leases.kept(keep, store.LEASE_SECONDS):
                yield claimed, attempt
        finally:
            await leases.shielded(store.end_attempt(self._database, app_id, upload_id, attempt))

    async def _add(self, upload: UploadRecord, attempt: UUID, chunks: AsyncIterator[bytes], *, whole: bool) -> Draft:
        draft = _draft(upload)
        grown = self._blobs.append(_key(upload), draft, chunks, size=upload.size, whole=whole)
        try:
            async with contextlib.aclosing(grown):
                async for draft in grown:
                    await self._acknowledge(upload, attempt, draft)
        except BlobNotFoundError:
            raise await self._lost(upload) from None
        return draft

    async def _has_bytes(self, upload: UploadRecord) -> bool:
        draft = _draft(upload)
        return not draft.size or await self._blobs.has_draft(_key(upload), draft, size=upload.size)

    async def _lost(self, upload: UploadRecord) -> Exception:
        """Cancel an upload whose acknowledged bytes are missing; return the error."""
        await upload_store.end(self._database, upload.app_id, upload.upload_id)
        return UploadLostError()

    async def _finish_claimed(self, upload: UploadRecord) -> None:
        async with self._claimed(upload) as (claimed, attempt):
            await self._finish(claimed, attempt, _draft(claimed))

    async def _finish_within(
        self, claim: contextlib.AsyncExitStack, upload: UploadRecord, attempt: UUID, draft: Draft
    ) -> None:
        async with claim:
            await self._finish(upload, attempt, draft)

    async def _finish(self, upload: UploadRecord, attempt: UUID, draft: Draft) -> None:
        """Turn an upload's bytes into a blob and receive the upload; raises `DigestMismatchError`."""
        app_id, upload_id, blob_id = upload.app_id, upload.upload_id, upload.blob_id
        assert blob_id is not None
        key = _key(upload)
        try:
            async with self._uploads.finishing.slot(app_id):
                info = await self._blobs.finish(
                    key,
                    draft,
                    blob_key(app_id, blob_id),
                    size=upload.size,
                    content_type=upload.mime_type,
                    sha256=upload.sha256,
                )
        except DigestMismatchError:
            # The bytes are not the declared ones: the client can start again.
            await self._acknowledge(upload, attempt, Draft())
            await self._blobs.discard(key)
            raise
        except BlobNotFoundError:
            raise await self._lost(upload) from None
        assert info.sha256 is not None
        sha256 = bytes.fromhex(info.sha256)
        if not await upload_store.received(self._database, app_id, upload_id, blob_id, sha256):
            raise await self._claim_error(upload_id)
        await self._blobs.discard(key)

    async def _acknowledge(self, upload: UploadRecord, attempt: UUID, draft: Draft) -> None:
        text = _encoded(draft)
        if not await store.keep(self._database, upload.app_id, upload.upload_id, attempt, text):
            raise await self._claim_error(upload.upload_id)

    async def _claim_error(self, upload_id: UUID) -> Exception:
        """Return the error for a request that may not, or no longer, append to an upload."""
        upload = await upload_store.by_id(self._database, upload_id)
        return UploadNotFoundError() if upload is None else DraftLockedError()


_OPEN = {"pending", "receiving"}


def _parse_url(url: str) -> tuple[UUID, UploadQuery]:
    parts = urlsplit(url)
    return UUID(parts.path.rpartition("/")[2]), UploadQuery(**dict(parse_qsl(parts.query)))


def _key(upload: UploadRecord) -> str:
    return draft_key(upload.app_id, upload.upload_id)


def _progress(upload: UploadRecord, offset: int, expires: int) -> Progress:
    assert upload.tus_metadata is not None
    return Progress(offset, upload.size, expires, upload.tus_metadata)


def _draft(upload: UploadRecord) -> Draft:
    assert upload.draft is not None
    return msgspec.json.decode(upload.draft, type=Draft)


def _encoded(draft: Draft) -> str:
    return msgspec.json.encode(draft).decode()


def _check_offset(upload: UploadRecord, offset: int) -> None:
    come = _draft(upload).size
    if offset != come:
        raise UploadOffsetMismatchError(headers={"Upload-Offset": str(come)})


def _check_length(headers: Headers, max_bytes: int) -> None:
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > max_bytes:
        raise _too_much(max_bytes)


async def _bounded(chunks: AsyncIterator[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
    """Yield the same chunks; raises `SizeMismatchError` once they exceed the size."""
    total = 0
    async for chunk in chunks:
        total += len(chunk)
        if total > max_bytes:
            raise _too_much(max_bytes)
        yield chunk


def _too_much(max_bytes: int) -> SizeMismatchError:
    return SizeMismatchError(f"Only {max_bytes} bytes are left of what Upload-Length declared.")

"""The routes of resumable uploads: tus 1.0.0 with creation, expiration, checksum and termination."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID

from pilotis.blobs.errors import (
    BlobNotFoundError,
    BlobStoreUnavailableError,
    DigestMismatchError,
    DraftLockedError,
    SizeMismatchError,
    StoreFullError,
)
from pilotis.files.conditions import http_date
from pilotis.files.endpoints import PRESIGN_ERRORS, PUBLIC
from pilotis.files.errors import (
    ChecksumMismatchError,
    TusVersionError,
    UploadAlreadyReceivedError,
    UploadExpiredError,
    UploadHeaderInvalidError,
    UploadNotFoundError,
    UploadOffsetMismatchError,
    UploadSignatureInvalidError,
)
from pilotis.files.tus import headers as tus
from pilotis.files.tus.service import Progress, ResumableUploads
from pilotis.files.types import UploadPermit, UploadProgress, UploadQuery
from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, NoAnswer, Reply, delete, get, patch, post, route
from pilotis.http.principals import Access
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import UnsupportedMediaTypeError, ValidationError

_UPLOAD = "/v1/uploads/tus/:upload_id"
_NO_STORE = (b"cache-control", b"no-store")
_URL = [TusVersionError, UploadSignatureInvalidError, UploadExpiredError, UploadNotFoundError, ValidationError]
_BYTES = [
    UploadHeaderInvalidError,
    UnsupportedMediaTypeError,
    SizeMismatchError,
    ChecksumMismatchError,
    DigestMismatchError,
    BlobNotFoundError,
    BlobStoreUnavailableError,
    StoreFullError,
]


class TusEndpoints(Endpoints, tag="Resumable uploads"):
    """Uploads that go on where they broke off, for clients that speak tus."""

    def __init__(self, uploads: ResumableUploads) -> None:
        self._uploads = uploads

    @post(
        f"{PUBLIC}/tus",
        access=Access.PUBLIC_KEY,
        status=201,
        rate="upload",
        returns=UploadPermit,
        errors=[TusVersionError, *PRESIGN_ERRORS, *_BYTES, ValidationError],
    )
    async def create(self, call: Call, storage_id: UUID, body: AsyncIterator[bytes]) -> Reply:
        """Begin a resumable upload.

        `Upload-Length` is the file's size, `Upload-Metadata` says the rest: `filename`, `filetype`, `parent_id` or
        `path` with `overwrite`, and `sha256`. `Location` is where the bytes go; after them call complete-upload with
        the id in `Upload-File-Id`. The body may hold the first bytes.
        """
        _begin(call)
        permit, progress = await self._uploads.create(call.app, call.principal, storage_id, call.headers, body)
        told = [
            (b"location", permit.upload_url.encode()),
            (b"upload-file-id", str(permit.file_id).encode()),
            *_state(progress),
        ]
        return Reply(json.encode(permit), headers=told)

    @get(_UPLOAD, access=Access.OPEN, returns=UploadProgress, errors=[*_URL, *_BYTES, DraftLockedError])
    async def progress(self, call: Call, upload_id: UUID, query: UploadQuery) -> Reply:
        """Ask how far a resumable upload has come; clients send HEAD and read `Upload-Offset`."""
        _begin(call)
        progress = await self._uploads.progress(upload_id, query)
        told = UploadProgress(progress.offset, progress.size, rfc3339(_moment(progress)))
        headers = [(b"upload-length", b"%d" % progress.size), *_state(progress)]
        if progress.metadata:
            headers.append((b"upload-metadata", progress.metadata.encode("latin-1")))
        return Reply(json.encode(told), headers=headers)

    @patch(
        _UPLOAD,
        access=Access.OPEN,
        status=204,
        returns=NoAnswer,
        errors=[*_URL, *_BYTES, UploadOffsetMismatchError, DraftLockedError],
    )
    async def append(self, call: Call, upload_id: UUID, query: UploadQuery, body: AsyncIterator[bytes]) -> Reply:
        """Send bytes of a resumable upload from `Upload-Offset` on.

        One request at a time. What came of a request that broke off is kept, unless it has an `Upload-Checksum`.
        """
        _begin(call)
        progress = await self._uploads.append(upload_id, query, call.headers, body)
        return Reply(b"", headers=_state(progress))

    @delete(
        _UPLOAD,
        access=Access.OPEN,
        status=204,
        returns=NoAnswer,
        errors=[*_URL, UploadAlreadyReceivedError, BlobStoreUnavailableError],
    )
    async def end(self, call: Call, upload_id: UUID, query: UploadQuery) -> Reply:
        """Give a resumable upload up. One whose file is listed is over already: 409."""
        _begin(call)
        await self._uploads.end(upload_id, query)
        return Reply(b"")

    @route("OPTIONS", f"{PUBLIC}/tus", access=Access.OPEN, status=204, returns=NoAnswer)
    async def offer(self, call: Call, storage_id: UUID) -> Reply:
        """Ask what of tus is offered."""
        return self._offer()

    @route("OPTIONS", _UPLOAD, access=Access.OPEN, status=204, returns=NoAnswer)
    async def offer_for_upload(self, call: Call, upload_id: UUID) -> Reply:
        """Ask what of tus is offered, of an upload."""
        return self._offer()

    def _offer(self) -> Reply:
        told = [
            (b"tus-resumable", tus.VERSION),
            (b"tus-version", tus.VERSION),
            (b"tus-extension", tus.EXTENSIONS),
            (b"tus-max-size", b"%d" % self._uploads.largest),
            (b"tus-checksum-algorithm", ",".join(tus.ALGORITHMS).encode()),
        ]
        return Reply(b"", headers=told)


def _begin(call: Call) -> None:
    """Check the version; good answer or bad, it tells its own."""
    call.answer_headers.append((b"tus-resumable", tus.VERSION))
    tus.check_version(call.headers)


def _state(progress: Progress) -> list[tuple[bytes, bytes]]:
    expires = http_date(_moment(progress)).encode()
    return [(b"upload-offset", b"%d" % progress.offset), (b"upload-expires", expires), _NO_STORE]


def _moment(progress: Progress) -> datetime:
    return datetime.fromtimestamp(progress.expires, UTC)

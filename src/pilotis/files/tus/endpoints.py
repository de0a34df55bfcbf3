"""The routes of resumable uploads: tus 1.0.0 with creation, expiration, checksum and termination."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID

from pilotis.blobs.errors import (
    BlobStoreUnavailableError,
    DigestMismatchError,
    DraftLockedError,
    SizeMismatchError,
)
from pilotis.files.conditions import http_date
from pilotis.files.endpoints import PRESIGN_ERRORS, PUBLIC, WRITE
from pilotis.files.errors import (
    ChecksumMismatchError,
    TusVersionError,
    UploadAlreadyReceivedError,
    UploadExpiredError,
    UploadFinishingError,
    UploadHeaderInvalidError,
    UploadLostError,
    UploadNotFoundError,
    UploadOffsetMismatchError,
    UploadSignatureInvalidError,
)
from pilotis.files.tus import headers as tus
from pilotis.files.tus.service import Progress, ResumableUploads
from pilotis.files.types import UploadPermit, UploadProgress, UploadQuery
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, route
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import StorageFullError, UnsupportedMediaTypeError, ValidationError

_UPLOAD = "/v1/uploads/tus/:upload_id"
_VERSION = {"Tus-Resumable": "The version of tus, `1.0.0`."}
_STATE = {
    **_VERSION,
    "Upload-Offset": "The number of durable bytes.",
    "Upload-Expires": "When the upload's URL stops working (RFC 9110, section 5.6.7).",
}
_OFFSET_STREAM = "application/offset+octet-stream"
_OFFER = {
    **_VERSION,
    "Tus-Version": "The supported versions.",
    "Tus-Extension": "The supported extensions.",
    "Tus-Max-Size": "The size of the largest file, in bytes.",
    "Tus-Checksum-Algorithm": "The algorithms of `Upload-Checksum`.",
}
_CHECKSUM = {"Upload-Checksum": "The algorithm and the checksum of this body in Base64, such as `sha256 …`."}
_NO_STORE = (b"cache-control", b"no-store")
_URL = [TusVersionError, UploadSignatureInvalidError, UploadExpiredError, UploadNotFoundError, ValidationError]
_BYTES = [
    UploadHeaderInvalidError,
    UnsupportedMediaTypeError,
    SizeMismatchError,
    ChecksumMismatchError,
    DigestMismatchError,
    UploadLostError,
    UploadFinishingError,
    BlobStoreUnavailableError,
    StorageFullError,
]


class TusEndpoints(Endpoints, tag="Resumable uploads"):
    """Resumable uploads for tus clients."""

    def __init__(self, uploads: ResumableUploads) -> None:
        self._uploads = uploads

    @post(
        f"{PUBLIC}/tus",
        access=WRITE,
        status=201,
        rate="upload",
        returns=UploadPermit,
        body_media_type=_OFFSET_STREAM,
        request_headers={
            **_VERSION,
            "Upload-Length": "The file's size in bytes.",
            "Upload-Metadata": "Pairs of a key and a value in Base64: `filename`, `filetype` and so on.",
            **_CHECKSUM,
        },
        response_headers={
            **_STATE,
            "Location": "Where the bytes go.",
            "Upload-File-Id": "The id for complete-upload.",
        },
        errors=[TusVersionError, *PRESIGN_ERRORS, *_BYTES, ValidationError],
    )
    async def create(self, call: Call, storage_id: UUID, body: AsyncIterator[bytes]) -> Reply:
        """Create a resumable upload.

        `Upload-Length` is the file's size, `Upload-Metadata` contains `filename`, `filetype`, `parent_id` or
        `path` with `overwrite`, and `sha256`. Send the bytes to `Location`, then call complete-upload with the id in
        `Upload-File-Id`. The body may contain the first bytes.
        """
        _begin(call)
        presigned, progress = await self._uploads.create(call.app, call.principal, storage_id, call.headers, body)
        headers = [
            (b"location", presigned.upload_url.encode()),
            (b"upload-file-id", str(presigned.file_id).encode()),
            *_state(progress),
        ]
        return Reply(json.encode(presigned), headers=headers)

    @get(
        _UPLOAD,
        access=Access.OPEN,
        returns=UploadProgress,
        request_headers=_VERSION,
        response_headers={**_STATE, "Upload-Length": "The file's size.", "Upload-Metadata": "As it was sent."},
        head="Get the progress of a resumable upload from the headers.",
        errors=[*_URL, *_BYTES, DraftLockedError],
    )
    async def progress(self, call: Call, upload_id: UUID, query: UploadQuery) -> Reply:
        """Get the progress of a resumable upload; clients send HEAD and read `Upload-Offset`."""
        _begin(call)
        progress = await self._uploads.progress(upload_id, query)
        answer = UploadProgress(progress.offset, progress.size, rfc3339(_moment(progress)))
        headers = [(b"upload-length", b"%d" % progress.size), *_state(progress)]
        if progress.metadata:
            headers.append((b"upload-metadata", progress.metadata.encode("latin-1")))
        return Reply(json.encode(answer), headers=headers)

    @patch(
        _UPLOAD,
        access=Access.OPEN,
        status=204,
        body_media_type=_OFFSET_STREAM,
        request_headers={**_VERSION, "Upload-Offset": "Where these bytes begin.", **_CHECKSUM},
        response_headers=_STATE,
        errors=[*_URL, *_BYTES, UploadOffsetMismatchError, DraftLockedError],
    )
    async def append(self, call: Call, upload_id: UUID, query: UploadQuery, body: AsyncIterator[bytes]) -> Reply:
        """Send bytes of a resumable upload from `Upload-Offset` on.

        One request at a time. Bytes of an interrupted request are kept, unless it has an `Upload-Checksum`.
        """
        _begin(call)
        progress = await self._uploads.append(upload_id, query, call.headers, body)
        return Reply(b"", headers=_state(progress))

    @delete(
        _UPLOAD,
        access=Access.OPEN,
        status=204,
        request_headers=_VERSION,
        response_headers=_VERSION,
        errors=[*_URL, UploadAlreadyReceivedError, BlobStoreUnavailableError],
    )
    async def end(self, call: Call, upload_id: UUID, query: UploadQuery) -> Reply:
        """Cancel a resumable upload. If its file is already listed, the error is 409."""
        _begin(call)
        await self._uploads.end(upload_id, query)
        return Reply(b"")

    @route("OPTIONS", f"{PUBLIC}/tus", access=Access.OPEN, status=204, response_headers=_OFFER)
    async def offer(self, call: Call, storage_id: UUID) -> Reply:
        """Get the supported features of tus."""
        return self._offer()

    @route("OPTIONS", _UPLOAD, access=Access.OPEN, status=204, response_headers=_OFFER)
    async def offer_for_upload(self, call: Call, upload_id: UUID) -> Reply:
        """Get the supported features of tus, at the URL of an upload."""
        return self._offer()

    def _offer(self) -> Reply:
        headers = [
            (b"tus-resumable", tus.VERSION),
            (b"tus-version", tus.VERSION),
            (b"tus-extension", tus.EXTENSIONS),
            (b"tus-max-size", b"%d" % self._uploads.largest),
            (b"tus-checksum-algorithm", ",".join(tus.ALGORITHMS).encode()),
        ]
        return Reply(b"", headers=headers)


def _begin(call: Call) -> None:
    """Check the version; every response contains the server's version."""
    call.answer_headers.append((b"tus-resumable", tus.VERSION))
    tus.check_version(call.headers)


def _state(progress: Progress) -> list[tuple[bytes, bytes]]:
    expires = http_date(_moment(progress)).encode()
    return [(b"upload-offset", b"%d" % progress.offset), (b"upload-expires", expires), _NO_STORE]


def _moment(progress: Progress) -> datetime:
    return datetime.fromtimestamp(progress.expires, UTC)

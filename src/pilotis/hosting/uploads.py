"""Presigned uploads of single contents: directly to the object store if that can enforce size and digest, else here.

Our own upload URLs contain their signed purpose: they need no row, and sending the same bytes twice is harmless.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode
from uuid import UUID

from pilotis.blobs.errors import SizeMismatchError
from pilotis.blobs.protocol import BlobStore, UploadTicket
from pilotis.db.pool import Database
from pilotis.hosting import content_store
from pilotis.hosting.contents import Contents
from pilotis.hosting.errors import UploadLengthRequiredError, UploadLinkInvalidError
from pilotis.hosting.types import (
    FileEntry,
    MissingFile,
    PresignRequest,
    ReceivedContent,
    Upload,
    UploadLink,
    UploadList,
    WantedUpload,
)
from pilotis.http.api.principals import AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import MasterKeyring, base64url, derive_key
from pilotis.kit.errors import PayloadTooLargeError, invalid

MAX_MISSING = 1000
_OCTETS = "application/octet-stream"
_PURPOSE = "hosting/upload"
_CONCURRENT_STATS = 16


class Uploads:
    """Issues upload URLs and receives uploads."""

    def __init__(
        self, database: Database, blobs: BlobStore, contents: Contents, keyring: MasterKeyring, base_url: str
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._contents = contents
        self._keyring = keyring
        self._base_url = base_url

    async def presign(self, app: AppInfo, request: PresignRequest) -> UploadList:
        """Return how to send each content; raises `SizeMismatchError` for one with a different size."""
        wanted = _wanted(request)
        for one in wanted:
            self._check_size(app, one.size)
        known = await self._contents.sizes(app.app_id, [bytes.fromhex(one.hash) for one in wanted])
        for one in wanted:
            require_size(bytes.fromhex(one.hash), one.size, known)
        new = [one for one in wanted if bytes.fromhex(one.hash) not in known]
        await self._mark_staging(app.app_id, [bytes.fromhex(one.hash) for one in new])
        return UploadList(
            [
                Upload(hash=one.hash, size=one.size, exists=True)
                if bytes.fromhex(one.hash) in known
                else self._upload(app, one.hash, one.size)
                for one in wanted
            ]
        )

    async def missing(self, app: AppInfo, files: Mapping[str, FileEntry]) -> list[MissingFile]:
        """Return how to send the first `MAX_MISSING` of the contents that a deployment lacks, each once."""
        by_hash = {entry.sha256: (path, entry) for path, entry in reversed(list(files.items()))}
        first = sorted(by_hash.values())[:MAX_MISSING]
        await self._mark_staging(app.app_id, [entry.sha256 for _, entry in first])
        listed = []
        for path, entry in first:
            self._check_size(app, entry.size)
            upload = self._upload(app, entry.sha256.hex(), entry.size)
            assert upload.upload_url is not None
            listed.append(
                MissingFile(
                    path=path,
                    hash=upload.hash,
                    size=upload.size,
                    upload_url=upload.upload_url,
                    method=upload.method or "PUT",
                    headers=upload.headers or {},
                    expires_at=upload.expires_at or "",
                )
            )
        return listed

    async def receive(
        self, app_id: UUID, link: UploadLink, headers: Mapping[bytes, bytes], chunks: AsyncIterator[bytes]
    ) -> ReceivedContent:
        """Receive the bytes of a content at one of our URLs; everything is checked before they are read."""
        text = _text(app_id, link.hash, link.size, link.expires)
        expected = [_signature(key, text) for key in self._keyring.keys.accepted]
        if not any(hmac.compare_digest(link.signature.encode(), one.encode()) for one in expected):
            raise UploadLinkInvalidError
        if link.expires <= time.time():
            raise UploadLinkInvalidError
        declared = headers.get(b"content-length")
        if declared is None or not declared.isdigit():
            raise UploadLengthRequiredError
        if int(declared) != link.size:
            raise SizeMismatchError
        sha256 = bytes.fromhex(link.hash)
        if sha256 not in await self._contents.sizes(app_id, [sha256]):
            await self._contents.store_stream(app_id, chunks, link.size, sha256)
        return ReceivedContent(link.hash, link.size)

    async def take_staged(self, app_id: UUID, wanted: Mapping[bytes, int]) -> None:
        """Convert staged uploads in the object store to contents, after verifying the digest."""
        if not wanted or self._ticket(app_id, bytes(32), 0, 60) is None:
            return
        known = await self._contents.sizes(app_id, wanted)
        slots = asyncio.Semaphore(_CONCURRENT_STATS)

        async def take(sha256: bytes, size: int) -> None:
            async with slots:
                key = _staging_key(app_id, sha256)
                info = await self._blobs.stat(key)
                if info is not None and info.size == size:
                    await self._contents.store_stream(app_id, self._blobs.open(key), size, sha256)
                    await content_store.delete_soon(self._database, app_id, [key])

        unknown = [(sha256, size) for sha256, size in wanted.items() if sha256 not in known]
        await asyncio.gather(*(take(sha256, size) for sha256, size in unknown[:MAX_MISSING]))

    def _upload(self, app: AppInfo, sha256: str, size: int) -> Upload:
        seconds = app.limits.upload_seconds
        expires = int(time.time()) + seconds
        ticket = self._ticket(app.app_id, bytes.fromhex(sha256), size, seconds)
        if ticket is not None:
            url, method, headers = ticket.url, ticket.method, ticket.headers
        else:
            signature = _signature(self._keyring.keys.current, _text(app.app_id, sha256, size, expires))
            query = urlencode({"hash": sha256, "size": size, "expires": expires, "signature": signature})
            url, method = f"{self._base_url}/v1/uploads/sites/{app.app_id}?{query}", "PUT"
            headers = {"Content-Type": _OCTETS}
        at = rfc3339(datetime.fromtimestamp(expires, UTC))
        return Upload(
            hash=sha256, size=size, exists=False, upload_url=url, method=method, headers=headers, expires_at=at
        )

    def _ticket(self, app_id: UUID, sha256: bytes, size: int, seconds: int) -> UploadTicket | None:
        return self._blobs.presign_put(
            _staging_key(app_id, sha256), size=size, content_type=_OCTETS, sha256=sha256, expires_seconds=seconds
        )

    async def _mark_staging(self, app_id: UUID, hashes: Sequence[bytes]) -> None:
        """Mark staged uploads in the object store for deletion in a day, whether or not a deployment uses them."""
        if hashes and self._ticket(app_id, hashes[0], 0, 60) is not None:
            await content_store.mark_for_deletion(self._database, app_id, [_staging_key(app_id, one) for one in hashes])

    def _check_size(self, app: AppInfo, size: int) -> None:
        if size > app.limits.site_upload_bytes:
            raise PayloadTooLargeError(f"A file of a site has at most {app.limits.site_upload_bytes} bytes.")
        self._blobs.require_space(size)


def require_size(sha256: bytes, size: int, known: Mapping[bytes, int]) -> None:
    """Raise `SizeMismatchError` if an existing content has another size."""
    if known.get(sha256, size) != size:
        raise SizeMismatchError(f"The content {sha256.hex()} has {known[sha256]} bytes, not {size}.")


def _wanted(request: PresignRequest) -> list[WantedUpload]:
    if request.files is not None:
        if request.hash is not None or request.size is not None:
            raise invalid("files", "Send either files, or hash and size of one file.")
        return request.files
    if request.hash is None:
        raise invalid("hash", "hash: the SHA-256 of the content is expected, or files.")
    if request.size is None:
        raise invalid("size", "size: the number of bytes is expected.")
    return [WantedUpload(request.hash, request.size, request.path, request.content_type)]


def _staging_key(app_id: UUID, sha256: bytes) -> str:
    # Half of the digest, in the form of the other keys; the complete digest verifies the bytes.
    return f"staging/{app_id}/{UUID(bytes=sha256[:16])}"


def _text(app_id: UUID, sha256: str, size: int, expires: int) -> str:
    return f"PUT\n{app_id}\n{sha256}\n{size}\n{expires}"


def _signature(master_key: bytes, text: str) -> str:
    return base64url(hmac.digest(_key(master_key), text.encode(), "sha256"))


@functools.lru_cache(maxsize=8)
def _key(master_key: bytes) -> bytes:
    return derive_key(master_key, _PURPOSE)

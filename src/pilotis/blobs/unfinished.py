"""Multipart uploads in an S3 bucket that were begun and never ended, as a killed server leaves them.

Their parts take space and are in no list of objects. obstore cannot list them, so these are requests of our own.
ListMultipartUploads, AbortMultipartUpload and GetBucketLifecycleConfiguration in the Amazon S3 API reference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple
from xml.etree import ElementTree

import structlog

from pilotis.blobs.check import ask
from pilotis.blobs.errors import BlobStoreUnavailableError, InvalidKeyError
from pilotis.blobs.keys import check_key
from pilotis.blobs.presign import Presigner

NO_RULE = (
    "The bucket has no lifecycle rule AbortIncompleteMultipartUpload. With one of a day the store itself deletes what "
    "a killed server leaves of large uploads; otherwise run pilotis storage reconcile --apply now and then."
)
_FOLDERS = ("blobs/", "staging/", "drafts/")
_SECONDS_VALID = 60
_log = structlog.get_logger("pilotis.blobs")


class Unfinished(NamedTuple):
    """A multipart upload: its key in the bucket, its id, and when it began."""

    key: str
    upload_id: str
    began_at: datetime


class MultipartUploads:
    """Those below `prefix` of a bucket, for whose URL `signer` signs."""

    def __init__(self, signer: Presigner, prefix: str) -> None:
        self._signer = signer
        self._prefix = f"{prefix}/" if prefix else ""

    async def list(self) -> AsyncGenerator[Unfinished]:
        """Yield those of Pilotis; none if the store cannot list them. Raises `BlobStoreUnavailableError`."""
        marker: dict[str, str] = {}
        while True:
            status, text = await self._ask("GET", "", {"uploads": "", "prefix": self._prefix} | marker)
            if status != HTTPStatus.OK:
                _log.warning("multipart uploads not listed", status=status, says=text[:500])
                return
            page = _parsed(text)
            for upload in page.iterfind("{*}Upload"):
                found = Unfinished(
                    _text(upload, "Key"), _text(upload, "UploadId"), datetime.fromisoformat(_text(upload, "Initiated"))
                )
                if self._is_ours(found.key):
                    yield found
            if _text(page, "IsTruncated") != "true":
                return
            marker = {
                "key-marker": _text(page, "NextKeyMarker"),
                "upload-id-marker": _text(page, "NextUploadIdMarker"),
            }

    async def abort(self, upload: Unfinished) -> None:
        """Delete its parts; one that has ended meanwhile is no error. Raises `BlobStoreUnavailableError`."""
        status, text = await self._ask("DELETE", upload.key, {"uploadId": upload.upload_id})
        if status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.NOT_FOUND:
            raise BlobStoreUnavailableError from OSError(f"{status} {text[:500]}")

    async def has_no_rule(self) -> bool:
        """Return whether the store says that the bucket has no lifecycle rule for them; False if it does not say."""
        status, text = await self._ask("GET", "", {"lifecycle": ""})
        if status == HTTPStatus.OK:
            return "AbortIncompleteMultipartUpload" not in text
        return "NoSuchLifecycleConfiguration" in text

    def _is_ours(self, key: str) -> bool:
        own = key.removeprefix(self._prefix)
        try:
            check_key(own)
        except InvalidKeyError:
            return False
        return key.startswith(self._prefix) and own.startswith(_FOLDERS)

    async def _ask(self, method: str, key: str, query: dict[str, str]) -> tuple[int, str]:
        url = self._signer.sign(method, key, expires_seconds=_SECONDS_VALID, query=query)
        try:
            status, _, body = await asyncio.to_thread(ask, method, url, {})
        except OSError as error:
            raise BlobStoreUnavailableError from error
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
            raise BlobStoreUnavailableError from OSError(f"{status} {body[:500].decode(errors='replace')}")
        return status, body.decode(errors="replace")


def _parsed(text: str) -> ElementTree.Element:
    try:
        # Of the operator's own store; Expat limits what entities expand to.
        return ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError as error:
        raise BlobStoreUnavailableError from error


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}", "")

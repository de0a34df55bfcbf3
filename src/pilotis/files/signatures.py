"""Signed URLs: for one upload of one size and type, and for reading one file for a while. Pure."""

from __future__ import annotations

import hashlib
import hmac
from uuid import UUID

from pilotis.kit.crypto import base64url, derive_key


class UrlSigner:
    """Signs with HMAC-SHA256 (RFC 2104), under keys of their own for each purpose."""

    def __init__(self, master_key: bytes) -> None:
        self._upload_key = derive_key(master_key, "files/upload")
        self._read_key = derive_key(master_key, "files/read")

    def upload(self, upload_id: UUID, expires: int, size: int, mime_type: str) -> str:
        """Return the signature of an upload URL; `expires` in seconds since 1970.

        Size and type are signed though they stand in the database too: what the URL was given for is then fixed.
        """
        return _signature(self._upload_key, f"PUT\n{upload_id}\n{expires}\n{size}\n{mime_type}")

    def read(self, storage_id: UUID, file_id: UUID, expires: int) -> str:
        """Return the signature of a temporary URL of a file."""
        return _signature(self._read_key, f"GET\n{storage_id}\n{file_id}\n{expires}")


def is_same(given: str, signature: str) -> bool:
    """Tell whether a signature is the right one, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode(), signature.encode())


def _signature(key: bytes, text: str) -> str:
    return base64url(hmac.digest(key, text.encode(), hashlib.sha256))

"""Signed URLs: for uploading one file of a given size and type, and for temporary access to one file. Pure."""

from __future__ import annotations

import functools
import hmac
from uuid import UUID

from pilotis.kit.crypto import MasterKeyring, base64url, derive_key

_UPLOAD = "files/upload"
_RESUMABLE = "files/tus"
_READ = "files/read"


class UrlSigner:
    """Signs with HMAC-SHA256 (RFC 2104) and a separate key for each purpose.

    A URL signed before a rotation of the master key stays valid while the previous key is accepted.
    """

    def __init__(self, keyring: MasterKeyring) -> None:
        self._keyring = keyring

    def upload(self, upload_id: UUID, expires: int, size: int, mime_type: str) -> str:
        """Return the signature of an upload URL; `expires` in seconds since 1970.

        Size and type are signed although the database contains them too, so that the URL is bound to them.
        """
        return _signature(self._keyring.keys.current, _UPLOAD, _upload_text(upload_id, expires, size, mime_type))

    def accepts_upload(self, given: str, upload_id: UUID, expires: int, size: int, mime_type: str) -> bool:
        """Return whether a signature is valid for the upload URL."""
        return self._accepts(given, _UPLOAD, _upload_text(upload_id, expires, size, mime_type))

    def resumable_upload(self, upload_id: UUID, expires: int, size: int, mime_type: str) -> str:
        """Return the signature of a resumable upload's URL."""
        return _signature(self._keyring.keys.current, _RESUMABLE, _upload_text(upload_id, expires, size, mime_type))

    def accepts_resumable_upload(self, given: str, upload_id: UUID, expires: int, size: int, mime_type: str) -> bool:
        """Return whether a signature is valid for the resumable upload's URL."""
        return self._accepts(given, _RESUMABLE, _upload_text(upload_id, expires, size, mime_type))

    def read(self, storage_id: UUID, file_id: UUID, expires: int) -> str:
        """Return the signature of a temporary URL of a file."""
        return _signature(self._keyring.keys.current, _READ, _read_text(storage_id, file_id, expires))

    def accepts_read(self, given: str, storage_id: UUID, file_id: UUID, expires: int) -> bool:
        """Return whether a signature is valid for the temporary URL."""
        return self._accepts(given, _READ, _read_text(storage_id, file_id, expires))

    def _accepts(self, given: str, purpose: str, text: str) -> bool:
        expected = [_signature(key, purpose, text) for key in self._keyring.keys.accepted]
        return any(hmac.compare_digest(given.encode(), signature.encode()) for signature in expected)


def expiry(text: str) -> int | None:
    """Return the expiry time of a URL in seconds since 1970; None if it is not a valid number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None


def _upload_text(upload_id: UUID, expires: int, size: int, mime_type: str) -> str:
    return f"PUT\n{upload_id}\n{expires}\n{size}\n{mime_type}"


def _read_text(storage_id: UUID, file_id: UUID, expires: int) -> str:
    return f"GET\n{storage_id}\n{file_id}\n{expires}"


def _signature(master_key: bytes, purpose: str, text: str) -> str:
    return base64url(hmac.digest(_key(master_key, purpose), text.encode(), "sha256"))


@functools.lru_cache(maxsize=8)
def _key(master_key: bytes, purpose: str) -> bytes:
    return derive_key(master_key, purpose)

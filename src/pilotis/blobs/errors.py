"""The errors of object stores."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, NotFoundError, PilotisError, UnavailableError


class SizeMismatchError(BadRequestError):
    """400 `SIZE_MISMATCH`: fewer or more bytes arrived than were declared."""

    code = "SIZE_MISMATCH"
    message = "The number of bytes is not the declared one."


class DigestMismatchError(BadRequestError):
    """400 `DIGEST_MISMATCH`: the bytes do not have the declared SHA-256."""

    code = "DIGEST_MISMATCH"
    message = "The bytes do not have the declared SHA-256."


class BlobNotFoundError(NotFoundError):
    """404 `BLOB_NOT_FOUND`: the object store has no blob under the key."""

    code = "BLOB_NOT_FOUND"
    message = "The stored file is missing."


class DraftLockedError(PilotisError):
    """423 `UPLOAD_LOCKED`: another request is currently sending to this resumable upload."""

    status = 423
    code = "UPLOAD_LOCKED"
    message = "Another request is sending to this upload. Try again when it has ended."


class BlobStoreUnavailableError(UnavailableError):
    """503 `BLOB_STORE_UNAVAILABLE`: the object store is down, too slow, or rejects the server's requests."""

    code = "BLOB_STORE_UNAVAILABLE"
    message = "The object store is unavailable. Try again shortly."


class InvalidKeyError(ValueError):
    """A key is invalid: a bug in the program, never a user's mistake."""


class InvalidStoreUrlError(ValueError):
    """The text is not the URL of an object store; the message says why."""

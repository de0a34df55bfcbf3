"""What can go wrong between the service and its object store."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, NotFoundError, PilotisError, UnavailableError


class SizeMismatchError(BadRequestError):
    """400 `SIZE_MISMATCH`: fewer or more bytes came than were declared."""

    code = "SIZE_MISMATCH"
    message = "The number of bytes is not the declared one."


class DigestMismatchError(BadRequestError):
    """400 `DIGEST_MISMATCH`: the bytes do not have the declared SHA-256."""

    code = "DIGEST_MISMATCH"
    message = "The bytes do not have the declared SHA-256."


class BlobNotFoundError(NotFoundError):
    """404 `BLOB_NOT_FOUND`: the object store has nothing under the key."""

    code = "BLOB_NOT_FOUND"
    message = "The stored bytes are not there."


class DraftLockedError(PilotisError):
    """423 `UPLOAD_LOCKED`: another request is sending to this resumable upload right now."""

    status = 423
    code = "UPLOAD_LOCKED"
    message = "Another request is sending to this upload. Try again when it has ended."


class BlobStoreUnavailableError(UnavailableError):
    """503 `BLOB_STORE_UNAVAILABLE`: the object store is down, too slow, or refuses the server."""

    code = "BLOB_STORE_UNAVAILABLE"
    message = "The object store is unavailable. Try again shortly."


class StoreFullError(UnavailableError):
    """503 `STORE_FULL`: the object store has no room left; nothing was kept of the upload."""

    code = "STORE_FULL"
    message = "The object store has no room left."


class InvalidKeyError(ValueError):
    """A key is not of the form that stores take: a mistake of the program, never of a caller."""


class InvalidStoreUrlError(ValueError):
    """The text names no object store; the message says what is wrong with it."""

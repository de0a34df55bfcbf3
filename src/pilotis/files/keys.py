"""The keys of an app's files in the object store. The triggers of `0001_initial.sql` write the same keys. Pure."""

from __future__ import annotations

from uuid import UUID

DRAFTS = "drafts/"
"""The prefix of the keys of unfinished resumable uploads."""


def blob_key(app_id: UUID, blob_id: UUID) -> str:
    """Return the key of a file's, an upload's or a variant's bytes."""
    return f"blobs/{app_id}/{blob_id}"


def staging_key(app_id: UUID, upload_id: UUID) -> str:
    """Return the key to which a client uploads directly."""
    return f"staging/{app_id}/{upload_id}"


def draft_key(app_id: UUID, upload_id: UUID) -> str:
    """Return the key of the bytes of an unfinished resumable upload."""
    return f"{DRAFTS}{app_id}/{upload_id}"

"""The keys of an app's files in the object store. The triggers of `0001_initial.sql` write them too. Pure."""

from __future__ import annotations

from uuid import UUID

DRAFTS = "drafts/"
"""What the keys of unfinished resumable uploads begin with."""


def blob_key(app_id: UUID, blob_id: UUID) -> str:
    """Return the key of a file's, an upload's or a variant's bytes."""
    return f"blobs/{app_id}/{blob_id}"


def staging_key(app_id: UUID, upload_id: UUID) -> str:
    """Return the key to which a client sends an upload's bytes itself."""
    return f"staging/{app_id}/{upload_id}"


def draft_key(app_id: UUID, upload_id: UUID) -> str:
    """Return the key of a resumable upload's bytes while more are to come."""
    return f"{DRAFTS}{app_id}/{upload_id}"

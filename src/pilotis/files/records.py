"""What the statements about storages, items and uploads return."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec


class StorageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A storage. With `rules`, JSON in their stored form, `levels` keeps its access settings, JSON too."""

    app_id: UUID
    storage_id: UUID
    name: str
    upload_access: str
    delete_access: str
    read_access: str
    list_access: str | None
    allowed_mime_types: list[str]
    max_file_size: int | None
    quota_bytes: int | None
    created_at: datetime
    updated_at: datetime
    rules: str | None
    rules_updated_at: datetime | None
    levels: str | None


class UsedStorage(StorageRecord, frozen=True, kw_only=True):
    """A storage with the number of its files, and the bytes that they use and that uploads in progress reserve."""

    file_count: int
    used: int
    reserved: int


class ItemRecord(msgspec.Struct, frozen=True):
    """A file, or a folder, which has no content and no type. `sha256` is unknown for some older files."""

    app_id: UUID
    storage_id: UUID
    file_id: UUID
    parent_id: UUID | None
    path: str
    name: str
    is_folder: bool
    is_fixed: bool
    blob_id: UUID | None
    mime_type: str | None
    size: int
    sha256: bytes | None
    version: int
    creator: str | None
    created_at: datetime
    updated_at: datetime


class LinkedFile(msgspec.Struct, frozen=True):
    """A file that a link leads to, with its storage's `read_access`; or a variant of it.

    `data` are the bytes of a variant that is not stored.
    """

    app_id: UUID
    storage_id: UUID
    file_id: UUID
    name: str
    is_fixed: bool
    blob_id: UUID
    mime_type: str
    size: int
    sha256: bytes | None
    version: int
    creator: str | None
    updated_at: datetime
    read_access: str
    data: bytes | None = None


class UploadRecord(msgspec.Struct, frozen=True):
    """An upload. `draft` and `tus_metadata` are those of resumable ones; `item_id` is set once its file is listed.

    `is_busy`: an attempt is receiving it, under a lease.
    """

    app_id: UUID
    upload_id: UUID
    storage_id: UUID
    file_id: UUID
    parent_id: UUID | None
    path: str
    name: str
    is_fixed: bool
    may_replace: bool
    mime_type: str
    size: int
    creator: str | None
    is_direct: bool
    is_reserved: bool
    state: str
    blob_id: UUID | None
    draft: str | None
    tus_metadata: str | None
    sha256: bytes | None
    item_id: UUID | None
    received_at: datetime | None
    is_expired: bool
    is_busy: bool


class PendingDeletion(NamedTuple):
    """A blob that no file refers to any more."""

    app_id: UUID
    key: str


class VariantRecord(NamedTuple):
    """A stored variant of an image; `is_stale` if its use has not been recorded for a day."""

    blob_id: UUID
    size: int
    sha256: bytes
    is_stale: bool

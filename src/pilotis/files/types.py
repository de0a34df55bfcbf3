"""The shapes of file storage."""

from __future__ import annotations

import enum
from typing import Annotated, Literal, NamedTuple
from uuid import UUID

import msgspec

from pilotis.files.recipes import LARGEST_SIDE
from pilotis.http.shapes import Paging

Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
StorageName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Patterns = Annotated[list[str], msgspec.Meta(max_length=100)]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class StorageAccess(enum.Enum):
    """Who may do something.

    `Public` with the public key alone, `AppMember` any member, `Creator` a member with the files it uploaded, `Secret`
    the secret key and console users alone.
    """

    PUBLIC = "Public"
    APP_MEMBER = "AppMember"
    CREATOR = "Creator"
    SECRET = "Secret"  # noqa: S105 - a word of the interface


class NewStorage(msgspec.Struct, forbid_unknown_fields=True):
    """A file storage to make. An empty `allowed_mime_types` takes any type; null sizes are no limit of its own."""

    name: StorageName
    upload_access: StorageAccess = StorageAccess.PUBLIC
    delete_access: StorageAccess = StorageAccess.PUBLIC
    read_access: StorageAccess = StorageAccess.PUBLIC
    allowed_mime_types: Patterns = []
    max_file_size: Bytes | None = None
    quota_bytes: Bytes | None = None


class StorageChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a file storage; what is not given stays."""

    name: StorageName | msgspec.UnsetType = msgspec.UNSET
    upload_access: StorageAccess | msgspec.UnsetType = msgspec.UNSET
    delete_access: StorageAccess | msgspec.UnsetType = msgspec.UNSET
    read_access: StorageAccess | msgspec.UnsetType = msgspec.UNSET
    allowed_mime_types: Patterns | msgspec.UnsetType = msgspec.UNSET
    max_file_size: Bytes | msgspec.UnsetType | None = msgspec.UNSET
    quota_bytes: Bytes | msgspec.UnsetType | None = msgspec.UNSET


class Storage(msgspec.Struct, frozen=True):
    """A file storage. `used_bytes` are those of its files, `reserved_bytes` those of uploads that are under way."""

    id: UUID
    app_id: UUID
    name: str
    upload_access: StorageAccess
    delete_access: StorageAccess
    read_access: StorageAccess
    allowed_mime_types: list[str]
    max_file_size: int | None
    quota_bytes: int | None
    file_count: int
    used_bytes: int
    reserved_bytes: int
    created_at: str
    updated_at: str


class StorageList(msgspec.Struct, frozen=True):
    """The app's file storages, in the order of their creation."""

    storages: list[Storage]
    total_count: int


class StorageDeletion(msgspec.Struct):
    """Whether to delete a storage with all its files."""

    force: bool = False


class NewUpload(msgspec.Struct, forbid_unknown_fields=True):
    """A file to upload: `file_size` in bytes; `parent_id` its folder; `sha256` makes the server check the content."""

    file_name: str
    file_size: Bytes
    mime_type: str
    parent_id: UUID | None = None
    sha256: Sha256 | None = None


class NewFixedUpload(msgspec.Struct, forbid_unknown_fields=True):
    """A file to upload to a path; `file_name` is the name it is saved under, by default the path's last."""

    file_size: Bytes
    mime_type: str
    file_name: str | None = None
    overwrite: bool = False
    sha256: Sha256 | None = None


class Resumable(NamedTuple):
    """What is noted of an upload that can be resumed: how far it has come, and `Upload-Metadata` as it was sent."""

    draft: str
    tus_metadata: str


class UploadPermit(msgspec.Struct, frozen=True):
    """Where to send the bytes: with this method and these headers exactly, until `expires_at`."""

    file_id: UUID
    upload_url: str
    public_url: str
    method: str
    headers: dict[str, str]
    expires_at: str


class UploadProgress(msgspec.Struct, frozen=True):
    """How far a resumable upload has come: `offset` of `length` bytes are durable. Its URL works until `expires_at`."""

    offset: int
    length: int
    expires_at: str


class Completion(msgspec.Struct, forbid_unknown_fields=True):
    """Which upload is complete."""

    file_id: UUID


class Received(msgspec.Struct, frozen=True):
    """All bytes have come; `ETag` is their SHA-256."""


class FileItem(msgspec.Struct, frozen=True, tag_field="type", tag="file"):
    """A file. `version` counts how often its content has been replaced, from 1; `sha256` is null until it is known."""

    id: UUID
    name: str
    path: str
    mime_type: str
    size: int
    url: str
    parent_id: UUID | None
    version: int
    sha256: str | None
    created_at: str
    updated_at: str


class FolderItem(msgspec.Struct, frozen=True, tag_field="type", tag="folder"):
    """A folder."""

    id: UUID
    name: str
    path: str
    parent_id: UUID | None
    created_at: str
    updated_at: str


class FolderContents(msgspec.Struct, frozen=True, tag_field="type", tag="folder"):
    """A folder with what is in it, by name; `total_count` tells whether `files` are all."""

    id: UUID
    name: str
    path: str
    parent_id: UUID | None
    created_at: str
    updated_at: str
    files: list[FileItem | FolderItem]
    total_count: int


class ItemQuery(Paging):
    """Which items: all of the storage, or those in the folder `parent_id`, or at the top for `root`.

    `search` keeps those that have it in their name, whatever the case.
    """

    parent_id: Annotated[str, msgspec.Meta(max_length=36)] | None = None
    search: Annotated[str, msgspec.Meta(max_length=255)] | None = None


class ItemList(msgspec.Struct, frozen=True):
    """Files and folders by path, with the number of all there are and the limit that was in force."""

    files: list[FileItem | FolderItem]
    total_count: int
    limit: int
    offset: int


class NewFolder(msgspec.Struct, forbid_unknown_fields=True):
    """A folder to make, at the top or in another one."""

    name: str
    parent_id: UUID | None = None


class Deletion(msgspec.Struct):
    """Whether to delete a folder with everything in it."""

    recursive: bool = False


class TemporaryUrl(msgspec.Struct, forbid_unknown_fields=True):
    """How long a temporary URL is to work: up to 7 days."""

    expires_seconds: Annotated[int, msgspec.Meta(ge=1, le=7 * 24 * 3600)] = 3600


class SignedUrl(msgspec.Struct, frozen=True):
    """A URL that reads a file without a credential until `expires_at`."""

    url: str
    expires_at: str


class UploadQuery(msgspec.Struct):
    """The signed part of an upload URL."""

    expires: str = ""
    signature: str = ""


# Where an image has another ratio than width and height together, `cover` cuts off what is too much, `contain` keeps
# all of it, and `fill` stretches it.
ImageFit = Literal["cover", "contain", "fill"]
# `auto` is WebP where the header `Accept` names it, else what is kept without a format.
ImageFormat = Literal["auto", "jpeg", "png", "webp", "avif"]
ImageSide = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SIDE)]


class LinkQuery(msgspec.Struct):
    """`v` is the version a link is about; `expires` and `signature` make it a temporary one.

    With one of the others a variant of an image is asked for: at most so many pixels, in this format and `quality`.
    """

    v: str = ""
    expires: str = ""
    signature: str = ""
    width: ImageSide | None = None
    height: ImageSide | None = None
    fit: ImageFit | None = None
    format: ImageFormat | None = None
    quality: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None

    @property
    def is_variant(self) -> bool:
        """Whether a variant is asked for, and not the file as it is."""
        return (self.width or self.height or self.fit or self.format or self.quality) is not None

"""The types of file storage."""

from __future__ import annotations

import enum
from typing import Annotated, Literal, NamedTuple
from uuid import UUID

import msgspec

from pilotis.data.rules.types import FileRuleSet
from pilotis.files.recipes import LARGEST_SIDE
from pilotis.http.api.schemas import Paging

Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
StorageName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Patterns = Annotated[list[str], msgspec.Meta(max_length=100)]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class StorageAccess(enum.Enum):
    """Who may perform an action.

    `Public`: anyone with the public key; `AppMember`: any member; `Creator`: a member, with its own files; `Secret`:
    only the secret key and console users.
    """

    PUBLIC = "Public"
    APP_MEMBER = "AppMember"
    CREATOR = "Creator"
    SECRET = "Secret"  # noqa: S105 - a word of the interface


class NewStorage(msgspec.Struct, forbid_unknown_fields=True):
    """A file storage to create. An empty `allowed_mime_types` allows any type; null sizes set no limit of its own.

    Without `quota_bytes` it has the server's default quota, the limit `storage_quota_bytes`. `list_access` is who may
    list files and look for them, by default whoever may read them. `rules` say who may do what, in place of all these
    settings; see the guide on rules.
    """

    name: StorageName
    upload_access: StorageAccess = StorageAccess.PUBLIC
    delete_access: StorageAccess = StorageAccess.PUBLIC
    read_access: StorageAccess = StorageAccess.PUBLIC
    list_access: StorageAccess | None = None
    allowed_mime_types: Patterns = []
    max_file_size: Bytes | None = None
    quota_bytes: Bytes | msgspec.UnsetType | None = msgspec.UNSET
    rules: FileRuleSet | None = None


class StorageChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a file storage; absent fields stay as they are, and `rules` that are null are removed."""

    name: StorageName | msgspec.UnsetType = msgspec.UNSET
    upload_access: StorageAccess | msgspec.UnsetType = msgspec.UNSET
    delete_access: StorageAccess | msgspec.UnsetType = msgspec.UNSET
    read_access: StorageAccess | msgspec.UnsetType = msgspec.UNSET
    list_access: StorageAccess | msgspec.UnsetType | None = msgspec.UNSET
    allowed_mime_types: Patterns | msgspec.UnsetType = msgspec.UNSET
    max_file_size: Bytes | msgspec.UnsetType | None = msgspec.UNSET
    quota_bytes: Bytes | msgspec.UnsetType | None = msgspec.UNSET
    rules: FileRuleSet | msgspec.UnsetType | None = msgspec.UNSET


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """A file storage. `used_bytes` is the size of its files, `reserved_bytes` that of uploads in progress.

    `list_access` is null where whoever may read files may list them. `has_rules` is present where rules decide in place
    of the access settings.
    """

    id: UUID
    app_id: UUID
    name: str
    upload_access: StorageAccess
    delete_access: StorageAccess
    read_access: StorageAccess
    list_access: StorageAccess | None
    allowed_mime_types: list[str]
    max_file_size: int | None
    quota_bytes: int | None
    file_count: int
    used_bytes: int
    reserved_bytes: int
    created_at: str
    updated_at: str
    has_rules: bool | msgspec.UnsetType = msgspec.UNSET


class StorageList(msgspec.Struct, frozen=True, kw_only=True):
    """File storages in the order of creation, with their total number and the limit in effect."""

    storages: list[Storage]
    total_count: int
    limit: int
    offset: int


class StorageDeletion(msgspec.Struct, forbid_unknown_fields=True):
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
    """A file to upload to a path; `file_name` is its name when saved, by default the path's last name."""

    file_size: Bytes
    mime_type: str
    file_name: str | None = None
    overwrite: bool = False
    sha256: Sha256 | None = None


class Resumable(NamedTuple):
    """The state of a resumable upload: its progress, and `Upload-Metadata` as sent."""

    draft: str
    tus_metadata: str


class ItemMove(msgspec.Struct, forbid_unknown_fields=True):
    """A new name or folder of an item; absent fields stay as they are. A null `parent_id` is the top of the storage."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | msgspec.UnsetType = msgspec.UNSET
    parent_id: UUID | msgspec.UnsetType | None = msgspec.UNSET


class UploadPermit(msgspec.Struct, frozen=True, kw_only=True):
    """The URL to which to send the bytes with exactly this method and these headers, until `expires_at`."""

    file_id: UUID
    upload_url: str
    public_url: str
    method: str
    headers: dict[str, str]
    expires_at: str


class UploadProgress(msgspec.Struct, frozen=True):
    """Progress of a resumable upload: `offset` of `length` bytes are durable. Its URL is valid until `expires_at`."""

    offset: int
    length: int
    expires_at: str


class CompleteUpload(msgspec.Struct, forbid_unknown_fields=True):
    """The upload to complete."""

    file_id: UUID


class ReceivedUpload(msgspec.Struct, frozen=True):
    """All bytes have arrived; `ETag` is their SHA-256."""


class FileItem(msgspec.Struct, frozen=True, tag_field="type", tag="file", kw_only=True):
    """A file. `version` starts at 1 and grows when its content is replaced; `sha256` is null until it is known.

    `created_by` is the member that uploaded it, or null; secret keys, console users and functions see it in lists.
    """

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
    created_by: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str


class FolderItem(msgspec.Struct, frozen=True, tag_field="type", tag="folder", kw_only=True):
    """A folder."""

    id: UUID
    name: str
    path: str
    parent_id: UUID | None
    created_at: str
    updated_at: str


class FolderContents(msgspec.Struct, frozen=True, tag_field="type", tag="folder", kw_only=True):
    """A folder with its items, by name; `total_count` is the number of all its items."""

    id: UUID
    name: str
    path: str
    parent_id: UUID | None
    created_at: str
    updated_at: str
    files: list[FileItem | FolderItem]
    total_count: int


class ItemQuery(Paging, forbid_unknown_fields=True):
    """The items to list: all of the storage, those in the folder `parent_id`, or those at the top for `root`.

    `search` selects items with this text in their name, ignoring case, `created_by` the files that a member uploaded;
    the latter is for secret keys, console users and functions.
    """

    parent_id: Annotated[str, msgspec.Meta(max_length=36)] | None = None
    search: Annotated[str, msgspec.Meta(max_length=255)] | None = None
    created_by: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """Files and folders by path, with their total number and the limit in effect."""

    files: list[FileItem | FolderItem]
    total_count: int
    limit: int
    offset: int


class NewFolder(msgspec.Struct, forbid_unknown_fields=True):
    """A folder to create, at the top or in another folder."""

    name: str
    parent_id: UUID | None = None


class Deletion(msgspec.Struct, forbid_unknown_fields=True):
    """Whether to delete a folder with everything in it."""

    recursive: bool = False


class NewSignedUrl(msgspec.Struct, forbid_unknown_fields=True):
    """The lifetime of a temporary URL: up to 7 days."""

    expires_seconds: Annotated[int, msgspec.Meta(ge=1, le=7 * 24 * 3600)] = 3600


class SignedUrl(msgspec.Struct, frozen=True):
    """A URL that gives access to a file without a credential until `expires_at`."""

    url: str
    expires_at: str


class UploadQuery(msgspec.Struct):
    """The signed part of an upload URL."""

    expires: str = ""
    signature: str = ""


# If the image's ratio differs from width and height, `cover` crops it, `contain` fits it, and `fill` stretches it.
ImageFit = Literal["cover", "contain", "fill"]
# `auto` is WebP if the `Accept` header names it, otherwise the same as without a format.
ImageFormat = Literal["auto", "jpeg", "png", "webp", "avif"]
ImageSide = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SIDE)]


class LinkQuery(msgspec.Struct):
    """`v` is the version of the file; `expires` and `signature` belong to temporary links.

    `capability` is what the header `X-Capability` is for other requests: `share=` and the text of a shared link.

    The others select a variant of an image: its largest width and height in pixels, format and `quality`.
    """

    v: str = ""
    expires: str = ""
    signature: str = ""
    capability: str = ""
    width: ImageSide | None = None
    height: ImageSide | None = None
    fit: ImageFit | None = None
    format: ImageFormat | None = None
    quality: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None

    @property
    def is_variant(self) -> bool:
        """Whether the link selects a variant."""
        return (self.width or self.height or self.fit or self.format or self.quality) is not None

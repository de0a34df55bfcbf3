"""The routes of file storage (interface: File storage)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from pilotis.blobs.errors import (
    BlobNotFoundError,
    BlobStoreUnavailableError,
    DigestMismatchError,
    SizeMismatchError,
    StoreFullError,
)
from pilotis.files.delivery import Delivery
from pilotis.files.errors import (
    ContentTypeMismatchError,
    FileNotFoundInStorageError,
    FileSignatureInvalidError,
    FileTooLargeError,
    FolderNotEmptyError,
    FolderNotFoundError,
    ImageTooLargeError,
    InvalidImageError,
    InvalidPathError,
    LengthRequiredError,
    MimeTypeNotAllowedError,
    NotAnImageError,
    NotYoursError,
    PathTakenError,
    PreconditionNotMetError,
    QuotaExceededError,
    RangeNotSatisfiableError,
    StorageMemberRequiredError,
    StorageNameTakenError,
    StorageNotEmptyError,
    StorageNotFoundError,
    TypeMismatchError,
    UploadAlreadyReceivedError,
    UploadExpiredError,
    UploadInProgressError,
    UploadNotFoundError,
    UploadNotReceivedError,
    UploadSignatureInvalidError,
    UploadUrlExpiredError,
)
from pilotis.files.listing import Listing
from pilotis.files.storages import Storages
from pilotis.files.types import (
    Completion,
    Deletion,
    FileItem,
    FolderContents,
    FolderItem,
    ItemList,
    ItemQuery,
    LinkQuery,
    NewFixedUpload,
    NewFolder,
    NewStorage,
    NewUpload,
    Received,
    SignedUrl,
    Storage,
    StorageChange,
    StorageDeletion,
    StorageList,
    TemporaryUrl,
    UploadPermit,
    UploadQuery,
)
from pilotis.files.uploads import Uploads
from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, Reply, delete, get, patch, post, put
from pilotis.http.principals import Access, RoleRequiredError, SecretKeyRequiredError
from pilotis.http.shapes import Deleted
from pilotis.kit import json
from pilotis.kit.errors import ForbiddenError, InvalidIdError, UnauthorizedError, UnavailableError, ValidationError

_STORAGES = "/v1/apps/:app_id/storages/files"
PUBLIC = "/v1/public/storages/files/:storage_id"
_ACCESS = [StorageNotFoundError, StorageMemberRequiredError, SecretKeyRequiredError]
PRESIGN_ERRORS = [
    *_ACCESS,
    InvalidPathError,
    PathTakenError,
    NotYoursError,
    FolderNotFoundError,
    MimeTypeNotAllowedError,
    FileTooLargeError,
    QuotaExceededError,
]
_LINK = [
    FileNotFoundInStorageError,
    BlobNotFoundError,
    StorageMemberRequiredError,
    SecretKeyRequiredError,
    FileSignatureInvalidError,
    RoleRequiredError,
    UnauthorizedError,
    ForbiddenError,
    PreconditionNotMetError,
    RangeNotSatisfiableError,
    BlobStoreUnavailableError,
    ValidationError,
    NotAnImageError,
    InvalidImageError,
    ImageTooLargeError,
    UnavailableError,
]


class StorageEndpoints(Endpoints, tag="File storages"):
    """File storages, for console users."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    @get(_STORAGES, access=Access.APP_VIEWER)
    async def all(self, call: Call, app_id: UUID) -> StorageList:
        """List the app's file storages, with what is in them."""
        return await self._storages.all(app_id)

    @post(_STORAGES, access=Access.APP_EDITOR, status=201, errors=[StorageNameTakenError])
    async def create(self, call: Call, app_id: UUID, body: NewStorage) -> Storage:
        """Make a file storage.

        `upload_access`, `delete_access` and `read_access` say who may do what; by default the public key is enough.
        """
        return await self._storages.create(call.app, call.actor, body)

    @get(f"{_STORAGES}/:storage_id", access=Access.APP_VIEWER, errors=[StorageNotFoundError])
    async def read(self, call: Call, app_id: UUID, storage_id: UUID) -> Storage:
        """Read a file storage."""
        return await self._storages.read(app_id, storage_id)

    @patch(
        f"{_STORAGES}/:storage_id",
        access=Access.APP_EDITOR,
        errors=[StorageNotFoundError, StorageNameTakenError],
    )
    async def update(self, call: Call, app_id: UUID, storage_id: UUID, body: StorageChange) -> Storage:
        """Change a file storage; what is not given stays. Files that are there already stay too."""
        return await self._storages.update(app_id, call.actor, storage_id, body)

    @delete(
        f"{_STORAGES}/:storage_id",
        access=Access.APP_EDITOR,
        errors=[StorageNotFoundError, StorageNotEmptyError],
    )
    async def delete(self, call: Call, app_id: UUID, storage_id: UUID, query: StorageDeletion) -> Deleted:
        """Delete a file storage. One that holds something is deleted only with `force=true`, and cannot come back."""
        await self._storages.delete(app_id, call.actor, storage_id, force=query.force)
        return Deleted("File storage deleted.", storage_id)


class FileEndpoints(Endpoints, tag="File storage"):
    """Uploads, files and folders, by the public key; a storage may ask for more."""

    def __init__(self, uploads: Uploads, listing: Listing) -> None:
        self._uploads = uploads
        self._listing = listing

    @post(f"{PUBLIC}/presigned-url", access=Access.PUBLIC_KEY, rate="upload", errors=PRESIGN_ERRORS)
    async def presign(self, call: Call, storage_id: UUID, body: NewUpload) -> UploadPermit:
        """Ask for a URL to upload a new file to.

        Send the bytes there with the method and headers of the answer, then call complete-upload.
        """
        return await self._uploads.presign(call.app, call.principal, storage_id, body)

    @post(f"{PUBLIC}/presigned-url/path/*path", access=Access.PUBLIC_KEY, rate="upload", errors=PRESIGN_ERRORS)
    async def presign_path(self, call: Call, storage_id: UUID, path: str, body: NewFixedUpload) -> UploadPermit:
        """Ask for a URL to upload a file to a fixed path.

        With `overwrite` a file that is there is replaced, all at once when the upload is completed: its id and its
        URL stay the same. Folders on the way are made.
        """
        return await self._uploads.presign_path(call.app, call.principal, storage_id, path, body)

    @post(
        f"{PUBLIC}/complete-upload",
        access=Access.PUBLIC_KEY,
        errors=[
            *_ACCESS,
            FileNotFoundInStorageError,
            UploadNotReceivedError,
            UploadExpiredError,
            PathTakenError,
            NotYoursError,
            FolderNotFoundError,
            SizeMismatchError,
            TypeMismatchError,
            BlobStoreUnavailableError,
        ],
    )
    async def complete(self, call: Call, storage_id: UUID, body: Completion) -> FileItem:
        """List an uploaded file. Until then nobody sees it; a repeat returns the same file."""
        return await self._uploads.complete(call.app, call.principal, storage_id, body.file_id)

    @get(f"{PUBLIC}/items", access=Access.PUBLIC_KEY, errors=_ACCESS)
    async def items(self, call: Call, storage_id: UUID, query: ItemQuery) -> ItemList:
        """List files and folders by path: all of them, or those in one folder."""
        return await self._listing.page(call.app, call.principal, storage_id, query)

    @post(
        f"{PUBLIC}/folders",
        access=Access.PUBLIC_KEY,
        status=201,
        errors=[*_ACCESS, InvalidPathError, PathTakenError, FolderNotFoundError],
    )
    async def make_folder(self, call: Call, storage_id: UUID, body: NewFolder) -> FolderItem:
        """Make a folder."""
        return await self._listing.make_folder(call.app, call.principal, storage_id, body)

    @delete(
        f"{PUBLIC}/items/:file_id",
        access=Access.PUBLIC_KEY,
        errors=[*_ACCESS, FileNotFoundInStorageError, FolderNotEmptyError, NotYoursError],
    )
    async def delete(self, call: Call, storage_id: UUID, file_id: UUID, query: Deletion) -> Deleted:
        """Delete a file or a folder; a folder that is not empty only with `recursive=true`."""
        await self._listing.delete(call.app, call.principal, storage_id, file_id, recursive=query.recursive)
        return Deleted("Deleted.", file_id)

    @get(
        f"{PUBLIC}/path/*path",
        access=Access.PUBLIC_KEY,
        returns=FileItem | FolderContents,
        errors=[*_ACCESS, FileNotFoundInStorageError, InvalidPathError],
    )
    async def at_path(self, call: Call, storage_id: UUID, path: str) -> FileItem | FolderContents:
        """Read what is at a path: a file, or a folder with what is in it."""
        return await self._listing.at_path(call.app, call.principal, storage_id, path)

    @post(
        f"{PUBLIC}/items/:file_id/signed-url",
        access=Access.PUBLIC_KEY,
        errors=[*_ACCESS, FileNotFoundInStorageError],
    )
    async def temporary_url(self, call: Call, storage_id: UUID, file_id: UUID, body: TemporaryUrl) -> SignedUrl:
        """Make a temporary URL of a file, for a storage that not everybody may read."""
        return await self._listing.temporary_url(call.app, call.principal, storage_id, file_id, body.expires_seconds)


class FileTransferEndpoints(Endpoints, tag="File transfer"):
    """Bytes in and out, by URLs that need no header."""

    def __init__(self, uploads: Uploads, delivery: Delivery) -> None:
        self._uploads = uploads
        self._delivery = delivery

    @put(
        "/v1/uploads/:upload_id",
        access=Access.OPEN,
        returns=Received,
        errors=[
            UploadSignatureInvalidError,
            UploadUrlExpiredError,
            UploadNotFoundError,
            UploadAlreadyReceivedError,
            UploadInProgressError,
            LengthRequiredError,
            SizeMismatchError,
            ContentTypeMismatchError,
            DigestMismatchError,
            BlobStoreUnavailableError,
            StoreFullError,
            ValidationError,
        ],
    )
    async def receive(self, call: Call, upload_id: UUID, query: UploadQuery, body: AsyncIterator[bytes]) -> Reply:
        """Send the bytes of an upload to the URL that presigned-url gave.

        `Content-Length` and `Content-Type` must be what was declared. The URL takes one file, once.
        """
        sha256 = await self._uploads.receive(upload_id, query, call.headers, body)
        return Reply(json.encode(Received()), headers=[(b"etag", f'"{sha256}"'.encode())])

    @get(
        "/files/:storage_id/:file_id/:name",
        access=Access.OPEN,
        returns=bytes,
        media_type="*/*",
        errors=[InvalidIdError, *_LINK],
    )
    async def by_id(self, call: Call, storage_id: UUID, file_id: UUID, name: str, query: LinkQuery) -> Reply:
        """Fetch a file by its link. Ranges and conditions of RFC 9110 are understood.

        With `width`, `height`, `fit`, `format` or `quality` a variant of an image.
        """
        return await self._delivery.by_id(call, storage_id, file_id, name, query)

    @get("/files/:storage_id/p/*path", access=Access.OPEN, returns=bytes, media_type="*/*", errors=_LINK)
    async def by_path(self, call: Call, storage_id: UUID, path: str, query: LinkQuery) -> Reply:
        """Fetch the file that is at a path. With `v` set to its present version caches may keep it for good.

        With `width`, `height`, `fit`, `format` or `quality` a variant of an image.
        """
        return await self._delivery.by_path(call, storage_id, path, query)

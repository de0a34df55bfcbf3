"""The routes of file storage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from pilotis.blobs.errors import BlobNotFoundError, BlobStoreUnavailableError, DigestMismatchError, SizeMismatchError
from pilotis.data.rules.files.service import (
    RULE_ERRORS,
    FileMemberRequiredError,
    FileRuleDeniedError,
    TooManyValuesAskedError,
)
from pilotis.data.rules.service import RulesChangedError
from pilotis.data.rules.types import FileRuleTest, FileRuleTestResult, NewFileRules, StorageRules
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
    UploadFinishingError,
    UploadInProgressError,
    UploadNotFoundError,
    UploadNotReceivedError,
    UploadSignatureInvalidError,
    UploadUrlExpiredError,
)
from pilotis.files.listing import Listing
from pilotis.files.rule_tests import FileRuleTests
from pilotis.files.storages import Storages
from pilotis.files.types import (
    CompleteUpload,
    Deletion,
    FileItem,
    FolderContents,
    FolderItem,
    ItemList,
    ItemMove,
    ItemQuery,
    LinkQuery,
    NewFixedUpload,
    NewFolder,
    NewSignedUrl,
    NewStorage,
    NewUpload,
    ReceivedUpload,
    SignedUrl,
    Storage,
    StorageChange,
    StorageDeletion,
    StorageList,
    UploadPermit,
    UploadQuery,
)
from pilotis.files.uploads.service import Uploads
from pilotis.http.api.capabilities import InvalidCapabilityError
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import Access, Role, RoleRequiredError, SecretKeyRequiredError, console, public
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, Paging
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import (
    ForbiddenError,
    InvalidIdError,
    StorageFullError,
    UnauthorizedError,
    UnavailableError,
    ValidationError,
)
from pilotis.members.administration.service import MemberNotFoundError

READ = public(scope="files:read")
WRITE = public(scope="files:write")
UPLOAD = Access(scope="files:write")
"""The signature in the URL is the credential. With a scope, functions can send what they have asked to send."""
LINK = Access(scope="files:read")
"""Anyone may follow a link. With a scope, functions can read their app's files, and need no signature."""


_STORAGES = "/v1/apps/:app_id/storages/files"
PUBLIC = "/v1/public/storages/files/:storage_id"
_RULED = [FileMemberRequiredError, FileRuleDeniedError]
_ACCESS = [StorageNotFoundError, StorageMemberRequiredError, SecretKeyRequiredError, *_RULED]
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
    InvalidCapabilityError,
    *_RULED,
]


class StorageEndpoints(Endpoints, tag="File storages"):
    """File storages, for console users."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    @get(_STORAGES, access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> StorageList:
        """List the app's file storages with their numbers of files and bytes."""
        return await self._storages.page(call.app, query)

    @post(
        _STORAGES,
        access=Access.APP_EDITOR,
        status=201,
        creates="storage_id",
        again="read",
        errors=[StorageNameTakenError, *RULE_ERRORS],
    )
    async def create(self, call: Call, app_id: UUID, body: NewStorage) -> Storage:
        """Create a file storage.

        `upload_access`, `delete_access`, `read_access` and `list_access` control access; by default the public key is
        sufficient. `rules` take their place.
        """
        return await self._storages.create(call.app, call.actor, body, UUID(call.new_id()))

    @get(f"{_STORAGES}/:storage_id", access=Access.APP_VIEWER, errors=[StorageNotFoundError])
    async def read(self, call: Call, app_id: UUID, storage_id: UUID) -> Storage:
        """Read a file storage."""
        return await self._storages.read(app_id, storage_id)

    @patch(
        f"{_STORAGES}/:storage_id",
        access=Access.APP_EDITOR,
        errors=[StorageNotFoundError, StorageNameTakenError, *RULE_ERRORS],
    )
    async def update(self, call: Call, app_id: UUID, storage_id: UUID, body: StorageChange) -> Storage:
        """Change a file storage; absent fields stay as they are. Existing files are not affected."""
        return await self._storages.update(call.app, call.actor, storage_id, body)

    @delete(
        f"{_STORAGES}/:storage_id",
        access=Access.APP_EDITOR,
        errors=[StorageNotFoundError, StorageNotEmptyError],
    )
    async def delete(self, call: Call, app_id: UUID, storage_id: UUID, query: StorageDeletion) -> Deleted:
        """Delete a file storage. One with files is deleted only with `force=true`, and cannot be restored."""
        await self._storages.delete(app_id, call.actor, storage_id, force=query.force)
        return Deleted("File storage deleted.", storage_id)


class StorageRuleEndpoints(Endpoints, tag="File storages"):
    """Rules of file storages: who may list, read, upload, replace and delete which files."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    @get(
        f"{_STORAGES}/:storage_id/rules",
        access=console(Role.VIEWER, secret_key=True),
        errors=[StorageNotFoundError],
    )
    async def rules(self, call: Call, app_id: UUID, storage_id: UUID) -> StorageRules:
        """Read a file storage's rules, and what to begin with."""
        return await self._storages.rules(call.app, storage_id)

    @put(
        f"{_STORAGES}/:storage_id/rules",
        access=console(Role.EDITOR, secret_key=True),
        errors=[StorageNotFoundError, *RULE_ERRORS, RulesChangedError],
    )
    async def save_rules(self, call: Call, app_id: UUID, storage_id: UUID, body: NewFileRules) -> StorageRules:
        """Replace a file storage's rules. They hold for every request that begins after the answer, on every node."""
        await self._storages.save_rules(call.app, call.actor, storage_id, body)
        return await self._storages.rules(call.app, storage_id)


class FileAdministrationEndpoints(Endpoints, tag="File storages"):
    """What a console user can do with files in addition to the public routes."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    @patch(
        f"{_STORAGES}/:storage_id/items/:file_id",
        access=Access.APP_EDITOR,
        errors=[
            StorageNotFoundError,
            FileNotFoundInStorageError,
            FolderNotFoundError,
            InvalidPathError,
            PathTakenError,
        ],
    )
    async def move(
        self, call: Call, app_id: UUID, storage_id: UUID, file_id: UUID, body: ItemMove
    ) -> FileItem | FolderItem:
        """Rename a file or folder, or move it to another folder.

        A link by id keeps working; one by path works with the new path only.
        """
        return await self._listing.move(call.app, call.actor, call.principal, storage_id, file_id, body)


class StorageRuleTestEndpoints(Endpoints, tag="File storages"):
    """What the rules of a storage answer."""

    def __init__(self, tests: FileRuleTests) -> None:
        self._tests = tests

    @post(
        f"{_STORAGES}/:storage_id/rules/test",
        access=console(Role.EDITOR, secret_key=True),
        needs_room=False,
        errors=[StorageNotFoundError, MemberNotFoundError, *RULE_ERRORS, InvalidPathError],
    )
    async def test(self, call: Call, app_id: UUID, storage_id: UUID, body: FileRuleTest) -> FileRuleTestResult:
        """Try an action as a member, or as the public, and learn which conditions decide it.

        Nothing is changed. `rules` are tried in place of those that hold.
        """
        return await self._tests.run(call.app, storage_id, body)


class FileEndpoints(Endpoints, tag="File storage"):
    """Uploads, files and folders. The public key is sufficient unless a storage requires more."""

    def __init__(self, uploads: Uploads, listing: Listing) -> None:
        self._uploads = uploads
        self._listing = listing

    @post(f"{PUBLIC}/presigned-url", access=WRITE, rate="upload", errors=PRESIGN_ERRORS)
    async def presign(self, call: Call, storage_id: UUID, body: NewUpload) -> UploadPermit:
        """Get a URL to which to upload a new file.

        Send the bytes there with the method and headers of the answer, then call complete-upload.
        """
        return await self._uploads.presign(call.app, call.principal, storage_id, body)

    @post(f"{PUBLIC}/presigned-url/path/*path", access=WRITE, rate="upload", errors=PRESIGN_ERRORS)
    async def presign_path(self, call: Call, storage_id: UUID, path: str, body: NewFixedUpload) -> UploadPermit:
        """Get a URL to which to upload a file with a fixed path.

        With `overwrite` an existing file is replaced atomically when the upload is completed: its id and its URL stay
        the same. Missing folders are created.
        """
        return await self._uploads.presign_path(call.app, call.principal, storage_id, path, body)

    @post(
        f"{PUBLIC}/complete-upload",
        access=WRITE,
        errors=[
            *_ACCESS,
            FileNotFoundInStorageError,
            UploadNotReceivedError,
            UploadExpiredError,
            UploadFinishingError,
            PathTakenError,
            NotYoursError,
            FolderNotFoundError,
            SizeMismatchError,
            TypeMismatchError,
            BlobStoreUnavailableError,
        ],
    )
    async def complete(self, call: Call, storage_id: UUID, body: CompleteUpload) -> FileItem:
        """Complete an upload and list its file. Until then it is not visible; a repeated call returns the same file."""
        return await self._uploads.complete(call.app, call.principal, storage_id, body.file_id)

    @get(f"{PUBLIC}/items", access=READ, errors=[*_ACCESS, FolderNotFoundError, TooManyValuesAskedError])
    async def items(self, call: Call, storage_id: UUID, query: ItemQuery) -> ItemList:
        """List files and folders by path: all of them, or those in one folder."""
        return await self._listing.page(call.app, call.principal, storage_id, query)

    @post(
        f"{PUBLIC}/folders",
        access=WRITE,
        status=201,
        creates="file_id",
        again="folder",
        errors=[*_ACCESS, InvalidPathError, PathTakenError, FolderNotFoundError],
    )
    async def make_folder(self, call: Call, storage_id: UUID, body: NewFolder) -> FolderItem:
        """Create a folder."""
        return await self._listing.make_folder(call.app, call.principal, storage_id, body, UUID(call.new_id()))

    async def folder(self, call: Call, storage_id: UUID, file_id: UUID) -> FolderItem:
        """Return a created folder."""
        return await self._listing.folder(call.app, storage_id, file_id)

    @delete(
        f"{PUBLIC}/items/:file_id",
        access=WRITE,
        errors=[*_ACCESS, FileNotFoundInStorageError, FolderNotEmptyError, NotYoursError],
    )
    async def delete(self, call: Call, storage_id: UUID, file_id: UUID, query: Deletion) -> Deleted:
        """Delete a file or a folder; a folder with items only with `recursive=true`."""
        await self._listing.delete(call.app, call.principal, storage_id, file_id, recursive=query.recursive)
        return Deleted("Deleted.", file_id)

    @get(
        f"{PUBLIC}/path/*path",
        access=READ,
        returns=FileItem | FolderContents,
        errors=[*_ACCESS, FileNotFoundInStorageError, InvalidPathError, TooManyValuesAskedError],
    )
    async def at_path(self, call: Call, storage_id: UUID, path: str) -> FileItem | FolderContents:
        """Read the item at a path: a file, or a folder with its items."""
        return await self._listing.at_path(call.app, call.principal, storage_id, path)

    @post(
        f"{PUBLIC}/items/:file_id/signed-url",
        access=WRITE,
        needs_room=False,
        errors=[*_ACCESS, FileNotFoundInStorageError],
    )
    async def temporary_url(self, call: Call, storage_id: UUID, file_id: UUID, body: NewSignedUrl) -> SignedUrl:
        """Create a temporary URL of a file in a storage without public read access."""
        return await self._listing.temporary_url(call.app, call.principal, storage_id, file_id, body.expires_seconds)


class FileTransferEndpoints(Endpoints, tag="File transfer"):
    """Uploads and downloads by URLs that need no headers."""

    def __init__(self, uploads: Uploads, delivery: Delivery) -> None:
        self._uploads = uploads
        self._delivery = delivery

    @put(
        "/v1/uploads/:upload_id",
        access=UPLOAD,
        returns=ReceivedUpload,
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
            StorageFullError,
            ValidationError,
        ],
    )
    async def receive(self, call: Call, upload_id: UUID, query: UploadQuery, body: AsyncIterator[bytes]) -> Reply:
        """Send the bytes of an upload to the URL from presigned-url.

        `Content-Length` and `Content-Type` must be as declared. The URL accepts one file, once.
        """
        sha256 = await self._uploads.receive(upload_id, query, call.headers, body)
        return Reply(json.encode(ReceivedUpload()), headers=[(b"etag", f'"{sha256}"'.encode())])

    @get(
        "/files/:storage_id/:file_id/:name",
        access=LINK,
        returns=bytes,
        media_type="*/*",
        errors=[InvalidIdError, *_LINK],
    )
    async def by_id(self, call: Call, storage_id: UUID, file_id: UUID, name: str, query: LinkQuery) -> Reply:
        """Download a file by its link. Supports the ranges and conditions of RFC 9110.

        `width`, `height`, `fit`, `format` and `quality` select a variant of an image.
        """
        return await self._delivery.by_id(call.head, storage_id, file_id, name, query)

    @get("/files/:storage_id/p/*path", access=LINK, returns=bytes, media_type="*/*", errors=_LINK)
    async def by_path(self, call: Call, storage_id: UUID, path: str, query: LinkQuery) -> Reply:
        """Download the file at a path. With `v` set to its current version, caches may keep it indefinitely.

        `width`, `height`, `fit`, `format` and `quality` select a variant of an image.
        """
        return await self._delivery.by_path(call.head, storage_id, path, query)

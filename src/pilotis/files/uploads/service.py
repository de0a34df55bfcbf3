"""Uploads in three steps: a presigned URL, the bytes, the completion.

Invariants: a file is listed and served only when all its bytes are durable; the bytes of each attempt go to their own
key, so that no late or second request can change acknowledged bytes; a URL accepts one file of one size and type, once,
until it expires.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.blobs.errors import BlobNotFoundError, SizeMismatchError
from pilotis.blobs.protocol import BlobInfo, BlobStore, Draft, UploadTicket
from pilotis.blobs.streams import Digest
from pilotis.data.rules.files.service import FileMemberRequiredError, FileRuleDeniedError, RuledStorage
from pilotis.db.batching import Batchers
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import NewEvent
from pilotis.files import media, paths, store
from pilotis.files.access import creator_limit, member_of, require_own, usable_accesses
from pilotis.files.errors import (
    ContentTypeMismatchError,
    FileNotFoundInStorageError,
    FileTooLargeError,
    FolderNotFoundError,
    LengthRequiredError,
    MimeTypeNotAllowedError,
    PathTakenError,
    QuotaExceededError,
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
from pilotis.files.events import FILE_CREATED, FILE_REPLACED, FOLDER_CREATED, CallerEvents
from pilotis.files.items import Links
from pilotis.files.keys import blob_key, staging_key
from pilotis.files.records import ItemRecord, StorageRecord, UploadRecord
from pilotis.files.ruling import Ruling, access, facts_of_new, rules_of
from pilotis.files.signatures import UrlSigner, expiry
from pilotis.files.types import (
    FileItem,
    NewFixedUpload,
    NewUpload,
    Resumable,
    UploadPermit,
    UploadQuery,
)
from pilotis.files.uploads import leases
from pilotis.files.uploads import store as upload_store
from pilotis.files.uploads.finishing import WAIT_SECONDS, Finishing
from pilotis.http.api.principals import AppInfo, Principal, Role
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import PilotisError, StorageFullError
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits

# A direct upload may begin just before its URL expires, and the server does not see its end.
_TIMES_DIRECT = 2
# Uploads in progress to one path, of which the last whose bytes have arrived is completed.
_MAX_ABSENT = 16
_POLL_SECONDS = 0.25
_Place = tuple[UUID, UUID]
"""An app's and a storage's id."""
_Allow = Callable[[ItemRecord | None], Awaitable[None]]


class _RefusedError(Exception):
    """An upload was received, and the rules of its storage do not let its file be listed, as `error` says."""

    def __init__(self, upload: UploadRecord, error: PilotisError) -> None:
        self.upload = upload
        self.error = error


class _Wanted(NamedTuple):
    """A validated upload request."""

    path: str
    name: str
    size: int
    mime_type: str
    sha256: bytes | None
    is_fixed: bool
    may_replace: bool
    resumable: Resumable | None

    def url_seconds(self, limits: Limits) -> int:
        """Return the lifetime of its URL."""
        return limits.upload_seconds if self.resumable is None else limits.resumable_upload_seconds

    def columns(self) -> dict[str, Any]:
        """Return it as columns of an upload."""
        columns = self._asdict()
        resumable = columns.pop("resumable")
        return columns | (resumable._asdict() if resumable else {})


class Uploads:
    """Uploads to all storages. `base_url` is the address of this service; `node_id` returns the id of this process."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        signer: UrlSigner,
        links: Links,
        events: Events,
        base_url: str,
        node_id: Callable[[], UUID],
        ruling: Ruling,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._signer = signer
        self._links = links
        self._events = events
        self._base_url = base_url
        self._ruling = ruling
        self.node_id = node_id
        self.finishing = Finishing()
        self._inserts: Batchers[_Place, upload_store.NewUploadRow, bool] = Batchers(
            partial(upload_store.insert_many, database)
        )
        self._completions: Batchers[_Place, upload_store.CompletionRow, ItemRecord | None] = Batchers(
            partial(upload_store.complete_many, database)
        )

    async def presign(
        self,
        app: AppInfo,
        principal: Principal,
        storage_id: UUID,
        new: NewUpload,
        *,
        resumable: Resumable | None = None,
    ) -> UploadPermit:
        """Authorize the upload of a new file to a folder and reserve its space; resumable if requested."""
        name = paths.checked_name(new.file_name)
        mime_type = media.checked_type(new.mime_type)
        if resumable is None and (
            presigned := await self._presign_batched(app, principal, storage_id, name, mime_type, new)
        ):
            return presigned
        async with self._database.transaction(app.app_id) as connection:
            storage = await _storage(connection, app, storage_id)
            path = await _path_in(connection, app.app_id, storage_id, new.parent_id, name)
            wanted = _Wanted(path, name, new.file_size, mime_type, _digest(new.sha256), False, False, resumable)
            return await self._reserve(connection, app, principal, storage, wanted, new.parent_id)

    async def presign_path(
        self,
        app: AppInfo,
        principal: Principal,
        storage_id: UUID,
        path: str,
        new: NewFixedUpload,
        *,
        resumable: Resumable | None = None,
    ) -> UploadPermit:
        """Authorize an upload to a path; with `overwrite` it may replace a file. Missing folders are created."""
        path = paths.checked_path(path)
        name = paths.checked_name(new.file_name) if new.file_name is not None else paths.name_of(path)
        mime_type = media.checked_type(new.mime_type)
        wanted = _Wanted(path, name, new.file_size, mime_type, _digest(new.sha256), True, new.overwrite, resumable)
        async with self._database.transaction(app.app_id) as connection:
            storage = await _storage(connection, app, storage_id)
            return await self._reserve(connection, app, principal, storage, wanted, None)

    async def receive(
        self, upload_id: UUID, query: UploadQuery, headers: Mapping[bytes, bytes], chunks: AsyncIterator[bytes]
    ) -> str:
        """Receive the bytes of an upload and return their SHA-256; everything is checked before they are read."""
        upload = await self._checked_upload(upload_id, query)
        _check_headers(upload, headers)
        blob_id = uuid7()
        if not await upload_store.claim(self._database, upload, blob_id, self.node_id()):
            raise UploadInProgressError if upload.is_busy else await self._claim_error(upload_id)
        app_id = upload.app_id
        try:
            info = await self._store(upload, blob_id, chunks)
        except BaseException:
            await leases.shielded(upload_store.end_attempt(self._database, app_id, upload_id, blob_id))
            raise
        assert info.sha256 is not None
        if not await upload_store.received(self._database, app_id, upload_id, blob_id, bytes.fromhex(info.sha256)):
            await self._blobs.delete([blob_key(app_id, blob_id)])
            raise await self._claim_error(upload_id)
        return info.sha256

    async def complete(self, app: AppInfo, principal: Principal, storage_id: UUID, file_id: UUID) -> FileItem:
        """List the file of a received upload; a repeated call returns the same file."""
        if listed := await self._complete_batched(app, principal, storage_id, file_id):
            return self._links.file(listed)
        absent: list[UUID] = []
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT_SECONDS
        while True:
            try:
                async with self._database.transaction(app.app_id) as connection:
                    outcome = await self._complete(connection, app, principal, storage_id, file_id, absent)
            except _RefusedError as refused:
                await self._end_refused(refused.upload)
                raise refused.error from None
            if isinstance(outcome, FileItem):
                return outcome
            if loop.time() > end:
                raise UploadFinishingError
            # Copying is slow, and must not happen inside a transaction.
            try:
                await self.finishing.run(outcome.upload_id, partial(self._receive_staged, app.limits, outcome))
            except UploadNotReceivedError:
                absent.append(outcome.upload_id)
                if len(absent) == _MAX_ABSENT:
                    raise

    async def _end_refused(self, upload: UploadRecord) -> None:
        """End an upload whose file may not be listed, which frees its space; others' uploads are left to expire.

        The id of a file that is to be replaced is no secret, so it does not say whose upload without a member it is.
        """
        if upload.creator is not None or upload.file_id == upload.upload_id:
            await upload_store.end(self._database, upload.app_id, upload.upload_id)

    async def _presign_batched(
        self, app: AppInfo, principal: Principal, storage_id: UUID, name: str, mime_type: str, new: NewUpload
    ) -> UploadPermit | None:
        """Authorize an upload in one batched statement with concurrent ones; None if it needs the full procedure."""
        if new.file_size > app.limits.file_bytes or not self._has_space(new.file_size):
            return None
        upload_id = uuid7()
        wanted = _Wanted(name, name, new.file_size, mime_type, _digest(new.sha256), False, False, None)
        ticket = self._ticket(app, upload_id, wanted)
        row = upload_store.NewUploadRow(
            app.app_id,
            upload_id,
            storage_id,
            new.parent_id,
            name,
            mime_type,
            new.file_size,
            new.sha256,
            member_of(principal),
            ticket is not None,
            _seconds(app.limits, wanted, ticket),
            usable_accesses(principal, Role.EDITOR),
            media.patterns_of(mime_type),
        )
        try:
            if not await self._inserts.submit((app.app_id, storage_id), row):
                return None
        except asyncpg.DeadlockDetectedError:
            return None
        return self._presigned(app, storage_id, upload_id, upload_id, wanted, ticket)

    def _has_space(self, size: int) -> bool:
        try:
            self._blobs.require_space(size)
        except StorageFullError:
            return False
        return True

    async def _complete_batched(
        self, app: AppInfo, principal: Principal, storage_id: UUID, file_id: UUID
    ) -> ItemRecord | None:
        """List a file in one batched statement with concurrent ones; None if it needs the full procedure."""
        row = upload_store.CompletionRow(
            app.app_id,
            storage_id,
            file_id,
            member_of(principal),
            principal.may(Role.EDITOR),
            usable_accesses(principal, Role.EDITOR),
        )
        try:
            return await self._completions.submit((app.app_id, storage_id), row)
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.DeadlockDetectedError):
            return None

    async def _reserve(
        self,
        connection: Connection,
        app: AppInfo,
        principal: Principal,
        storage: StorageRecord,
        wanted: _Wanted,
        parent_id: UUID | None,
    ) -> UploadPermit:
        storage_id, upload_id = storage.storage_id, uuid7()
        limit = await self._upload_limit(connection, principal, storage, wanted, upload_id)
        _check_wanted(app, storage, wanted)
        # After the limits: that a file is too large for the storage stays true when the disk has room again.
        self._blobs.require_space(wanted.size)
        folders = paths.folders_of(wanted.path) if wanted.is_fixed else []
        if folders and await store.has_file_at(connection, app.app_id, storage_id, folders):
            raise PathTakenError
        existing = await store.item_at(connection, app.app_id, storage_id, wanted.path)
        _check_replaceable(existing, wanted.may_replace, limit)
        has_quota = storage.quota_bytes is not None
        if has_quota and not await store.reserve(connection, app.app_id, storage_id, wanted.size):
            raise QuotaExceededError
        file_id = existing.file_id if existing else upload_id
        ticket = self._ticket(app, upload_id, wanted)
        columns = {
            "app_id": app.app_id,
            "upload_id": upload_id,
            "storage_id": storage_id,
            "file_id": file_id,
            "parent_id": parent_id,
            **wanted.columns(),
            "creator": member_of(principal),
            "is_direct": ticket is not None,
            "is_reserved": has_quota,
            # A draft becomes the same blob however often its end is repeated. Clients never see its id.
            "blob_id": uuid7() if wanted.resumable is not None else None,
        }
        await upload_store.insert(connection, columns, _seconds(app.limits, wanted, ticket))
        return self._presigned(app, storage_id, upload_id, file_id, wanted, ticket)

    async def _upload_limit(
        self, connection: Connection, principal: Principal, storage: StorageRecord, wanted: _Wanted, upload_id: UUID
    ) -> str | None:
        """Return what `creator_limit` does for a storage without rules; raises the error of the rules of another."""
        ruled = rules_of(storage, principal, Role.EDITOR)
        if ruled is None:
            return creator_limit(principal, access(storage, "upload_access"), Role.EDITOR)
        existing = await store.item_at(connection, ruled.app_id, ruled.storage_id, wanted.path)
        new = facts_of_new(upload_id, wanted.path, wanted.name, wanted.mime_type, wanted.size, member_of(principal))
        await self._ruling.require_uploadable(
            connection, ruled, principal, existing, new, may_replace=wanted.may_replace
        )
        return None

    def _ticket(self, app: AppInfo, upload_id: UUID, wanted: _Wanted) -> UploadTicket | None:
        if wanted.resumable is not None:
            return None
        return self._blobs.presign_put(
            staging_key(app.app_id, upload_id),
            size=wanted.size,
            content_type=wanted.mime_type,
            sha256=wanted.sha256,
            expires_seconds=app.limits.upload_seconds,
        )

    def _presigned(
        self,
        app: AppInfo,
        storage_id: UUID,
        upload_id: UUID,
        file_id: UUID,
        wanted: _Wanted,
        ticket: UploadTicket | None,
    ) -> UploadPermit:
        expires = int(time.time()) + wanted.url_seconds(app.limits)
        return UploadPermit(
            file_id=file_id,
            upload_url=ticket.url if ticket else self._url(upload_id, expires, wanted),
            public_url=self._links.to(storage_id, file_id, wanted.name, wanted.path, is_fixed=wanted.is_fixed),
            method=ticket.method if ticket else "PUT",
            headers=ticket.headers if ticket else {"Content-Type": wanted.mime_type},
            expires_at=rfc3339(datetime.fromtimestamp(expires, UTC)),
        )

    def _url(self, upload_id: UUID, expires: int, wanted: _Wanted) -> str:
        if wanted.resumable is not None:
            signature = self._signer.resumable_upload(upload_id, expires, wanted.size, wanted.mime_type)
            return f"{self._base_url}/v1/uploads/tus/{upload_id}?expires={expires}&signature={signature}"
        signature = self._signer.upload(upload_id, expires, wanted.size, wanted.mime_type)
        return f"{self._base_url}/v1/uploads/{upload_id}?expires={expires}&signature={signature}"

    async def _checked_upload(self, upload_id: UUID, query: UploadQuery) -> UploadRecord:
        expires = expiry(query.expires)
        if expires is None:
            raise UploadSignatureInvalidError
        if expires <= time.time():
            raise UploadUrlExpiredError
        upload = await upload_store.by_id(self._database, upload_id)
        if upload is None or upload.is_direct or upload.draft is not None:
            raise UploadNotFoundError
        if not self._signer.accepts_upload(query.signature, upload_id, expires, upload.size, upload.mime_type):
            raise UploadSignatureInvalidError
        return upload

    async def _claim_error(self, upload_id: UUID) -> Exception:
        """Return the error for an upload that could not be claimed."""
        upload = await upload_store.by_id(self._database, upload_id)
        if upload is None:
            return UploadNotFoundError()
        busy = upload.state in {"pending", "receiving"}
        return UploadInProgressError() if busy else UploadAlreadyReceivedError()

    async def _store(self, upload: UploadRecord, blob_id: UUID, chunks: AsyncIterator[bytes]) -> BlobInfo:
        app_id, upload_id = upload.app_id, upload.upload_id
        renewal = partial(upload_store.renew, self._database, app_id, upload_id, blob_id)
        async with leases.kept(renewal, upload_store.LEASE_SECONDS):
            return await self._blobs.put(
                blob_key(app_id, blob_id),
                chunks,
                size=upload.size,
                content_type=upload.mime_type,
                sha256=upload.sha256,
            )

    async def _complete(
        self,
        connection: Connection,
        app: AppInfo,
        principal: Principal,
        storage_id: UUID,
        file_id: UUID,
        absent: Sequence[UUID],
    ) -> FileItem | UploadRecord:
        """Return the listed file, or the upload whose bytes must first be copied from the staging area.

        The bytes of the uploads in `absent` are not there.
        """
        storage = await store.lock_storage_to_charge(connection, app.app_id, storage_id)
        if storage is None:
            raise StorageNotFoundError
        ruled = rules_of(storage, principal, Role.EDITOR)
        limit = None if ruled else creator_limit(principal, access(storage, "upload_access"), Role.EDITOR)
        creator, anyone = member_of(principal), principal.may(Role.EDITOR)
        upload = await upload_store.lock_by_file(
            connection, app.app_id, storage_id, file_id, creator, anyone=anyone, absent=absent
        )
        if absent and (upload is None or upload.state == "completed"):
            raise UploadNotReceivedError
        if upload is None or upload.state == "completed":
            item_id = file_id if upload is None or upload.item_id is None else upload.item_id
            return await self._completed_before(connection, principal, storage, item_id, limit)
        if upload.is_expired:
            raise UploadExpiredError
        if upload.is_direct and upload.state in {"pending", "receiving"}:
            return upload
        if upload.state != "uploaded":
            raise UploadFinishingError if upload.is_busy and _is_whole(upload) else UploadNotReceivedError
        listed: list[NewEvent] = []
        allow = partial(self._allow, connection, principal, ruled, limit, upload)
        row, freed = await _list(connection, upload, allow, CallerEvents(self._links, principal), listed)
        await upload_store.complete(connection, upload, row.file_id)
        reserved = await upload_store.delete_superseded(connection, upload)
        if storage.quota_bytes is not None:
            reserved += upload.size if upload.is_reserved else 0
            used = upload.size - freed
            await store.settle(connection, app.app_id, storage_id, reserved=-reserved, used=used)
        await self._events.emit_all(connection, app.app_id, listed)
        return self._links.file(row)

    async def _allow(
        self,
        connection: Connection,
        principal: Principal,
        ruled: RuledStorage | None,
        limit: str | None,
        upload: UploadRecord,
        existing: ItemRecord | None,
    ) -> None:
        """Raise an error unless an upload may be listed where there is an item, or nothing."""
        if ruled is None:
            _check_replaceable(existing, upload.may_replace, limit)
            return
        new = facts_of_new(upload.file_id, upload.path, upload.name, upload.mime_type, upload.size, upload.creator)
        try:
            await self._ruling.require_uploadable(
                connection, ruled, principal, existing, new, may_replace=upload.may_replace
            )
        except (FileRuleDeniedError, FileMemberRequiredError) as error:
            raise _RefusedError(upload, error) from None

    async def _completed_before(
        self, connection: Connection, principal: Principal, storage: StorageRecord, file_id: UUID, limit: str | None
    ) -> FileItem:
        row = await store.item(connection, storage.app_id, storage.storage_id, file_id)
        is_own = row is not None and row.creator is not None and row.creator == member_of(principal)
        if rules_of(storage, principal, Role.EDITOR) is not None and not is_own:
            row = await self._ruling.require_readable(connection, storage, principal, row)
        if row is None or row.is_folder or (limit is not None and row.creator != limit):
            raise FileNotFoundInStorageError
        return self._links.file(row)

    async def _receive_staged(self, limits: Limits, upload: UploadRecord) -> None:
        """Receive a direct upload: copy its bytes to a key that no presigned URL can write to.

        A lease keeps other nodes from doing the same; while one of them does, this only waits a little.
        """
        if upload.is_busy:
            await asyncio.sleep(_POLL_SECONDS)
            return
        app_id, upload_id = upload.app_id, upload.upload_id
        staging = staging_key(app_id, upload_id)
        sent = await self._blobs.stat(staging)
        if sent is None:
            # Without a bucket nothing is found: that is no fault of the client.
            await self._blobs.ping()
            raise UploadNotReceivedError
        _check_sent(sent, upload)
        async with self.finishing.slot(app_id):
            await self._receive_sent(limits, upload, staging)

    async def _receive_sent(self, limits: Limits, upload: UploadRecord, staging: str) -> None:
        app_id, upload_id, blob_id = upload.app_id, upload.upload_id, uuid7()
        if not await upload_store.claim(self._database, upload, blob_id, self.node_id()):
            return
        try:
            sha256 = await self._copy(upload, staging, blob_id)
        except BaseException:
            await leases.shielded(upload_store.end_attempt(self._database, app_id, upload_id, blob_id))
            raise
        taken = upload_store.received(
            self._database, app_id, upload_id, blob_id, sha256, url_seconds=limits.upload_seconds
        )
        if not await taken:
            await self._blobs.delete([blob_key(app_id, blob_id)])

    async def _copy(self, upload: UploadRecord, staging: str, blob_id: UUID) -> bytes:
        """Copy the bytes of a direct upload to its blob, and return their SHA-256."""
        app_id, upload_id = upload.app_id, upload.upload_id
        renewal = partial(upload_store.renew, self._database, app_id, upload_id, blob_id)
        async with leases.kept(renewal, upload_store.LEASE_SECONDS):
            try:
                copied = await self._blobs.copy(staging, blob_key(app_id, blob_id))
            except BlobNotFoundError:
                raise UploadNotReceivedError from None
            # They may have been replaced meanwhile.
            _check_sent(copied, upload)
            if upload.sha256 is not None:
                # The store compared it when it received the bytes.
                return bytes(upload.sha256)
            return await self._digest(copied)

    async def _digest(self, blob: BlobInfo) -> bytes:
        """Return a blob's SHA-256: the one that is stored with it, or that of its bytes, which are read once."""
        if blob.sha256 is not None:
            return bytes.fromhex(blob.sha256)
        digest = Digest()
        async for _ in digest.watch(self._blobs.open(blob.key), None):
            pass
        return bytes.fromhex(digest.hex)


def _is_whole(upload: UploadRecord) -> bool:
    """Return whether all bytes of a resumable upload have arrived."""
    draft = upload.draft
    return draft is not None and bool(msgspec.json.decode(draft, type=Draft).size == upload.size)


def _check_sent(sent: BlobInfo, upload: UploadRecord) -> None:
    if sent.size != upload.size:
        raise SizeMismatchError
    if sent.content_type is not None and sent.content_type != upload.mime_type:
        raise TypeMismatchError


def _seconds(limits: Limits, wanted: _Wanted, ticket: UploadTicket | None) -> int:
    seconds = wanted.url_seconds(limits)
    return _TIMES_DIRECT * seconds if ticket else seconds


def _digest(text: str | None) -> bytes | None:
    return bytes.fromhex(text) if text is not None else None


async def _storage(connection: Connection, app: AppInfo, storage_id: UUID) -> StorageRecord:
    row = await store.lock_storage_shared(connection, app.app_id, storage_id)
    if row is None:
        raise StorageNotFoundError
    return row


async def _path_in(connection: Connection, app_id: UUID, storage_id: UUID, parent_id: UUID | None, name: str) -> str:
    if parent_id is None:
        return name
    folder = await store.folder(connection, app_id, storage_id, parent_id)
    if folder is None:
        raise FolderNotFoundError
    return paths.checked_path(f"{folder.path}/{name}")


def _check_wanted(app: AppInfo, storage: StorageRecord, wanted: _Wanted) -> None:
    if not media.is_allowed(wanted.mime_type, storage.allowed_mime_types):
        allowed = ", ".join(storage.allowed_mime_types)
        raise MimeTypeNotAllowedError(f"This storage accepts {allowed}; this file is {wanted.mime_type[:100]}.")
    limit = app.limits.file_bytes
    if storage.max_file_size is not None:
        limit = min(limit, storage.max_file_size)
    if wanted.size > limit:
        raise FileTooLargeError(f"The file is too large; this storage allows at most {limit} bytes.")


def _check_replaceable(existing: ItemRecord | None, may_replace: bool, limit: str | None) -> None:
    if existing is None:
        return
    if existing.is_folder or not may_replace:
        raise PathTakenError
    require_own(limit, existing.creator)


def _check_headers(upload: UploadRecord, headers: Mapping[bytes, bytes]) -> None:
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or b"transfer-encoding" in headers:
        raise LengthRequiredError
    if int(length) != upload.size:
        raise SizeMismatchError(f"The upload was declared with {upload.size} bytes.")
    if headers.get(b"content-type", b"").decode("latin-1") != upload.mime_type:
        raise ContentTypeMismatchError


async def _list(
    connection: Connection, upload: UploadRecord, allow: _Allow, caller_events: CallerEvents, events: list[NewEvent]
) -> tuple[ItemRecord, int]:
    """List an upload's file; return it and the size of the content it replaced. Adds its `events`.

    `allow` is asked what it may replace, an item or nothing.
    """
    app_id, storage_id = upload.app_id, upload.storage_id
    parent_id = upload.parent_id
    if upload.is_fixed:
        parent_id = await _make_folders(connection, upload, caller_events, events)
    elif parent_id is not None and await store.folder(connection, app_id, storage_id, parent_id) is None:
        raise FolderNotFoundError
    # The path may be taken or freed between two statements.
    while True:
        existing = await store.lock_item_at(connection, app_id, storage_id, upload.path)
        await allow(existing)
        if existing is not None:
            replaced = await store.replace_content(connection, existing, upload)
            events.append(caller_events.file(FILE_REPLACED, replaced))
            return replaced, existing.size
        if row := await store.insert_file(connection, upload, parent_id):
            events.append(caller_events.file(FILE_CREATED, row))
            return row, 0


async def _make_folders(
    connection: Connection, upload: UploadRecord, caller_events: CallerEvents, events: list[NewEvent]
) -> UUID | None:
    parent_id: UUID | None = None
    for path in paths.folders_of(upload.path):
        row = None
        while row is None:
            row = await store.item_at(connection, upload.app_id, upload.storage_id, path)
            if row is not None:
                continue
            row = await store.insert_folder(
                connection, upload.app_id, upload.storage_id, uuid7(), parent_id, path, upload.creator
            )
            if row is not None:
                events.append(caller_events.folder(FOLDER_CREATED, row))
        if not row.is_folder:
            raise PathTakenError(f"There is a file at {path}, where a folder is needed.")
        parent_id = row.file_id
    return parent_id

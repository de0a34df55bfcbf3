"""The items of a storage: listing, folders, lookup by path, deletion, temporary URLs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from msgspec import UNSET

from pilotis.data.rules.files.service import Listed
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.files import items, paths, store
from pilotis.files.access import creator_limit, member_of, require_own
from pilotis.files.errors import (
    FileNotFoundInStorageError,
    FolderNotEmptyError,
    FolderNotFoundError,
    InvalidPathError,
    PathTakenError,
    StorageNotFoundError,
)
from pilotis.files.events import FILE_MOVED, FOLDER_CREATED, FOLDER_MOVED, CallerEvents
from pilotis.files.items import Links
from pilotis.files.records import ItemRecord, StorageRecord
from pilotis.files.ruling import Ruling, access, facts_of_new, rules_of
from pilotis.files.signatures import UrlSigner
from pilotis.files.types import (
    FileItem,
    FolderContents,
    FolderItem,
    ItemList,
    ItemMove,
    ItemQuery,
    NewFolder,
    SignedUrl,
)
from pilotis.http.api.principals import Actor, AppInfo, Principal, Role, RoleRequiredError
from pilotis.kit import ids
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import PilotisError, invalid
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record

_ANONYMISED_MOST = 1000


class Listing:
    """The files and folders of all storages."""

    def __init__(self, database: Database, signer: UrlSigner, links: Links, events: Events, ruling: Ruling) -> None:
        self._database = database
        self._signer = signer
        self._links = links
        self._events = events
        self._ruling = ruling

    async def forget_creator(self, app_id: UUID, member_id: str) -> int:
        """Make the creator of some files of a deleted member nobody, and return how many they were."""
        return await store.forget_creator(self._database.of(app_id), app_id, member_id, _ANONYMISED_MOST)

    async def page(self, app: AppInfo, principal: Principal, storage_id: UUID, query: ItemQuery) -> ItemList:
        """Return a page of the items that the caller may see, by path; raises `FolderNotFoundError`."""
        storage, database = await self._storage(app, storage_id), self._database.of(app.app_id)
        listed = await self._ruling.listed(database, storage, principal)
        # Members stay unknown to each other.
        creators = principal.role is not None
        if query.created_by is not None and not creators:
            raise RoleRequiredError("created_by is for secret keys, console users and functions.")
        limit = app.limits.page_size(query.limit)
        parent_id = _parent(query.parent_id)
        folder = None if parent_id is None else await store.folder(database, app.app_id, storage_id, parent_id)
        if parent_id is not None and folder is None:
            raise FolderNotFoundError
        rows, total = await self._page(
            app,
            storage_id,
            listed,
            parent_id=parent_id,
            top=query.parent_id == "root",
            search=query.search or None,
            created_by=query.created_by,
            limit=limit,
            offset=query.offset,
        )
        if folder is not None and not total and not await self._shows(app, principal, storage, folder, listed):
            raise FolderNotFoundError
        return ItemList(
            files=[self._links.item(row, creators=creators) for row in rows],
            total_count=total,
            limit=limit,
            offset=query.offset,
        )

    async def at_path(
        self, app: AppInfo, principal: Principal, storage_id: UUID, path: str
    ) -> FileItem | FolderContents:
        """Return the file at a path, or the folder with its items; raises `FileNotFoundInStorageError`."""
        storage, database = await self._storage(app, storage_id), self._database.of(app.app_id)
        row = await store.item_at(database, app.app_id, storage_id, paths.checked_path(path))
        creators = principal.role is not None
        if row is None or not row.is_folder:
            row = await self._ruling.require_readable(database, storage, principal, row)
            return self._links.file(row, creators=creators)
        is_readable = await self._ruling.may_read(database, storage, principal, row)
        try:
            listed = await self._ruling.listed(database, storage, principal)
        except PilotisError:
            # A folder that may not be known is answered like one that does not exist.
            if is_readable:
                raise
            raise FileNotFoundInStorageError from None
        rows, total = await self._page(app, storage_id, listed, parent_id=row.file_id, limit=app.limits.page_rows)
        if not is_readable and not total:
            raise FileNotFoundInStorageError
        return items.contents(row, [self._links.item(one, creators=creators) for one in rows], total)

    async def folder(self, app: AppInfo, storage_id: UUID, file_id: UUID) -> FolderItem:
        """Return a folder; raises `FolderNotFoundError`."""
        row = await store.folder(self._database.of(app.app_id), app.app_id, storage_id, file_id)
        if row is None:
            raise FolderNotFoundError
        return items.folder(row)

    async def make_folder(
        self, app: AppInfo, principal: Principal, storage_id: UUID, new: NewFolder, file_id: UUID | None = None
    ) -> FolderItem:
        """Create a folder; raises `PathTakenError`, `FolderNotFoundError`."""
        path = paths.checked_name(new.name)
        async with self._database.transaction(app.app_id) as connection:
            storage = await store.lock_storage_shared(connection, app.app_id, storage_id)
            if storage is None:
                raise StorageNotFoundError
            if storage.rules is None:
                creator_limit(principal, access(storage, "upload_access"), Role.EDITOR)
            if new.parent_id is not None:
                parent = await store.folder(connection, app.app_id, storage_id, new.parent_id)
                if parent is None:
                    raise FolderNotFoundError
                path = paths.checked_path(f"{parent.path}/{path}")
            creator, file_id = member_of(principal), file_id or uuid7()
            if storage.rules is not None:
                facts = facts_of_new(file_id, path, paths.name_of(path), None, 0, creator)
                await self._ruling.require_creatable(connection, storage, principal, facts)
            row = await store.insert_folder(connection, app.app_id, storage_id, file_id, new.parent_id, path, creator)
            if row is None:
                raise PathTakenError
            event = CallerEvents(self._links, principal).folder(FOLDER_CREATED, row)
            await self._events.emit_all(connection, app.app_id, [event])
        return items.folder(row)

    async def move(
        self, app: AppInfo, actor: Actor, principal: Principal, storage_id: UUID, file_id: UUID, change: ItemMove
    ) -> FileItem | FolderItem:
        """Rename an item or move it into another folder, and return it; recorded in the audit log.

        Raises `FileNotFoundInStorageError`, `FolderNotFoundError`, `PathTakenError`, and `InvalidPathError` for a
        folder that would contain itself or be nested too deeply.
        """
        async with self._database.transaction(app.app_id) as connection:
            # Two concurrent moves could put each of two folders into the other.
            if await store.lock_storage(connection, app.app_id, storage_id) is None:
                raise StorageNotFoundError
            row = await store.item(connection, app.app_id, storage_id, file_id)
            if row is None:
                raise FileNotFoundInStorageError
            parent_id = row.parent_id if change.parent_id is UNSET else change.parent_id
            parent = await store.folder(connection, app.app_id, storage_id, parent_id) if parent_id else None
            if parent_id and parent is None:
                raise FolderNotFoundError
            own_name = paths.name_of(row.path)
            name = own_name if change.name is UNSET else paths.checked_name(change.name)
            path = f"{parent.path}/{name}" if parent else name
            if path == row.path:
                return self._links.item(row)
            if f"{path}/".startswith(f"{row.path}/"):
                raise InvalidPathError("A folder cannot be moved into itself.")
            more_bytes, levels = await store.longest_below(connection, app.app_id, storage_id, row.path)
            paths.checked_path(path)
            if len(path.encode()) + more_bytes > paths.PATH_BYTES or path.count("/") + 1 + levels > paths.DEPTH:
                raise InvalidPathError("A path in the folder would become too long.")
            if await store.item_at(connection, app.app_id, storage_id, path):
                raise PathTakenError
            moved = await store.move(connection, app.app_id, row, parent_id, name, path)
            events = CallerEvents(self._links, principal)
            event = events.folder(FOLDER_MOVED, moved) if moved.is_folder else events.file(FILE_MOVED, moved)
            await self._events.emit_all(connection, app.app_id, [event])
            places = {"from": row.path, "to": path}
            await record(connection, app.app_id, actor, "file.move", file_id, storage_id=storage_id, **places)
        return self._links.item(moved)

    async def delete(
        self, app: AppInfo, principal: Principal, storage_id: UUID, file_id: UUID, *, recursive: bool
    ) -> None:
        """Delete a file or a folder; a folder with items only if `recursive`."""
        async with self._database.transaction(app.app_id) as connection:
            storage = await store.lock_storage_to_charge(connection, app.app_id, storage_id)
            if storage is None:
                raise StorageNotFoundError
            ruled = rules_of(storage, principal, Role.EDITOR)
            limit = None if ruled else creator_limit(principal, access(storage, "delete_access"), Role.EDITOR)
            rows = await store.tree(connection, app.app_id, storage_id, file_id)
            if ruled is not None:
                await self._ruling.require_deletable(connection, ruled, principal, rows, file_id)
            if not rows:
                raise FileNotFoundInStorageError
            if len(rows) > 1 and not recursive:
                raise FolderNotEmptyError
            for row in rows:
                require_own(limit, row.creator)
            size = await store.delete_items(connection, app.app_id, [row.file_id for row in rows])
            if storage.quota_bytes is not None:
                await store.settle(connection, app.app_id, storage_id, reserved=0, used=-size)
            announced = CallerEvents(self._links, principal).deleted(rows, file_id)
            await self._events.emit_all(connection, app.app_id, announced)

    async def temporary_url(
        self, app: AppInfo, principal: Principal, storage_id: UUID, file_id: UUID, seconds: int
    ) -> SignedUrl:
        """Return a temporary URL for a file that the caller may read."""
        storage, database = await self._storage(app, storage_id), self._database.of(app.app_id)
        row = await store.item(database, app.app_id, storage_id, file_id)
        row = await self._ruling.require_readable(database, storage, principal, row)
        if row.is_folder:
            raise FileNotFoundInStorageError
        expires = int(time.time()) + seconds
        signature = self._signer.read(storage_id, file_id, expires)
        url = f"{self._links.of(row)}?expires={expires}&signature={signature}"
        return SignedUrl(url, rfc3339(datetime.fromtimestamp(expires, UTC)))

    async def _page(
        self, app: AppInfo, storage_id: UUID, listed: Listed | str | None, **wanted: Any
    ) -> tuple[list[ItemRecord], int]:
        """Return a page of those items which the caller may list; see `store.page`."""
        seen = {"creator": listed} if listed is None or isinstance(listed, str) else {"listed": listed}
        return await store.page(self._database, app.app_id, storage_id, **seen, **wanted)

    async def _shows(
        self,
        app: AppInfo,
        principal: Principal,
        storage: StorageRecord,
        folder: ItemRecord,
        listed: Listed | str | None,
    ) -> bool:
        """Return whether the caller may know of a folder: it may read it, or list something in it."""
        try:
            if await self._ruling.may_read(self._database.of(app.app_id), storage, principal, folder):
                return True
        except PilotisError:
            return False
        _, total = await self._page(app, storage.storage_id, listed, parent_id=folder.file_id, limit=0)
        return total > 0

    async def _storage(self, app: AppInfo, storage_id: UUID) -> StorageRecord:
        storage = await store.storage(self._database.of(app.app_id), app.app_id, storage_id)
        if storage is None:
            raise StorageNotFoundError
        return storage


def _parent(text: str | None) -> UUID | None:
    if text is None or text == "root":
        return None
    if not ids.is_uuid(text):
        raise invalid("parent_id", "parent_id: a folder's id or root is expected.")
    return UUID(text)

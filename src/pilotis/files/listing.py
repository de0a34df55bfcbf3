"""What is in a storage: listing, folders, looking up by path, deleting, temporary URLs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from uuid import UUID

from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.files import items, paths, store
from pilotis.files.access import creator_limit, member_of, require_own
from pilotis.files.errors import (
    FileNotFoundInStorageError,
    FolderNotEmptyError,
    FolderNotFoundError,
    PathTakenError,
    StorageNotFoundError,
)
from pilotis.files.items import Links
from pilotis.files.signatures import UrlSigner
from pilotis.files.types import (
    FileItem,
    FolderContents,
    FolderItem,
    ItemList,
    ItemQuery,
    NewFolder,
    SignedUrl,
    StorageAccess,
)
from pilotis.http.principals import AppInfo, Principal, Role
from pilotis.kit import ids
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7


class Listing:
    """The files and folders of every storage."""

    def __init__(self, database: Database, signer: UrlSigner, links: Links) -> None:
        self._database = database
        self._signer = signer
        self._links = links

    async def page(self, app: AppInfo, principal: Principal, storage_id: UUID, query: ItemQuery) -> ItemList:
        """Return a part of the items that the caller may see, by path."""
        creator = await self._readers_limit(app, principal, storage_id)
        limit = min(query.limit, app.limits.page_rows)
        rows, total = await store.page(
            self._database,
            app.app_id,
            storage_id,
            parent_id=_parent(query.parent_id),
            top=query.parent_id == "root",
            creator=creator,
            search=query.search or None,
            limit=limit,
            offset=query.offset,
        )
        return ItemList([self._links.item(row) for row in rows], total, limit, query.offset)

    async def at_path(
        self, app: AppInfo, principal: Principal, storage_id: UUID, path: str
    ) -> FileItem | FolderContents:
        """Return the file at a path, or the folder with what is in it; raises `FileNotFoundInStorageError`."""
        creator = await self._readers_limit(app, principal, storage_id)
        row = await store.item_at(self._database, app.app_id, storage_id, paths.checked_path(path))
        row = _visible(row, creator)
        if not row["is_folder"]:
            return self._links.file(row)
        rows, total = await store.page(
            self._database,
            app.app_id,
            storage_id,
            parent_id=row["file_id"],
            creator=creator,
            limit=app.limits.page_rows,
        )
        return items.contents(row, [self._links.item(one) for one in rows], total)

    async def make_folder(self, app: AppInfo, principal: Principal, storage_id: UUID, new: NewFolder) -> FolderItem:
        """Make a folder; raises `PathTakenError`, `FolderNotFoundError`."""
        path = paths.checked_name(new.name)
        async with self._database.transaction() as connection:
            storage = await store.hold_storage(connection, app.app_id, storage_id)
            if storage is None:
                raise StorageNotFoundError
            creator_limit(principal, StorageAccess(storage["upload_access"]), Role.EDITOR)
            if new.parent_id is not None:
                parent = await store.folder(connection, app.app_id, storage_id, new.parent_id)
                if parent is None:
                    raise FolderNotFoundError
                path = paths.checked_path(f"{parent['path']}/{path}")
            row = await store.insert_folder(
                connection, app.app_id, storage_id, uuid7(), new.parent_id, path, member_of(principal)
            )
        if row is None:
            raise PathTakenError
        return items.folder(row)

    async def delete(
        self, app: AppInfo, principal: Principal, storage_id: UUID, file_id: UUID, *, recursive: bool
    ) -> None:
        """Delete a file, or a folder: one that is not empty only if `recursive`."""
        async with self._database.transaction() as connection:
            storage = await store.hold_storage(connection, app.app_id, storage_id)
            if storage is None:
                raise StorageNotFoundError
            limit = creator_limit(principal, StorageAccess(storage["delete_access"]), Role.EDITOR)
            rows = await store.tree(connection, app.app_id, storage_id, file_id)
            if not rows:
                raise FileNotFoundInStorageError
            if len(rows) > 1 and not recursive:
                raise FolderNotEmptyError
            for row in rows:
                require_own(limit, row["creator"])
            size = await store.delete_items(connection, app.app_id, [row["file_id"] for row in rows])
            if storage["quota_bytes"] is not None:
                await store.settle(connection, app.app_id, storage_id, reserved=0, used=-size)

    async def temporary_url(
        self, app: AppInfo, principal: Principal, storage_id: UUID, file_id: UUID, seconds: int
    ) -> SignedUrl:
        """Return a URL that reads a file for a while, made by somebody who may read it."""
        creator = await self._readers_limit(app, principal, storage_id)
        row = _visible(await store.item(self._database, app.app_id, storage_id, file_id), creator)
        if row["is_folder"]:
            raise FileNotFoundInStorageError
        expires = int(time.time()) + seconds
        signature = self._signer.read(storage_id, file_id, expires)
        url = f"{self._links.of(row)}?expires={expires}&signature={signature}"
        return SignedUrl(url, rfc3339(datetime.fromtimestamp(expires, UTC)))

    async def _readers_limit(self, app: AppInfo, principal: Principal, storage_id: UUID) -> str | None:
        storage = await store.storage(self._database, app.app_id, storage_id)
        if storage is None:
            raise StorageNotFoundError
        return creator_limit(principal, StorageAccess(storage["read_access"]), Role.VIEWER)


def _visible(row: Record | None, creator: str | None) -> Record:
    if row is None or (creator is not None and not row["is_folder"] and row["creator"] != creator):
        raise FileNotFoundInStorageError
    return row


def _parent(text: str | None) -> UUID | None:
    if text is None or text == "root":
        return None
    if not ids.is_uuid(text):
        raise invalid("parent_id", "parent_id: a folder's id or root is expected.")
    return UUID(text)

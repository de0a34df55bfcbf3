"""Storages: created, changed and deleted by console users."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection, Record

from pilotis.db.pool import Database, TenantDatabase
from pilotis.files import media, store
from pilotis.files.errors import StorageNameTakenError, StorageNotEmptyError, StorageNotFoundError
from pilotis.files.types import NewStorage, Storage, StorageAccess, StorageChange, StorageList
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record


class Storages:
    """An app's file storages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, app_id: UUID) -> list[Storage]:
        """Return the app's storages with their usage."""
        rows, _ = await store.storages(self._database, app_id, None, 0)
        return [_storage(row) for row in rows]

    async def page(self, app: AppInfo, paging: Paging) -> StorageList:
        """Return a page of the app's storages with their usage."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.storages(self._database, app.app_id, limit, paging.offset)
        return StorageList(
            storages=[_storage(row) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

    async def read(self, app_id: UUID, storage_id: UUID) -> Storage:
        """Return a storage; raises `StorageNotFoundError`."""
        return await _read(self._database.of(app_id), app_id, storage_id)

    async def id_of(self, app_id: UUID, name: str) -> UUID | None:
        """Return the id of the storage with a name; None if there is none."""
        return await store.storage_id_of(self._database.of(app_id), app_id, name)

    async def exists(self, app_id: UUID, storage_id: UUID) -> bool:
        """Return whether the app has the storage."""
        return await store.storage(self._database.of(app_id), app_id, storage_id) is not None

    async def create(self, app: AppInfo, actor: Actor, new: NewStorage, storage_id: UUID | None = None) -> Storage:
        """Create a storage, with the default quota if `new` has none.

        Raises `StorageNameTakenError`, or a `ValidationError` if there are too many.
        """
        storage_id = storage_id or uuid7()
        columns = _columns(msgspec.structs.asdict(new))
        if new.quota_bytes is msgspec.UNSET:
            columns["quota_bytes"] = app.limits.storage_quota_bytes or None
        async with self._database.transaction(app.app_id) as connection:
            if await store.count_storages(connection, app.app_id) >= app.limits.storages:
                limit = app.limits.storages
                raise invalid("name", f"An app has at most {limit} file storages.", "TOO_MANY_STORAGES")
            try:
                await store.insert_storage(connection, app.app_id, storage_id, columns)
            except asyncpg.UniqueViolationError:
                raise StorageNameTakenError from None
            await record(connection, app.app_id, actor, "file_storage.create", storage_id, **columns)
            return await _read(connection, app.app_id, storage_id)

    async def update(self, app_id: UUID, actor: Actor, storage_id: UUID, change: StorageChange) -> Storage:
        """Change the given settings of a storage and return it."""
        given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
        columns = _columns(given)
        async with self._database.transaction(app_id) as connection:
            if await store.lock_storage(connection, app_id, storage_id) is None:
                raise StorageNotFoundError
            try:
                await store.update_storage(connection, app_id, storage_id, columns)
            except asyncpg.UniqueViolationError:
                raise StorageNameTakenError from None
            if "quota_bytes" in columns:
                await store.recount(connection, app_id, storage_id)
            await record(connection, app_id, actor, "file_storage.update", storage_id, **columns)
            return await _read(connection, app_id, storage_id)

    async def delete(self, app_id: UUID, actor: Actor, storage_id: UUID, *, force: bool) -> None:
        """Delete a storage, with its files if `force`; otherwise raises `StorageNotEmptyError` if it has any."""
        async with self._database.transaction(app_id) as connection:
            row = await store.lock_storage(connection, app_id, storage_id)
            if row is None:
                raise StorageNotFoundError
            if not force and not await store.is_empty(connection, app_id, storage_id):
                raise StorageNotEmptyError
            await store.delete_storage(connection, app_id, storage_id)
            await record(connection, app_id, actor, "file_storage.delete", storage_id, name=row["name"])


async def _read(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> Storage:
    row = await store.read_storage(connection, app_id, storage_id)
    if row is None:
        raise StorageNotFoundError
    return _storage(row)


def _columns(given: dict[str, Any]) -> dict[str, Any]:
    if patterns := given.get("allowed_mime_types"):
        given["allowed_mime_types"] = media.checked_patterns(patterns)
    return {name: value.value if isinstance(value, StorageAccess) else value for name, value in given.items()}


def _storage(row: Record) -> Storage:
    return Storage(
        id=row["storage_id"],
        app_id=row["app_id"],
        name=row["name"],
        upload_access=StorageAccess(row["upload_access"]),
        delete_access=StorageAccess(row["delete_access"]),
        read_access=StorageAccess(row["read_access"]),
        allowed_mime_types=list(row["allowed_mime_types"]),
        max_file_size=row["max_file_size"],
        quota_bytes=row["quota_bytes"],
        file_count=row["file_count"],
        used_bytes=row["used"],
        reserved_bytes=row["reserved"],
        created_at=rfc3339(row["created_at"]),
        updated_at=rfc3339(row["updated_at"]),
    )

"""SQL statements for web storages and the slugs that they have released."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class StorageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A web storage: its settings, its two pointers, and the last version of its deployments."""

    app_id: UUID
    storage_id: UUID
    slug: str
    name: str
    description: str
    promote_mode: str
    not_found_mode: str
    clean_urls: bool
    retain: int
    qa_password_hash: str | None
    production_id: UUID | None
    qa_id: UUID | None
    last_version: int
    created_at: datetime
    updated_at: datetime

    def pointer(self, channel: str) -> UUID | None:
        """Return the deployment that a channel, `production` or `qa`, points to."""
        return self.qa_id if channel == "qa" else self.production_id


class SizedStorageRecord(StorageRecord, frozen=True, kw_only=True):
    """A web storage with the number of files that it serves, and their size in bytes."""

    file_count: int
    total_size: int


_COLUMNS = columns(StorageRecord)

_STORAGE = f"""
    select {columns(StorageRecord, "s")},
        coalesce(d.file_count, 0) as file_count, coalesce(d.total_size, 0) as total_size
    from pilotis.web_storages s
    left join pilotis.web_deployments d on d.app_id = s.app_id and d.deployment_id = s.production_id
    where s.app_id = $1
"""


COUNT = "select count(*) from pilotis.web_storages where app_id = $1"
"""The number of an app's storages."""


async def storages(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[SizedStorageRecord], int]:
    """Return a page of the app's storages by creation time, and their total number."""
    return await fetch_page(
        database,
        app_id,
        _STORAGE,
        (app_id,),
        order_by="storage_id",
        limit=limit,
        offset=offset,
        record=SizedStorageRecord,
    )


async def storage(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> SizedStorageRecord | None:
    """Return a storage with the size of what it serves."""
    row = await connection.fetchrow(f"{_STORAGE} and s.storage_id = $2", app_id, storage_id)
    return SizedStorageRecord(**row) if row else None


async def lock_storage(connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord | None:
    """Return a storage, locked against other changes and deploys until the transaction ends."""
    row = await connection.fetchrow(
        f"select {_COLUMNS} from pilotis.web_storages where app_id = $1 and storage_id = $2 for no key update",
        app_id,
        storage_id,
    )
    return StorageRecord(**row) if row else None


async def count_storages(connection: Connection, app_id: UUID) -> int:
    """Return the number of the app's storages, and lock the app, so that it stays correct in the transaction."""
    await lock_app(connection, app_id)
    count: int = await connection.fetchval(COUNT, app_id)
    return count


async def insert_storage(connection: Connection, app_id: UUID, storage_id: UUID, values: Mapping[str, Any]) -> None:
    """Insert a storage with its settings."""
    names = ", ".join(values)
    places = ", ".join(f"${at}" for at in range(3, 3 + len(values)))
    await connection.execute(
        f"insert into pilotis.web_storages (app_id, storage_id, {names}) values ($1, $2, {places})",
        app_id,
        storage_id,
        *values.values(),
    )


async def update_storage(connection: Connection, app_id: UUID, storage_id: UUID, values: Mapping[str, Any]) -> None:
    """Change columns of a storage, and count the change."""
    assignments = "".join(f", {name} = ${at}" for at, name in enumerate(values, 3))
    await connection.execute(
        f"""
        update pilotis.web_storages set updated_at = now(), revision = revision + 1{assignments}
        where app_id = $1 and storage_id = $2
        """,
        app_id,
        storage_id,
        *values.values(),
    )


async def count_change(connection: Connection, app_id: UUID, storage_id: UUID) -> None:
    """Count a change, in another table, that affects what a storage serves."""
    await connection.execute(
        "update pilotis.web_storages set revision = revision + 1 where app_id = $1 and storage_id = $2",
        app_id,
        storage_id,
    )


async def delete_storage(connection: Connection, app_id: UUID, storage_id: UUID) -> None:
    """Delete a storage with all its contents."""
    await connection.execute(
        "delete from pilotis.web_storages where app_id = $1 and storage_id = $2", app_id, storage_id
    )


async def is_slug_blocked(connection: Connection, app_id: UUID, slug: str) -> bool:
    """Whether another app released the slug so recently that it is still blocked."""
    return (
        await connection.fetchval(
            "select true from pilotis.web_freed_slugs where slug = $2 and app_id <> $1 and free_at > now()",
            app_id,
            slug,
        )
        is True
    )


async def free_slug(connection: Connection, app_id: UUID, slug: str, days: int) -> None:
    """Block a slug that a storage has released for other apps."""
    await connection.execute(
        """
        insert into pilotis.web_freed_slugs (app_id, slug, free_at) values ($1, $2, now() + make_interval(days => $3))
        on conflict (app_id, slug) do update set free_at = excluded.free_at
        """,
        app_id,
        slug,
        days,
    )


async def storages_with_surplus(connection: Connection, limit: int) -> list[tuple[UUID, UUID]]:
    """Return storages, each with its app's id first, with more ready deployments than they retain."""
    rows = await connection.fetch(
        """
        select s.app_id, s.storage_id from pilotis.web_storages s
        where (
            select count(*) from pilotis.web_deployments d
            where d.app_id = s.app_id and d.storage_id = s.storage_id and d.status = 'ready'
        ) > s.retain
        order by s.updated_at desc limit $1
        """,
        limit,
    )
    return [(app_id, storage_id) for app_id, storage_id in rows]


async def forget_freed_slugs(connection: Connection) -> None:
    """Delete released slugs that are no longer blocked."""
    await connection.execute("delete from pilotis.web_freed_slugs where free_at < now()")

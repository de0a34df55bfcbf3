"""SQL statements for storages, files and folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.data.rules.files.service import Listed
from pilotis.db.locks import lock_app
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.db.waiters import UNAUTHENTICATED
from pilotis.files.records import ItemRecord, LinkedFile, StorageRecord, UploadRecord, UsedStorage

_STORAGE = columns(StorageRecord)
_ITEM = columns(ItemRecord)
# Without a quota no sums are maintained, so they are computed on request.
_USED_STORAGE = f"""
    select {columns(StorageRecord, "s")}, counted.file_count,
        case when s.quota_bytes is null then counted.bytes else s.used_bytes end as used,
        case when s.quota_bytes is null then (
            select coalesce(sum(u.size), 0)::bigint from pilotis.uploads u
            where u.app_id = s.app_id and u.storage_id = s.storage_id and u.state <> 'completed'
        ) else s.reserved_bytes end as reserved
    from pilotis.file_storages s
    cross join lateral (
        select count(*) filter (where not f.is_folder) as file_count, coalesce(sum(f.size), 0)::bigint as bytes
        from pilotis.files f where f.app_id = s.app_id and f.storage_id = s.storage_id
    ) counted
    where s.app_id = $1
"""


async def storages(database: Database, app_id: UUID, limit: int | None, offset: int) -> tuple[list[UsedStorage], int]:
    """Return a page of the app's storages in the order of creation, with their usage, and their number."""
    rows = await database.fetch(
        f"{_USED_STORAGE} order by s.storage_id limit $2 offset $3", app_id, limit, offset, tenant=app_id
    )
    total = await database.fetchval(
        "select count(*) from pilotis.file_storages where app_id = $1", app_id, tenant=app_id
    )
    return [UsedStorage(**row) for row in rows], total


async def read_storage(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> UsedStorage | None:
    """Return a storage with its usage."""
    row = await connection.fetchrow(f"{_USED_STORAGE} and s.storage_id = $2", app_id, storage_id)
    return UsedStorage(**row) if row else None


async def storage_id_of(connection: Connection | TenantDatabase, app_id: UUID, name: str) -> UUID | None:
    """Return the id of the storage with a name."""
    found: UUID | None = await connection.fetchval(
        "select storage_id from pilotis.file_storages where app_id = $1 and name = $2", app_id, name
    )
    return found


async def storage(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> StorageRecord | None:
    """Return a storage."""
    return await _storage(connection, app_id, storage_id)


async def _storage(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, lock: str = ""
) -> StorageRecord | None:
    row = await connection.fetchrow(
        f"select {_STORAGE} from pilotis.file_storages where app_id = $1 and storage_id = $2 {lock}", app_id, storage_id
    )
    return StorageRecord(**row) if row else None


async def lock_storage_shared(connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord | None:
    """Return a storage and prevent its change or deletion until the transaction ends.

    Uploads do not wait for each other here, only for changes of the storage.
    """
    return await _storage(connection, app_id, storage_id, "for key share")


async def lock_storage_to_charge(connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord | None:
    """As `lock_storage_shared`; locks one with a quota for the change of its sums, before any item or upload."""
    storage = await _lock_as_its_quota_asks(connection, app_id, storage_id)
    # A quota that was set or removed while this waited fits neither branch; a new statement sees it.
    return storage or await _lock_as_its_quota_asks(connection, app_id, storage_id)


async def _lock_as_its_quota_asks(connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord | None:
    row = await connection.fetchrow(
        f"""
        with limited as (
            select {_STORAGE} from pilotis.file_storages
            where app_id = $1 and storage_id = $2 and quota_bytes is not null for no key update
        ), unlimited as (
            select {_STORAGE} from pilotis.file_storages
            where app_id = $1 and storage_id = $2 and quota_bytes is null for key share
        )
        select * from limited union all select * from unlimited
        """,
        app_id,
        storage_id,
    )
    return StorageRecord(**row) if row else None


async def lock_storage(connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord | None:
    """Return a storage locked for a change or deletion; waits for the uploads that locked it."""
    return await _storage(connection, app_id, storage_id, "for update")


async def count_storages(connection: Connection, app_id: UUID) -> int:
    """Return the number of the app's storages, with the app locked so that it stays valid in the transaction."""
    await lock_app(connection, app_id)
    count: int = await connection.fetchval("select count(*) from pilotis.file_storages where app_id = $1", app_id)
    return count


async def insert_storage(connection: Connection, app_id: UUID, storage_id: UUID, columns: dict[str, Any]) -> None:
    """Insert a storage with its settings."""
    names = ", ".join(columns)
    places = ", ".join(f"${at}" for at in range(3, 3 + len(columns)))
    await connection.execute(
        f"insert into pilotis.file_storages (app_id, storage_id, {names}) values ($1, $2, {places})",
        app_id,
        storage_id,
        *columns.values(),
    )


async def update_storage(connection: Connection, app_id: UUID, storage_id: UUID, columns: dict[str, Any]) -> None:
    """Change settings of a storage."""
    assignments = "".join(f", {name} = ${at}" for at, name in enumerate(columns, 3))
    await connection.execute(
        f"update pilotis.file_storages set updated_at = now(){assignments} where app_id = $1 and storage_id = $2",
        app_id,
        storage_id,
        *columns.values(),
    )


async def set_rules(connection: Connection, app_id: UUID, storage_id: UUID, rules: str, levels: str) -> None:
    """Set a storage's stored rules in place of its access settings, which `levels` keeps."""
    await connection.execute(
        """
        update pilotis.file_storages set rules = $3::jsonb, levels = $4::jsonb, rules_updated_at = clock_timestamp(),
            upload_access = 'Rules', delete_access = 'Rules', read_access = 'Rules'
        where app_id = $1 and storage_id = $2
        """,
        app_id,
        storage_id,
        rules,
        levels,
    )


async def set_levels(connection: Connection, app_id: UUID, storage_id: UUID, levels: str) -> None:
    """Change the access settings that a storage with rules keeps."""
    await connection.execute(
        "update pilotis.file_storages set levels = $3::jsonb where app_id = $1 and storage_id = $2",
        app_id,
        storage_id,
        levels,
    )


async def remove_rules(connection: Connection, app_id: UUID, storage_id: UUID, levels: dict[str, str]) -> None:
    """Let a storage's access settings decide again."""
    await connection.execute(
        """
        update pilotis.file_storages set rules = null, levels = null, rules_updated_at = clock_timestamp(),
            upload_access = $3, delete_access = $4, read_access = $5
        where app_id = $1 and storage_id = $2
        """,
        app_id,
        storage_id,
        levels["upload_access"],
        levels["delete_access"],
        levels["read_access"],
    )


async def recount(connection: Connection, app_id: UUID, storage_id: UUID) -> None:
    """Compute the used and reserved bytes of a locked storage; from then on every upload maintains them."""
    await connection.execute(
        """
        update pilotis.uploads set is_reserved = true
        where app_id = $1 and storage_id = $2 and state <> 'completed' and not is_reserved
        """,
        app_id,
        storage_id,
    )
    await connection.execute(
        """
        update pilotis.file_storages s set
            used_bytes = (
                select coalesce(sum(size), 0) from pilotis.files f
                where f.app_id = s.app_id and f.storage_id = s.storage_id
            ),
            reserved_bytes = (
                select coalesce(sum(size), 0) from pilotis.uploads u
                where u.app_id = s.app_id and u.storage_id = s.storage_id and u.state <> 'completed'
            )
        where s.app_id = $1 and s.storage_id = $2
        """,
        app_id,
        storage_id,
    )


async def delete_storage(connection: Connection, app_id: UUID, storage_id: UUID) -> None:
    """Delete a storage with its files and uploads; triggers mark their bytes for deletion."""
    await connection.execute(
        "delete from pilotis.file_storages where app_id = $1 and storage_id = $2", app_id, storage_id
    )


async def is_empty(connection: Connection, app_id: UUID, storage_id: UUID) -> bool:
    """Return whether a storage has neither files nor folders."""
    return not await connection.fetchval(
        "select exists (select from pilotis.files where app_id = $1 and storage_id = $2)", app_id, storage_id
    )


async def reserve(connection: Connection, app_id: UUID, storage_id: UUID, size: int) -> bool:
    """Reserve space for an upload in a storage with a quota; False if there is not enough.

    One conditional statement, so that concurrent uploads cannot exceed the quota.
    """
    return (
        await connection.fetchval(
            """
            update pilotis.file_storages set reserved_bytes = reserved_bytes + $3
            where app_id = $1 and storage_id = $2 and used_bytes + reserved_bytes + $3 <= quota_bytes
            returning true
            """,
            app_id,
            storage_id,
            size,
        )
        is True
    )


async def settle(connection: Connection, app_id: UUID, storage_id: UUID, *, reserved: int, used: int) -> None:
    """Add to the reserved and used bytes of a storage with a quota; both may be negative."""
    await connection.execute(
        """
        update pilotis.file_storages
        set reserved_bytes = greatest(0, reserved_bytes + $3), used_bytes = greatest(0, used_bytes + $4)
        where app_id = $1 and storage_id = $2 and quota_bytes is not null
        """,
        app_id,
        storage_id,
        reserved,
        used,
    )


async def item(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, file_id: UUID
) -> ItemRecord | None:
    """Return a file or folder."""
    return await _item(connection, app_id, storage_id, "file_id = $3", file_id)


async def _item(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, condition: str, value: UUID | str
) -> ItemRecord | None:
    """Return the item for which a condition on `$3`, the value, holds; a lock may follow it."""
    row = await connection.fetchrow(
        f"select {_ITEM} from pilotis.files where app_id = $1 and storage_id = $2 and {condition}",
        app_id,
        storage_id,
        value,
    )
    return ItemRecord(**row) if row else None


async def item_at(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, path: str
) -> ItemRecord | None:
    """Return the item at a path."""
    return await _item(connection, app_id, storage_id, "path = $3", path)


async def has_file_at(connection: Connection, app_id: UUID, storage_id: UUID, paths: Sequence[str]) -> bool:
    """Return whether any of the paths is a file."""
    found: bool = await connection.fetchval(
        """
        select exists (
            select from pilotis.files
            where app_id = $1 and storage_id = $2 and path = any($3::text[]) and not is_folder
        )
        """,
        app_id,
        storage_id,
        paths,
    )
    return found


async def lock_item_at(connection: Connection, app_id: UUID, storage_id: UUID, path: str) -> ItemRecord | None:
    """Return the item at a path, locked against other changes."""
    return await _item(connection, app_id, storage_id, "path = $3 for update", path)


async def folder(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, file_id: UUID
) -> ItemRecord | None:
    """Return a folder."""
    found = await item(connection, app_id, storage_id, file_id)
    return found if found and found.is_folder else None


async def page(
    database: Database,
    app_id: UUID,
    storage_id: UUID,
    *,
    parent_id: UUID | None = None,
    top: bool = False,
    creator: str | None = None,
    search: str | None = None,
    created_by: str | None = None,
    listed: Listed | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[ItemRecord], int]:
    """Return a page of the items, by path, and their number.

    Items in a folder, at the `top`, or all; of the files only those of one `creator`; items with `search` in their
    name; the files `created_by` a member, without folders; those of `listed`, by the storage's rules.
    """
    conditions, arguments = ["app_id = $1", "storage_id = $2"], list[Any]([app_id, storage_id])
    for value, condition in (
        (parent_id, "parent_id = ${}"),
        (creator, "(is_folder or creator = ${})"),
        (created_by, "(not is_folder and creator = ${})"),
        (search, "position(lower(${}) in lower(name)) > 0"),
    ):
        if value is not None:
            arguments.append(value)
            conditions.append(condition.format(len(arguments)))
    if top:
        conditions.append("parent_id is null")
    query = f"select {_ITEM} from pilotis.files where {' and '.join(conditions)}"
    if listed is not None:
        rule = listed.condition(arguments)
        query = (
            f"select {columns(ItemRecord, 'item')} from ({query}) item cross join {listed.source('item')} where {rule}"
        )
    return await fetch_page(
        database, app_id, query, tuple(arguments), order_by="path", limit=limit, offset=offset, record=ItemRecord
    )


async def insert_folder(
    connection: Connection,
    app_id: UUID,
    storage_id: UUID,
    file_id: UUID,
    parent_id: UUID | None,
    path: str,
    creator: str | None,
) -> ItemRecord | None:
    """Insert a folder and return it; None if its path is taken."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.files (app_id, storage_id, file_id, parent_id, path, name, is_folder, creator)
        values ($1, $2, $3, $4, $5, regexp_replace($5, '^.*/', ''), true, $6)
        on conflict (app_id, storage_id, path) do nothing returning {_ITEM}
        """,
        app_id,
        storage_id,
        file_id,
        parent_id,
        path,
        creator,
    )
    return ItemRecord(**row) if row else None


async def insert_file(connection: Connection, upload: UploadRecord, parent_id: UUID | None) -> ItemRecord | None:
    """Insert the file of an upload and return it; None if its path is taken."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.files (
            app_id, storage_id, file_id, parent_id, path, name, is_folder, is_fixed, blob_id, mime_type, size, sha256,
            creator
        ) values ($1, $2, $3, $4, $5, $6, false, $7, $8, $9, $10, $11, $12)
        on conflict (app_id, storage_id, path) do nothing returning {_ITEM}
        """,
        upload.app_id,
        upload.storage_id,
        upload.file_id,
        parent_id,
        upload.path,
        upload.name,
        upload.is_fixed,
        upload.blob_id,
        upload.mime_type,
        upload.size,
        upload.sha256,
        upload.creator,
    )
    return ItemRecord(**row) if row else None


async def replace_content(connection: Connection, file: ItemRecord, upload: UploadRecord) -> ItemRecord:
    """Switch a file to the content of an upload; a trigger marks the old content for deletion."""
    row = await connection.fetchrow(
        f"""
        update pilotis.files set
            blob_id = $3, mime_type = $4, size = $5, sha256 = $6, name = $7, is_fixed = true,
            version = version + 1, updated_at = now()
        where app_id = $1 and file_id = $2 returning {_ITEM}
        """,
        file.app_id,
        file.file_id,
        upload.blob_id,
        upload.mime_type,
        upload.size,
        upload.sha256,
        upload.name,
    )
    assert row is not None
    return ItemRecord(**row)


async def tree(connection: Connection, app_id: UUID, storage_id: UUID, file_id: UUID) -> list[ItemRecord]:
    """Return an item and everything in it, locked."""
    rows = await connection.fetch(
        f"""
        with recursive below as (
            select file_id from pilotis.files where app_id = $1 and storage_id = $2 and file_id = $3
            union all
            select f.file_id from pilotis.files f join below on f.parent_id = below.file_id where f.app_id = $1
        )
        select {columns(ItemRecord, "f")} from pilotis.files f join below using (file_id)
        where f.app_id = $1 order by f.file_id for update of f
        """,
        app_id,
        storage_id,
        file_id,
    )
    return [ItemRecord(**row) for row in rows]


async def move(
    connection: Connection, app_id: UUID, before: ItemRecord, parent_id: UUID | None, name: str, path: str
) -> ItemRecord:
    """Change an item's name, path and parent folder, and return it; the content of a folder moves with it.

    The version changes, so that no link by an old path is answered from a cache. The caller holds the storage's lock,
    and has ensured that the path is free.
    """
    await connection.execute(
        """
        update pilotis.files set path = $4 || substr(path, length($3) + 1), version = version + 1
        where app_id = $1 and storage_id = $2 and path > $3 || '/' and path < $3 || '0'
        """,
        app_id,
        before.storage_id,
        before.path,
        path,
    )
    row = await connection.fetchrow(
        f"""
        update pilotis.files set parent_id = $3, name = $4, path = $5, version = version + 1, updated_at = now()
        where app_id = $1 and file_id = $2 returning {_ITEM}
        """,
        app_id,
        before.file_id,
        parent_id,
        name,
        path,
    )
    assert row is not None
    return ItemRecord(**row)


async def longest_below(connection: Connection, app_id: UUID, storage_id: UUID, path: str) -> tuple[int, int]:
    """Return the largest number of bytes and of levels that paths in a folder have beyond its own path."""
    row = await connection.fetchrow(
        """
        select coalesce(max(octet_length(path)), octet_length($3)) - octet_length($3) as bytes,
            coalesce(max(array_length(string_to_array(substr(path, length($3) + 2), '/'), 1)), 0) as levels
        from pilotis.files where app_id = $1 and storage_id = $2 and path > $3 || '/' and path < $3 || '0'
        """,
        app_id,
        storage_id,
        path,
    )
    assert row is not None
    more_bytes, levels = row
    return more_bytes, levels


async def delete_items(connection: Connection, app_id: UUID, file_ids: list[UUID]) -> int:
    """Delete items and return their size in bytes; triggers mark the blobs for deletion."""
    size: int = await connection.fetchval(
        """
        with gone as (delete from pilotis.files where app_id = $1 and file_id = any($2::uuid[]) returning size)
        select coalesce(sum(size), 0)::bigint from gone
        """,
        app_id,
        file_ids,
    )
    return size


async def linked_files(
    database: Database, column: str, links: Sequence[tuple[UUID, UUID | str]]
) -> list[LinkedFile | None]:
    """Return live apps' files by their storage and their id or path, each with its storage's `read_access`.

    Links do not contain the app. `column` is `file_id` or `path`.
    """
    array, names = (
        ("uuid[]", ["app_id", "file_id"]) if column == "file_id" else ("text[]", ["app_id", "storage_id", "path"])
    )
    order = ", ".join(f"f.{name}" for name in names)
    key, wanted = f"({order})", f"({', '.join(f's.{name}' for name in names[:-1])}, link.value)"
    # The arrays come from subqueries, or PostgreSQL would plan again for each number of links. Asking for the first
    # file at or after a link makes it use the right index, however few files there are when it plans.
    rows = await database.fetch(
        f"""
        select at::int - 1, found.* from
            unnest((select $1::uuid[]), (select $2::{array})) with ordinality link (storage_id, value, at),
            lateral (
                select {columns(LinkedFile, "f", without=("read_access", "data"))}, s.read_access
                from pilotis.file_storages s
                join pilotis.apps a on a.app_id = s.app_id and a.deleted_at is null
                cross join lateral (
                    select * from pilotis.files f
                    where {key} >= {wanted} order by {order} limit 1
                ) f
                where s.storage_id = link.storage_id and {key} = {wanted} and f.storage_id = s.storage_id
                    and not f.is_folder
            ) found
        """,
        [storage_id for storage_id, _ in links],
        [value for _, value in links],
        tenant=UNAUTHENTICATED,
    )
    found: list[LinkedFile | None] = [None] * len(links)
    for at, *row in rows:
        found[at] = LinkedFile(*row)
    return found


async def still_public(database: Database, files: Sequence[tuple[UUID, UUID, int]]) -> list[bool]:
    """Return which files, by storage and id, still have the given `version` in a public storage.

    The version counts a file's changes.
    """
    rows = await database.fetch(
        """
        select at::int - 1 from
            unnest((select $1::uuid[]), (select $2::uuid[]), (select $3::int[]))
                with ordinality known (storage_id, file_id, version, at)
            left join lateral (
                select f.version from pilotis.file_storages s
                join pilotis.apps a on a.app_id = s.app_id and a.deleted_at is null
                cross join lateral (
                    select f.app_id, f.storage_id, f.file_id, f.version from pilotis.files f
                    where (f.app_id, f.file_id) >= (s.app_id, known.file_id) order by f.app_id, f.file_id limit 1
                ) f
                where s.storage_id = known.storage_id and s.read_access = 'Public'
                    and (f.app_id, f.file_id) = (s.app_id, known.file_id) and f.storage_id = s.storage_id
            ) found on true
        where found.version is distinct from known.version
        """,
        [storage_id for storage_id, _, _ in files],
        [file_id for _, file_id, _ in files],
        [version for _, _, version in files],
        tenant=UNAUTHENTICATED,
    )
    held = [True] * len(files)
    for (at,) in rows:
        held[at] = False
    return held


RECOUNT = """
    update pilotis.file_storages s set reserved_bytes = 0, used_bytes = (
        select coalesce(sum(f.size), 0) from pilotis.files f
        where f.app_id = s.app_id and f.storage_id = s.storage_id
    ) where s.app_id = $1
"""
"""The statement that counts the bytes of each storage of an app, `$1`, after all its files were inserted at once."""


async def forget_creator(connection: TenantDatabase, app_id: UUID, creator: str, limit: int) -> int:
    """Make the creator of some files and folders nobody, and return how many they were."""
    changed: int = await connection.fetchval(
        """
        with found as materialized (
            select file_id from pilotis.files where app_id = $1 and creator = $2
            order by file_id limit $3 for update
        ), written as (
            update pilotis.files f set creator = null from found
            where f.app_id = $1 and f.file_id = found.file_id returning 1
        )
        select count(*) from written
        """,
        app_id,
        creator,
        limit,
    )
    return changed

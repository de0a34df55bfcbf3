"""The statements on uploads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.files import paths
from pilotis.files.keys import blob_key
from pilotis.kit import json

LEASE_SECONDS = 60
COMPLETION_SECONDS = 3600


async def insert(connection: Connection, columns: dict[str, Any], expires_seconds: int) -> None:
    """Insert an upload."""
    names = ", ".join(columns)
    places = ", ".join(f"${at}" for at in range(2, 2 + len(columns)))
    await connection.execute(
        f"""
        insert into pilotis.uploads (expires_at, {names})
        values (now() + make_interval(secs => $1), {places})
        """,
        float(expires_seconds),
        *columns.values(),
    )


async def by_id(database: Database, upload_id: UUID) -> Record | None:
    """Return a live app's upload: the URL names no app."""
    return await database.fetchrow(
        """
        select u.*, u.state = 'receiving' and u.lease_until > now() as is_busy
        from pilotis.uploads u join pilotis.apps a using (app_id)
        where u.upload_id = $1 and a.deleted_at is null
        """,
        upload_id,
    )


async def claim(database: Database, upload: Record, blob_id: UUID) -> bool:
    """Begin to receive an upload under a blob id of this attempt's own; False if another one does or did.

    An attempt whose lease is over has died: this one takes its place, and a trigger buries what it may have left.
    """
    return (
        await database.fetchval(
            f"""
            update pilotis.uploads
            set state = 'receiving', blob_id = $3, lease_until = now() + interval '{LEASE_SECONDS} seconds'
            where app_id = $1 and upload_id = $2
                and (state = 'pending' or state = 'receiving' and lease_until <= now())
            returning true
            """,
            upload["app_id"],
            upload["upload_id"],
            blob_id,
        )
        is True
    )


async def renew(database: Database, app_id: UUID, upload_id: UUID, blob_id: UUID) -> None:
    """Prolong the lease of an attempt that is still receiving."""
    await database.execute(
        f"""
        update pilotis.uploads set lease_until = now() + interval '{LEASE_SECONDS} seconds'
        where app_id = $1 and upload_id = $2 and blob_id = $3 and state = 'receiving'
        """,
        app_id,
        upload_id,
        blob_id,
    )


async def received(database: Database, app_id: UUID, upload_id: UUID, blob_id: UUID, sha256: bytes) -> bool:
    """Note that all bytes have come and are durable; False if the attempt has lost its lease to another one."""
    return (
        await database.fetchval(
            f"""
            update pilotis.uploads set
                state = 'uploaded', sha256 = $4, received_at = clock_timestamp(), lease_until = null,
                expires_at = greatest(expires_at, now() + interval '{COMPLETION_SECONDS} seconds')
            where app_id = $1 and upload_id = $2 and blob_id = $3 and state = 'receiving'
            returning true
            """,
            app_id,
            upload_id,
            blob_id,
            sha256,
        )
        is True
    )


async def give_back(database: Database, app_id: UUID, upload_id: UUID, blob_id: UUID) -> None:
    """Let another attempt begin, after one that was broken off."""
    await database.execute(
        """
        update pilotis.uploads set state = 'pending', lease_until = null
        where app_id = $1 and upload_id = $2 and blob_id = $3 and state = 'receiving'
        """,
        app_id,
        upload_id,
        blob_id,
    )


async def lock_by_file(
    connection: Connection, app_id: UUID, storage_id: UUID, file_id: UUID, creator: str | None, *, anyone: bool
) -> Record | None:
    """Return the upload of a file that can be completed, or the last one, locked.

    Several of one caller may be under way where a path is overwritten: then the one received last. A member's upload
    is completed by that member, `creator`, unless `anyone` may.
    """
    return await connection.fetchrow(
        """
        select *, expires_at <= now() as is_expired from pilotis.uploads
        where app_id = $1 and storage_id = $2 and file_id = $3 and ($5 or creator is null or creator = $4)
        order by state = 'uploaded' desc, received_at desc nulls last, upload_id desc
        limit 1 for update
        """,
        app_id,
        storage_id,
        file_id,
        creator,
        anyone,
    )


async def adopt(connection: Connection, upload: Record, blob_id: UUID) -> Record:
    """Note that a direct upload's bytes have been copied to a blob, which is no longer to be deleted."""
    await unbury(connection, upload["app_id"], blob_key(upload["app_id"], blob_id))
    row = await connection.fetchrow(
        """
        update pilotis.uploads set state = 'uploaded', blob_id = $3, received_at = clock_timestamp()
        where app_id = $1 and upload_id = $2 returning *
        """,
        upload["app_id"],
        upload["upload_id"],
        blob_id,
    )
    assert row is not None
    return row


async def bury(database: Database, app_id: UUID, key: str) -> None:
    """Have a blob deleted in an hour, unless it is adopted before."""
    await database.execute(
        "insert into pilotis.dead_blobs (app_id, key, due_at) values ($1, $2, now() + interval '1 hour')", app_id, key
    )


async def unbury(connection: Connection, app_id: UUID, key: str) -> None:
    """Take a burial back: somebody refers to the blob now."""
    await connection.execute("delete from pilotis.dead_blobs where app_id = $1 and key = $2", app_id, key)


async def complete(connection: Connection, upload: Record, item_id: UUID) -> None:
    """Note that an upload's file is listed."""
    await connection.execute(
        "update pilotis.uploads set state = 'completed', item_id = $3 where app_id = $1 and upload_id = $2",
        upload["app_id"],
        upload["upload_id"],
        item_id,
    )


async def overtake(connection: Connection, upload: Record) -> int:
    """Delete the caller's uploads to the same file that were received earlier; return what was reserved for them."""
    size: int = await connection.fetchval(
        """
        with gone as (
            delete from pilotis.uploads
            where app_id = $1 and storage_id = $2 and file_id = $3 and creator is not distinct from $4
                and state = 'uploaded' and upload_id <> $5 and received_at <= $6
            returning size, is_reserved
        )
        select coalesce(sum(size) filter (where is_reserved), 0)::bigint from gone
        """,
        upload["app_id"],
        upload["storage_id"],
        upload["file_id"],
        upload["creator"],
        upload["upload_id"],
        upload["received_at"],
    )
    return size


async def reap(connection: Connection, most: int) -> int:
    """Delete some uploads whose time is over, give back what was reserved for them, and return how many."""
    count: int = await connection.fetchval(
        """
        with gone as (
            delete from pilotis.uploads where (app_id, upload_id) in (
                select app_id, upload_id from pilotis.uploads
                where expires_at < now() and not (state = 'receiving' and lease_until > now())
                order by app_id, storage_id limit $1 for update skip locked
            ) returning app_id, storage_id, size, state, is_reserved
        ), freed as (
            select app_id, storage_id, sum(size)::bigint as bytes from gone
            where state <> 'completed' and is_reserved group by app_id, storage_id
        ), settled as (
            update pilotis.file_storages s set reserved_bytes = greatest(0, s.reserved_bytes - freed.bytes)
            from freed
            where s.app_id = freed.app_id and s.storage_id = freed.storage_id and s.quota_bytes is not null
        )
        select count(*) from gone
        """,
        most,
    )
    return count


async def due_blobs(connection: Connection, most: int) -> list[Record]:
    """Return some blobs that nobody can be reading any more."""
    return await connection.fetch(
        "select app_id, key from pilotis.dead_blobs where due_at <= now() order by due_at limit $1", most
    )


async def forget_blobs(connection: Connection, keys: list[str]) -> None:
    """Note that blobs are deleted."""
    await connection.execute("delete from pilotis.dead_blobs where key = any($1::text[])", keys)


async def begin_comparison(connection: Connection) -> None:
    """Make room, until the transaction ends, for the keys that the object store has."""
    await connection.execute("create temporary table seen_blobs (key text primary key) on commit drop")


async def note_seen(connection: Connection, keys: list[str]) -> None:
    """Note keys that the object store has."""
    await connection.execute("insert into seen_blobs select unnest($1::text[]) on conflict do nothing", keys)


async def known_keys(connection: Connection, keys: list[str]) -> set[str]:
    """Return those of the keys that a file, a variant, an upload or a burial refers to."""
    rows = await connection.fetch(
        """
        with given as (
            select key, split_part(key, '/', 1) as kind, split_part(key, '/', 2) as app, split_part(key, '/', 3) as id
            from unnest($1::text[]) key
        ), ours as (
            select key, kind, app::uuid as app_id, id::uuid as id from given
            where app || id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{20}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        )
        select key from ours o
        where kind = 'blobs' and (
            exists (select from pilotis.files f where f.app_id = o.app_id and f.blob_id = o.id)
            or exists (select from pilotis.uploads u where u.app_id = o.app_id and u.blob_id = o.id)
            or exists (select from pilotis.variants v where v.app_id = o.app_id and v.blob_id = o.id)
        ) or kind in ('staging', 'drafts') and (
            exists (select from pilotis.uploads u where u.app_id = o.app_id and u.upload_id = o.id)
        )
        union
        select d.key from pilotis.dead_blobs d join given using (key)
        """,
        keys,
    )
    return {row["key"] for row in rows}


async def unseen_files(connection: Connection, before: datetime) -> list[str]:
    """Return the keys of files' blobs that the object store does not have."""
    rows = await connection.fetch(
        """
        select key from pilotis.files f
        cross join lateral (select 'blobs/' || f.app_id || '/' || f.blob_id as key) made
        where f.blob_id is not null and f.updated_at < $1
            and not exists (select from seen_blobs s where s.key = made.key)
        order by key
        """,
        before,
    )
    return [row["key"] for row in rows]


# What follows does for many uploads to one storage at once what is needed in nearly every case, and leaves out the
# others: storages with a quota, paths that are taken, what somebody else is at, whatever is refused.
#
# A plan that PostgreSQL makes while tables are nearly empty is kept for a while, and any index that begins with the app
# is as good as another then. So what is looked up is the first entry from there on, in the order of the right index,
# and `is true` hides a condition from the indexes. A new file has the id of its upload.

_FOLDER = """
    left join lateral (
        select p.* from pilotis.files p
        where (p.app_id, p.file_id) >= ({row}.app_id, {row}.parent_id) order by p.app_id, p.file_id limit 1
    ) folder on (folder.app_id, folder.storage_id, folder.file_id) = ({row}.app_id, {row}.storage_id, {row}.parent_id)
        and folder.is_folder
"""
_TAKEN = """
    left join lateral (
        select f.app_id, f.storage_id, f.path from pilotis.files f
        where (f.app_id, f.storage_id, f.path) >= ({row}.app_id, {row}.storage_id, {path})
        order by f.app_id, f.storage_id, f.path limit 1
    ) item on (item.app_id, item.storage_id, item.path) = ({row}.app_id, {row}.storage_id, {path})
"""
_INSERT_MANY = f"""
    insert into pilotis.uploads (
        app_id, upload_id, storage_id, file_id, parent_id, path, name, is_fixed, may_replace, mime_type, size, sha256,
        creator, is_direct, is_reserved, expires_at
    )
    select n.app_id, n.upload_id, n.storage_id, n.upload_id, n.parent_id, made.path, n.name, false, false, n.mime_type,
        n.size, decode(n.sha256, 'hex'), n.creator, n.is_direct, false, now() + make_interval(secs => n.seconds)
    from json_to_recordset($1) n(
        app_id uuid, upload_id uuid, storage_id uuid, parent_id uuid, name text, mime_type text, size bigint,
        sha256 text, creator text, is_direct boolean, seconds float8, accesses text[], patterns text[]
    )
    cross join lateral (
        select from pilotis.file_storages s
        where s.app_id = n.app_id and s.storage_id = n.storage_id and s.quota_bytes is null
            and s.upload_access = any(n.accesses)
            and (s.max_file_size is null or n.size <= s.max_file_size)
            and (s.allowed_mime_types = '{{}}' or s.allowed_mime_types && n.patterns)
        for key share skip locked
    ) storage
    {_FOLDER.format(row="n")}
    cross join lateral (
        select case when n.parent_id is null then n.name else folder.path || '/' || n.name end as path
    ) made
    {_TAKEN.format(row="n", path="made.path")}
    where item.path is null and octet_length(made.path) <= {paths.PATH_BYTES}
        and cardinality(string_to_array(made.path, '/')) <= {paths.DEPTH}
    returning upload_id
"""
# The path may be taken at this very moment: then the insert fails, and nothing of the whole has happened.
_COMPLETE_MANY = f"""
    with ready as materialized (
        select u.place
        from json_to_recordset($1) w(
            app_id uuid, storage_id uuid, file_id uuid, creator text, anyone boolean, accesses text[]
        )
        cross join lateral (
            select from pilotis.file_storages s
            where s.app_id = w.app_id and s.storage_id = w.storage_id and s.quota_bytes is null
                and s.upload_access = any(w.accesses)
            for key share skip locked
        ) storage
        cross join lateral (
            select u.ctid as place, u.app_id, u.storage_id, u.parent_id, u.path from pilotis.uploads u
            where u.app_id = w.app_id and u.upload_id = w.file_id and (u.storage_id = w.storage_id) is true
                and u.state = 'uploaded' and not u.is_fixed and u.expires_at > now()
                and (w.anyone or u.creator is null or u.creator = w.creator)
            for update skip locked
        ) u
        {_FOLDER.format(row="u")}
        {_TAKEN.format(row="u", path="u.path")}
        where item.path is null and (u.parent_id is null or folder.path is not null)
    ), completed as (
        update pilotis.uploads u set state = 'completed', item_id = u.file_id
        where u.ctid = any(array(select place from ready)) returning u.*
    )
    insert into pilotis.files (
        app_id, storage_id, file_id, parent_id, path, name, is_folder, blob_id, mime_type, size, sha256, creator
    )
    select app_id, storage_id, file_id, parent_id, path, name, false, blob_id, mime_type, size, sha256, creator
    from completed order by path
    returning *
"""


class NewUploadRow(msgspec.Struct, frozen=True):
    """An upload of a new file; `seconds` until it expires.

    It takes a storage whose `upload_access` is one of `accesses`, and whose allowed types, if it has any, are some of
    `patterns`.
    """

    app_id: UUID
    upload_id: UUID
    storage_id: UUID
    parent_id: UUID | None
    name: str
    mime_type: str
    size: int
    sha256: str | None
    creator: str | None
    is_direct: bool
    seconds: int
    accesses: list[str]
    patterns: list[str]


class CompletionRow(msgspec.Struct, frozen=True):
    """A file to complete for `creator`, or as somebody who may complete `anyone`'s; `accesses` as above."""

    app_id: UUID
    storage_id: UUID
    file_id: UUID
    creator: str | None
    anyone: bool
    accesses: list[str]


async def insert_many(database: Database, uploads: Sequence[NewUploadRow]) -> list[bool]:
    """Insert uploads to one storage without a quota; tells of each whether it was, which asks for a closer look."""
    rows = await database.fetch(_INSERT_MANY, json.encode(uploads).decode())
    inserted = {row["upload_id"] for row in rows}
    return [upload.upload_id in inserted for upload in uploads]


async def complete_many(database: Database, wanted: Sequence[CompletionRow]) -> list[Record | None]:
    """List the files of received uploads to one storage without a quota; None for what asks for a closer look.

    Raises an `IntegrityConstraintViolationError` or `DeadlockDetectedError` where somebody came in between.
    """
    rows = await database.fetch(_COMPLETE_MANY, json.encode(wanted).decode())
    listed = {row["file_id"]: row for row in rows}
    return [listed.get(one.file_id) for one in wanted]

"""SQL statements for uploads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.db.waiters import BACKGROUND, UNAUTHENTICATED
from pilotis.events.statements import listened
from pilotis.files import paths
from pilotis.files.records import ItemRecord, PendingDeletion, UploadRecord
from pilotis.kit import json

UPLOAD = (
    columns(UploadRecord, without=("is_expired", "is_busy"))
    + ", expires_at <= now() as is_expired, state = 'receiving' and lease_until > now() as is_busy"
)
"""The columns of an `UploadRecord`."""
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


async def by_id(database: Database, upload_id: UUID) -> UploadRecord | None:
    """Return an upload of a live app; the URL does not name the app."""
    row = await database.fetchrow(
        f"""
        select {UPLOAD} from pilotis.uploads u
        where upload_id = $1 and exists (
            select from pilotis.apps a where a.app_id = u.app_id and a.deleted_at is null
        )
        """,
        upload_id,
        tenant=UNAUTHENTICATED,
    )
    return UploadRecord(**row) if row else None


async def claim(database: Database, upload: UploadRecord, blob_id: UUID, owner: UUID) -> bool:
    """Start receiving an upload under a blob id for this attempt; False if another attempt does or did.

    `owner` is the id of this process. An attempt with an expired lease is dead: this one replaces
    it, and a trigger marks its bytes for deletion.
    """
    return (
        await database.fetchval(
            f"""
            update pilotis.uploads
            set state = 'receiving', blob_id = $3, owner = $4,
                lease_until = now() + interval '{LEASE_SECONDS} seconds'
            where app_id = $1 and upload_id = $2
                and (state = 'pending' or state = 'receiving' and lease_until <= now())
            returning true
            """,
            upload.app_id,
            upload.upload_id,
            blob_id,
            owner,
            tenant=upload.app_id,
        )
        is True
    )


async def renew(database: Database, app_id: UUID, upload_id: UUID, blob_id: UUID) -> None:
    """Renew the lease of an attempt that is still receiving."""
    await database.execute(
        f"""
        update pilotis.uploads set lease_until = now() + interval '{LEASE_SECONDS} seconds'
        where app_id = $1 and upload_id = $2 and blob_id = $3 and state = 'receiving'
        """,
        app_id,
        upload_id,
        blob_id,
        tenant=app_id,
    )


async def received(
    database: Database, app_id: UUID, upload_id: UUID, blob_id: UUID, sha256: bytes, url_seconds: int = 0
) -> bool:
    """Record that all bytes are durable; False if the attempt has lost its lease to another one.

    The staged bytes of a direct upload are no longer needed, but may be written once more until the upload's URL
    expires, after `url_seconds`. They are deleted then, and again when the upload itself ends.
    """
    return (
        await database.fetchval(
            f"""
            with done as (
                update pilotis.uploads set
                    state = 'uploaded', sha256 = $4, received_at = clock_timestamp(), lease_until = null,
                    expires_at = greatest(expires_at, now() + interval '{COMPLETION_SECONDS} seconds')
                where app_id = $1 and upload_id = $2 and blob_id = $3 and state = 'receiving'
                returning app_id, upload_id, is_direct, created_at
            ), staged as (
                insert into pilotis.pending_deletions (app_id, key, due_at)
                select app_id, 'staging/' || app_id || '/' || upload_id,
                    greatest(now(), created_at + make_interval(secs => $5))
                from done where is_direct
                on conflict do nothing
            )
            select true from done
            """,
            app_id,
            upload_id,
            blob_id,
            sha256,
            float(url_seconds),
            tenant=app_id,
        )
        is True
    )


async def end_attempt(database: Database, app_id: UUID, upload_id: UUID, blob_id: UUID) -> None:
    """Release an interrupted upload for another attempt."""
    await database.execute(
        """
        update pilotis.uploads set state = 'pending', lease_until = null
        where app_id = $1 and upload_id = $2 and blob_id = $3 and state = 'receiving'
        """,
        app_id,
        upload_id,
        blob_id,
        tenant=app_id,
    )


class ReceivedUploads:
    """The uploads that a process is receiving, plain and resumable ones: a takeover makes them available at once."""

    async def release(self, connection: Connection, owner: UUID, *, lost: bool) -> None:  # noqa: ARG002 - see `Holding`
        """Release all uploads that a process was receiving for another attempt."""
        await connection.execute(
            """
            update pilotis.uploads set state = 'pending', lease_until = null
            where owner = $1 and state = 'receiving'
            """,
            owner,
        )

    async def settle(self) -> None:
        """Do nothing: an upload that is not received is released by the next attempt, or with its lease."""


async def end(database: Database, app_id: UUID, upload_id: UUID) -> bool:
    """Delete an upload that is not listed and release its reservation; False if there is none."""
    return (
        await database.fetchval(
            """
            with gone as (
                delete from pilotis.uploads where app_id = $1 and upload_id = $2 and state <> 'completed'
                returning app_id, storage_id, size, is_reserved
            ), settled as (
                update pilotis.file_storages s set reserved_bytes = greatest(0, s.reserved_bytes - gone.size)
                from gone
                where s.app_id = gone.app_id and s.storage_id = gone.storage_id and gone.is_reserved
                    and s.quota_bytes is not null
            )
            select true from gone
            """,
            app_id,
            upload_id,
            tenant=app_id,
        )
        is True
    )


async def lock_by_file(
    connection: Connection,
    app_id: UUID,
    storage_id: UUID,
    file_id: UUID,
    creator: str | None,
    *,
    anyone: bool,
    absent: Sequence[UUID] = (),
) -> UploadRecord | None:
    """Return the upload of a file that can be completed, or the last one, locked.

    A caller may have several uploads in progress that overwrite a path: then it is the one received last, or else the
    last direct one, whose bytes only the store knows of, if it is younger than the last one that was completed. Direct
    uploads in `absent` are passed over. A member's upload can be completed only by that member, `creator`, unless
    `anyone` is true.
    """
    row = await connection.fetchrow(
        f"""
        select {UPLOAD} from pilotis.uploads
        where app_id = $1 and storage_id = $2 and file_id = $3 and ($5 or creator is null or creator = $4)
            and upload_id <> all($6::uuid[])
        order by state = 'uploaded' desc,
            case when state = 'completed'
                or (state in ('pending', 'receiving') and is_direct and expires_at > now())
                then upload_id end desc nulls last,
            received_at desc nulls last, upload_id desc
        limit 1 for update
        """,
        app_id,
        storage_id,
        file_id,
        creator,
        anyone,
        list(absent),
    )
    return UploadRecord(**row) if row else None


async def mark_for_deletion(connection: Connection | TenantDatabase, app_id: UUID, key: str) -> None:
    """Mark a blob for deletion in an hour, unless it is in use before."""
    await connection.execute(
        "insert into pilotis.pending_deletions (app_id, key, due_at) values ($1, $2, now() + interval '1 hour')",
        app_id,
        key,
    )


async def unmark(connection: Connection, app_id: UUID, key: str) -> bool:
    """Cancel the deletion of a blob that is now in use; False if the deletion has begun or has been completed."""
    return (
        await connection.fetchval(
            """
            delete from pilotis.pending_deletions where app_id = $1 and key = $2 and attempts = 0
            returning true
            """,
            app_id,
            key,
        )
        is True
    )


async def complete(connection: Connection, upload: UploadRecord, item_id: UUID) -> None:
    """Record that an upload's file is listed."""
    await connection.execute(
        "update pilotis.uploads set state = 'completed', item_id = $3 where app_id = $1 and upload_id = $2",
        upload.app_id,
        upload.upload_id,
        item_id,
    )


async def delete_superseded(connection: Connection, upload: UploadRecord) -> int:
    """Delete the caller's earlier received uploads to the same file; return their reserved bytes."""
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
        upload.app_id,
        upload.storage_id,
        upload.file_id,
        upload.creator,
        upload.upload_id,
        upload.received_at,
    )
    return size


async def expire(connection: Connection, limit: int) -> int:
    """Delete some expired uploads, release their reservations, and return their number."""
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
        limit,
    )
    return count


async def claim_due_blobs(connection: Connection, limit: int) -> list[PendingDeletion]:
    """Claim for deletion some blobs that no request can still be reading, and return them.

    Each is due again after a delay that doubles with every attempt, from 2 minutes to a day, unless it is deleted
    before; so a blob that cannot be deleted does not block others. One that the backup store does not have yet waits: a
    moment at which it was there can be restored.
    """
    rows = await connection.fetch(
        """
        update pilotis.pending_deletions d set
            attempts = d.attempts + 1,
            due_at = now() + least(interval '1 minute' * 2 ^ least(d.attempts + 1, 20), interval '1 day')
        from (
            select app_id, key from pilotis.pending_deletions p
            where due_at <= now() and (
                current_setting('pilotis.copies_files', true) is distinct from 'on'
                or not exists (select from pilotis.pending_copies c where c.app_id = p.app_id and c.key = p.key)
            )
            order by due_at limit $1 for update skip locked
        ) due
        where d.app_id = due.app_id and d.key = due.key
        returning d.app_id, d.key
        """,
        limit,
    )
    return [PendingDeletion(*row) for row in rows]


async def record_deleted_blobs(connection: Connection, blobs: Sequence[PendingDeletion]) -> None:
    """Record the deletion of blobs that `claim_due_blobs` returned."""
    await connection.execute(
        """
        delete from pilotis.pending_deletions d using unnest($1::uuid[], $2::text[]) gone (app_id, key)
        where d.app_id = gone.app_id and d.key = gone.key
        """,
        [blob.app_id for blob in blobs],
        [blob.key for blob in blobs],
    )


async def release_blobs(connection: Connection, blobs: Sequence[PendingDeletion]) -> None:
    """Make claimed blobs due again at once: their deletion was not tried."""
    await connection.execute(
        """
        update pilotis.pending_deletions d set attempts = attempts - 1, due_at = now()
        from unnest($1::uuid[], $2::text[]) untried (app_id, key)
        where d.app_id = untried.app_id and d.key = untried.key
        """,
        [blob.app_id for blob in blobs],
        [blob.key for blob in blobs],
    )


async def begin_comparison(connection: Connection) -> None:
    """Create a temporary table for the keys in the object store, which is dropped when the transaction ends."""
    await connection.execute("create temporary table seen_blobs (key text primary key) on commit drop")


async def record_seen(connection: Connection, keys: list[str]) -> None:
    """Add keys of the object store."""
    await connection.execute("insert into seen_blobs select unnest($1::text[]) on conflict do nothing", keys)


async def known_keys(connection: Connection, keys: list[str]) -> set[str]:
    """Return those of the keys to which a file, variant, upload, site, archive or pending deletion refers."""
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
            or exists (select from pilotis.app_archives a where a.app_id = o.app_id and a.archive_id = o.id)
            or (o.app_id, o.id) in (
                select b.app_id, form.id from pilotis.web_blobs b
                cross join lateral (values (b.blob_id), (b.brotli_id), (b.gzip_id)) form (id)
                where b.app_id in (select app_id from ours) and form.id is not null
            )
        ) or kind in ('staging', 'drafts') and (
            exists (select from pilotis.uploads u where u.app_id = o.app_id and u.upload_id = o.id)
        )
        union
        select d.key from pilotis.pending_deletions d join ours using (app_id, key)
        """,
        keys,
    )
    return {key for (key,) in rows}


async def digests(database: Database, keys: Sequence[str]) -> dict[str, bytes]:
    """Return the SHA-256 of those blobs, by their keys, of which the database has it."""
    rows = await database.fetch(
        """
        with given as (
            select key, split_part(key, '/', 2)::uuid as app_id, split_part(key, '/', 3)::uuid as blob_id
            from unnest($1::text[]) key
            where key ~ '^blobs/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        )
        select key, sha256 from given join pilotis.files using (app_id, blob_id) where sha256 is not null
        union all
        select key, sha256 from given join pilotis.variants using (app_id, blob_id)
        union all
        select key, sha256 from given join pilotis.web_blobs using (app_id, blob_id)
        """,
        list(keys),
        tenant=BACKGROUND,
    )
    return {row[0]: row[1] for row in rows}


async def sample_keys(database: Database) -> list[str]:
    """Return the keys of a few files of the oldest and the newest apps."""
    rows = await database.fetch(
        """
        select 'blobs/' || app_id || '/' || blob_id as key from (
            (select app_id, blob_id from pilotis.files where blob_id is not null order by app_id, blob_id limit 5)
            union
            (select app_id, blob_id from pilotis.files where blob_id is not null
                order by app_id desc, blob_id desc limit 5)
        ) some_files
        """,
        tenant=BACKGROUND,
    )
    return [key for (key,) in rows]


async def unseen_files(connection: Connection, before: datetime) -> list[str]:
    """Return the keys of the blobs of files and sites that are missing in the object store."""
    rows = await connection.fetch(
        """
        with expected as (
            select app_id, blob_id, updated_at as since from pilotis.files
            union all
            select b.app_id, form.id, form.since from pilotis.web_blobs b
            cross join lateral (
                values (b.blob_id, b.created_at), (b.brotli_id, b.compressed_at), (b.gzip_id, b.compressed_at)
            ) form (id, since)
        )
        select key from expected e
        cross join lateral (select 'blobs/' || e.app_id || '/' || e.blob_id as key) made
        where e.blob_id is not null and e.since < $1
            and not exists (select from seen_blobs s where s.key = made.key)
        order by key
        """,
        before,
    )
    return [key for (key,) in rows]


# The statements below handle the common case for many uploads to one storage at once, and leave other cases to the full
# procedure: taken paths, full quotas, locked rows, anything rejected. For some time PostgreSQL keeps plans from when
# the tables were nearly empty, when every index that begins with the app looks equally good. So lookups ask for the
# first entry in the order of the right index, and `is true` hides a condition from the indexes. A new file has the id
# of its upload.

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
# A quota is charged by one update of the storage's row, which checks it again, and the settings, in the row's newest
# version. A lock before the update would make a ring: after a wait the update needs the row's queue, whose first holder
# waits for this transaction. Without a quota the row is locked only in shared mode: uploads do not wait for each other.
_INSERT_MANY = f"""
    with wanted as materialized (
        select * from json_to_recordset($1) n(
            app_id uuid, upload_id uuid, storage_id uuid, parent_id uuid, name text, mime_type text, size bigint,
            sha256 text, creator text, is_direct boolean, seconds float8, accesses text[], patterns text[]
        )
    ), place as materialized (
        select app_id, storage_id from wanted limit 1
    ), unlimited as materialized (
        select s.upload_access, s.max_file_size, s.allowed_mime_types, null::bigint as room
        from pilotis.file_storages s
        where s.app_id = (select app_id from place) and s.storage_id = (select storage_id from place)
            and s.quota_bytes is null
        for key share skip locked
    ), limited as materialized (
        select s.upload_access, s.max_file_size, s.allowed_mime_types,
            s.quota_bytes - s.used_bytes - s.reserved_bytes as room
        from pilotis.file_storages s
        where s.app_id = (select app_id from place) and s.storage_id = (select storage_id from place)
            and s.quota_bytes is not null
    ), possible as materialized (
        select n.*, made.path, storage.room, sum(n.size) over (order by n.upload_id) as total
        from wanted n
        join (select * from unlimited union all select * from limited) storage
            on storage.upload_access = any(n.accesses)
            and (storage.max_file_size is null or n.size <= storage.max_file_size)
            and (storage.allowed_mime_types = '{{}}' or storage.allowed_mime_types && n.patterns)
        {_FOLDER.format(row="n")}
        cross join lateral (
            select case when n.parent_id is null then n.name else folder.path || '/' || n.name end as path
        ) made
        {_TAKEN.format(row="n", path="made.path")}
        where item.path is null and octet_length(made.path) <= {paths.PATH_BYTES}
            and cardinality(string_to_array(made.path, '/')) <= {paths.DEPTH}
    ), charged as (
        update pilotis.file_storages s set reserved_bytes = s.reserved_bytes + added.bytes
        from (select sum(size) as bytes from possible where total <= room) added, limited seen
        where s.app_id = (select app_id from place) and s.storage_id = (select storage_id from place)
            and added.bytes <= s.quota_bytes - s.used_bytes - s.reserved_bytes
            and s.upload_access = seen.upload_access and s.allowed_mime_types = seen.allowed_mime_types
            and s.max_file_size is not distinct from seen.max_file_size
        returning 1
    ), inserted as (
        insert into pilotis.uploads (
            app_id, upload_id, storage_id, file_id, parent_id, path, name, is_fixed, may_replace, mime_type, size,
            sha256, creator, is_direct, is_reserved, expires_at
        )
        select app_id, upload_id, storage_id, upload_id, parent_id, path, name, false, false, mime_type, size,
            decode(sha256, 'hex'), creator, is_direct, room is not null, now() + make_interval(secs => seconds)
        from possible where room is null or (total <= room and exists (select from charged))
        returning upload_id
    )
    select upload_id from inserted
"""
# The path may be taken concurrently: then the insert fails and nothing is changed. If there are listeners, the full
# procedure writes the event in its transaction.
_COMPLETE_MANY = f"""
    with ready as materialized (
        select u.place
        from json_to_recordset($1) w(
            app_id uuid, storage_id uuid, file_id uuid, creator text, anyone boolean, accesses text[]
        )
        cross join lateral (
            select from pilotis.file_storages s
            where s.app_id = w.app_id and s.storage_id = w.storage_id
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
            and not {listened("w.app_id", "'file.created'")}
    ), completed as (
        update pilotis.uploads u set state = 'completed', item_id = u.file_id
        where u.ctid = any(array(select place from ready)) returning u.*
    ), listed as (
        insert into pilotis.files (
            app_id, storage_id, file_id, parent_id, path, name, is_folder, blob_id, mime_type, size, sha256, creator
        )
        select app_id, storage_id, file_id, parent_id, path, name, false, blob_id, mime_type, size, sha256, creator
        from completed order by path
        returning *
    ), settled as (
        update pilotis.file_storages s set
            used_bytes = s.used_bytes + added.used, reserved_bytes = greatest(0, s.reserved_bytes - added.reserved)
        from (
            select c.app_id, c.storage_id, sum(c.size) as used,
                coalesce(sum(c.size) filter (where c.is_reserved), 0) as reserved
            from completed c where exists (select from listed) group by c.app_id, c.storage_id
        ) added
        where s.app_id = added.app_id and s.storage_id = added.storage_id and s.quota_bytes is not null
    )
    select {columns(ItemRecord)} from listed
"""


class NewUploadRow(msgspec.Struct, frozen=True):
    """An upload of a new file; `seconds` until it expires.

    The storage must have one of `accesses` as `upload_access`, and allow any type or one of `patterns`.
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
    """A file to complete, uploaded by `creator` or, with `anyone`, by anybody; `accesses` as above."""

    app_id: UUID
    storage_id: UUID
    file_id: UUID
    creator: str | None
    anyone: bool
    accesses: list[str]


async def insert_many(database: Database, uploads: Sequence[NewUploadRow]) -> list[bool]:
    """Insert uploads to one storage; return for each whether it was inserted or needs the full procedure."""
    rows = await database.fetch(_INSERT_MANY, json.encode(uploads).decode(), tenant=uploads[0].app_id)
    inserted = {upload_id for (upload_id,) in rows}
    return [upload.upload_id in inserted for upload in uploads]


async def complete_many(database: Database, wanted: Sequence[CompletionRow]) -> list[ItemRecord | None]:
    """List the files of received uploads to one storage; None for those that need the full procedure.

    Raises an `IntegrityConstraintViolationError` or `DeadlockDetectedError` on a conflict.
    """
    rows = await database.fetch(_COMPLETE_MANY, json.encode(wanted).decode(), tenant=wanted[0].app_id)
    listed = {item.file_id: item for item in (ItemRecord(**row) for row in rows)}
    return [listed.get(one.file_id) for one in wanted]

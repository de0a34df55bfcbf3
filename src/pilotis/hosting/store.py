"""SQL statements for web storages, their deployments, files, pages and domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.locks import lock_app
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND, CONSOLE
from pilotis.hosting.types import FileEntry

PRESERVED_DAYS = 7
"""How long an asset is served after its deployment stopped being production."""
PROTECTED_HOURS = 24
"""How long an unused content is kept after its last use."""

_STORAGE = """
    select s.*, coalesce(d.file_count, 0) as file_count, coalesce(d.total_size, 0) as total_size
    from pilotis.web_storages s
    left join pilotis.web_deployments d on d.app_id = s.app_id and d.deployment_id = s.production_id
    where s.app_id = $1
"""


COUNT = "select count(*) from pilotis.web_storages where app_id = $1"
"""The number of an app's storages."""


async def storages(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the app's storages by creation time, and their total number."""
    return await fetch_page(database, app_id, _STORAGE, (app_id,), order_by="storage_id", limit=limit, offset=offset)


async def storage(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> Record | None:
    """Return a storage with the size of what it serves."""
    return await connection.fetchrow(f"{_STORAGE} and s.storage_id = $2", app_id, storage_id)


async def lock_storage(connection: Connection, app_id: UUID, storage_id: UUID) -> Record | None:
    """Return a storage, locked against other changes and deploys until the transaction ends."""
    return await connection.fetchrow(
        "select * from pilotis.web_storages where app_id = $1 and storage_id = $2 for no key update",
        app_id,
        storage_id,
    )


async def count_storages(connection: Connection, app_id: UUID) -> int:
    """Return the number of the app's storages, and lock the app, so that it stays correct in the transaction."""
    await lock_app(connection, app_id)
    count: int = await connection.fetchval(COUNT, app_id)
    return count


async def insert_storage(connection: Connection, app_id: UUID, storage_id: UUID, columns: Mapping[str, Any]) -> None:
    """Insert a storage with its settings."""
    names = ", ".join(columns)
    places = ", ".join(f"${at}" for at in range(3, 3 + len(columns)))
    await connection.execute(
        f"insert into pilotis.web_storages (app_id, storage_id, {names}) values ($1, $2, {places})",
        app_id,
        storage_id,
        *columns.values(),
    )


async def update_storage(connection: Connection, app_id: UUID, storage_id: UUID, columns: Mapping[str, Any]) -> None:
    """Change columns of a storage, and count the change."""
    assignments = "".join(f", {name} = ${at}" for at, name in enumerate(columns, 3))
    await connection.execute(
        f"""
        update pilotis.web_storages set updated_at = now(), revision = revision + 1{assignments}
        where app_id = $1 and storage_id = $2
        """,
        app_id,
        storage_id,
        *columns.values(),
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


async def site_by_slug(database: Database, slug: str) -> Record | None:
    """Return the storage that serves the hosts of a slug, if its app is live."""
    return await database.fetchrow(
        """
        select s.*, exists (select from pilotis.web_page_metas m
                            where m.app_id = s.app_id and m.storage_id = s.storage_id) as has_metas
        from pilotis.web_storages s join pilotis.apps a using (app_id)
        where s.slug = $1 and a.deleted_at is null
        """,
        slug,
        tenant=slug,
    )


async def site_by_hostname(database: Database, hostname: str) -> Record | None:
    """Return the storage that serves a domain of its own, if its app is live."""
    return await database.fetchrow(
        """
        select s.*, exists (select from pilotis.web_page_metas m
                            where m.app_id = s.app_id and m.storage_id = s.storage_id) as has_metas
        from pilotis.web_domains d
        join pilotis.web_storages s using (app_id, storage_id)
        join pilotis.apps a using (app_id)
        where d.hostname = $1 and d.verified_at is not null and a.deleted_at is null
        """,
        hostname,
        tenant=hostname,
    )


async def revision(database: Database, app_id: UUID, storage_id: UUID) -> int | None:
    """Return the number of changes to what a storage serves; None if it, or its app, is deleted."""
    count: int | None = await database.fetchval(
        """
        select s.revision from pilotis.web_storages s join pilotis.apps a using (app_id)
        where s.app_id = $1 and s.storage_id = $2 and a.deleted_at is null
        """,
        app_id,
        storage_id,
        tenant=app_id,
    )
    return count


# Deployments


async def deployment(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, deployment_id: UUID
) -> Record | None:
    """Return a deployment of a storage."""
    return await connection.fetchrow(
        "select * from pilotis.web_deployments where app_id = $1 and storage_id = $2 and deployment_id = $3",
        app_id,
        storage_id,
        deployment_id,
    )


async def ready_version(database: Database, app_id: UUID, storage_id: UUID, version: int) -> UUID | None:
    """Return the id of a ready deployment by its version."""
    deployment_id: UUID | None = await database.fetchval(
        """
        select deployment_id from pilotis.web_deployments
        where app_id = $1 and storage_id = $2 and version = $3 and status = 'ready'
        """,
        app_id,
        storage_id,
        version,
        tenant=app_id,
    )
    return deployment_id


async def newest_ready(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> Record | None:
    """Return the ready deployment with the highest version."""
    return await connection.fetchrow(
        """
        select * from pilotis.web_deployments where app_id = $1 and storage_id = $2 and status = 'ready'
        order by version desc limit 1
        """,
        app_id,
        storage_id,
    )


async def deployments(
    database: Database, app_id: UUID, storage_id: UUID, status: str | None, limit: int, offset: int
) -> tuple[list[Record], int]:
    """Return a page of a storage's deployments, newest first, and their total number."""
    query = """
        select * from pilotis.web_deployments
        where app_id = $1 and storage_id = $2 and ($3::text is null or status = $3)
    """
    arguments = (app_id, storage_id, status)
    return await fetch_page(
        database, app_id, query, arguments, order_by="deployment_id desc", limit=limit, offset=offset
    )


DEPLOYMENTS_BY_DAY = """
    select date_trunc('day', created_at, 'UTC') as day, count(*) as total,
        count(*) filter (where status = 'failed') as failed
    from pilotis.web_deployments
    where app_id = $1 and created_at >= date_trunc('day', now(), 'UTC') - make_interval(days => $2 - 1)
    group by 1
"""
"""The deployments of an app, for `pilotis.db.daily`."""


async def count_zips(connection: Connection | TenantDatabase, app_id: UUID) -> int:
    """Return how many archives an app has deployed within the last hour."""
    count: int = await connection.fetchval(
        """
        select count(*) from pilotis.web_deployments
        where app_id = $1 and source <> 'incremental' and created_at > now() - interval '1 hour'
        """,
        app_id,
    )
    return count


async def insert_deployment(connection: Connection, columns: Mapping[str, Any]) -> Record:
    """Insert a deployment and return it."""
    names = ", ".join(columns)
    places = ", ".join(f"${at}" for at in range(1, 1 + len(columns)))
    row = await connection.fetchrow(
        f"insert into pilotis.web_deployments ({names}) values ({places}) returning *", *columns.values()
    )
    assert row is not None
    return row


async def update_deployment(
    connection: Connection | TenantDatabase, app_id: UUID, deployment_id: UUID, columns: Mapping[str, Any]
) -> Record | None:
    """Change a deployment that is being processed, and return it; None if it no longer is."""
    assignments = ", ".join(f"{name} = ${at}" for at, name in enumerate(columns, 3))
    return await connection.fetchrow(
        f"""
        update pilotis.web_deployments set {assignments}
        where app_id = $1 and deployment_id = $2 and status = 'processing' returning *
        """,
        app_id,
        deployment_id,
        *columns.values(),
    )


async def leave_production(connection: Connection, app_id: UUID, deployment_id: UUID) -> None:
    """Record that a deployment is no longer production."""
    await connection.execute(
        "update pilotis.web_deployments set production_until = now() where app_id = $1 and deployment_id = $2",
        app_id,
        deployment_id,
    )


async def insert_promotion(connection: Connection, columns: Mapping[str, Any]) -> None:
    """Record a change of a pointer."""
    names = ", ".join(columns)
    places = ", ".join(f"${at}" for at in range(1, 1 + len(columns)))
    await connection.execute(f"insert into pilotis.web_promotions ({names}) values ({places})", *columns.values())


async def expire_deployments(connection: Connection, app_id: UUID, storage_id: UUID, retain: int) -> list[Record]:
    """Expire the ready deployments of a locked storage beyond the newest `retain`, and return them.

    Those that a pointer or the last promotion of a channel refers to are kept, and those that were production until
    recently: their assets are still served.
    """
    rows = await connection.fetch(
        """
        with kept as (
            select production_id as id from pilotis.web_storages where app_id = $1 and storage_id = $2
            union select qa_id from pilotis.web_storages where app_id = $1 and storage_id = $2
            union (select previous_id from pilotis.web_promotions
                   where app_id = $1 and storage_id = $2 and channel = 'production' order by promotion_id desc limit 1)
            union (select previous_id from pilotis.web_promotions
                   where app_id = $1 and storage_id = $2 and channel = 'qa' order by promotion_id desc limit 1)
            union (select deployment_id from pilotis.web_deployments
                   where app_id = $1 and storage_id = $2 and status = 'ready' order by version desc limit $3)
        )
        update pilotis.web_deployments d set status = 'expired'
        where app_id = $1 and storage_id = $2 and status = 'ready'
            and not exists (select from kept where id = d.deployment_id)
            and (production_until is null or production_until < now() - make_interval(days => $4))
        returning d.*
        """,
        app_id,
        storage_id,
        retain,
        PRESERVED_DAYS,
    )
    await connection.execute(
        "delete from pilotis.web_files where app_id = $1 and deployment_id = any($2::uuid[])",
        app_id,
        [row["deployment_id"] for row in rows],
    )
    return rows


async def delete_old(connection: Connection, kept: int) -> None:
    """Delete deployments without files, and promotions, that are not among the newest of a storage or a channel.

    Only deployments that have failed or expired have no files: nothing refers to them any more.
    """
    await connection.execute(
        """
        delete from pilotis.web_deployments where (app_id, deployment_id) in (
            select app_id, deployment_id from (
                select app_id, deployment_id, status,
                    row_number() over (partition by app_id, storage_id order by created_at desc, deployment_id) as place
                from pilotis.web_deployments
            ) d
            where place > $1 and status in ('expired', 'failed')
        )
        """,
        kept,
    )
    await connection.execute(
        """
        delete from pilotis.web_promotions where (app_id, promotion_id) in (
            select app_id, promotion_id from (
                select app_id, promotion_id,
                    row_number() over (partition by app_id, storage_id, channel order by promotion_id desc) as place
                from pilotis.web_promotions
            ) p
            where place > $1
        )
        """,
        kept,
    )


async def storages_with_surplus(connection: Connection, limit: int) -> list[Record]:
    """Return storages with more ready deployments than they retain."""
    return await connection.fetch(
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


# Files and their contents


async def files(connection: Connection | TenantDatabase, app_id: UUID, deployment_id: UUID) -> list[Record]:
    """Return the files of a deployment, sorted by path."""
    return await connection.fetch(
        """
        select path, sha256, size, content_type from pilotis.web_files
        where app_id = $1 and deployment_id = $2 order by path
        """,
        app_id,
        deployment_id,
    )


_SERVED = """
    select f.path, f.sha256, f.size, f.content_type, b.blob_id, b.brotli_id, b.brotli_size, b.gzip_id, b.gzip_size
    from pilotis.web_files f join pilotis.web_blobs b using (app_id, sha256)
"""


async def served_files(database: Database, app_id: UUID, deployment_id: UUID) -> list[Record]:
    """Return the files of a deployment with the keys of their bytes."""
    return await database.fetch(
        f"{_SERVED} where f.app_id = $1 and f.deployment_id = $2", app_id, deployment_id, tenant=app_id
    )


async def ready_date(database: Database, app_id: UUID, deployment_id: UUID) -> str:
    """Return the date at which a deployment became ready."""
    date: str = await database.fetchval(
        """
        select to_char(ready_at at time zone 'UTC', 'YYYY-MM-DD') from pilotis.web_deployments
        where app_id = $1 and deployment_id = $2
        """,
        app_id,
        deployment_id,
        tenant=app_id,
    )
    return date


async def preserved_file(database: Database, app_id: UUID, storage_id: UUID, path: str) -> Record | None:
    """Return the file that a path had in the previous production deployment, within the preservation time."""
    return await database.fetchrow(
        f"""
        {_SERVED} join pilotis.web_deployments d using (app_id, deployment_id)
        where f.app_id = $1 and f.path = $3 and d.storage_id = $2
            and d.production_until > now() - make_interval(days => $4)
        order by d.production_until desc limit 1
        """,
        app_id,
        storage_id,
        path,
        PRESERVED_DAYS,
        tenant=app_id,
    )


async def insert_files(
    connection: Connection, app_id: UUID, deployment_id: UUID, manifest: Mapping[str, FileEntry]
) -> None:
    """Insert files of a deployment."""
    entries = manifest.values()
    await connection.execute(
        """
        insert into pilotis.web_files (app_id, deployment_id, path, sha256, size, content_type)
        select $1::uuid, $2::uuid, * from unnest($3::text[], $4::bytea[], $5::bigint[], $6::text[])
        """,
        app_id,
        deployment_id,
        list(manifest),
        [entry.sha256 for entry in entries],
        [entry.size for entry in entries],
        [entry.content_type for entry in entries],
    )


async def copy_files(
    connection: Connection, app_id: UUID, base_id: UUID, deployment_id: UUID, without: Iterable[str]
) -> None:
    """Insert a base deployment's files, except some paths, for another deployment."""
    await connection.execute(
        """
        insert into pilotis.web_files (app_id, deployment_id, path, sha256, size, content_type)
        select app_id, $3::uuid, path, sha256, size, content_type from pilotis.web_files
        where app_id = $1 and deployment_id = $2 and path <> all($4::text[])
        """,
        app_id,
        base_id,
        deployment_id,
        list(without),
    )


async def touch_blobs(
    connection: Connection | TenantDatabase, app_id: UUID, hashes: Iterable[bytes]
) -> dict[bytes, int]:
    """Protect contents from collection, and return the size of each that exists.

    Touching a content in a transaction protects it until the transaction ends.
    """
    rows = await connection.fetch(
        """
        with locked as (
            select sha256 from pilotis.web_blobs where app_id = $1 and sha256 = any($2::bytea[])
            order by sha256 for no key update
        )
        update pilotis.web_blobs b set last_used_at = now() from locked
        where b.app_id = $1 and b.sha256 = locked.sha256 returning b.sha256, b.size
        """,
        app_id,
        list(hashes),
    )
    return {row["sha256"]: row["size"] for row in rows}


async def blob_id(connection: Connection | TenantDatabase, app_id: UUID, sha256: bytes) -> UUID:
    """Return the id of an existing content."""
    found: UUID = await connection.fetchval(
        "select blob_id from pilotis.web_blobs where app_id = $1 and sha256 = $2", app_id, sha256
    )
    return found


async def mark_for_deletion(database: Database, app_id: UUID, keys: Sequence[str]) -> None:
    """Mark bytes for deletion in a day, unless a content uses them before: the storing process may die."""
    await database.execute(
        """
        insert into pilotis.pending_deletions (app_id, key, due_at)
        select $1::uuid, key, now() + interval '1 day' from unnest($2::text[]) key
        on conflict (app_id, key) do update set due_at = excluded.due_at, attempts = 0
        """,
        app_id,
        list(keys),
        tenant=app_id,
    )


async def delete_soon(database: Database, app_id: UUID, keys: Sequence[str]) -> None:
    """Delete marked bytes soon that nothing refers to."""
    await database.execute(
        "update pilotis.pending_deletions set due_at = now() where app_id = $1 and key = any($2::text[])",
        app_id,
        list(keys),
        tenant=app_id,
    )


async def insert_blobs(
    connection: Connection, app_id: UUID, blobs: Sequence[tuple[bytes, UUID, int]], prefix: str
) -> None:
    """Insert contents whose bytes are stored; for an existing one the new bytes stay marked."""
    await connection.execute(
        """
        with made as (
            insert into pilotis.web_blobs (app_id, sha256, blob_id, size)
            select $1::uuid, * from unnest($2::bytea[], $3::uuid[], $4::bigint[]) given (sha256, blob_id, size)
            order by sha256
            on conflict (app_id, sha256) do update set last_used_at = now()
            returning blob_id
        )
        delete from pilotis.pending_deletions using made where app_id = $1 and key = $5 || made.blob_id::text
        """,
        app_id,
        [sha256 for sha256, _, _ in blobs],
        [blob_id for _, blob_id, _ in blobs],
        [size for _, _, size in blobs],
        prefix,
    )


async def uncompressed(database: Database, app_id: UUID, deployment_id: UUID, min_size: int) -> list[Record]:
    """Return the contents of a deployment that are not compressed yet, smallest first."""
    return await database.fetch(
        """
        select b.sha256, b.blob_id, b.size, min(f.content_type) as content_type
        from pilotis.web_files f join pilotis.web_blobs b using (app_id, sha256)
        where f.app_id = $1 and f.deployment_id = $2 and b.compressed_at is null and b.size >= $3
        group by b.app_id, b.sha256, b.blob_id, b.size order by b.size
        """,
        app_id,
        deployment_id,
        min_size,
        tenant=app_id,
    )


async def set_compressed(
    connection: Connection,
    app_id: UUID,
    blob_id: UUID,
    brotli: tuple[UUID, int] | None,
    gzip: tuple[UUID, int] | None,
    prefix: str,
) -> None:
    """Store the compressed forms of a content; if it is deleted or already has them, the new bytes stay marked."""
    await connection.execute(
        """
        with changed as (
            update pilotis.web_blobs
            set compressed_at = now(), brotli_id = $3, brotli_size = $4, gzip_id = $5, gzip_size = $6
            where app_id = $1 and blob_id = $2 and compressed_at is null
            returning brotli_id, gzip_id
        )
        delete from pilotis.pending_deletions using changed
        where app_id = $1 and key in ($7 || brotli_id::text, $7 || gzip_id::text)
        """,
        app_id,
        blob_id,
        brotli[0] if brotli else None,
        brotli[1] if brotli else None,
        gzip[0] if gzip else None,
        gzip[1] if gzip else None,
        prefix,
    )


async def collect_blobs(connection: Connection, limit: int) -> int:
    """Delete contents that no deployment uses and that were not touched recently; return their number.

    A trigger marks their bytes for deletion. A content that is being touched is checked again after the touching
    transaction commits.
    """
    rows = await connection.fetch(
        """
        with unused as (
            select b.app_id, b.sha256 from pilotis.web_blobs b
            where b.last_used_at < now() - make_interval(hours => $2)
                and not exists (select from pilotis.web_files f where f.app_id = b.app_id and f.sha256 = b.sha256)
            order by b.last_used_at limit $1 for update skip locked
        )
        delete from pilotis.web_blobs b using unused
        where b.app_id = unused.app_id and b.sha256 = unused.sha256
            and b.last_used_at < now() - make_interval(hours => $2)
        returning b.sha256
        """,
        limit,
        PROTECTED_HOURS,
    )
    return len(rows)


# Pages


async def page_meta(database: Database, app_id: UUID, storage_id: UUID, path: str) -> Record | None:
    """Return the metadata of a page."""
    return await database.fetchrow(
        "select * from pilotis.web_page_metas where app_id = $1 and storage_id = $2 and path = $3",
        app_id,
        storage_id,
        path,
        tenant=app_id,
    )


async def page_metas(
    database: Database, app_id: UUID, storage_id: UUID, limit: int, offset: int
) -> tuple[list[Record], int]:
    """Return a page of a storage's pages sorted by path, and their total number."""
    query = "select * from pilotis.web_page_metas where app_id = $1 and storage_id = $2"
    return await fetch_page(database, app_id, query, (app_id, storage_id), order_by="path", limit=limit, offset=offset)


async def put_page_metas(
    connection: Connection, app_id: UUID, storage_id: UUID, rows: Sequence[tuple[Any, ...]]
) -> list[Record]:
    """Insert or replace pages, each `(path, title, description, image, og_type, extra)`, and return them."""
    return await connection.fetch(
        """
        insert into pilotis.web_page_metas (app_id, storage_id, path, title, description, image, og_type, extra)
        select $1::uuid, $2::uuid, * from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
        on conflict (app_id, storage_id, path) do update set
            title = excluded.title, description = excluded.description, image = excluded.image,
            og_type = excluded.og_type, extra = excluded.extra, updated_at = now()
        returning *
        """,
        app_id,
        storage_id,
        *[list(column) for column in zip(*rows, strict=True)],
    )


async def count_page_metas(connection: Connection, app_id: UUID, storage_id: UUID) -> int:
    """Return how many pages of a storage have metadata."""
    count: int = await connection.fetchval(
        "select count(*) from pilotis.web_page_metas where app_id = $1 and storage_id = $2", app_id, storage_id
    )
    return count


async def delete_page_meta(connection: Connection, app_id: UUID, storage_id: UUID, path: str) -> bool:
    """Delete the metadata of a page; False if it has none."""
    return (
        await connection.fetchval(
            """
            delete from pilotis.web_page_metas where app_id = $1 and storage_id = $2 and path = $3 returning true
            """,
            app_id,
            storage_id,
            path,
        )
        is True
    )


async def delete_page_metas(connection: Connection, app_id: UUID, storage_id: UUID) -> int:
    """Delete the metadata of all pages of a storage, and return how many there were."""
    tag = await connection.execute(
        "delete from pilotis.web_page_metas where app_id = $1 and storage_id = $2", app_id, storage_id
    )
    return int(tag.split()[-1])


async def sitemap_metas(database: Database, app_id: UUID, storage_id: UUID, limit: int) -> list[Record]:
    """Return pages with metadata, for the sitemap."""
    return await database.fetch(
        """
        select path, extra, to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD') as changed
        from pilotis.web_page_metas
        where app_id = $1 and storage_id = $2 order by path limit $3
        """,
        app_id,
        storage_id,
        limit,
        tenant=app_id,
    )


# Domains


async def domains(
    database: Database, app_id: UUID, storage_id: UUID, limit: int, offset: int
) -> tuple[list[Record], int]:
    """Return a page of a storage's domains in alphabetical order, and their total number."""
    query = "select * from pilotis.web_domains where app_id = $1 and storage_id = $2"
    return await fetch_page(
        database, app_id, query, (app_id, storage_id), order_by="hostname", limit=limit, offset=offset
    )


async def domain(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, hostname: str
) -> Record | None:
    """Return a domain of a storage."""
    return await connection.fetchrow(
        "select * from pilotis.web_domains where app_id = $1 and storage_id = $2 and hostname = $3",
        app_id,
        storage_id,
        hostname,
    )


async def count_domains(connection: Connection, app_id: UUID, storage_id: UUID) -> int:
    """Return how many domains a storage has."""
    count: int = await connection.fetchval(
        "select count(*) from pilotis.web_domains where app_id = $1 and storage_id = $2", app_id, storage_id
    )
    return count


async def insert_domain(connection: Connection, app_id: UUID, storage_id: UUID, hostname: str, token: str) -> Record:
    """Insert an unverified domain, or return the existing one."""
    await connection.execute(
        """
        insert into pilotis.web_domains (app_id, storage_id, hostname, token) values ($1, $2, $3, $4)
        on conflict (app_id, storage_id, hostname) do nothing
        """,
        app_id,
        storage_id,
        hostname,
        token,
    )
    row = await domain(connection, app_id, storage_id, hostname)
    assert row is not None
    return row


async def verify_domain(connection: Connection, app_id: UUID, storage_id: UUID, hostname: str) -> Record | None:
    """Record the verification of a domain; raises a unique violation if another storage has verified it."""
    return await connection.fetchrow(
        """
        update pilotis.web_domains set verified_at = coalesce(verified_at, now())
        where app_id = $1 and storage_id = $2 and hostname = $3 returning *
        """,
        app_id,
        storage_id,
        hostname,
    )


async def delete_domain(connection: Connection, app_id: UUID, storage_id: UUID, hostname: str) -> bool:
    """Delete a domain; False if there is none."""
    return (
        await connection.fetchval(
            "delete from pilotis.web_domains where app_id = $1 and storage_id = $2 and hostname = $3 returning true",
            app_id,
            storage_id,
            hostname,
        )
        is True
    )


async def verified_hostnames(database: Database) -> list[str]:
    """Return every verified domain."""
    rows = await database.fetch(
        "select hostname from pilotis.web_domains where verified_at is not null", tenant=BACKGROUND
    )
    return [row["hostname"] for row in rows]


async def newest_slugs(database: Database, limit: int) -> list[str]:
    """Return the slugs of the newest storages."""
    rows = await database.fetch(
        "select slug from pilotis.web_storages order by created_at desc, storage_id limit $1", limit, tenant=BACKGROUND
    )
    return [row["slug"] for row in rows]


async def is_site_name(database: Database, hostname: str, slug: str) -> bool:
    """Whether there is a site with a verified domain, or one with a slug."""
    return (
        await database.fetchval(
            """
            select true from pilotis.web_storages s join pilotis.apps a using (app_id)
            where a.deleted_at is null and (
                s.slug = $2
                or exists (
                    select from pilotis.web_domains d
                    where d.app_id = s.app_id and d.storage_id = s.storage_id
                        and d.hostname = $1 and d.verified_at is not null
                )
            )
            limit 1
            """,
            hostname,
            slug,
            tenant=CONSOLE,
        )
        is True
    )


async def fail_abandoned(connection: Connection) -> None:
    """Fail deployments that are marked as being processed although no job processes them."""
    await connection.execute(
        """
        update pilotis.web_deployments d set status = 'failed',
            error = '{"code":"ABANDONED","message":"Processing did not come to an end. Deploy again.","details":[]}'
        where status = 'processing' and created_at < now() - interval '10 minutes' and not exists (
            select from pilotis.jobs j
            where j.app_id = d.app_id and j.key = d.deployment_id::text and j.kind = 'hosting.unpack'
                and j.state <> 'dead'
        )
        """
    )


async def forget_freed_slugs(connection: Connection) -> None:
    """Delete released slugs that are no longer blocked."""
    await connection.execute("delete from pilotis.web_freed_slugs where free_at < now()")

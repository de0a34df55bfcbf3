"""SQL statements for variants of images.

A variant's bytes are marked for deletion before they are stored and unmarked once its row exists, so a crash in between
leaves nothing behind permanently. When the row is deleted, at the latest with its file, triggers mark them again.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.files.keys import blob_key
from pilotis.files.records import VariantRecord
from pilotis.files.uploads import store as upload_store

MAX_OF_FILE = 64
BYTES_BESIDES_FILE = 1_000_000
TIMES_FILE = 2
UNUSED_DAYS = 30


async def find(database: Database, app_id: UUID, file_id: UUID, source_id: UUID, recipe: str) -> VariantRecord | None:
    """Return a variant of a file's content."""
    row = await database.fetchrow(
        """
        select blob_id, size, sha256, used_at < now() - interval '1 day' as is_stale
        from pilotis.variants where app_id = $1 and file_id = $2 and source_id = $3 and recipe = $4
        """,
        app_id,
        file_id,
        source_id,
        recipe,
        tenant=app_id,
    )
    return VariantRecord(*row) if row else None


async def record_use(database: Database, app_id: UUID, file_id: UUID, recipe: str) -> None:
    """Record the use of a variant."""
    await database.execute(
        "update pilotis.variants set used_at = now() where app_id = $1 and file_id = $2 and recipe = $3",
        app_id,
        file_id,
        recipe,
        tenant=app_id,
    )


async def fits_quota(connection: Connection | TenantDatabase, app_id: UUID, file_id: UUID, size: int) -> bool:
    """Return whether a file may have another variant of `size` bytes."""
    return (
        await connection.fetchval(
            f"""
            select count(v.*) < {MAX_OF_FILE}
                and coalesce(sum(v.size), 0) + $3 <= f.size * {TIMES_FILE} + {BYTES_BESIDES_FILE}
            from pilotis.files f left join pilotis.variants v using (app_id, file_id)
            where app_id = $1 and file_id = $2 group by f.size
            """,
            app_id,
            file_id,
            size,
        )
        is True
    )


async def keep(
    connection: Connection,
    app_id: UUID,
    file_id: UUID,
    source_id: UUID,
    recipe: str,
    *,
    blob_id: UUID,
    size: int,
    sha256: bytes,
) -> bool:
    """Insert a variant whose bytes are stored and marked for deletion.

    False if the file's content has changed, if the quota is exhausted, or if another node was faster: then they stay
    marked for deletion. The file is locked, so that variants are counted exactly and never outlive the content.
    """
    is_current = await connection.fetchval(
        "select true from pilotis.files where app_id = $1 and file_id = $2 and blob_id = $3 for no key update",
        app_id,
        file_id,
        source_id,
    )
    if not is_current or not await fits_quota(connection, app_id, file_id, size):
        return False
    # First, so that nothing refers to a blob whose deletion has begun.
    if not await upload_store.unmark(connection, app_id, blob_key(app_id, blob_id)):
        return False
    inserted = await connection.fetchval(
        """
        insert into pilotis.variants (app_id, file_id, recipe, source_id, blob_id, size, sha256)
        values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning true
        """,
        app_id,
        file_id,
        recipe,
        source_id,
        blob_id,
        size,
        sha256,
    )
    if not inserted:
        await upload_store.mark_for_deletion(connection, app_id, blob_key(app_id, blob_id))
    return inserted is True


async def delete_unused(connection: Connection, limit: int) -> int:
    """Delete some variants that were not used for 30 days, and return their number."""
    count: int = await connection.fetchval(
        f"""
        with gone as (
            delete from pilotis.variants where (app_id, file_id, recipe) in (
                select app_id, file_id, recipe from pilotis.variants
                where used_at < now() - interval '{UNUSED_DAYS} days'
                order by used_at limit $1 for update skip locked
            ) returning 1
        )
        select count(*) from gone
        """,
        limit,
    )
    return count


async def delete_unseen(connection: Connection, before: datetime) -> None:
    """Delete variants whose bytes were missing in the comparison that `upload_store` began."""
    await connection.execute(
        """
        delete from pilotis.variants v where v.created_at < $1
            and not exists (select from seen_blobs s where s.key = 'blobs/' || v.app_id || '/' || v.blob_id)
        """,
        before,
    )

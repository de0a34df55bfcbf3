"""The statements on variants of images.

A variant's bytes are buried before they are stored and dug out when its row is there, so a crash in between leaves
nothing behind for good. From then on triggers bury them with the row, and the row ends with its file.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.files import upload_store
from pilotis.files.keys import blob_key

MOST_OF_FILE = 64
BYTES_BESIDES_FILE = 1_000_000
TIMES_FILE = 2
UNUSED_DAYS = 30


async def find(database: Database, app_id: UUID, file_id: UUID, source_id: UUID, recipe: str) -> Record | None:
    """Return a variant of a content; `is_stale` tells that its use has not been noted for a day."""
    return await database.fetchrow(
        """
        select blob_id, size, sha256, used_at < now() - interval '1 day' as is_stale
        from pilotis.variants where app_id = $1 and file_id = $2 and source_id = $3 and recipe = $4
        """,
        app_id,
        file_id,
        source_id,
        recipe,
    )


async def note_use(database: Database, app_id: UUID, file_id: UUID, recipe: str) -> None:
    """Note that a variant has been asked for."""
    await database.execute(
        "update pilotis.variants set used_at = now() where app_id = $1 and file_id = $2 and recipe = $3",
        app_id,
        file_id,
        recipe,
    )


async def has_room(connection: Connection | Database, app_id: UUID, file_id: UUID, size: int) -> bool:
    """Tell whether a file may have one more variant of so many bytes."""
    return (
        await connection.fetchval(
            f"""
            select count(v.*) < {MOST_OF_FILE}
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
    """Insert a variant whose bytes are stored and buried.

    False if the content is no longer the file's, if there is no room, or if another node was faster: then they stay
    buried. The file is locked, so that its variants are counted one after the other and never outlive a content.
    """
    is_current = await connection.fetchval(
        "select true from pilotis.files where app_id = $1 and file_id = $2 and blob_id = $3 for no key update",
        app_id,
        file_id,
        source_id,
    )
    if not is_current or not await has_room(connection, app_id, file_id, size):
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
    if inserted:
        await upload_store.unbury(connection, app_id, blob_key(app_id, blob_id))
    return inserted is True


async def delete_unused(connection: Connection, most: int) -> int:
    """Delete some variants that nobody has asked for in 30 days, and return how many."""
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
        most,
    )
    return count


async def forget_unseen(connection: Connection, before: datetime) -> None:
    """Delete variants whose bytes the object store did not have, in a comparison that `upload_store` began."""
    await connection.execute(
        """
        delete from pilotis.variants v where v.created_at < $1
            and not exists (select from seen_blobs s where s.key = 'blobs/' || v.app_id || '/' || v.blob_id)
        """,
        before,
    )

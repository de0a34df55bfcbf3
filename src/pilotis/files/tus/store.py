"""The statements on resumable uploads. Those on uploads of every kind are in `upload_store`."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Record

from pilotis.db.pool import Database

LEASE_SECONDS = 6
"""Short, as clients wait for it whose server died, and give up after 9 s by default. A lease that ends too early does
no harm: only where somebody else takes it has the request lost it, and then it can acknowledge nothing."""


async def claim(database: Database, upload: Record, attempt_id: UUID) -> Record | None:
    """Let one request add to an upload and return it as it is now; None while another does, or if all has come."""
    return await database.fetchrow(
        f"""
        update pilotis.uploads
        set state = 'receiving', attempt_id = $3, lease_until = now() + interval '{LEASE_SECONDS} seconds'
        where app_id = $1 and upload_id = $2 and draft is not null
            and (state = 'pending' or state = 'receiving' and lease_until <= now())
        returning *
        """,
        upload["app_id"],
        upload["upload_id"],
        attempt_id,
    )


async def keep(database: Database, app_id: UUID, upload_id: UUID, attempt_id: UUID, draft: str | None = None) -> bool:
    """Prolong the request's lease, and note how far the upload has come; False if it may no longer add to it."""
    return (
        await database.fetchval(
            f"""
            update pilotis.uploads
            set draft = coalesce($4, draft), lease_until = now() + interval '{LEASE_SECONDS} seconds'
            where app_id = $1 and upload_id = $2 and attempt_id = $3 and state = 'receiving'
            returning true
            """,
            app_id,
            upload_id,
            attempt_id,
            draft,
        )
        is True
    )


async def give_back(database: Database, app_id: UUID, upload_id: UUID, attempt_id: UUID) -> None:
    """Let another request add to the upload."""
    await database.execute(
        """
        update pilotis.uploads set state = 'pending', lease_until = null
        where app_id = $1 and upload_id = $2 and attempt_id = $3 and state = 'receiving'
        """,
        app_id,
        upload_id,
        attempt_id,
    )


async def end(database: Database, app_id: UUID, upload_id: UUID) -> bool:
    """Delete an upload that is not listed, and give back what was reserved for it; False if there is none."""
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
        )
        is True
    )

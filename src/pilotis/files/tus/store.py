"""SQL statements for resumable uploads. Those on all uploads are in `upload_store`."""

from __future__ import annotations

from uuid import UUID

from pilotis.db.pool import Database
from pilotis.files.records import UploadRecord
from pilotis.files.uploads.store import UPLOAD

LEASE_SECONDS = 6
"""Short, because clients whose server died wait for it, by default for 9 s. A lease that ends too early does no harm:
the request loses it only if another request takes it, and can then acknowledge nothing.
"""


async def claim(database: Database, upload: UploadRecord, attempt_id: UUID, owner: UUID) -> UploadRecord | None:
    """Lock an upload for one request of this process, `owner`, and return it.

    Returns None while another request has it locked, or if it is complete.
    """
    row = await database.fetchrow(
        f"""
        update pilotis.uploads
        set state = 'receiving', attempt_id = $3, owner = $4,
            lease_until = now() + interval '{LEASE_SECONDS} seconds'
        where app_id = $1 and upload_id = $2 and draft is not null
            and (state = 'pending' or state = 'receiving' and lease_until <= now())
        returning {UPLOAD}
        """,
        upload.app_id,
        upload.upload_id,
        attempt_id,
        owner,
        tenant=upload.app_id,
    )
    return UploadRecord(**row) if row else None


async def keep(database: Database, app_id: UUID, upload_id: UUID, attempt_id: UUID, draft: str | None = None) -> bool:
    """Renew the request's lease and record the progress; False if the lease is lost."""
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
            tenant=app_id,
        )
        is True
    )


async def end_attempt(database: Database, app_id: UUID, upload_id: UUID, attempt_id: UUID) -> None:
    """Release the upload for another request."""
    await database.execute(
        """
        update pilotis.uploads set state = 'pending', lease_until = null
        where app_id = $1 and upload_id = $2 and attempt_id = $3 and state = 'receiving'
        """,
        app_id,
        upload_id,
        attempt_id,
        tenant=app_id,
    )

"""The statements of account pages."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.waiters import UNAUTHENTICATED


async def put_logo(connection: Connection, app_id: UUID, image: bytes) -> None:
    """Replace the logo of an app's pages."""
    await connection.execute(
        """
        insert into pilotis.account_logos (app_id, image) values ($1, $2)
        on conflict (app_id) do update set image = excluded.image, updated_at = now()
        """,
        app_id,
        image,
    )


async def delete_logo(connection: Connection, app_id: UUID) -> bool:
    """Delete the logo of an app's pages; False if there is none."""
    tag = await connection.execute("delete from pilotis.account_logos where app_id = $1", app_id)
    return bool(tag == "DELETE 1")


async def logo(database: Database, app_id: UUID) -> bytes | None:
    """Return the logo of the pages of an existing app."""
    found: bytes | None = await database.fetchval(
        """
        select l.image from pilotis.account_logos l
        join pilotis.apps a on a.app_id = l.app_id and a.deleted_at is null
        where l.app_id = $1
        """,
        app_id,
        tenant=UNAUTHENTICATED,
    )
    return found

"""SQL statements for who may listen to rows."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.data.realtime.types import Openness
from pilotis.db.pool import Database


async def read(database: Database, app_id: UUID) -> tuple[Openness, str] | None:
    """Return `live` and `tables`, JSON, of an app that has set them."""
    row = await database.fetchrow(
        "select live, tables::text as tables from pilotis.live_settings where app_id = $1", app_id, tenant=app_id
    )
    return (row[0], row[1]) if row else None


async def save(connection: Connection, app_id: UUID, live: str, tables: str) -> None:
    """Store who may listen to an app's rows."""
    await connection.execute(
        """
        insert into pilotis.live_settings as s (app_id, live, tables) values ($1, $2, $3)
        on conflict (app_id) do update set live = excluded.live, tables = excluded.tables
        """,
        app_id,
        live,
        tables,
    )

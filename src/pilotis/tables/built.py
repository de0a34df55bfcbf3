"""Indexes that Pilotis built by itself, where a schema change meets them: see `pilotis.rows.indexes`."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.tables.schema import TableSchema

APPLICATION_NAME = "pilotis indexes"
"""How the connection that builds indexes is known to PostgreSQL."""


async def cancel_builds(database: Database, app_id: UUID, table_id: UUID) -> None:
    """End a build on the table: it holds a lock until it is done, and can be begun again later."""
    await database.execute(
        """
        select pg_cancel_backend(l.pid) from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where l.locktype = 'relation' and l.relation = to_regclass($1) and l.granted
            and a.datname = current_database() and a.application_name = $2
        """,
        f"app_{app_id.hex}.t_{table_id.hex}",
        APPLICATION_NAME,
    )


async def drop_indexes(connection: Connection, table: TableSchema, number: int) -> None:
    """Drop the indexes that read a column whose values are to change their nature, and forget its uses.

    The caller's transaction holds the table. What queries of the changed column need, they will show anew.
    """
    key = str(number)
    names = await connection.fetch(
        "delete from pilotis.indexes where app_id = $1 and table_id = $2 and $3 = any(columns) returning name",
        table.app_id,
        table.table_id,
        key,
    )
    for row in names:
        await connection.execute(f"drop index if exists app_{table.app_id.hex}.{row['name']}")
    await connection.execute(
        "delete from pilotis.index_uses where app_id = $1 and table_id = $2 and $3 = any(columns)",
        table.app_id,
        table.table_id,
        key,
    )

"""What a schema change does about automatic indexes; see `pilotis.data.indexes`."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.data.tables.schema import TableSchema
from pilotis.db.pool import Database

CONNECTION_NAME = "indexes"
"""The name of the connections that build indexes and analyze tables, as `Database.dedicated` takes it."""
APPLICATION_NAME = f"pilotis {CONNECTION_NAME}"
KEY_BUILDS = "unique_keys.build"
"""The name of the task that builds unique keys, which is in that of its connection."""


async def cancel_builds(database: Database, app_id: UUID, table_id: UUID) -> None:
    """Cancel an index build on the table, which holds a lock until it is done and can start again later."""
    await database.execute(
        """
        select pg_cancel_backend(pid) from pg_stat_activity
        where datname = current_database() and (application_name = $2 or starts_with(application_name, $3))
            and state <> 'idle' and position($1 in query) > 0
        """,
        f"app_{app_id.hex}.t_{table_id.hex}",
        APPLICATION_NAME,
        f"pilotis job {KEY_BUILDS} ",
        tenant=app_id,
    )


async def drop_indexes(connection: Connection, table: TableSchema, number: int) -> None:
    """Drop the indexes on a column whose values change type or form, and delete its access patterns.

    The caller's transaction holds the table lock. Queries of the changed column are recorded again.
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

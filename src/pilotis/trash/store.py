"""The statements on what is dropped in the catalogue of tables and columns."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import asyncpg
from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.kit import json
from pilotis.tables.schema import Column, TableSchema

_column = json.decoder(Column)


async def tables(database: Database, app_id: UUID, older_than: timedelta = timedelta(0)) -> list[Record]:
    """Return the app's dropped tables with their `rows`, the latest first; none of an app that is gone meanwhile."""
    query = f"""
        select t.table_id, t.title, t.dropped_at, coalesce(sum(c.rows), 0)::bigint as rows
        from pilotis.tables t left join app_{app_id.hex}.__row_counts c using (table_id)
        where t.app_id = $1 and t.dropped_at <= now() - $2::interval
        group by t.app_id, t.table_id order by t.dropped_at desc, t.table_id desc
    """
    try:
        return await database.fetch(query, app_id, older_than)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return []


async def columns(database: Database, app_id: UUID, older_than: timedelta = timedelta(0)) -> list[Record]:
    """Return the dropped columns of the app's tables that are not dropped themselves, the latest first."""
    return await database.fetch(
        """
        select c.table_id, t.title, c.number, c.name, c.type, c.dropped_at
        from pilotis.columns c join pilotis.tables t using (app_id, table_id)
        where c.app_id = $1 and c.dropped_at <= now() - $2::interval and t.dropped_at is null
        order by c.dropped_at desc, c.table_id desc, c.number desc
        """,
        app_id,
        older_than,
    )


async def apps(database: Database, older_than: timedelta) -> list[UUID]:
    """Return the apps with something in the trash that is older; a deleted app keeps its trash to its own end."""
    rows = await database.fetch(
        """
        select app_id from pilotis.apps
        where deleted_at is null and app_id in (
            select app_id from pilotis.tables where dropped_at <= now() - $1::interval
            union
            select app_id from pilotis.columns where dropped_at <= now() - $1::interval
        )
        """,
        older_than,
    )
    return [row["app_id"] for row in rows]


async def column(connection: Connection, table: TableSchema, number: int) -> Column | None:
    """Return a dropped column of a table."""
    text = await connection.fetchval(
        """
        select json_build_object(
            'number', number, 'name', name, 'type', type, 'required', required,
            'default', default_value, 'description', description, 'encrypted', encrypted
        )
        from pilotis.columns
        where app_id = $1 and table_id = $2 and number = $3 and dropped_at is not null
        """,
        table.app_id,
        table.table_id,
        number,
    )
    return None if text is None else _column.decode(text)


async def restore_table(connection: Connection, table: TableSchema) -> None:
    """Take a table out of the trash; a unique violation says that its title is taken."""
    await connection.execute(
        "update pilotis.tables set dropped_at = null where app_id = $1 and table_id = $2",
        table.app_id,
        table.table_id,
    )


async def restore_column(connection: Connection, table: TableSchema, number: int) -> None:
    """Take a column out of the trash."""
    await connection.execute(
        "update pilotis.columns set dropped_at = null where app_id = $1 and table_id = $2 and number = $3",
        table.app_id,
        table.table_id,
        number,
    )


async def delete_column(connection: Connection, table: TableSchema, number: int) -> None:
    """Delete a column from the catalogue; its number is never used again."""
    await connection.execute(
        "delete from pilotis.columns where app_id = $1 and table_id = $2 and number = $3",
        table.app_id,
        table.table_id,
        number,
    )

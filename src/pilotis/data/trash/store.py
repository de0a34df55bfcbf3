"""SQL statements for dropped tables and columns in the catalogue."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.tables.schema import Column, TableSchema
from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.kit import json

_column = json.decoder(Column)


class DroppedTable(msgspec.Struct, frozen=True):
    """A dropped table, and its number of rows."""

    table_id: UUID
    title: str
    dropped_at: datetime
    rows: int


class DroppedColumn(msgspec.Struct, frozen=True):
    """A dropped column, and the title of its table."""

    table_id: UUID
    title: str
    number: int
    name: str
    type: str
    dropped_at: datetime


async def tables(database: Database, app_id: UUID, older_than: timedelta = timedelta(0)) -> list[DroppedTable]:
    """Return the app's dropped tables with their `rows`, latest first; none if the app no longer exists."""
    query = f"""
        select t.table_id, t.title, t.dropped_at, coalesce(sum(c.rows), 0)::bigint as rows
        from pilotis.tables t left join app_{app_id.hex}.__row_counts c using (table_id)
        where t.app_id = $1 and t.dropped_at <= now() - $2::interval
        group by t.table_id, t.title, t.dropped_at order by t.dropped_at desc, t.table_id desc
    """
    try:
        rows = await database.fetch(query, app_id, older_than, tenant=app_id)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return []
    return [DroppedTable(**row) for row in rows]


async def columns(database: Database, app_id: UUID, older_than: timedelta = timedelta(0)) -> list[DroppedColumn]:
    """Return the dropped columns of the app's live tables, latest first."""
    rows = await database.fetch(
        """
        select c.table_id, t.title, c.number, c.name, c.type, c.dropped_at
        from pilotis.columns c join pilotis.tables t using (app_id, table_id)
        where c.app_id = $1 and c.dropped_at <= now() - $2::interval and t.dropped_at is null
        order by c.dropped_at desc, c.table_id desc, c.number desc
        """,
        app_id,
        older_than,
        tenant=app_id,
    )
    return [DroppedColumn(**row) for row in rows]


async def apps(database: Database, days: int) -> list[tuple[UUID, int]]:
    """Return the apps whose trash contains something older than `days`, or than their own limit, with that limit.

    A deleted app keeps its trash until it is deleted permanently.
    """
    rows = await database.fetch(
        """
        select app_id, kept.days from pilotis.apps a
        cross join lateral (select least($1, (a.limits ->> 'trash_days')::integer) as days) kept
        where deleted_at is null and (
            exists (
                select from pilotis.tables t
                where t.app_id = a.app_id and t.dropped_at <= now() - make_interval(days => kept.days)
            ) or exists (
                select from pilotis.columns c
                where c.app_id = a.app_id and c.dropped_at <= now() - make_interval(days => kept.days)
            )
        )
        """,
        days,
        tenant=BACKGROUND,
    )
    return [(app_id, kept) for app_id, kept in rows]


async def column(connection: Connection, table: TableSchema, number: int) -> Column | None:
    """Return a dropped column of a table."""
    text = await connection.fetchval(
        """
        select json_build_object(
            'number', number, 'name', name, 'type', type, 'required', required,
            'default', default_value, 'description', description, 'encrypted', encrypted,
            'checks', checks, 'on_update', on_update, 'normalize', normalize, 'of_member', of_member,
            'references', case when references_table is not null then json_build_object(
                'table', '', 'table_id', references_table, 'on_delete', on_delete,
                'key', references_key, 'column', references_column
            ) end
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
    """Take a table out of the trash; raises a unique violation if its title is taken."""
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
    """Delete a column from the catalogue; its number is never reused."""
    await connection.execute(
        "delete from pilotis.columns where app_id = $1 and table_id = $2 and number = $3",
        table.app_id,
        table.table_id,
        number,
    )

"""The trash: dropped tables and columns are restored in full or permanently deleted.

A table in the trash keeps everything, but is not listed among the app's tables. A column in it keeps its values, its
explicit nulls and its number, and so its position among the columns.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.data.tables import ddl, references
from pilotis.data.tables.columns import ColumnExistsError, ColumnNotFoundError
from pilotis.data.tables.schema import Column, ColumnType, TableSchema
from pilotis.data.tables.service import TableBusyError, Tables, require_room
from pilotis.data.trash import store
from pilotis.data.trash.types import EmptiedTrash, Trash, TrashedColumn, TrashedTable
from pilotis.db.pool import Database
from pilotis.http.api.principals import SYSTEM, Actor, AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.limits import Limits
from pilotis.security.audit.service import record


class TrashService:
    """Operations on an app's dropped tables and columns. Every change is a locked, versioned schema change."""

    def __init__(self, database: Database, tables: Tables, limits: Limits) -> None:
        self._database = database
        self._limits = limits
        self._tables = tables

    async def contents(self, app: AppInfo) -> Trash:
        """Return the content of the app's trash."""
        tables = await store.tables(self._database, app.app_id)
        columns = await store.columns(self._database, app.app_id)
        kept = timedelta(days=app.limits.trash_days)
        return Trash([_table(row, kept) for row in tables], [_column(row, kept) for row in columns])

    async def restore_table(self, app: AppInfo, actor: Actor, table_id: UUID) -> None:
        """Restore a table; raises `TableNotFoundError`, or `TitleTakenError` if another table has its title now.

        References that no longer fit are left out.
        """

        async def edit(connection: Connection, table: TableSchema) -> None:
            await require_room(connection, app)
            await store.restore_table(connection, table)
            for column, _ in table.references:
                await references.link_again(connection, table, column)

        await self._tables.change(app.app_id, actor, table_id, edit, "table.restore", trashed=True, locks_app=True)

    async def restore_column(self, app: AppInfo, actor: Actor, table_id: UUID, number: int) -> str:
        """Restore a column and return its name; raises `ColumnExistsError` if another column has its name now.

        Rows of a free-form table that have got a field with that name since then keep the newer value; raises
        `RowsDoNotFitError` if it is not of the column's type.
        """
        names = []

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = await _trashed_column(connection, table, number)
            names.append(column.name)
            if column.name in table.by_name:
                raise ColumnExistsError
            if len(table.columns) >= app.limits.columns:
                raise invalid("number", f"A table has at most {app.limits.columns} columns.", "TOO_MANY_COLUMNS")
            for statement in ddl.restore_column(table, column):
                await connection.execute(statement)
            await self._tables.absorb(connection, table, column)
            await connection.execute(ddl.keep_newer_nulls(table, column))
            await store.restore_column(connection, table, number)
            if column.references is not None:
                await references.link_again(connection, table, column)
            if column.of_member is not None:
                await references.link_members(connection, table, column)

        await self._tables.change(app.app_id, actor, table_id, edit, "column.restore", locks_app=True, number=number)
        return names[-1]

    async def purge_table(self, app_id: UUID, actor: Actor, table_id: UUID) -> None:
        """Permanently delete a dropped table."""
        await self._tables.purge(app_id, actor, table_id)

    async def purge_column(self, app_id: UUID, actor: Actor, table_id: UUID, number: int) -> str:
        """Permanently delete a dropped column and return its name."""
        names = []

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = await _trashed_column(connection, table, number)
            names.append(column.name)
            await connection.execute(ddl.purge_column(table, number))
            await store.delete_column(connection, table, number)

        await self._tables.change(app_id, actor, table_id, edit, "column.purge", number=number)
        return names[-1]

    async def empty(self, app: AppInfo, actor: Actor) -> EmptiedTrash:
        """Permanently delete everything in the app's trash, each item in its own transaction."""
        tables, columns = await self._purge(app.app_id, actor, timedelta(0), NotFoundError)
        async with self._database.transaction(app.app_id) as connection:
            await record(connection, app.app_id, actor, "trash.empty", None, tables=tables, columns=columns)
        return EmptiedTrash("Trash emptied.", tables, columns)

    async def purge_expired(self) -> None:
        """Permanently delete the expired content of an app's trash; busy tables wait for the next run."""
        for app_id, days in await store.apps(self._database, self._limits.trash_days):
            # The app was deleted with its tables.
            with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                await self._purge(app_id, SYSTEM, timedelta(days=days), NotFoundError, TableBusyError)

    async def _purge(
        self, app_id: UUID, actor: Actor, older_than: timedelta, *passed_over: type[Exception]
    ) -> tuple[int, int]:
        # Not found: another request has just restored or deleted it.
        tables = columns = 0
        for column in await store.columns(self._database, app_id, older_than):
            with suppress(*passed_over):
                await self.purge_column(app_id, actor, column.table_id, column.number)
                columns += 1
        for table in await store.tables(self._database, app_id, older_than):
            with suppress(*passed_over):
                await self.purge_table(app_id, actor, table.table_id)
                tables += 1
        return tables, columns


async def _trashed_column(connection: Connection, table: TableSchema, number: int) -> Column:
    column = await store.column(connection, table, number)
    if column is None:
        raise ColumnNotFoundError("The trash has no such column of this table.")
    return column


def _table(row: store.DroppedTable, kept: timedelta) -> TrashedTable:
    return TrashedTable(
        table_id=row.table_id,
        title=row.title,
        rows=row.rows,
        dropped_at=rfc3339(row.dropped_at),
        restorable_until=rfc3339(row.dropped_at + kept),
    )


def _column(row: store.DroppedColumn, kept: timedelta) -> TrashedColumn:
    return TrashedColumn(
        table_id=row.table_id,
        table_title=row.title,
        number=row.number,
        name=row.name,
        data_type=ColumnType(row.type).data_type,
        dropped_at=rfc3339(row.dropped_at),
        restorable_until=rfc3339(row.dropped_at + kept),
    )

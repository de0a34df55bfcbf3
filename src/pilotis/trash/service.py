"""The trash: dropped tables and columns are restored whole, or ended for good.

A table in the trash keeps everything but its place among the app's tables. A column in it keeps its values, its
explicit nulls and its number, and so its place in the order of columns.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import asyncpg
from asyncpg import Connection, Record

from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import SYSTEM, Actor, AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.tables import ddl
from pilotis.tables.columns import ColumnExistsError, ColumnNotFoundError
from pilotis.tables.schema import Column, ColumnType, TableSchema
from pilotis.tables.service import (
    TableBusyError,
    Tables,
    require_room,
)
from pilotis.trash import store
from pilotis.trash.types import Emptied, Trash, TrashedColumn, TrashedTable

KEPT = timedelta(days=7)


class Trashes:
    """What can be done with an app's dropped tables and columns. Every change is a locked, versioned schema change."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self._database = database
        self._tables = tables

    async def contents(self, app: AppInfo) -> Trash:
        """Return what is in the app's trash."""
        tables = await store.tables(self._database, app.app_id)
        columns = await store.columns(self._database, app.app_id)
        return Trash([_table(row) for row in tables], [_column(row) for row in columns])

    async def restore_table(self, app: AppInfo, actor: Actor, table_id: UUID) -> None:
        """Put a table back; raises `TableNotFoundError`, or `TitleTakenError` where another has its title now."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            await require_room(connection, app)
            await store.restore_table(connection, table)

        await self._tables.change(app.app_id, actor, table_id, edit, "table.restore", trashed=True)

    async def restore_column(self, app: AppInfo, actor: Actor, table_id: UUID, number: int) -> str:
        """Put a column back and return its name; raises `ColumnExistsError` where another has its name now.

        Rows that have meanwhile been given a field of that name, in a table without a schema, keep the newer value;
        raises `RowsDoNotFitError` where it is not of the column's type.
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

        await self._tables.change(app.app_id, actor, table_id, edit, "column.restore", number=number)
        return names[-1]

    async def purge_table(self, app_id: UUID, actor: Actor, table_id: UUID) -> None:
        """End a dropped table for good."""
        await self._tables.purge(app_id, actor, table_id)

    async def purge_column(self, app_id: UUID, actor: Actor, table_id: UUID, number: int) -> str:
        """End a dropped column for good and return its name."""
        names = []

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = await _trashed_column(connection, table, number)
            names.append(column.name)
            await connection.execute(ddl.purge_column(table, column))
            await store.delete_column(connection, table, number)

        await self._tables.change(app_id, actor, table_id, edit, "column.purge", number=number)
        return names[-1]

    async def empty(self, app: AppInfo, actor: Actor) -> Emptied:
        """End everything in the app's trash for good, each thing in a transaction of its own."""
        tables, columns = await self._purge(app.app_id, actor, timedelta(0), NotFoundError)
        async with self._database.transaction() as connection:
            await record(connection, app.app_id, actor, "trash.empty", None, tables=tables, columns=columns)
        return Emptied("Trash emptied.", tables, columns)

    async def purge_expired(self) -> None:
        """End what has been in any app's trash for longer than 7 days; what is busy waits for the next time."""
        for app_id in await store.apps(self._database, KEPT):
            # An app that is deleted meanwhile takes its tables away.
            with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                await self._purge(app_id, SYSTEM, KEPT, NotFoundError, TableBusyError)

    async def _purge(
        self, app_id: UUID, actor: Actor, older_than: timedelta, *passed_over: type[Exception]
    ) -> tuple[int, int]:
        # What is not found has been restored, or purged, by somebody else a moment ago.
        tables = columns = 0
        for row in await store.columns(self._database, app_id, older_than):
            with suppress(*passed_over):
                await self.purge_column(app_id, actor, row["table_id"], row["number"])
                columns += 1
        for row in await store.tables(self._database, app_id, older_than):
            with suppress(*passed_over):
                await self.purge_table(app_id, actor, row["table_id"])
                tables += 1
        return tables, columns


async def _trashed_column(connection: Connection, table: TableSchema, number: int) -> Column:
    column = await store.column(connection, table, number)
    if column is None:
        raise ColumnNotFoundError("The trash holds no such column of this table.")
    return column


def _table(row: Record) -> TrashedTable:
    return TrashedTable(
        row["table_id"],
        row["title"],
        row["rows"],
        rfc3339(row["dropped_at"]),
        rfc3339(row["dropped_at"] + KEPT),
    )


def _column(row: Record) -> TrashedColumn:
    return TrashedColumn(
        row["table_id"],
        row["title"],
        row["number"],
        row["name"],
        ColumnType(row["type"]).data_type,
        rfc3339(row["dropped_at"]),
        rfc3339(row["dropped_at"] + KEPT),
    )

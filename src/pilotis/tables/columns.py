"""Edits of a table's columns, in the catalogue and in PostgreSQL alike, inside a schema change's transaction."""

from __future__ import annotations

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.encryption.service import Encryption
from pilotis.kit.errors import ConflictError, Detail, NotFoundError
from pilotis.tables import built, ddl, resealing, store
from pilotis.tables.schema import Column, TableSchema
from pilotis.tables.sealing import Sealer
from pilotis.tables.values import check_default


class ColumnNotFoundError(NotFoundError):
    """404: the table has no such column."""

    code = "COLUMN_NOT_FOUND"
    message = "The table has no such column."


class ColumnExistsError(ConflictError):
    """409: the table has a column of this name."""

    code = "COLUMN_EXISTS"
    message = "The table has a column of this name."


class ColumnBeingRewrittenError(ConflictError):
    """409: the column's values are being encrypted or decrypted in the background; until then it takes no change."""

    code = "COLUMN_BEING_REWRITTEN"
    message = "The column's values are being encrypted or decrypted. Change it when that is done."


class RowsDoNotFitError(ConflictError):
    """409: rows hold values that do not fit the change; `details` gives a few of their ids. Nothing was changed."""

    code = "ROWS_DO_NOT_FIT"


class Columns:
    """Adds, changes and drops columns of a table that the caller's transaction holds."""

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    async def add(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Add a column under the table's next number; see `absorb`."""
        next_number: int = await connection.fetchval(
            "select next_column from pilotis.tables where app_id = $1 and table_id = $2",
            table.app_id,
            table.table_id,
        )
        column = msgspec.structs.replace(column, number=next_number)
        check_default(column)
        await store.insert_column(connection, table, column)
        await connection.execute(ddl.add_column(table, column))
        await self.absorb(connection, table, column)

    async def absorb(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Move what free-form rows hold under a column's name into the column, sealed where that is encrypted.

        Raises `RowsDoNotFitError` where it is not of the column's type, or is null and the column required.
        """
        plain = column.converse if column.encrypted else column
        offenders = await connection.fetchrow(ddl.not_absorbable(table, plain), column.name)
        _require_none(offenders, f"hold a {column.name} that is no {column.type.value}")
        if column.required:
            await _require_no_nulls(connection, table, column)
        if not column.encrypted:
            await connection.execute(ddl.absorb(table, column), column.name)
        elif await connection.fetchval(ddl.any_absorbable(table), column.name):
            sealer = await self._sealer(table)
            await resealing.reseal(connection, table, column, sealer)
            await connection.execute(ddl.absorb(table, plain), column.name)
            await resealing.reseal(connection, table, plain, sealer)

    async def change(
        self, connection: Connection, table: TableSchema, old: Column, new: Column, most_rows: int
    ) -> bool:
        """Make a column what it is to become; True if its values are yet to be sealed or opened in the background.

        They are where the table has more than `most_rows`. Raises `RowsDoNotFitError`, and
        `ColumnBeingRewrittenError` where something is in the background already.
        """
        if old == new:
            return False
        if old.rewriting:
            raise ColumnBeingRewrittenError
        check_default(new)
        if new.required and not old.required:
            await _require_no_nulls(connection, table, old)
        if (new.type, bool(new.encrypted)) != (old.type, bool(old.encrypted)):
            new = await self._convert(connection, table, old, new, most_rows)
        await store.update_column(connection, table, new)
        return new.rewriting

    async def take_over(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """End the rewriting of a column: its other form takes its place."""
        await built.drop_indexes(connection, table, column.number)
        await resealing.take_over(connection, table, column, await self._sealer(table))
        await store.update_column(connection, table, column.converse)

    async def trash(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Put a column into the trash, in the form that it has now."""
        await built.drop_indexes(connection, table, column.number)
        if column.rewriting:
            await connection.execute(ddl.drop_column(table, column.converse))
        await store.trash_column(connection, table, column.number)
        for statement in ddl.trash_column(table, column):
            await connection.execute(statement)

    async def _convert(
        self, connection: Connection, table: TableSchema, old: Column, new: Column, most_rows: int
    ) -> Column:
        """Give a column's values another type, another form, or both; return the column as it then is."""
        present = msgspec.structs.replace(new, encrypted=old.encrypted)
        if new.type is not old.type:
            present = msgspec.structs.replace(new, encrypted=False)
            await built.drop_indexes(connection, table, old.number)
            if old.encrypted:
                await resealing.reseal(connection, table, old, await self._sealer(table))
            await _cast(connection, table, old.converse if old.encrypted else old, present)
        if bool(present.encrypted) == bool(new.encrypted):
            return new
        # What was encrypted does not wait for the background in plain.
        may_wait = new.type is old.type or not old.encrypted
        if may_wait and await store.row_count(connection, table) > most_rows:
            await connection.execute(ddl.add_column(table, present.converse))
            return msgspec.structs.replace(present, rewriting=True)
        await built.drop_indexes(connection, table, old.number)
        await resealing.reseal(connection, table, present, await self._sealer(table))
        return new

    async def _sealer(self, table: TableSchema) -> Sealer:
        return Sealer(table, await self._encryption.cipher(table.app_id))


async def _cast(connection: Connection, table: TableSchema, old: Column, new: Column) -> None:
    offenders = await connection.fetchrow(ddl.not_castable(table, old, new))
    _require_none(offenders, f"hold a {old.name} that cannot become {new.type.value}")
    for statement in ddl.change_type(table, old, new):
        await connection.execute(statement)


async def _require_no_nulls(connection: Connection, table: TableSchema, column: Column) -> None:
    offenders = await connection.fetchrow(ddl.nulls(table, column))
    _require_none(offenders, f"have null as {column.name}, which cannot be required")


def _require_none(offenders: asyncpg.Record | None, sentence: str) -> None:
    assert offenders is not None
    if offenders["total"]:
        details = [Detail(row_id, "DOES_NOT_FIT", "This row is one of them.") for row_id in offenders["ids"]]
        raise RowsDoNotFitError(f"{offenders['total']} rows {sentence}. Nothing was changed.", details=details)

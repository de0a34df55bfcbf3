"""Edits a table's columns in the catalogue and in PostgreSQL, inside a schema change's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.tables import column_migration, ddl, index_builds, references, store, vectors
from pilotis.data.tables.encrypted_columns import ColumnCipher
from pilotis.data.tables.schema import Column, TableSchema, VectorState
from pilotis.kit.errors import ConflictError, Detail, NotFoundError, invalid
from pilotis.security.encryption.service import Encryption


class ColumnNotFoundError(NotFoundError):
    """404: the table has no such column."""

    code = "COLUMN_NOT_FOUND"
    message = "The table has no such column."


class ColumnExistsError(ConflictError):
    """409: the table already has a column with this name."""

    code = "COLUMN_EXISTS"
    message = "The table already has a column with this name."


class ColumnBeingRewrittenError(ConflictError):
    """409: the column's values are being encrypted or decrypted in the background; it cannot change until then."""

    code = "COLUMN_BEING_REWRITTEN"
    message = "The column's values are being encrypted or decrypted. Change it when that is done."


class RowsDoNotFitError(ConflictError):
    """409: some rows have values that do not fit the change; `details` gives a few of their ids. Nothing changed."""

    code = "ROWS_DO_NOT_FIT"


class UsedInKeyError(ConflictError):
    """409 `USED_IN_KEY`: a unique key compares the column, or asks for it."""

    code = "USED_IN_KEY"

    def __init__(self, name: str, keys: Sequence[str]) -> None:
        super().__init__(f"{name} belongs to the unique key {' and '.join(keys)}. Remove that key first.")


class Columns:
    """Adds, changes and drops columns of a table that the caller has locked."""

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
        await store.insert_column(connection, table, column)
        await connection.execute(ddl.add_column(table, column))
        await self.absorb(connection, table, column)
        if column.references is not None:
            await self.link(connection, table, column)
        if column.of_member is not None:
            await self.link_members(connection, table, column)

    async def link_members(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Make a column refer to members; raises `RowsDoNotFitError` if a value is not the id of one."""
        is_member = references.member_with(table, f"t.{column.physical}")
        offenders = await store.offenders(connection, ddl.without_member(table, column, is_member))
        _require_none(offenders, f"a value in {column.name} that is not the id of a member")
        await references.link_members(connection, table, column)

    async def link(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Make a column refer to a table; raises `RowsDoNotFitError` if a value is not the id of one of its rows."""
        assert column.references is not None
        offenders = await references.dangling(connection, table, column)
        what = "id" if column.references.key is None else column.references.key
        _require_none(
            offenders, f"a value in {column.name} that is not the {what} of a row of {column.references.table}"
        )
        await references.link(connection, table, column)

    async def absorb(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Move the values that free-form rows have under a column's name into the column, encrypted if the column is.

        Raises `RowsDoNotFitError` if a value is not of the column's type, or is null in a required column.
        """
        plain = column.other_form if column.encrypted else column
        offenders = await store.offenders(connection, ddl.not_absorbable(table, plain), column.name)
        _require_none(offenders, f"a value in {column.name} that is not of type {column.type.value}")
        if column.required:
            await _require_no_nulls(connection, table, column)
        if not column.encrypted:
            await connection.execute(ddl.absorb(table, column), column.name)
        elif await connection.fetchval(ddl.any_absorbable(table), column.name):
            cipher = await self._cipher(table)
            await column_migration.migrate(connection, table, column, cipher)
            await connection.execute(ddl.absorb(table, plain), column.name)
            await column_migration.migrate(connection, table, plain, cipher)

    async def validate(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Raise `RowsDoNotFitError` if rows do not keep a column's checks."""
        if column.checks is None:
            return
        if column.encrypted or column.migrating:
            raise invalid("validate", "The values of an encrypted column cannot be checked by the database.")
        offenders = await store.offenders(connection, ddl.not_kept(table, column))
        _require_none(offenders, f"a value in {column.name} that does not keep its checks")

    async def change(self, connection: Connection, table: TableSchema, old: Column, new: Column, max_rows: int) -> bool:
        """Change a column; True if its values are still to be migrated in the background.

        They are if the table has more than `max_rows`. Raises `RowsDoNotFitError`, and `ColumnBeingRewrittenError` if
        the column is already being migrated.
        """
        if old == new:
            return False
        if old.migrating:
            raise ColumnBeingRewrittenError
        refers_elsewhere = _target(old) != _target(new)
        was_of_member, is_of_member = old.of_member is not None, new.of_member is not None
        if (refers_elsewhere and old.references is not None) or (was_of_member and not is_of_member):
            await references.unlink(connection, table, old)
        if new.required and not old.required:
            await _require_no_nulls(connection, table, old)
        if (new.type, bool(new.encrypted)) != (old.type, bool(old.encrypted)):
            new = await self._convert(connection, table, old, new, max_rows)
        await store.update_column(connection, table, new)
        if refers_elsewhere and new.references is not None:
            await self.link(connection, table, new)
        if is_of_member and not was_of_member:
            await self.link_members(connection, table, new)
        return new.migrating

    async def rename(self, connection: Connection, table: TableSchema, column: Column, name: str) -> None:
        """Rename a column, which keeps its values, its number and its indexes.

        Raises `ColumnBeingRewrittenError`, and `RowsDoNotFitError` if rows have kept a field under the new name since
        the table was free-form.
        """
        if column.migrating:
            raise ColumnBeingRewrittenError
        offenders = await store.offenders(connection, ddl.named(table, name))
        _require_none(offenders, f"a field {name} from before the table had a schema; add a column {name} to see it")
        renamed = msgspec.structs.replace(column, name=name)
        for statement in ddl.rename_column(table, column, renamed):
            await connection.execute(statement)
        await store.update_column(connection, table, renamed)

    async def swap_forms(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Finish the migration of a column: its other form replaces it."""
        await index_builds.drop_indexes(connection, table, column.number)
        await column_migration.finish(connection, table, column, await self._cipher(table))
        await store.update_column(connection, table, column.other_form)

    async def add_words(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Store the words of a text with every write from now on; see `pilotis.data.tables.vectors`."""
        await connection.execute(vectors.add(table, column))
        await store.update_column(connection, table, msgspec.structs.replace(column, vector=VectorState.FILLING))

    async def drop_words(self, connection: Connection, table: TableSchema, column: Column) -> Column:
        """Drop the stored words of a column, if it has any, and return the changed column."""
        if column.vector is None:
            return column
        await connection.execute(vectors.drop(table, column))
        without = msgspec.structs.replace(column, vector=None)
        await store.update_column(connection, table, without)
        return without

    async def trash(self, connection: Connection, table: TableSchema, column: Column, limit: int) -> None:
        """Move a column to the trash in its current form; permanently delete the oldest beyond `limit`."""
        _require_in_no_key(table, column)
        await index_builds.drop_indexes(connection, table, column.number)
        await self.drop_words(connection, table, column)
        if column.references is not None or column.of_member is not None:
            await references.unlink(connection, table, column)
        if column.migrating:
            await connection.execute(ddl.drop_column(table, column.other_form))
        await store.trash_column(connection, table, column.number)
        for statement in ddl.trash_column(table, column):
            await connection.execute(statement)
        for number in await store.trashed_columns_beyond(connection, table, limit):
            await connection.execute(ddl.purge_column(table, number))

    async def _convert(
        self, connection: Connection, table: TableSchema, old: Column, new: Column, max_rows: int
    ) -> Column:
        """Change the type or the form of a column's values, or both; return the changed column."""
        _require_in_no_key(table, old)
        # Stored words would reveal an encrypted text, and do not apply to values of another type.
        old = await self.drop_words(connection, table, old)
        new = msgspec.structs.replace(new, vector=None)
        present = msgspec.structs.replace(new, encrypted=old.encrypted)
        if new.type is not old.type:
            present = msgspec.structs.replace(new, encrypted=False)
            await index_builds.drop_indexes(connection, table, old.number)
            if old.encrypted:
                await column_migration.migrate(connection, table, old, await self._cipher(table))
            await _cast(connection, table, old.other_form if old.encrypted else old, present)
        if bool(present.encrypted) == bool(new.encrypted):
            return new
        # A column that should be encrypted must not stay in plain text until a background run.
        may_wait = new.type is old.type or not old.encrypted
        if may_wait and await store.row_count(connection, table) > max_rows:
            await connection.execute(ddl.add_column(table, present.other_form))
            return msgspec.structs.replace(present, migrating=True)
        await index_builds.drop_indexes(connection, table, old.number)
        await column_migration.migrate(connection, table, present, await self._cipher(table))
        return new

    async def _cipher(self, table: TableSchema) -> ColumnCipher:
        return ColumnCipher(table, await self._encryption.cipher(table.app_id))


def _target(column: Column) -> tuple[UUID, int | None] | None:
    return None if column.references is None else (column.references.target, column.references.column)


def _require_in_no_key(table: TableSchema, column: Column) -> None:
    if keys := [key.name for key in table.keys if key.names(column.number)]:
        raise UsedInKeyError(column.name, keys)


async def _cast(connection: Connection, table: TableSchema, old: Column, new: Column) -> None:
    offenders = await store.offenders(connection, ddl.not_castable(table, old, new))
    _require_none(offenders, f"a value in {old.name} that cannot be converted to {new.type.value}")
    for statement in ddl.change_type(table, old, new):
        await connection.execute(statement)


async def _require_no_nulls(connection: Connection, table: TableSchema, column: Column) -> None:
    offenders = await store.offenders(connection, ddl.nulls(table, column))
    _require_none(offenders, f"null in {column.name}, so it cannot be required")


def _require_none(offenders: store.Offenders, what: str) -> None:
    if offenders.total:
        details = [Detail(row_id, "DOES_NOT_FIT", "This row is one of them.") for row_id in offenders.ids]
        rows = "1 row has" if offenders.total == 1 else f"{offenders.total} rows have"
        raise RowsDoNotFitError(f"{rows} {what}. Nothing was changed.", details=details)

"""Unique keys of tables: listing, creating and removing them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.keys.builder import BUILD
from pilotis.data.keys.types import UniqueKeyList
from pilotis.data.tables import keys, references, store
from pilotis.data.tables.keys import CREATOR, CREATOR_NUMBER, MAX_KEYS, UniqueKey
from pilotis.data.tables.schema import LONGEST_NAME, Column, ColumnType, TableSchema, column_name, normal_path
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.tables.types import NewUniqueKey, ShownUniqueKey, shown_key
from pilotis.data.tables.values import unknown_column
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.jobs.queue import Jobs
from pilotis.kit import ids
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import BadRequestError, ConflictError, Detail, NotFoundError, PilotisError, invalid

_OPERATORS = ("$eq", "$ne", "$in", "$nin", "$isNull")
_MAX_VALUES = 100
_COMPARABLE = frozenset(ColumnType) - {ColumnType.OBJECT, ColumnType.ARRAY}


class KeyNotFoundError(NotFoundError):
    """404 `UNIQUE_KEY_NOT_FOUND`: the table has no such unique key."""

    code = "UNIQUE_KEY_NOT_FOUND"
    message = "The table has no such unique key."


class KeyExistsError(ConflictError):
    """409 `UNIQUE_KEY_EXISTS`: the table already has a unique key with this name."""

    code = "UNIQUE_KEY_EXISTS"
    message = "The table already has a unique key with this name."


class NotForUniqueError(BadRequestError):
    """400 `NOT_FOR_UNIQUE`: the values of the column cannot be compared by a unique key."""

    code = "NOT_FOR_UNIQUE"


class RowsNotUniqueError(ConflictError):
    """409 `ROWS_NOT_UNIQUE`: rows of the table have the same values; `details` names pairs of them. Nothing changed."""

    code = "ROWS_NOT_UNIQUE"


class UniqueKeys:
    """Creates and removes unique keys. Each change is one of the table's schema, and holds on every node at once."""

    def __init__(self, database: Database, tables: Tables, jobs: Jobs) -> None:
        self._database = database
        self._tables = tables
        self._jobs = jobs
        tables.keys = self

    async def list(self, app: AppInfo, table_id: UUID) -> UniqueKeyList:
        """Return a table's unique keys; raises `TableNotFoundError`."""
        row = await store.live_table(self._database.of(app.app_id), app.app_id, table_id)
        if row is None:
            raise TableNotFoundError
        table = row.schema
        return UniqueKeyList([shown_key(table, key) for key in table.keys])

    async def like(self, app: AppInfo, table_id: UUID, new: NewUniqueKey) -> ShownUniqueKey:
        """Return the key that a definition describes; raises `KeyNotFoundError` if the table has none like it."""
        row = await store.live_table(self._database.of(app.app_id), app.app_id, table_id)
        table = None if row is None else row.schema
        found = next((key for key in table.keys if _is(table, key, new)), None) if table else None
        if table is None or found is None:
            raise KeyNotFoundError
        return shown_key(table, found)

    async def create(self, app: AppInfo, actor: Actor, table_id: UUID, new: NewUniqueKey) -> ShownUniqueKey:
        """Create a unique key; raises a 400 error that names the field, or `RowsNotUniqueError`.

        In a large table it is built in the background: its `state` says so.
        """
        made: list[ShownUniqueKey] = []

        async def edit(connection: Connection, table: TableSchema) -> None:
            if same := next((key for key in table.keys if key.state == "failed" and _is(table, key, new)), None):
                table = await _without(connection, table, same)
            key = await self._add(connection, app, table, new)
            made.append(shown_key(table, key))

        columns = list(new.columns)
        await self._tables.change(app.app_id, actor, table_id, edit, "unique_key.create", columns=columns)
        return made[-1]

    async def remove(self, app: AppInfo, actor: Actor, table_id: UUID, name: str) -> None:
        """Remove a unique key; raises `KeyNotFoundError`."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            key = next((key for key in table.keys if key.name == name), None)
            if key is None:
                raise KeyNotFoundError
            await _drop(connection, table, key)

        await self._tables.change(app.app_id, actor, table_id, edit, "unique_key.delete", name=name)

    async def keep(self, connection: Connection, table: TableSchema, wanted: Sequence[NewUniqueKey]) -> TableSchema:
        """Remove the keys of a locked table that are not wanted as they are, and return the table without them."""
        kept = [key for key in table.keys if any(_is(table, key, new) for new in wanted)]
        for key in table.keys:
            if key not in kept:
                table = await _without(connection, table, key)
        return table

    async def complete(
        self, connection: Connection, app: AppInfo, table_id: UUID, wanted: Sequence[tuple[str, NewUniqueKey]]
    ) -> None:
        """Add the keys that a locked table lacks, each given with its place in the request."""
        for place, new in wanted:
            row = await store.live_table(connection, app.app_id, table_id)
            assert row is not None
            table = row.schema
            if not any(_is(table, key, new) or _does(table, key, new) for key in table.keys):
                try:
                    await self._add(connection, app, table, new)
                except PilotisError as error:
                    raise error.within(place) if error.status == 400 else error from None

    async def _add(self, connection: Connection, app: AppInfo, table: TableSchema, new: NewUniqueKey) -> UniqueKey:
        """Add a key to a locked table, or let it be built if the table is large."""
        key = checked(table, new)
        key = msgspec.structs.replace(key, number=await store.next_key(connection, table.app_id, table.table_id))
        if await store.row_count(connection, table) > app.limits.column_migration_rows:
            key = msgspec.structs.replace(key, state="building")
            await self._jobs.request(BUILD, connection)
        else:
            await _create(connection, table, key)
        await store.set_keys(connection, table.app_id, table.table_id, [*table.keys, key])
        return key


async def _create(connection: Connection, table: TableSchema, key: UniqueKey) -> None:
    """Create the index of a key."""
    columns = table.key_columns
    found = await connection.fetchrow(keys.duplicates(key, columns, table.physical))
    assert found is not None
    total, pairs = found
    if total:
        raise _not_unique(total, pairs)
    try:
        await connection.execute(keys.create(key, columns, table.table_id.hex, table.physical))
    except asyncpg.ProgramLimitExceededError:
        raise NotForUniqueError(f"Rows have texts of more than {keys.MAX_TEXT_BYTES} bytes in these columns.").at(
            "columns"
        ) from None


async def _without(connection: Connection, table: TableSchema, key: UniqueKey) -> TableSchema:
    """Remove a key, and return the table without it."""
    await _drop(connection, table, key)
    return msgspec.structs.replace(table, keys=tuple(one for one in table.keys if one is not key))


async def _drop(connection: Connection, table: TableSchema, key: UniqueKey) -> None:
    references.require_key_unreferenced(table, key)
    schema = table.physical.partition(".")[0]
    await connection.execute(f"drop index if exists {schema}.{keys.index_name(table.table_id.hex, key.number)}")
    rest = [one for one in table.keys if one.number != key.number]
    await store.set_keys(connection, table.app_id, table.table_id, rest)


def _is(table: TableSchema, key: UniqueKey, new: NewUniqueKey) -> bool:
    """Return whether a key is the one that is wanted."""
    has = shown_key(table, key)
    where = {
        name: value if isinstance(value, dict) else {"$eq": value}
        for name, value in ({} if new.where is msgspec.UNSET else new.where).items()
    }
    wanted = (new.name or _default_name(new), list(new.columns), new.ignore_case, new.nulls, where or None)
    return (has.name, has.columns, has.ignore_case, has.nulls, has.where) == wanted


def _does(table: TableSchema, key: UniqueKey, new: NewUniqueKey) -> bool:
    """Whether a key already makes the one column unique that is asked for alone."""
    asked = NewUniqueKey(columns=new.columns)
    return new == asked and len(new.columns) == 1 and not key.where and shown_key(table, key).columns == new.columns


def _default_name(new: NewUniqueKey) -> str:
    return "_".join(normal_path(one).removeprefix("$") for one in new.columns)[:LONGEST_NAME]


def _not_unique(total: int, pairs: Sequence[str]) -> RowsNotUniqueError:
    rows = "1 row has" if total == 1 else f"{total} rows have"
    details = []
    for pair in pairs:
        one, other = pair.split(" ")
        details.append(Detail(one, "NOT_UNIQUE", f"The row {other} has the same values."))
    return RowsNotUniqueError(f"{rows} the values of another row. Nothing was changed.", details=details)


def checked(table: TableSchema, new: NewUniqueKey) -> UniqueKey:
    """Return the key that is wanted, with the number 0; raises a 400 or 409 error."""
    if table.is_free_form:
        raise NotForUniqueError("A table without a schema has no unique keys. Give it columns first.").at("columns")
    if len(table.keys) >= MAX_KEYS:
        raise invalid("columns", f"A table has at most {MAX_KEYS} unique keys.", "TOO_MANY_KEYS")
    numbers = [_number(table, name, f"columns[{at}]", new) for at, name in enumerate(new.columns)]
    if len(set(numbers)) < len(numbers):
        raise invalid("columns", "Name each column once.")
    try:
        name = column_name(new.name or _default_name(new))
    except BadRequestError as error:
        raise invalid("name", error.text) from None
    if any(key.name == name for key in table.keys):
        raise KeyExistsError
    where = {} if new.where is msgspec.UNSET else _where(table, new.where)
    return UniqueKey(0, name, tuple(numbers), new.ignore_case, new.nulls, where)


def _number(table: TableSchema, name: str, place: str, new: NewUniqueKey) -> int:
    if name == CREATOR:
        return CREATOR_NUMBER
    column = table.by_name.get(normal_path(name))
    if column is None:
        raise unknown_column(name, table.by_name.keys()).at(place)
    if column.type not in _COMPARABLE:
        raise NotForUniqueError(f"{column.name} is of type {column.type}, which has no unique keys.").at(place)
    if column.migrating:
        raise NotForUniqueError(f"The values of {column.name} are being encrypted or decrypted.").at(place)
    if column.encrypted and new.ignore_case:
        raise NotForUniqueError(f"{column.name} is encrypted, so letter case counts in it.").at("ignore_case")
    return column.number


def _where(table: TableSchema, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the stored form of a key's condition: operators with constants, by the number of the column."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        column = table.by_name.get(normal_path(name))
        if column is None:
            raise unknown_column(name, table.by_name.keys()).at(f"where.{name[:100]}")
        if column.type not in _COMPARABLE or column.encrypted:
            raise NotForUniqueError(f"{column.name} cannot be asked for by a unique key.").at(f"where.{column.name}")
        operators = value if isinstance(value, dict) else {"$eq": value}
        for operator, operand in operators.items():
            place = f"where.{column.name}.{operator[:100]}"
            if operator not in _OPERATORS:
                raise invalid(place, f"The operators of a unique key are {', '.join(_OPERATORS)}.", "INVALID_OPERATOR")
            found.setdefault(str(column.number), {})[operator] = _operand(column, operator, operand, place)
    return found


def _operand(column: Column, operator: str, value: Any, place: str) -> Any:
    if operator == "$isNull":
        if not isinstance(value, bool):
            raise invalid(place, "$isNull takes true or false.")
        return value
    if operator in {"$in", "$nin"}:
        if not isinstance(value, list) or not 0 < len(value) <= _MAX_VALUES:
            raise invalid(place, f"{operator} takes a list of 1 to {_MAX_VALUES} values.")
        return [_constant(column, one, place) for one in value]
    return _constant(column, value, place)


def _constant(column: Column, value: Any, place: str) -> Any:
    """Return a value as it is compared; raises a 400 error if the column's type has none like it."""
    match column.type:
        case ColumnType.BOOLEAN:
            fits = isinstance(value, bool)
        case ColumnType.INT | ColumnType.NUMBER:
            fits = isinstance(value, int | Decimal | float) and not isinstance(value, bool)
        case ColumnType.DATE:
            fits = isinstance(value, str) and parse_rfc3339(value) is not None
        case ColumnType.UUID:
            fits = isinstance(value, str) and ids.is_uuid(value)
        case _:
            fits = isinstance(value, str) and len(value.encode()) <= keys.MAX_TEXT_BYTES and "\0" not in value
    if not fits:
        raise invalid(place, f"{column.name} is of type {column.type}; compare it with a value of that type.")
    return value

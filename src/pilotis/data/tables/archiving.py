"""The tables of an app in its archive: which statements read their rows, and how they come to be from a catalogue.

The catalogue of an archive is a stranger's word. Each table must be one that requests could have made: its columns are
parsed again from what they would look like in a request, so that nothing of it reaches a statement unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.tables import ddl, references, store
from pilotis.data.tables.keys import MAX_COLUMNS, MAX_KEYS, UniqueKey, create
from pilotis.data.tables.schema import Column, TableSchema, parse_schema
from pilotis.data.tables.types import ArchivedTable
from pilotis.data.tables.values import check_default
from pilotis.http.api.principals import AppInfo
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, PilotisError

_OPERATORS = frozenset({"$eq", "$ne", "$in", "$nin", "$isNull"})
_OWN = ("__id", "__creator", "__created_at", "__updated_at", "__extra")


class InvalidCatalogueError(BadRequestError):
    """400 `INVALID_ARCHIVED_TABLE`: the archive describes a table that no request could have made."""

    code = "INVALID_ARCHIVED_TABLE"


async def schemas(connection: Connection, app_id: UUID) -> list[TableSchema]:
    """Return the schemas of an app's tables; raises `InvalidCatalogueError` for one that cannot be read."""
    try:
        return [row.schema for row in await store.live_tables(connection, app_id)]
    except (PilotisError, msgspec.MsgspecError, ValueError):
        raise InvalidCatalogueError("The archive is damaged: a table's columns cannot be read.") from None


async def archived(connection: Connection, app_id: UUID, *, with_encrypted: bool = True) -> list[ArchivedTable]:
    """Return an app's tables as archives have them; without `with_encrypted` their encrypted values are null."""
    counts = f"select table_id, sum(rows)::bigint as rows from app_{app_id.hex}.__row_counts group by table_id"
    rows = {row["table_id"]: row["rows"] for row in await connection.fetch(counts)}
    return [
        _archived(table, rows.get(table.table_id, 0), with_encrypted) for table in await schemas(connection, app_id)
    ]


def _archived(table: TableSchema, rows: int, with_encrypted: bool) -> ArchivedTable:
    own = [name for column in table.columns for name in column.physical_columns]
    columns = [*_OWN, *(name.strip('"') for name in own)]
    hidden = {n for c in table.columns if c.encrypted for n in c.physical_columns} if not with_encrypted else set()
    names = ["null" if f'"{name}"' in hidden else f'"{name}"' for name in columns]
    schema, _, physical = table.physical.partition(".")
    return ArchivedTable(
        table_id=table.table_id,
        title=table.title,
        schema=schema,
        name=physical,
        columns=columns,
        query=f"select {', '.join(names)} from {table.physical} where {table.at_this_version}",
        row_count=rows,
        encrypted=[
            (column.number, columns.index(column.physical.strip('"'))) for column in table.columns if column.encrypted
        ],
        is_migrating=any(column.migrating for column in table.columns),
    )


async def create_tables(connection: Connection, app: AppInfo) -> None:
    """Create the empty tables that the app's catalogue has; raises `InvalidCatalogueError`."""
    tables = await schemas(connection, app.app_id)
    if len(tables) > app.limits.tables:
        raise InvalidCatalogueError(f"The archive has more than {app.limits.tables} tables.")
    next_columns = await store.next_columns(connection, app.app_id)
    for table in tables:
        _require_sound(app, table, next_columns[table.table_id])
        for statement in ddl.create_table(table):
            await connection.execute(statement)


async def complete_tables(connection: Connection, app_id: UUID, rows: Mapping[UUID, int]) -> None:
    """Add unique keys, references and row counts to the tables with their rows."""
    tables = await schemas(connection, app_id)
    for table in tables:
        for key in table.enforced_keys:
            await _build(connection, table, key)
        counted = f"insert into {table.counts} (table_id, slot, rows) values ($1, 0, $2)"
        await connection.execute(counted, table.table_id, rows[table.table_id])
    for table in tables:
        try:
            for column, _ in table.references:
                await references.link(connection, table, column)
        except asyncpg.ForeignKeyViolationError:
            raise InvalidCatalogueError(f"Rows of {table.title} refer to rows that are not there.") from None
        for column in table.of_members:
            await references.link_members(connection, table, column)
        await connection.execute(f"analyze {table.physical}")


async def _build(connection: Connection, table: TableSchema, key: UniqueKey) -> None:
    try:
        await connection.execute(create(key, table.key_columns, table.table_id.hex, table.physical))
    except (asyncpg.UniqueViolationError, asyncpg.ProgramLimitExceededError):
        raise InvalidCatalogueError(f"The rows of {table.title} are not unique as its key {key.name} says.") from None
    if key.state == "building":
        ready = [msgspec.structs.replace(one, state="ready") if one == key else one for one in table.keys]
        await store.set_keys(connection, table.app_id, table.table_id, ready)


def _require_sound(app: AppInfo, table: TableSchema, next_column: int) -> None:
    numbers = {column.number for column in table.columns if 1 <= column.number < next_column}
    if table.version < 1 or len(numbers) < len(table.columns):
        raise InvalidCatalogueError(f"The archive is damaged: the columns of {table.title[:100]} are not numbered.")
    if not all(_is_sound(table, key) for key in table.keys) or len(table.keys) > MAX_KEYS:
        raise InvalidCatalogueError(f"The archive is damaged: the unique keys of {table.title[:100]} are none.")
    if not isinstance(table.rules, dict | None):
        raise InvalidCatalogueError(f"The archive is damaged: the rules of {table.title[:100]} are none.")
    given = {column.name: json.decode(json.encode(column.definition())) for column in table.columns}
    try:
        for one, column in zip(parse_schema(given, app.limits), table.columns, strict=True):
            check_default(one, app.limits.default_bytes, f"schema.{one.name}.default")
            if _compared(one) != _compared(column):
                raise InvalidCatalogueError(f"The archive is damaged: {column.name[:100]} cannot be a column.")
    except PilotisError as error:
        raise InvalidCatalogueError(f"The archive's table {table.title[:100]} cannot be made: {error.text}") from None


def _is_sound(table: TableSchema, key: UniqueKey) -> bool:
    if not 1 <= len(key.columns) <= MAX_COLUMNS or not all(number.isdecimal() for number in key.where):
        return False
    named = {*key.columns, *map(int, key.where)}
    operators = {name for given in key.where.values() for name in given}
    return named <= table.key_columns.keys() and operators <= _OPERATORS and key.number >= 1


def _compared(column: Column) -> bytes:
    """Return a column without what a request does not say of it."""
    bare = msgspec.structs.replace(column, number=0, references=None, migrating=False, vector=None)
    return json.encode(bare)

"""References between tables: foreign keys of PostgreSQL, made and dropped inside a schema change's transaction.

A foreign key is `no action`: it guards against what concurrent requests do, and the rows that a deletion takes along
are deleted by statements that count and tell of them; see `pilotis.data.rows.cascades`. Each reference has an index on
its column, by which the rows that refer to one are found.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.tables import ddl, store
from pilotis.data.tables.keys import CREATOR_NUMBER, UniqueKey, key_called
from pilotis.data.tables.schema import REFERRING_TYPES, Column, ColumnType, Reference, Referrer, TableSchema
from pilotis.kit.errors import BadRequestError, ConflictError, invalid
from pilotis.kit.ids import is_uuid

_MEMBER = "select from pilotis.members m where m.app_id = '{}' and m.member_id = {}"
_NAME = re.compile(r"\br_([0-9a-f]{32})_(\d+)")


class CascadeCycleError(BadRequestError):
    """400 `CASCADE_CYCLE`: a deletion would come back to its own table by way of others."""

    code = "CASCADE_CYCLE"
    message = "With this reference, deletions would go round in a circle of tables. Use restrict or set_null."


class TableReferencedError(ConflictError):
    """409 `TABLE_REFERENCED`: columns of other tables refer to the table."""

    code = "TABLE_REFERENCED"

    def __init__(self, referrers: list[Referrer]) -> None:
        names = ", ".join(f"{one.table}.{one.column}" for one in referrers[:5])
        super().__init__(f"Other tables refer to this one: {names}. Remove these references first.")


class NotForReferencesError(BadRequestError):
    """400 `NOT_FOR_REFERENCES`: the unique key is not one that columns can refer to."""

    code = "NOT_FOR_REFERENCES"


class KeyReferencedError(ConflictError):
    """409 `KEY_REFERENCED`: columns refer to the unique key."""

    code = "KEY_REFERENCED"

    def __init__(self, referrers: list[Referrer]) -> None:
        names = ", ".join(f"{one.table}.{one.column}" for one in referrers[:5])
        super().__init__(f"Columns refer to this key: {names}. Remove these references first.")


class UsedAsProfilesError(ConflictError):
    """409 `USED_AS_PROFILES`: the table's rows are the profiles of the app's members."""

    code = "USED_AS_PROFILES"
    message = "The rows of this table are the profiles of the app's members. Name another table for them first."


class Violation(NamedTuple):
    """A reference that PostgreSQL has found violated: the table and the number of its column."""

    table_id: UUID
    number: int
    deletes: bool
    """Whether a row to which others refer was to be deleted, instead of one written that refers to none."""


def name_of(table_id: UUID, number: int) -> str:
    """Return the name of a reference's foreign key, and of its index."""
    return f"r_{table_id.hex}_{number}"


def violation(message: str) -> Violation | None:
    """Return the reference that an error of PostgreSQL names; None if it names none.

    On Citus the name has the number of a shard behind it.
    """
    found = _NAME.search(message)
    return found and Violation(UUID(found[1]), int(found[2]), message.startswith("update or delete"))


def member_with(table: TableSchema, member_id: str) -> str:
    """Return the condition that the app of a table has a member; `member_id` is the expression for its id."""
    return f"exists ({_MEMBER.format(table.app_id, member_id)})"


async def looked_up(connection: Connection, table: TableSchema, column: Column, field: str) -> Column:
    """Return the column with the table that it refers to, which stays while the app is locked; raises a 400 error.

    `field` is the place of the reference in the request.
    """
    asked = column.references
    if asked is None:
        return column
    found = (table.table_id, table.title)
    if asked.table not in {table.title, str(table.table_id)}:
        row = await connection.fetchrow(
            """
            select table_id, title from pilotis.tables
            where app_id = $1 and dropped_at is null and (table_id = $2 or title = $3)
            order by table_id = $2 desc nulls last limit 1
            """,
            table.app_id,
            UUID(asked.table) if is_uuid(asked.table) else None,
            asked.table,
        )
        if row is None:
            raise invalid(f"{field}.table", f"The app has no table {asked.table[:100]}.", "TABLE_NOT_FOUND")
        found = tuple(row)
    reference = Reference(found[1], asked.on_delete, found[0])
    if asked.key is None:
        return _with(column, reference)
    target = await _target(connection, table, reference)
    try:
        referred = referred_by(target, key_called(target.keys, asked.key), column.type)
    except BadRequestError as error:
        raise error.at(f"{field}.key") from None
    named = msgspec.structs.replace(reference, key=asked.key, column=referred.number)
    # Texts that the key would change are compared with what it has made of them.
    return msgspec.structs.replace(column, references=named, normalize=referred.normalize)


def referred_by(table: TableSchema, key: UniqueKey, type_: ColumnType) -> Column:
    """Return the column of a key to which columns of a type refer; raises `NotForReferencesError`.

    A foreign key needs an index on the plain values of all rows.
    """
    column = next((column for column in table.columns if (column.number,) == key.columns), None)
    if key.columns == (CREATOR_NUMBER,) or column is None or key.where or key.ignore_case:
        raise NotForReferencesError("Columns refer to a key of one column, of all rows, in which letter case counts.")
    if column.encrypted or column.type not in REFERRING_TYPES:
        raise NotForReferencesError(f"Columns refer to keys of type {', '.join(REFERRING_TYPES)}, not encrypted.")
    if column.type is not type_:
        raise NotForReferencesError(f"{column.name} is of type {column.type}, so what refers to it is, too.")
    return column


def profile_key(table: TableSchema, name: str | None) -> UniqueKey:
    """Return the key of a member's id of a table with profiles; raises a 400 error, or `KeyNotReadyError`."""
    if name is None:
        raise invalid("key", "Name a unique key of the table, of one column with the member's id, or of $creator.")
    try:
        key = key_called(table.keys, name)
        if key.columns != (CREATOR_NUMBER,) or key.where:
            referred_by(table, key, ColumnType.STRING)
    except BadRequestError as error:
        raise error.at("key") from None
    return key


def require_key_unreferenced(table: TableSchema, key: UniqueKey) -> None:
    """Raise `KeyReferencedError`, or `UsedAsProfilesError`, if a key is to be removed that something needs."""
    if table.profile_key == key.name:
        raise UsedAsProfilesError
    if referrers := [one for one in table.referrers if one.key == key.name]:
        raise KeyReferencedError(referrers)


async def _target(connection: Connection, table: TableSchema, reference: Reference) -> TableSchema:
    """Return the table to which a reference leads, which is there."""
    if reference.target == table.table_id:
        return table
    row = await store.live_table(connection, table.app_id, reference.target)
    assert row is not None
    return row.schema


async def _referred(connection: Connection, table: TableSchema, reference: Reference) -> str:
    """Return the name in PostgreSQL of the column to which a reference leads."""
    if reference.column is None:
        return "__id"
    return (await _target(connection, table, reference)).referred_column(reference.column)


async def dangling(connection: Connection, table: TableSchema, column: Column) -> store.Offenders:
    """Return the rows that refer to no row of the table of a reference."""
    assert column.references is not None
    referred = await _referred(connection, table, column.references)
    return await store.offenders(connection, ddl.dangling(table, column, referred))


async def link_members(connection: Connection, table: TableSchema, column: Column) -> None:
    """Create the index by which the rows of a member are found."""
    await connection.execute(
        f"create index {name_of(table.table_id, column.number)} on {table.physical} ({column.physical})"
    )


async def link(connection: Connection, table: TableSchema, column: Column) -> None:
    """Create the index and the foreign key of a column, all of whose values must be ids of rows of the other table.

    Raises `CascadeCycleError`.
    """
    assert column.references is not None
    await _require_no_circle(connection, table)
    name = name_of(table.table_id, column.number)
    await connection.execute(f"create index {name} on {table.physical} ({column.physical})")
    referred = await _referred(connection, table, column.references)
    target = table.physical_of(column.references.target)
    await connection.execute(_create(table.physical, column.physical, name, target, referred))


async def unlink(connection: Connection, table: TableSchema, column: Column) -> None:
    """Drop the foreign key of a column, if it refers to rows, and its index."""
    name = name_of(table.table_id, column.number)
    await connection.execute(f"alter table {table.physical} drop constraint if exists {name}")
    await connection.execute(f"drop index if exists {table.schema_name}.{name}")


async def link_again(connection: Connection, table: TableSchema, column: Column) -> None:
    """Create the foreign key of a column that came back from the trash.

    Where the other table is gone, or a row to which one of the rows refers, the column comes back without a reference.
    """
    assert column.references is not None
    if await _fits_again(connection, table, column, column.references):
        with suppress(CascadeCycleError):
            await link(connection, table, column)
            return
    await store.update_column(connection, table, _with(column, None))


async def _fits_again(connection: Connection, table: TableSchema, column: Column, reference: Reference) -> bool:
    row = await store.live_table(connection, table.app_id, reference.target)
    if row is None:
        return False
    target = row.schema
    if reference.key is not None:
        try:
            referred = referred_by(target, key_called(target.keys, reference.key), column.type)
        except (BadRequestError, ConflictError):
            return False
        if referred.number != reference.column:
            return False
    dangles: bool = await connection.fetchval(ddl.any_dangling(table, column, target.referred_column(reference.column)))
    return not dangles


def require_unreferenced(table: TableSchema) -> None:
    """Raise `TableReferencedError`, or `UsedAsProfilesError`, if a table is to be dropped that something needs."""
    if table.profile_key is not None:
        raise UsedAsProfilesError
    if others := [one for one in table.referrers if one.table_id != table.table_id]:
        raise TableReferencedError(others)


async def let_go(connection: Connection, table: TableSchema) -> None:
    """Drop the foreign keys by which other tables refer to one that is about to be replaced by a copy of itself."""
    for one in _others(table):
        child = table.physical_of(one.table_id)
        await connection.execute(f"alter table {child} drop constraint {name_of(one.table_id, one.number)}")


async def take_again(connection: Connection, table: TableSchema) -> None:
    """Create the foreign keys again that `let_go` and the replacement have dropped."""
    for column, reference in table.references:
        name, referred = name_of(table.table_id, column.number), await _referred(connection, table, reference)
        target = table.physical_of(reference.target)
        await connection.execute(_create(table.physical, column.physical, name, target, referred))
    for one in _others(table):
        child, name = table.physical_of(one.table_id), name_of(one.table_id, one.number)
        physical = Column(one.number, one.column, ColumnType.UUID).physical
        await connection.execute(_create(child, physical, name, table.physical, table.referred_column(one.of)))


def _others(table: TableSchema) -> list[Referrer]:
    return [one for one in table.referrers if one.table_id != table.table_id]


def _create(physical: str, column: str, name: str, target: str, referred: str) -> str:
    # Of one that leads to its own table, a cascade defers the check.
    deferrable = " deferrable" if physical == target else ""
    return (
        f"alter table {physical} add constraint {name} foreign key ({column}) "
        f"references {target} ({referred}) on delete no action{deferrable}"
    )


async def _require_no_circle(connection: Connection, table: TableSchema) -> None:
    """Raise `CascadeCycleError` if deletions of rows come back to a table by way of others."""
    rows = await connection.fetch(
        """
        select c.table_id, c.references_table from pilotis.columns c
        join pilotis.tables t on t.app_id = c.app_id and t.table_id = c.table_id and t.dropped_at is null
        where c.app_id = $1 and c.on_delete = 'cascade' and c.dropped_at is null and c.table_id <> c.references_table
        """,
        table.app_id,
    )
    children: dict[UUID, list[UUID]] = {}
    for child, parent in rows:
        children.setdefault(parent, []).append(child)
    reached, waiting = set[UUID](), [*children.get(table.table_id, ())]
    while waiting:
        one = waiting.pop()
        if one == table.table_id:
            raise CascadeCycleError
        if one not in reached:
            reached.add(one)
            waiting += children.get(one, ())


def _with(column: Column, reference: Reference | None) -> Column:
    return msgspec.structs.replace(column, references=reference)

"""Previews what a new schema would do to a table's rows, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from asyncpg import Connection, Record

from pilotis.data.tables import ddl, references, store
from pilotis.data.tables.schema import Column, ColumnType, TableSchema
from pilotis.data.tables.types import CastSample, SchemaPreview, SchemaPreviewChange
from pilotis.kit import json

_SHOWN_ROWS = 3
_SHOWN_CHARACTERS = 200


async def preview(
    connection: Connection, table: TableSchema, wanted: Mapping[str, Column], max_rows: int
) -> SchemaPreview:
    """Compare a table with the columns that it would have, and count the rows that each change affects.

    A table with more than `max_rows` rows is encrypted or decrypted in the background.
    """
    changes = [await _dropped(connection, table, column) for column in table.columns if column.name not in wanted]
    in_background = False
    for name, new in wanted.items():
        old = table.by_name.get(name)
        if old is None:
            changes.append(await _added(connection, table, new))
        elif _options(old) != _options(new):
            changes.append(await _changed(connection, table, old, new))
            if bool(old.encrypted) != bool(new.encrypted) and (old.type is new.type or not old.encrypted):
                in_background |= await store.row_count(connection, table) > max_rows
    return SchemaPreview(changes, "background" if in_background else "brief")


def _options(column: Column) -> tuple[object, ...]:
    """Return the options that a change may set; an absent option counts as off."""
    return (
        column.type,
        bool(column.required),
        column.default,
        column.description,
        bool(column.encrypted),
        column.references,
        column.of_member,
        column.checks,
        column.on_update,
        column.normalize,
    )


async def _dropped(connection: Connection, table: TableSchema, column: Column) -> SchemaPreviewChange:
    rows = await connection.fetchval(ddl.count_with_value(table, column))
    return SchemaPreviewChange(
        kind="dropped",
        name=column.name,
        from_=column.definition(),
        to=None,
        rows=rows,
        rows_that_do_not_fit=0,
        samples=[],
    )


async def _added(connection: Connection, table: TableSchema, column: Column) -> SchemaPreviewChange:
    """Describe a new column, to which the values move that free-form rows have under its name."""
    free = await connection.fetchval(ddl.count_absorbable(table), column.name)
    misfits = await store.offenders(connection, ddl.not_absorbable(table, column), column.name) if free else None
    return SchemaPreviewChange(
        kind="added",
        name=column.name,
        from_=None,
        to=column.definition(),
        rows=free,
        rows_that_do_not_fit=misfits.total if misfits else 0,
        samples=_misfits(misfits, f"The value is not of type {column.type.value}."),
    )


async def _changed(connection: Connection, table: TableSchema, old: Column, new: Column) -> SchemaPreviewChange:
    total: int | None = 0
    samples: list[CastSample] = []
    if new.type is not old.type and old.encrypted:
        # Only decrypting every value, as the change itself does, reveals them.
        total = None
    elif new.type is not old.type:
        total = await connection.fetchval(ddl.count_not_castable(table, old, new))
        samples = _casts(await connection.fetch(ddl.cast_samples(table, old, new, _SHOWN_ROWS)), new.type)
    if new.required and not old.required:
        nulls = await store.offenders(connection, ddl.nulls(table, old))
        total = None if total is None else total + nulls.total
        samples += _misfits(nulls, "The value is null.")
    if new.references is not None and new.references != old.references and old.type is new.type and not old.encrypted:
        column = msgspec.structs.replace(old, references=new.references)
        dangling = await references.dangling(connection, table, column)
        total = None if total is None else total + dangling.total
        samples += _misfits(dangling, f"{new.references.table} has no row with this {new.references.key or 'id'}.")
    return SchemaPreviewChange(
        kind="changed",
        name=old.name,
        from_=old.definition(),
        to=new.definition(),
        rows=await connection.fetchval(ddl.count_with_value(table, old)),
        rows_that_do_not_fit=total,
        samples=samples,
    )


def _misfits(found: store.Offenders | None, message: str) -> list[CastSample]:
    ids = found.ids[:_SHOWN_ROWS] if found else []
    return [CastSample(row_id=row_id, before="", message=message) for row_id in ids]


def _casts(rows: Sequence[Record], target: ColumnType) -> list[CastSample]:
    """Return samples of casts, the ones that fail first."""
    return [
        CastSample(row_id=row_id, before=_shown(before), after=_shown(after))
        if valid
        else CastSample(row_id=row_id, before=_shown(before), message=f"This is not a valid {target.value}.")
        for row_id, before, after, valid in rows
    ]


def _shown(value: str) -> str:
    """Return the beginning of a JSON value: the content of a string, any other value as JSON."""
    decoded = json.decode(value.encode()) if len(value) < _SHOWN_CHARACTERS else None
    return decoded if isinstance(decoded, str) else value[:_SHOWN_CHARACTERS]

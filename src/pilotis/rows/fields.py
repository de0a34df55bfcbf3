"""Fields as the expressions that searches read, and that indexes for them are on.

An index serves an expression only if a query has it word for word, constants included: so the name of a field without
a column is a literal here, not a bound value, where its letters are harmless.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotis.kit.errors import invalid
from pilotis.rows.operands import EXTRA, Arguments, EncryptedColumnError, split_path, unknown
from pilotis.tables.schema import OWN_FIELDS, Column, ColumnType, InvalidColumnNameError, TableSchema, column_name


class Field(NamedTuple):
    """A field's expression, and its name in uses of indexes: None where no index could have the expression."""

    sql: str
    use: str | None


def text_field(table: TableSchema, name: str, arguments: Arguments, place: str) -> Field:
    """Return the expression for a text: a string column, or a path to a string inside JSON.

    `place` is the field of the request to blame. Raises `UnknownColumnError`, `EncryptedColumnError`, or
    `ValidationError` for a column of another type.
    """
    column, path = _find(table, name)
    if column is None:
        return Field(f"pilotis.text_at(__extra, {_path(path, arguments)})", _use(EXTRA, path))
    if path and column.type is ColumnType.OBJECT:
        return Field(f"pilotis.text_at({column.physical}, {_path(path, arguments)})", _use(str(column.number), path))
    if path:
        raise unknown(name)
    if column.type is not ColumnType.STRING:
        raise invalid(place, f"{name} is of type {column.type}; only string columns are searched.")
    return Field(column.physical, str(column.number))


def json_field(table: TableSchema, name: str, arguments: Arguments, place: str) -> Field:
    """Return the expression for a JSON object: an object column, or a path to an object inside JSON.

    Raises as `text_field` does.
    """
    column, path = _find(table, name)
    if column is None:
        return Field(f"(__extra #> {_path(path, arguments)})", _use(EXTRA, path))
    if column.type is not ColumnType.OBJECT:
        if path:
            raise unknown(name)
        raise invalid(place, f"{name} is of type {column.type}; points are in object columns.")
    sql = f"({column.physical} #> {_path(path, arguments)})" if path else column.physical
    return Field(sql, _use(str(column.number), path))


def _find(table: TableSchema, name: str) -> tuple[Column | None, list[str]]:
    """Return the column and the path inside it; no column in a table that takes any field."""
    parts = split_path(name)
    if table.is_free_form and name not in OWN_FIELDS:
        return None, parts
    first, path = (name, []) if name in table.by_name else (parts[0], parts[1:])
    column = table.by_name.get(first)
    if column is None:
        raise unknown(name)
    if column.encrypted:
        raise EncryptedColumnError(first)
    return column, path


def _use(key: str, path: list[str]) -> str | None:
    return ".".join([key, *path]) if all(map(_is_plain, path)) else None


def _path(path: list[str], arguments: Arguments) -> str:
    if all(map(_is_plain, path)):
        return f"'{{{','.join(path)}}}'::text[]"
    return arguments.bind(path, "text[]")


def _is_plain(name: str) -> bool:
    try:
        # The word null would stand for no element.
        return column_name(name) == name and name.lower() != "null"
    except InvalidColumnNameError:
        return False

"""The expressions of fields in searches, and in the indexes for them.

An index serves a query only if both have exactly the same expression, constants included: so the name of a field
without a column is a literal here, not a bound value, provided its characters are harmless.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotis.data.tables.schema import (
    OWN_FIELDS,
    Column,
    ColumnType,
    InvalidColumnNameError,
    TableSchema,
    VectorState,
    column_name,
    normal_path,
)
from pilotis.data.tables.vectors import stored_words_of, words_of
from pilotis.data.where.operands import EXTRA, Arguments, EncryptedColumnError, unknown
from pilotis.kit import json
from pilotis.kit.errors import invalid


class Field(NamedTuple):
    """A field's expression, and its name in access patterns: None if no index can have the expression.

    `stored` is the expression for the words of a text if every row has them stored.
    """

    sql: str
    use: str | None
    stored: str | None = None

    @property
    def words(self) -> str:
        """The expression for the words of a text, a tsvector."""
        return self.stored or words_of(self.sql)


def text_field(table: TableSchema, name: str, arguments: Arguments, place: str) -> Field:
    """Return the expression for a text: a string column, or a path to a string inside JSON.

    `place` is the field of the request for errors. Raises `UnknownColumnError`, `EncryptedColumnError`, or
    `ValidationError` for a column of another type.
    """
    column, path = _find(table, name, place)
    if column is None:
        return Field(f"pilotis.text_at(__extra, {_path(path, arguments)})", _use(EXTRA, path))
    if path and column.type is ColumnType.OBJECT:
        return Field(f"pilotis.text_at({column.physical}, {_path(path, arguments)})", _use(str(column.number), path))
    if path:
        raise unknown(table, name).at(place)
    if column.type is not ColumnType.STRING:
        raise invalid(place, f"{name} is of type {column.type}; only string columns are searched.")
    stored = stored_words_of(column) if column.vector is VectorState.STORED else None
    return Field(column.physical, str(column.number), stored)


def json_field(table: TableSchema, name: str, arguments: Arguments, place: str) -> Field:
    """Return the expression for a JSON object: an object column, or a path to an object inside JSON.

    Raises the errors of `text_field`.
    """
    column, path = _find(table, name, place)
    if column is None:
        return Field(f"(__extra #> {_path(path, arguments)})", _use(EXTRA, path))
    if column.type is not ColumnType.OBJECT:
        if path:
            raise unknown(table, name).at(place)
        raise invalid(place, f"{name} is of type {column.type}; points are in object columns.")
    sql = f"({column.physical} #> {_path(path, arguments)})" if path else column.physical
    return Field(sql, _use(str(column.number), path))


def _find(table: TableSchema, name: str, place: str) -> tuple[Column | None, list[str]]:
    """Return the column and the path inside it; no column for a free-form table."""
    name = normal_path(name)
    parts = name.split(".")
    if len(parts) > json.MAX_DEPTH:
        raise unknown(table, name).at(place)
    if table.is_free_form and name not in OWN_FIELDS:
        return None, parts
    first, path = (name, []) if name in table.by_name else (parts[0], parts[1:])
    column = table.by_name.get(first)
    if column is None:
        raise unknown(table, name).at(place)
    if column.encrypted:
        raise EncryptedColumnError(first).at(place)
    return column, path


def _use(key: str, path: list[str]) -> str | None:
    return ".".join([key, *path]) if all(map(_is_plain, path)) else None


def _path(path: list[str], arguments: Arguments) -> str:
    if all(map(_is_plain, path)):
        return f"'{{{','.join(path)}}}'::text[]"
    return arguments.bind(path, "text[]")


def _is_plain(name: str) -> bool:
    try:
        # The unquoted word null would be an SQL null in the array.
        return column_name(name) == name and name.lower() != "null"
    except InvalidColumnNameError:
        return False

"""Where a name in a request meets a column: the one place that knows what a condition or a sort reads.

A name is looked up in the table's schema; what is not there is a path into JSON, and paths are bound like values.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from pilotis.kit.errors import BadRequestError, Detail
from pilotis.tables.schema import ColumnType, TableSchema
from pilotis.tables.values import UnknownColumnError


class Kind(enum.Enum):
    """What an operand's SQL expression yields."""

    TEXT = "text"
    NUMERIC = "numeric"
    BIGINT = "bigint"
    BOOLEAN = "boolean"
    TIME = "timestamptz"
    UUID = "uuid"
    JSON = "jsonb"


class Operand(NamedTuple):
    """A field to compare or sort by.

    `sql` is the expression that compares; `text` the one that string operators read, or None where there is none.
    """

    name: str
    kind: Kind
    sql: str
    text: str | None


class EncryptedColumnError(BadRequestError):
    """400 `ENCRYPTED_COLUMN_NOT_QUERYABLE`: the database cannot read an encrypted column."""

    code = "ENCRYPTED_COLUMN_NOT_QUERYABLE"


class Arguments:
    """Values bound to a statement's parameters."""

    def __init__(self, *values: Any) -> None:
        self.values: list[Any] = list(values)

    def bind(self, value: Any, type_: str) -> str:
        """Add a value and return its place in the SQL, such as `$3::bigint`."""
        self.values.append(value)
        return f"${len(self.values)}::{type_}"


_OWN = {
    "id": (Kind.UUID, "__id", "__id::text"),
    "created_at": (Kind.TIME, "__created_at", None),
    "updated_at": (Kind.TIME, "__updated_at", None),
}

_KINDS = {
    ColumnType.STRING: Kind.TEXT,
    ColumnType.NUMBER: Kind.NUMERIC,
    ColumnType.BOOLEAN: Kind.BOOLEAN,
    ColumnType.DATE: Kind.TIME,
    ColumnType.OBJECT: Kind.JSON,
    ColumnType.ARRAY: Kind.JSON,
    ColumnType.UUID: Kind.UUID,
    ColumnType.INT: Kind.BIGINT,
}


def operand(table: TableSchema, name: str, arguments: Arguments) -> Operand:
    """Return what a name stands for: a row's own field, a column, or a path into a JSON value.

    Raises `UnknownColumnError`, and `EncryptedColumnError` for a column that the database cannot read.
    """
    if name in _OWN:
        kind, sql, text = _OWN[name]
        return Operand(name, kind, sql, text)
    column = table.by_name.get(name)
    if column is None:
        return _path(table, name, arguments)
    if column.encrypted:
        raise EncryptedColumnError(f"{name} is encrypted: it cannot be compared, searched or sorted by.")
    kind = _KINDS[column.type]
    if column.type is ColumnType.DATE:
        return Operand(name, kind, column.time, column.physical)
    text = {Kind.TEXT: column.physical, Kind.UUID: f"{column.physical}::text"}.get(kind)
    return Operand(name, kind, column.physical, text)


def _path(table: TableSchema, name: str, arguments: Arguments) -> Operand:
    first, *rest = name.split(".")
    if table.is_free_form:
        return _json(name, f"(__extra #> {arguments.bind([first, *rest], 'text[]')})")
    column = table.by_name.get(first)
    if column is None or not rest or column.type is not ColumnType.OBJECT:
        raise unknown(name)
    if column.encrypted:
        raise EncryptedColumnError(f"{first} is encrypted: it cannot be compared, searched or sorted by.")
    return _json(name, f"({column.physical} #> {arguments.bind(rest, 'text[]')})")


def _json(name: str, sql: str) -> Operand:
    text = f"(case when jsonb_typeof({sql}) = 'string' then {sql} #>> '{{}}' end collate \"C\")"
    return Operand(name, Kind.JSON, sql, text)


def unknown(name: str) -> UnknownColumnError:
    """Return the error about a name that is no column."""
    message = f"{name[:100]} is no column of this table."
    return UnknownColumnError(message, details=[Detail(name[:100], "UNKNOWN_COLUMN", message)])

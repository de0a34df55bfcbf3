"""Where a name in a request meets a column: the one place that knows what a condition or a sort reads.

A name is looked up in the table's schema; what is not there is a path into JSON, and paths are bound like values.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.kit import ids, json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import BadRequestError, Detail, invalid
from pilotis.rows.indexes.uses import Notes
from pilotis.tables.schema import Column, ColumnType, TableSchema
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
    SEALED = "bytea"


Json = Any
Hash = Callable[[Column, Json], bytes]


CREATOR, EXTRA = "creator", "extra"
"""How uses name what has no column's number: the member that made a row, and the fields of a free-form table."""


class Inside(NamedTuple):
    """Where a path leads: into the jsonb `sql`, which uses name `column`, along the object keys `path`."""

    sql: str
    column: str
    path: list[str]


class Operand(NamedTuple):
    """A field to compare or sort by.

    `sql` is the expression that compares; `text` the one that string operators read, or None where there is none.
    `convert` turns a request's value into one to compare with; None if no value of the field can equal it. `column`
    is the field as uses of indexes name it, where an index can be made for it; `inside` is where a path leads.
    """

    name: str
    kind: Kind
    sql: str
    text: str | None
    convert: Callable[[Json], Any]
    column: str | None = None
    inside: Inside | None = None


class EncryptedColumnError(BadRequestError):
    """400 `ENCRYPTED_COLUMN_NOT_QUERYABLE`: the database cannot read an encrypted column."""

    code = "ENCRYPTED_COLUMN_NOT_QUERYABLE"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is encrypted: only $eq, $ne, $in, $nin and $isNull work on it, in a where.")


class Arguments:
    """Values bound to a statement's parameters; `hash` gives what an encrypted column's values are found by.

    `notes` tells what the statement reads by.
    """

    def __init__(self, *values: Any, hash_: Hash | None = None) -> None:
        self.values: list[Any] = list(values)
        self.hash = hash_
        self.notes = Notes()
        self._places: list[str] = []

    def bind(self, value: Any, type_: str) -> str:
        """Add a value and return its place in the SQL, such as `$3::bigint`."""
        self.values.append(value)
        place = f"${len(self.values)}::{type_}"
        self._places.append(place)
        return place

    def complete(self, select: str) -> str:
        """Return the statement with a mention of every value that it does not use.

        PostgreSQL cannot tell the type of a parameter that it does not find, and refuses the statement.
        """
        unused = [place for place in self._places if place not in select]
        return f"with unused as (select {', '.join(unused)}) {select}" if unused else select


_IS_INDEX = re.compile(r"\s*[+-]?\d")
_INT64 = range(-(2**63), 2**63)

_OWN = {
    "id": (Kind.UUID, "__id", "__id::text"),
    "created_at": (Kind.TIME, "__created_at", None),
    "updated_at": (Kind.TIME, "__updated_at", None),
}

KINDS = {
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

    Raises `UnknownColumnError`, and `EncryptedColumnError` for a path into an encrypted column.
    """
    if name in _OWN:
        kind, sql, text = _OWN[name]
        # Rows have an index on their ids anyway.
        return Operand(name, kind, sql, text, CONVERSIONS[kind], None if name == "id" else name)
    column = table.by_name.get(name)
    if column is None:
        return _path(table, name, arguments)
    kind, key = KINDS[column.type], str(column.number)
    if column.encrypted:
        return Operand(name, Kind.SEALED, column.hash, None, _hashed(column, arguments), key)
    if column.type is ColumnType.DATE:
        return Operand(name, kind, column.time, column.physical, CONVERSIONS[kind], key)
    text = {Kind.TEXT: column.physical, Kind.UUID: f"{column.physical}::text"}.get(kind)
    return Operand(name, kind, column.physical, text, CONVERSIONS[kind], key)


def operand_column(table: TableSchema, name: str) -> str | None:
    """Return the field as uses of indexes name it; None for one that no B-tree can be made for, or no field."""
    if name in _OWN:
        return None if name == "id" else name
    column = table.by_name.get(name)
    return None if column is None or KINDS[column.type] is Kind.JSON else str(column.number)


def json_operand(name: str, sql: str) -> Operand:
    """Return the operand of a JSON value, such as one found by a path."""
    text = f"(case when jsonb_typeof({sql}) = 'string' then {sql} #>> '{{}}' end collate \"C\")"
    return Operand(name, Kind.JSON, sql, text, CONVERSIONS[Kind.JSON])


def _path(table: TableSchema, name: str, arguments: Arguments) -> Operand:
    first, *rest = split_path(name)
    if table.is_free_form:
        return _inside(name, Inside("__extra", EXTRA, [first, *rest]), arguments)
    column = table.by_name.get(first)
    if column is None or not rest or column.type is not ColumnType.OBJECT:
        raise unknown(name)
    if column.encrypted:
        raise EncryptedColumnError(first)
    return _inside(name, Inside(column.physical, str(column.number), rest), arguments)


def _inside(name: str, inside: Inside, arguments: Arguments) -> Operand:
    found = json_operand(name, f"({inside.sql} #> {arguments.bind(inside.path, 'text[]')})")
    # A number may be an array's index as well as an object's key.
    return found if any(map(_IS_INDEX.match, inside.path)) else found._replace(inside=inside)


def _hashed(column: Column, arguments: Arguments) -> Callable[[Json], bytes | None]:
    def convert(value: Json) -> bytes | None:
        if arguments.hash is None:
            raise EncryptedColumnError(column.name)
        fits = CONVERSIONS[KINDS[column.type]](value) is not None
        return arguments.hash(column, value) if fits else None

    return convert


def split_path(name: str) -> list[str]:
    """Return the names of a dotted path; raises a `ValidationError` for one deeper than JSON may be nested."""
    if name.count(".") >= json.MAX_DEPTH:
        raise invalid(name[:100], f"A path has at most {json.MAX_DEPTH} names.")
    return name.split(".")


def unknown(name: str) -> UnknownColumnError:
    """Return the error about a name that is no column."""
    message = f"{name[:100]} is no column of this table."
    return UnknownColumnError(message, details=[Detail(name[:100], "UNKNOWN_COLUMN", message)])


def is_number(value: Json) -> bool:
    """Tell whether a decoded JSON value is a number."""
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def as_bigint(value: Json) -> int | None:
    """Return a number as a 64-bit integer, or None if it is none."""
    if not is_number(value) or value != int(value) or int(value) not in _INT64:
        return None
    return int(value)


def _as_time(value: Json) -> str | None:
    moment = parse_rfc3339(value) if isinstance(value, str) else None
    return None if moment is None else moment.isoformat()


def parameter(kind: Kind, array: str = "") -> str:
    """Return the type under which values of a kind are bound; `array` is `[]` for a list of them."""
    # Moments go as text: asyncpg takes the first and the last that a datetime can name for infinities.
    return f"text{array}::timestamptz{array}" if kind is Kind.TIME else kind.value + array


CONVERSIONS: dict[Kind, Callable[[Json], Any]] = {
    Kind.TEXT: lambda value: value if isinstance(value, str) else None,
    Kind.NUMERIC: lambda value: value if is_number(value) else None,
    Kind.BIGINT: as_bigint,
    Kind.BOOLEAN: lambda value: value if isinstance(value, bool) else None,
    Kind.TIME: _as_time,
    Kind.UUID: lambda value: UUID(value) if isinstance(value, str) and ids.is_uuid(value) else None,
    Kind.JSON: lambda value: None if value is None else json.encode(value).decode(),
}

"""Resolves names in requests to columns; conditions and sorts look up names only here.

A name is looked up in the table's schema; other names are paths into JSON, which are bound like values.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.tables.schema import OWN_FIELDS, Column, ColumnType, TableSchema, normal_path
from pilotis.data.tables.values import UnknownColumnError, unknown_column
from pilotis.data.where.access_patterns import AccessPatterns
from pilotis.kit import ids, json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import BadRequestError, ForbiddenError


class Kind(enum.StrEnum):
    """What an operand's SQL expression yields: the name of PostgreSQL's type."""

    TEXT = "text"
    NUMERIC = "numeric"
    BIGINT = "bigint"
    BOOLEAN = "boolean"
    TIME = "timestamptz"
    UUID = "uuid"
    JSON = "jsonb"
    ENCRYPTED = "bytea"


Json = Any
Hash = Callable[[Column, Json], bytes]


CREATOR, EXTRA = "creator", "extra"
"""The names in access patterns of what has no column number: the member that created a row, and free-form fields."""
CREATOR_NAME = "$creator"
"""The name in conditions of the member that created a row."""


class Inside(NamedTuple):
    """The target of a path: the jsonb `sql`, named `column` in access patterns, and the object keys `path`."""

    sql: str
    column: str
    path: list[str]


class Operand(NamedTuple):
    """A field to compare or sort by.

    `sql` is the expression that compares; `text` the one that string operators read, or None where there is none.
    `convert` turns a request's value into one to compare with; None if no value of the field can equal it. `column` is
    the field's name in access patterns, if an index can serve it; `inside` is the target of a path.
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

    def __init__(self, name: str, advice: str = "Only $eq, $ne, $in, $nin and $isNull work on it, in a where.") -> None:
        super().__init__(f"{name} is encrypted. {advice}")


class ColumnNotReadableError(ForbiddenError):
    """403 `COLUMN_NOT_READABLE`: the request names a column that the table's rules hide from the caller."""

    code = "COLUMN_NOT_READABLE"

    def __init__(self, name: str) -> None:
        super().__init__(f"The rules of this table do not let you read {name}.")


class CreatorNotYoursError(ForbiddenError):
    """403 `CREATOR_NOT_YOURS`: the request asks for the rows of another member."""

    code = "CREATOR_NOT_YOURS"
    message = 'Here $creator is compared with your own id alone: {"$creator": {"$member": "id"}}.'


class Arguments:
    """Values bound to a statement's parameters; `hash` returns the hash of a value in an encrypted column.

    `access` records how the statement reads the table. With `creators`, its conditions may name `$creator`,
    else they may compare it with the caller's own id, `own`, which is None for one who is no member.
    """

    def __init__(self, *values: Any, hash_: Hash | None = None, creators: bool = False, own: str | None = None) -> None:
        self.values: list[Any] = list(values)
        self.hash = hash_
        self.creators = creators
        self.own = own
        self.cube: str | None = None
        """The schema of the extension `cube`, where conditions may name places."""
        self.access = AccessPatterns()
        self._places: list[str] = []

    def bind(self, value: Any, type_: str) -> str:
        """Add a value and return its placeholder, such as `$3::bigint`."""
        self.values.append(value)
        place = f"${len(self.values)}::{type_}"
        self._places.append(place)
        return place

    def add(self, values: Iterable[Any], places: Iterable[str], access: AccessPatterns) -> None:
        """Add what a condition binds and reads that was compiled for the place behind the values that there are."""
        self.values += values
        self._places += places
        self.access.parts += access.parts
        self.access.alternatives += access.alternatives

    @contextmanager
    def about(self, hash_: Hash | None, creators: bool, own: str | None) -> Iterator[None]:
        """Compile what is about another table, of which the caller sees this much."""
        before = self.hash, self.creators, self.own
        self.hash, self.creators, self.own = hash_, creators, own
        try:
            yield
        finally:
            self.hash, self.creators, self.own = before

    @property
    def places(self) -> tuple[str, ...]:
        """The places of the values that `bind` added, in their order."""
        return tuple(self._places)

    def complete(self, select: str) -> str:
        """Return the statement with a mention of every value that it does not use; see `mention_all`."""
        return mention_all(select, self._places)


def mention_all(select: str, places: Iterable[str]) -> str:
    """Return the statement with a reference to every placeholder, such as `$3::bigint`, that it does not use.

    PostgreSQL cannot determine the type of an unused parameter, and rejects the statement.
    """
    used = set(_PARAMETER.findall(select))
    unused = [place for place in places if place.partition("::")[0] not in used]
    return f"with unused as (select {', '.join(unused)}) {select}" if unused else select


COMMON_COUNTS = frozenset({0, 1, 5, 10, 20, 25, 50, 100, 1000})
"""Limits and offsets that become constants in a statement."""


def common_count(number: int, arguments: Arguments) -> str:
    """Return a limit or an offset as SQL: a constant for common values, otherwise bound.

    PostgreSQL plans a statement with a parameter as its limit at each run, which takes longer than reading a page.
    """
    return str(number) if number in COMMON_COUNTS else arguments.bind(number, "bigint")


_PARAMETER = re.compile(r"\$\d+")
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
    """Return the operand of a name: a row's own field, a column, or a path into a JSON value.

    Raises `UnknownColumnError`, and `EncryptedColumnError` for a path into an encrypted column.
    """
    name = normal_path(name)
    # Most conditions are on plain columns, whose operands are the same in every request and are cached.
    if found := plain_operands(table).get(name):
        return found
    column = table.by_name.get(name)
    if column is None:
        return _path(table, name, arguments)
    return Operand(name, Kind.ENCRYPTED, column.hash, None, _hashed(column, arguments), str(column.number))


def plain_operands(table: TableSchema) -> dict[str, Operand]:
    """Return a row's own fields and the columns that are not encrypted, by name."""
    operands: dict[str, Operand] | None = table.__dict__.get("operands")
    if operands is None:
        columns = [column for column in table.columns if not column.encrypted]
        operands = {column.name: _plain(column) for column in columns} | _OWN_OPERANDS
        table.__dict__["operands"] = operands
    return operands


def _plain(column: Column) -> Operand:
    name, kind, key = column.name, KINDS[column.type], str(column.number)
    if column.type is ColumnType.DATE:
        return Operand(name, kind, column.time, column.physical, CONVERSIONS[kind], key)
    text = {Kind.TEXT: column.physical, Kind.UUID: f"{column.physical}::text"}.get(kind)
    return Operand(name, kind, column.physical, text, CONVERSIONS[kind], key)


def qualified(table: TableSchema, name: str, arguments: Arguments, row: str) -> Operand:
    """Return the operand of a name in the row that a statement calls `row`, an alias or a table's qualified name.

    No index is noted for it. Raises the errors of `operand`.
    """
    known: dict[tuple[str, str], Operand] = table.__dict__.setdefault("qualified", {})
    if (found := known.get((row, name))) is not None:
        return found
    found = _qualified(table, normal_path(name), arguments, row)
    if found.kind is not Kind.ENCRYPTED and found.inside is None and name in plain_operands(table):
        known[row, name] = found
    return found


def _qualified(table: TableSchema, name: str, arguments: Arguments, row: str) -> Operand:
    if name in _OWN:
        kind, sql, text = _OWN[name]
        return Operand(name, kind, f"{row}.{sql}", text and f"{row}.{text}", CONVERSIONS[kind])
    column = table.by_name.get(name)
    if column is None:
        found = _path(table, name, arguments)
        return json_operand(name, found.sql.replace("(", f"({row}.", 1))
    if column.encrypted:
        return Operand(name, Kind.ENCRYPTED, f"{row}.{column.hash}", None, _hashed(column, arguments))
    plain = _plain(column)
    return plain._replace(sql=f"{row}.{plain.sql}", text=plain.text and f"{row}.{plain.text}", column=None)


def operand_column(table: TableSchema, name: str) -> str | None:
    """Return the field's name in access patterns; None if it does not exist or no B-tree can serve it."""
    name = normal_path(name)
    if name in _OWN:
        return None if name == "id" else name
    column = table.by_name.get(name)
    return None if column is None or KINDS[column.type] is Kind.JSON else str(column.number)


def json_operand(name: str, sql: str) -> Operand:
    """Return the operand of a JSON value, such as the target of a path."""
    text = f"(case when jsonb_typeof({sql}) = 'string' then {sql} #>> '{{}}' end collate \"C\")"
    return Operand(name, Kind.JSON, sql, text, CONVERSIONS[Kind.JSON])


def _path(table: TableSchema, name: str, arguments: Arguments) -> Operand:
    first, *rest = name.split(".")
    if len(rest) >= json.MAX_DEPTH:
        # No row is nested that deeply.
        raise unknown(table, name)
    if table.is_free_form:
        return _inside(name, Inside("__extra", EXTRA, [first, *rest]), arguments)
    column = table.by_name.get(first)
    if column is None or not rest or column.type is not ColumnType.OBJECT:
        raise unknown(table, name)
    if column.encrypted:
        raise EncryptedColumnError(first)
    return _inside(name, Inside(column.physical, str(column.number), rest), arguments)


def _inside(name: str, inside: Inside, arguments: Arguments) -> Operand:
    found = json_operand(name, f"({inside.sql} #> {arguments.bind(inside.path, 'text[]')})")
    # A number can be an array index or an object key.
    return found if any(map(_IS_INDEX.match, inside.path)) else found._replace(inside=inside)


def _hashed(column: Column, arguments: Arguments) -> Callable[[Json], bytes | None]:
    def convert(value: Json) -> bytes | None:
        if arguments.hash is None:
            raise EncryptedColumnError(column.name)
        fits = CONVERSIONS[KINDS[column.type]](value) is not None
        return arguments.hash(column, value) if fits else None

    return convert


def unknown(table: TableSchema, name: str) -> UnknownColumnError | ColumnNotReadableError:
    """Return the error about a column that the table does not have, or that the caller may not read."""
    if table.hidden and (first := name.partition(".")[0]) in table.hidden:
        return ColumnNotReadableError(first)
    return unknown_column(name, {*OWN_FIELDS, *table.by_name})


def text_array(names: Iterable[str]) -> str:
    """Return an array of columns' names, which have letters, digits and underscores only."""
    quoted = ", ".join(f"'{name}'" for name in sorted(names))
    return f"array[{quoted}]::text[]"


def is_number(value: Json) -> bool:
    """Return whether a decoded JSON value is a number."""
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def as_bigint(value: Json) -> int | None:
    """Return a number as a 64-bit integer, or None if it is not one."""
    if not is_number(value) or value != int(value) or int(value) not in _INT64:
        return None
    return int(value)


def _as_time(value: Json) -> str | None:
    moment = parse_rfc3339(value) if isinstance(value, str) else None
    return None if moment is None else moment.isoformat()


def parameter(kind: Kind, array: str = "") -> str:
    """Return the type with which values of a kind are bound; `array` is `[]` for a list of them."""
    # Moments are bound as text: asyncpg treats the first and last datetime as infinities.
    return f"text{array}::timestamptz{array}" if kind is Kind.TIME else kind + array


CONVERSIONS: dict[Kind, Callable[[Json], Any]] = {
    Kind.TEXT: lambda value: value if isinstance(value, str) else None,
    Kind.NUMERIC: lambda value: value if is_number(value) else None,
    Kind.BIGINT: as_bigint,
    Kind.BOOLEAN: lambda value: value if isinstance(value, bool) else None,
    Kind.TIME: _as_time,
    Kind.UUID: lambda value: UUID(value) if isinstance(value, str) and ids.is_uuid(value) else None,
    Kind.JSON: lambda value: None if value is None else json.encode(value).decode(),
}

CREATOR_OPERAND = Operand(CREATOR_NAME, Kind.TEXT, "__creator", None, CONVERSIONS[Kind.TEXT], CREATOR)
"""The member that created a row, for callers who may know it. Ids are compared for equality only."""
_OWN_OPERANDS = {
    # Rows always have an index on their ids.
    name: Operand(name, kind, sql, text, CONVERSIONS[kind], None if name == "id" else name)
    for name, (kind, sql, text) in _OWN.items()
}

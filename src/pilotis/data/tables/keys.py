"""Unique keys: columns whose values no two rows of a table may share, and the SQL about them. Pure.

The values are compared in expressions over the row's columns, which an index of PostgreSQL covers. Every statement that
asks for a key's rows uses the same expressions, so that the index serves it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec

from pilotis.kit.errors import BadRequestError, ConflictError, Detail

CREATOR_NUMBER = 0
"""In the place of a column: the member that created the row."""
CREATOR = "$creator"
MAX_KEYS, MAX_COLUMNS, MAX_TEXT_BYTES = 10, 8, 1000
_NAME = re.compile(r"u_[0-9a-f]{32}_(\d+)")

Json = Any


class UniqueKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A unique key: its columns by number, and which rows it covers.

    With `nulls` "distinct", a row that lacks one of the values is outside of it. `where` maps numbers of columns, as
    text, to the operators that a row of the key fulfils. A key that has `failed` is not enforced: `conflicts` rows were
    not unique, and `pairs` has the ids of some, two in a text.
    """

    number: int
    name: str
    columns: tuple[int, ...]
    ignore_case: bool = False
    nulls: Literal["distinct", "equal"] = "distinct"
    where: dict[str, dict[str, Json]] = {}
    state: Literal["ready", "building", "failed"] = "ready"
    conflicts: int = 0
    pairs: tuple[str, ...] = ()

    def names(self, column: int) -> bool:
        """Whether the key depends on a column."""
        return column in self.columns or str(column) in self.where


class Names(msgspec.Struct, frozen=True):
    """What a column is called in PostgreSQL: the expression by which a key compares it, and whether it is a text."""

    sql: str
    is_text: bool


class UniqueViolationError(ConflictError):
    """409 `UNIQUE_VIOLATION`: another row has the values of a unique key; `key` names it.

    `existing_id` is that row's id, where the caller may read it.
    """

    code = "UNIQUE_VIOLATION"

    def __init__(self, key: str, columns: Sequence[str], existing_id: str | None = None) -> None:
        listed = " and ".join(columns) if len(columns) < 3 else f"{', '.join(columns[:-1])} and {columns[-1]}"
        these = "this value" if len(columns) == 1 else "these values"
        text = f"{listed} must be unique: another row has {these}."
        fields = [f"data.{name}" if name != CREATOR else "data" for name in columns]
        super().__init__(text, details=[Detail(field, self.code, text) for field in fields])
        self.extra = {"key": key} | ({} if existing_id is None else {"existing_id": existing_id})


class UnknownKeyError(BadRequestError):
    """400 `UNKNOWN_KEY`: the table has no such unique key."""

    code = "UNKNOWN_KEY"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        has = f" It has {', '.join(known)}." if known else " It has none."
        super().__init__(f"The table has no unique key {name[:100]}.{has}")


class KeyNotReadyError(ConflictError):
    """409 `UNIQUE_KEY_NOT_READY`: the unique key is being built, or could not be."""

    code = "UNIQUE_KEY_NOT_READY"
    message = "This unique key is not built yet, or could not be built. The table's unique keys show its state."


def key_called(keys: Sequence[UniqueKey], name: str) -> UniqueKey:
    """Return the key of a name; raises `UnknownKeyError`, or `KeyNotReadyError` if it does not hold yet."""
    for key in keys:
        if key.name == name:
            if key.state != "ready":
                raise KeyNotReadyError
            return key
    raise UnknownKeyError(name, [key.name for key in keys])


def expressions(key: UniqueKey, columns: Mapping[int, Names], row: str = "") -> list[str]:
    """Return the expressions that a key compares, of the row that a statement calls `row`."""
    return [_expression(key, columns[number], row) for number in key.columns]


def _expression(key: UniqueKey, column: Names, row: str) -> str:
    plain = f"{row}.{column.sql}" if row else column.sql
    return f"pilotis.case_key({plain})" if key.ignore_case and column.is_text else plain


def covers(key: UniqueKey, columns: Mapping[int, Names], row: str = "") -> str:
    """Return the condition that a key covers a row; empty if it covers all."""
    parts = []
    for number, operators in key.where.items():
        column = columns[int(number)]
        plain = f"{row}.{column.sql}" if row else column.sql
        parts += [_condition(plain, name, value) for name, value in operators.items()]
    if key.nulls == "equal" and CREATOR_NUMBER in key.columns:
        parts.append(f"{row}.{columns[CREATOR_NUMBER].sql} is not null" if row else "__creator is not null")
    return " and ".join(parts)


def _condition(column: str, operator: str, value: Json) -> str:
    match operator:
        case "$eq":
            return f"{column} = {literal(value)}"
        case "$ne":
            return f"{column} is distinct from {literal(value)}"
        case "$in":
            return f"{column} in ({', '.join(map(literal, value))})"
        case "$nin":
            return f"({column} is null or {column} not in ({', '.join(map(literal, value))}))"
        case _:
            return f"{column} is {'' if value else 'not '}null"


def literal(value: Json) -> str:
    """Return a value as a literal of SQL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def equal(key: UniqueKey, columns: Mapping[int, Names], one: str, other: str) -> str:
    """Return the condition that two rows have the same values of a key, which covers both."""
    pairs = zip(expressions(key, columns, one), expressions(key, columns, other), strict=True)
    compared = [
        f"{a} = {b}" if key.nulls == "distinct" else f"({a} = {b} or {a} is null and {b} is null)" for a, b in pairs
    ]
    return " and ".join(filter(None, [*compared, covers(key, columns, one), covers(key, columns, other)]))


def create(
    key: UniqueKey, columns: Mapping[int, Names], table_hex: str, physical: str, *, concurrently: bool = False
) -> str:
    """Return the statement that creates a key's index."""
    where = covers(key, columns)
    nulls = " nulls not distinct" if key.nulls == "equal" else ""
    how = "concurrently " if concurrently else ""
    return (
        f"create unique index {how}{index_name(table_hex, key.number)} on {physical} "
        f"({', '.join(map(_in_parentheses, expressions(key, columns)))}){nulls}{f' where {where}' if where else ''}"
    )


def _in_parentheses(expression: str) -> str:
    return f"({expression})" if "(" in expression else expression


def duplicates(key: UniqueKey, columns: Mapping[int, Names], physical: str) -> str:
    """Return the query for the `total` of rows that are not unique, and the `pairs` of ids of five."""
    grouped = expressions(key, columns)
    missing = "" if key.nulls == "equal" else " and ".join(f"{one} is not null" for one in grouped)
    where = " and ".join(filter(None, [covers(key, columns), missing])) or "true"
    return f"""
        select coalesce(sum(rows), 0)::bigint as total, array_agg(pair order by pair) filter (where at <= 5) as pairs
        from (
            select count(*) - 1 as rows, row_number() over () as at,
                (array_agg(__id::text order by __id))[1] || ' ' || (array_agg(__id::text order by __id))[2] as pair
            from {physical} where {where} group by {", ".join(grouped)} having count(*) > 1
        ) same
    """


def index_name(table_hex: str, number: int) -> str:
    """Return the name of a key's index."""
    return f"u_{table_hex}_{number}"


def violated(message: str) -> int | None:
    """Return the number of the key whose index an error of PostgreSQL names; None if it names none.

    On Citus the name has the number of a shard behind it.
    """
    found = _NAME.search(message)
    return int(found[1]) if found else None

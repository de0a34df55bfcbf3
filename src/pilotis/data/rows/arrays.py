"""The rows of a bulk create as arrays, one for each column, in PostgreSQL's text form. Pure.

PostgreSQL reads them in two thirds of the time that a JSON object for each row takes, and msgspec writes a column as
one list, whose JSON is nearly the form of an array (PostgreSQL's documentation, section 8.15.6).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.data.tables.schema import ColumnType, TableSchema
from pilotis.data.tables.values import Row
from pilotis.kit import json

_NONE = "{}"
_NESTED = (ColumnType.OBJECT, ColumnType.ARRAY)
# Within quotes a backslash stands before what is itself: JSON's two other kinds of escapes are no escapes there.
_SHORT = ((b"\\n", b"\n"), (b"\\t", b"\t"), (b"\\r", b"\r"), (b"\\b", b"\b"), (b"\\f", b"\f"))
_BY_NUMBER = re.compile(rb"\\u00([01][0-9a-f])")


class NewRow(msgspec.Struct, gc=False):
    """A row to create: its id, and its fields."""

    row_id: str
    row: Row


def arguments(table: TableSchema, rows: Sequence[NewRow], creator: str | None) -> list[str | None]:
    """Return the values of `Statements.insert_arrays`: ids, the creator, fields that were set to null, then columns."""
    made = [one.row for one in rows]
    # An array that ends before the others is filled up with nulls.
    are_null = [json.encode(dict.fromkeys(row.nulls)).decode() if row.nulls else None for row in made]
    ids = ",".join([one.row_id for one in rows])
    found = [f"{{{ids}}}", creator, array(are_null) if any(are_null) else _NONE]
    fields = [row.fields for row in made]
    for column in table.columns:
        values = list(map(attrgetter(f"c{column.number}"), fields))
        found.append(array_of_json(values) if column.type in _NESTED else array(values))
        if column.has_time:
            found.append(array([row.moments.get(column.number) for row in made]))
    return found


def array(values: Sequence[Any]) -> str:
    """Return the array of texts, numbers, booleans and UUIDs; what is absent or None is null in it."""
    data = json.encode(_given(values))
    if b"\\" in data:
        # Backslashes come in pairs only where they stand for themselves: what is between them has whole escapes.
        data = b"\\\\".join(map(_with_characters, data.split(b"\\\\")))
    return f"{{{data[1:-1].decode()}}}"


def array_of_json(values: Sequence[Any]) -> str:
    """Return the array of the JSON of objects and lists; what is absent or None is null in it."""
    if not values:
        return _NONE
    # No text in JSON has a line break as it is.
    lines = json.encoder.encode_lines(_given(values))[:-1]
    quoted = lines.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b'","')
    return f'{{"{quoted.decode()}"}}'.replace('"null"', "null")


def _given(values: Sequence[Any]) -> Sequence[Any]:
    # A value is compared with `UNSET` at many times the cost of a look at its type.
    if UnsetType in set(map(type, values)):
        return [None if value is UNSET else value for value in values]
    return values


def _with_characters(data: bytes) -> bytes:
    """Return JSON with the characters in place of the escapes that stand for them, but for quotes and backslashes."""
    if b"\\" not in data:
        return data
    for escape, character in _SHORT:
        data = data.replace(escape, character)
    return _BY_NUMBER.sub(lambda found: bytes([int(found[1], 16)]), data)

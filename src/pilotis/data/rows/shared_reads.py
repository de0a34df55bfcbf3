"""One statement that reads or creates rows for several callers, each by the caller's own values in one rule. Pure.

The rules of callers of one kind differ in their values alone, so that the statement for one of them is that of all. Its
values become members of a record, and a list of such records is read at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pilotis.kit import json

_PLACE = re.compile(r"\$(\d+)(?:::([a-z]+(?:\[\])?))?")
# What JSON says as PostgreSQL reads it.
_TYPES = frozenset({"text", "text[]", "uuid", "uuid[]", "timestamptz", "boolean", "bigint", "numeric"})
_VALUES = (str, UUID, bool, int, datetime)
_TEXT = re.compile(r"'(?:[^']|'')*'")


def shared(select: str, places: Sequence[str]) -> str | None:
    """Return the statement that does for the records of `$1` what `select`, of one row, does for its parameters.

    `$1` there is the id of the row, and `places` are the typed placeholders of its other values. It returns the rows
    that it finds with the number of the record, from 1. None where a value has no form in a record.
    """
    typed = _members(places)
    if typed is None:
        return None
    members = ", ".join(["__v1 uuid", *typed])
    one = _PLACE.sub(lambda found: f"asked.__v{found[1]}", select)
    source = f"rows from (json_to_recordset($1::json) as ({members})) with ordinality asked"
    names = ", ".join(["__v1", *(member.partition(" ")[0] for member in typed)])
    return f"select __at, __item from {source} ({names}, __at) cross join lateral ({one}) found (__item)"


@functools.lru_cache(maxsize=500)
def shared_query(sql: str, places: tuple[str, ...]) -> str | None:
    """Return the statement that answers, for each list of values in `$1`, what `sql`, which returns one row, answers.

    `places` are the typed placeholders of its values, from `$1` on. It returns the number of the list, from 1, and the
    columns of the row. None where a value has no form in a list, or where a text in the statement, such as a field's
    name, looks like a placeholder.
    """
    members = _members(places)
    is_plain = "$" not in _PLACE.sub("", sql) and {one[0] for one in _PLACE.finditer(sql)} <= set(places)
    if not members or not is_plain or any("$" in text for text in _TEXT.findall(sql)):
        return None
    one = _PLACE.sub(lambda found: f"asked.__v{found[1]}", sql)
    names = ", ".join(member.partition(" ")[0] for member in members)
    source = f"rows from (json_to_recordset($1::json) as ({', '.join(members)})) with ordinality asked"
    return f"select asked.__at::int, found.* from {source} ({names}, __at) cross join lateral ({one}) found"


def of_records(condition: str, places: Sequence[str], row: str) -> tuple[str, list[str]] | None:
    """Return a condition that reads its values from the record that a statement calls `row`, and their members.

    These are names and types. `places` are the condition's typed placeholders, from `$2` on. None where a value has no
    form in a record.
    """
    members = _members(places)
    return None if members is None else (_PLACE.sub(lambda found: f"{row}.__v{found[1]}", condition), members)


def record(values: Sequence[Any]) -> bytes | None:
    """Return the members of a caller's values, and the brace behind them, which end a record; see `with_id`."""
    if not all(_is_plain(value) for value in values):
        return None
    return b"".join(b',"__v%d":%b' % (number, json.encode(value)) for number, value in enumerate(values, 2)) + b"}"


def values(values: Sequence[Any]) -> bytes | None:
    """Return the values of a query as one of the lists of `shared_query`; None where one has no form there."""
    if not all(_is_plain(value) for value in values):
        return None
    return b"{%b}" % b",".join([b'"__v%d":%b' % (number, json.encode(value)) for number, value in enumerate(values, 1)])


def with_id(row_id: str, rest: bytes) -> bytes:
    """Return the record of a caller who asks for a row, by its id as a UUID's text."""
    return b'{"__v1":"%b"%b' % (row_id.encode(), rest)


def _members(places: Sequence[str]) -> list[str] | None:
    """Return the names and types of the members that stand for placeholders; None where one has no form in a record."""
    found = [_PLACE.fullmatch(place) for place in places]
    if not all(one is not None and one[2] in _TYPES for one in found):
        return None
    return [f"__v{one[1]} {one[2]}" for one in found if one is not None]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, _VALUES) for one in value)
    return isinstance(value, _VALUES)

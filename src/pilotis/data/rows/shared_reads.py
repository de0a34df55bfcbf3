"""One statement that reads rows for several callers, each by the caller's own values in one rule. Pure.

The rules of callers of one kind differ in their values alone, so that the statement for one of them is that of all. Its
values become members of a record, and a list of such records is read at once.
"""

from __future__ import annotations

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


def shared(select: str, places: Sequence[str]) -> str | None:
    """Return the statement that does for the records of `$1` what `select`, of one row, does for its parameters.

    `$1` there is the id of the row, and `places` are the typed placeholders of its other values. It returns the rows
    that it finds with the number of the record, from 1. None where a value has no form in a record.
    """
    types = {"1": "uuid"}
    for place in places:
        found = _PLACE.fullmatch(place)
        if found is None or found[2] not in _TYPES:
            return None
        types[found[1]] = found[2]
    members = ", ".join(f"__v{number} {type_}" for number, type_ in types.items())
    one = _PLACE.sub(lambda found: f"asked.__v{found[1]}", select)
    source = f"rows from (json_to_recordset($1::json) as ({members})) with ordinality asked"
    names = ", ".join(f"__v{number}" for number in types)
    return f"select __at, __item from {source} ({names}, __at) cross join lateral ({one}) found (__item)"


def record(values: Sequence[Any]) -> bytes | None:
    """Return the record of a caller's values, but for that of the row's id and the brace before it; see `with_id`."""
    if not all(_is_plain(value) for value in values):
        return None
    return b"".join(b',"__v%d":%b' % (number, json.encode(value)) for number, value in enumerate(values, 2)) + b"}"


def with_id(row_id: str, rest: bytes) -> bytes:
    """Return the record of a caller who asks for a row, by its id as a UUID's text."""
    return b'{"__v1":"%b"%b' % (row_id.encode(), rest)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, _VALUES) for one in value)
    return isinstance(value, _VALUES)

"""`{"$ref": n}` in a transaction: the id of the row that operation `n` creates. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pilotis.kit import json
from pilotis.kit.errors import BadRequestError

Made = Sequence[str | None]
"""The id of the row that each operation so far creates, None for other operations."""

Json = Any


class InvalidReferenceError(BadRequestError):
    """400: `$ref` does not name an earlier operation that creates a row."""

    code = "INVALID_REFERENCE"
    message = "$ref must be the index of an earlier operation of type create, in a transaction."


def with_references(data: msgspec.Raw, made: Made) -> msgspec.Raw:
    """Return a row's data with references replaced by ids, at any depth; raises `InvalidReferenceError`."""
    raw = bytes(data)
    # Any letter of the name may be escaped.
    if b"$ref" not in raw and b"\\" not in raw:
        return data
    return msgspec.Raw(json.encode(_replaced(json.decode(raw), made)))


def where_with_references(where: dict[str, Json] | None, made: Made) -> dict[str, Json] | None:
    """Return a condition with references replaced by ids; raises `InvalidReferenceError`."""
    replaced: dict[str, Json] | None = _replaced(where, made)
    return replaced


def reference(value: dict[str, Json], made: Made) -> str:
    """Return the id for a reference; raises `InvalidReferenceError`."""
    index = value.get("$ref")
    if len(value) == 1 and type(index) is int and 0 <= index < len(made):
        row_id = made[index]
        if row_id is not None:
            return row_id
    raise InvalidReferenceError


def _replaced(value: Json, made: Made) -> Json:
    if isinstance(value, dict):
        if value.keys() == {"$ref"}:
            return reference(value, made)
        return {name: _replaced(item, made) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, made) for item in value]
    return value

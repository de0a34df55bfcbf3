"""`{"$ref": n}` in a transaction: the id of the row that operation `n` makes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pilotis.kit import json
from pilotis.kit.errors import BadRequestError

Made = Sequence[str | None]
"""For each operation so far the id of the row that it makes, None where it makes none."""

Json = Any


class InvalidReferenceError(BadRequestError):
    """400: `$ref` names no earlier operation that makes a row."""

    code = "INVALID_REFERENCE"
    message = "$ref must be the index of an earlier operation of type create, in a transaction."


def with_references(data: msgspec.Raw, made: Made) -> msgspec.Raw:
    """Return a row's data with ids in place of references, at any depth; raises `InvalidReferenceError`."""
    raw = bytes(data)
    # An escape may stand for any letter of the name.
    if b"$ref" not in raw and b"\\" not in raw:
        return data
    return msgspec.Raw(json.encode(_replaced(json.decode(raw), made)))


def reference(value: dict[str, Json], made: Made) -> str:
    """Return the id that one reference stands for; raises `InvalidReferenceError`."""
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

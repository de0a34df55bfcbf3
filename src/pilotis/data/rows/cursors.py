"""Cursors: the place in a walk through a table's rows after which the next page begins. Pure.

A walk is stateless: a cursor holds the sort value and the id of the last row that was told, with its exact digits, and
is bound to the table, the order and the request. It is not signed, since it gives nothing that a condition would not.
A row that exists and keeps its sort value is told exactly once, whatever else is written meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.kit import json
from pilotis.kit.errors import BadRequestError

FIRST = "first"
"""What a request sends for the first page of a walk."""
MAX_VALUE_BYTES = 500
"""Sort values whose text is longer are left out of the cursor, and read again by the row's id."""

_VERSION = 1
_BINDING = 8
_HEAD = 1 + _BINDING + 1 + 16


class InvalidCursorError(BadRequestError):
    """400 `INVALID_CURSOR`: the cursor is damaged, or of another table, order or request."""

    code = "INVALID_CURSOR"
    message = "This cursor is of another request: send next_cursor unchanged, with the same where, order and fields."


class CursorExpiredError(BadRequestError):
    """400 `CURSOR_EXPIRED`: the row at which the walk stands is gone, and its sort value is too long for the cursor."""

    code = "CURSOR_EXPIRED"
    message = "The row at which the last page ended is gone. Begin again with the cursor first."


class Sorted(enum.IntEnum):
    """What a cursor knows of the sort value of its row."""

    BY_ID = 0
    """Rows are sorted by their ids, so there is none."""
    VALUE = 1
    NULL = 2
    LONG = 3
    """It is too long."""


class Cursor(NamedTuple):
    """The last row that was told: its id, and its sort value as the database writes it."""

    sorted: Sorted
    row_id: UUID
    value: str = ""


def binding(*request: Any) -> bytes:
    """Return what binds a cursor to a table, an order and a request; each is a JSON value."""
    return hashlib.sha256(json.encode(request)).digest()[:_BINDING]


def encode(bound_to: bytes, cursor: Cursor) -> str:
    """Return a cursor's text: base64url without padding (RFC 4648, section 5)."""
    head = bytes([_VERSION]) + bound_to + bytes([cursor.sorted]) + cursor.row_id.bytes
    return base64.urlsafe_b64encode(head + cursor.value.encode()).rstrip(b"=").decode()


def decode(bound_to: bytes, text: str, *, by_id: bool) -> Cursor:
    """Return the cursor of a text; `by_id` says that rows are sorted by id.

    Raises `InvalidCursorError` if it is not one of this request.
    """
    try:
        # Python ignores characters that are not of the alphabet, so what is decoded is compared as well.
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        read = Cursor(Sorted(data[_HEAD - 17]), UUID(bytes=data[_HEAD - 16 : _HEAD]), data[_HEAD:].decode())
    except (binascii.Error, ValueError, IndexError):
        raise InvalidCursorError from None
    fits = (read.sorted is Sorted.BY_ID) == by_id and (read.sorted is Sorted.VALUE or not read.value)
    if encode(bound_to, read) != text or not fits or "\0" in read.value:
        raise InvalidCursorError
    return read

"""Cursors: the place in a walk through a table's rows after which the next page begins. Pure.

A walk is stateless: a cursor holds the sort values and the id of the last row that was told, with their exact digits,
and is bound to the table, the order and the request. It is not signed, since it gives nothing that a condition would
not. A row that exists and keeps its sort values is told exactly once, whatever else is written meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple
from uuid import UUID

from pilotis.kit import json
from pilotis.kit.errors import BadRequestError

FIRST = "first"
"""What a request sends for the first page of a walk."""
MAX_VALUE_BYTES = 500
"""Of sort values whose text is longer the cursor has a digest; they are read again by the row's id."""

_VERSION = 1
_BINDING = 8
_DIGEST = 16
_SEPARATOR = "\0"


class InvalidCursorError(BadRequestError):
    """400 `INVALID_CURSOR`: the cursor is damaged, or of another table, order or request."""

    code = "INVALID_CURSOR"
    message = "This cursor is of another request: send next_cursor unchanged, with the same where, order and fields."


class CursorExpiredError(BadRequestError):
    """400 `CURSOR_EXPIRED`: the row at which the walk stands has gone or changed, and its sort value is too long."""

    code = "CURSOR_EXPIRED"
    message = "The row at which the last page ended is gone, or was changed. Begin again with the cursor first."


class Sorted(enum.IntEnum):
    """What a cursor knows of a sort value of its row."""

    BY_ID = 0
    """Rows are sorted by their ids alone, so there is none."""
    VALUE = 1
    NULL = 2
    LONG = 3
    """It is too long."""


class Long(NamedTuple):
    """The digest of a sort value that is too long for a cursor, by which a walk knows that its row was not moved."""

    digest: str


SortValue = str | Long | Literal[Sorted.NULL]
"""A sort value as the database writes it, or what a cursor has in its place."""


class Cursor(NamedTuple):
    """The last row that was told: its id, and its value of each sort key."""

    row_id: UUID
    values: tuple[SortValue, ...] = ()


def digest_of(text: str) -> str:
    """Return the SQL of the digest of a long sort value, whose text is a SQL expression."""
    return f"left(encode(sha256(convert_to({text}, 'UTF8')), 'hex'), {_DIGEST})"


def shortened(text: str) -> str:
    """Return the SQL of what `sort_value` reads: a text, or the beginning of a long one with its digest behind."""
    is_long = f"octet_length({text}) > {MAX_VALUE_BYTES}"
    return f"case when {is_long} then left({text}, {MAX_VALUE_BYTES + 1}) || {digest_of(text)} else {text} end"


def sort_value(text: str | None) -> SortValue:
    """Return what a cursor holds of a sort value, as `shortened` selects it."""
    if text is None:
        return Sorted.NULL
    return Long(text[-_DIGEST:]) if len(text.encode()) > MAX_VALUE_BYTES else text


def binding(*request: Any) -> bytes:
    """Return what binds a cursor to a table, an order and a request; each is a JSON value."""
    return hashlib.sha256(json.encode(request)).digest()[:_BINDING]


def encode(bound_to: bytes, cursor: Cursor) -> str:
    """Return a cursor's text: base64url without padding (RFC 4648, section 5)."""
    kinds = bytes(map(_kind, cursor.values))
    # No text of PostgreSQL contains the character that separates them.
    texts = (value.digest if isinstance(value, Long) else value for value in cursor.values if value is not Sorted.NULL)
    values = _SEPARATOR.join(texts)
    data = bytes([_VERSION]) + bound_to + (kinds or bytes([Sorted.BY_ID])) + cursor.row_id.bytes + values.encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(bound_to: bytes, text: str, keys: int) -> Cursor:
    """Return the cursor of a text; `keys` is the number of sort keys, 0 where rows are sorted by id alone.

    Raises `InvalidCursorError` if it is not one of this request.
    """
    head = 1 + _BINDING + max(keys, 1)
    try:
        # Python ignores characters that are not of the alphabet, so what is decoded is compared as well.
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        row_id = UUID(bytes=data[head : head + 16])
        texts = iter(data[head + 16 :].decode().split(_SEPARATOR))
        read = Cursor(row_id, tuple(_read(kind, texts) for kind in data[1 + _BINDING : head] if keys))
    except (binascii.Error, ValueError):
        raise InvalidCursorError from None
    if encode(bound_to, read) != text:
        raise InvalidCursorError
    return read


def _kind(value: SortValue) -> Sorted:
    if isinstance(value, Long):
        return Sorted.LONG
    return Sorted.VALUE if isinstance(value, str) else value


def _read(kind: int, texts: Iterator[str]) -> SortValue:
    match Sorted(kind):
        case Sorted.VALUE:
            return next(texts, "")
        case Sorted.NULL:
            return Sorted.NULL
        case Sorted.LONG:
            return Long(next(texts, ""))
        case Sorted.BY_ID:
            raise ValueError

"""A row's record: the JSON object that the insert statement reads, with internal members and the user's fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from pilotis.data.rows.emitting import Cause
from pilotis.data.tables.schema import TableSchema, normal_path
from pilotis.data.tables.values import Row
from pilotis.kit import json
from pilotis.kit.errors import PayloadTooLargeError

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class RowTooLargeError(PayloadTooLargeError):
    """413 `ROW_TOO_LARGE`: the row's data is larger than a row may be."""

    code = "ROW_TOO_LARGE"


# Escaping doubles the length of a text in UTF-8, except for ASCII, which clients do not escape.
MAX_RAW_FACTOR = 3
"""How many times as long as its stored form the JSON of a row may be."""
# 1E-999 becomes a thousand bytes.
_MAX_GROWTH = 200
_EXPONENT = re.compile(rb"\dE[+-](\d{2,3})")
BESIDE_DATA = len('{"id":"","data":,"created_at":"","updated_at":""}') + 36 + 2 * 24
"""The bytes of an item's JSON in addition to its data: an id, two times, and the syntax around them."""


_MOMENT_BYTES = len(',"":"2026-01-31T12:00:00.000Z"')


def too_large(max_bytes: int) -> RowTooLargeError:
    """Return the error for a row whose data has more than `max_bytes` bytes of JSON."""
    return RowTooLargeError(f"A row has at most {max_bytes} bytes of JSON.")


def check_raw_size(data: msgspec.Raw, max_bytes: int) -> None:
    """Raise `RowTooLargeError` for a row far above `max_bytes` bytes, before it is decoded.

    Escapes and white space make JSON longer than what is stored; they do not count.
    """
    raw = memoryview(data)
    if (
        len(raw) > MAX_RAW_FACTOR * max_bytes
        and len(bytes(raw).translate(None, b" \t\r\n")) > MAX_RAW_FACTOR * max_bytes
    ):
        raise too_large(max_bytes)


def check_size(row: Row, max_bytes: int) -> None:
    """Raise `RowTooLargeError` for a row whose data has more than `max_bytes` bytes of JSON.

    Numbers count as PostgreSQL will write them, without exponents: 1e-300 has 302 digits.
    """
    if is_too_large(row, max_bytes):
        raise too_large(max_bytes)


def is_too_large(row: Row, max_bytes: int) -> bool:
    """Return whether a row has more than `max_bytes` bytes of JSON, as `check_size` counts them."""
    size = len(row.data)
    if row.now:
        size += sum(len(column.name) * 4 + _MOMENT_BYTES for column in row.now)
    if size * _MAX_GROWTH <= max_bytes:
        return False
    # A row that is too large in any case is not searched for exponents, which is slow.
    if size <= max_bytes and b"E" in row.data:
        size += sum(map(int, _EXPONENT.findall(row.data)))
    return size > max_bytes


def record(table: TableSchema, row_id: str, creator: str | None, row: Row, cause: Cause | None = None) -> bytes:
    """Return the record of a new row; `cause` is set if the table emits events for new rows."""
    own = b'{"__id":"%b"' % row_id.encode()
    if cause is not None:
        own = b",".join([own, *cause.members()])
    if creator is not None:
        own += b',"__creator":' + json.encode(creator)
    if table.is_free_form:
        return b'%b,"__extra":%b}' % (own, row.data)
    if row.nulls:
        own += b',"__extra":' + json.encode(dict.fromkeys(row.nulls))
    if row.moments or row.hashes:
        own += _derived(row)
    return b"%b,%b" % (own, row.data[1:]) if len(row.data) > 2 else own + b"}"


def change(row: Row) -> bytes:
    """Return the record of a partial row: the given columns with their moments."""
    members = _derived(row)
    if len(row.data) > 2:
        members += b"," + row.data[1:-1]
    return b"{%b}" % members[1:]


def _derived(row: Row) -> bytes:
    """Return the members that follow from a row's values, each with a leading comma."""
    members = b""
    for number, moment in row.moments.items():
        members += b',"__t%d":"%b"' % (number, moment.encode())
    for number, hash_ in row.hashes.items():
        members += b',"__h%d":"%b"' % (number, hash_.encode())
    return members


def created_by(creator: str | None) -> bytes:
    """Return the member of a row's JSON that names its creator, with a leading comma."""
    return b',"created_by":' + json.encode(creator)


def names_in(data: msgspec.Raw) -> list[str]:
    """Return the names of the fields that a request gives, those of defaults excluded."""
    return [normal_path(name) for name in _fields(bytes(data))]


def shown(row: Row, hidden: Collection[str]) -> Row:
    """Return a row without the fields that the caller may not read."""
    if not hidden:
        return row
    fields = row.fields
    names = zip(fields.__struct_fields__, fields.__struct_encode_fields__, strict=True)
    kept = msgspec.structs.replace(fields, **{key: msgspec.UNSET for key, name in names if name in hidden})
    now = [column for column in row.now if column.name not in hidden]
    return msgspec.structs.replace(row, fields=kept, data=json.encode(kept), now=now)


_ITEM = b'{"id":"%b","data":%b,"created_at":"%b"%b,"updated_at":"%b"}'


def item(row_id: str, row: Row, created: str, creator: bytes = b"") -> bytes:
    """Return the JSON of a new row; `created` is the time in the format of answers, `creator` from `created_by`."""
    moment = created.encode()
    return _ITEM % (row_id.encode(), json.plain_numbers(row.at(created)), moment, creator, moment)


def items(rows: Iterable[tuple[str, Row]], created: str, creator: bytes) -> bytes:
    """Return the JSON of many new rows, each with its id, with commas between them; the rest as for `item`."""
    moment = created.encode()
    end = b',"created_at":"%b"%b,"updated_at":"%b"}' % (moment, creator, moment)
    texts = [b'{"id":"%b","data":%b%b' % (row_id.encode(), row.at(created), end) for row_id, row in rows]
    return json.plain_numbers(b",".join(texts))

"""A row's record: the JSON object that the insert statement reads, with Pilotis' own members beside the user's."""

from __future__ import annotations

import re

from pilotis.kit import json
from pilotis.kit.errors import PayloadTooLargeError
from pilotis.tables.schema import TableSchema
from pilotis.tables.values import Row


class RowTooLargeError(PayloadTooLargeError):
    """413 `ROW_TOO_LARGE`: the row's data is larger than a row may be."""

    code = "ROW_TOO_LARGE"


_EXPONENT = re.compile(rb"\dE[+-](\d{2,3})")
BESIDE_DATA = len('{"id":"","data":,"created_at":"","updated_at":""}') + 36 + 2 * 24
"""Bytes of an item's JSON that are not its data: an id, two times, and what frames them."""


def too_large(most: int) -> RowTooLargeError:
    """Return the error about a row whose data has more than `most` bytes of JSON."""
    return RowTooLargeError(f"A row has at most {most} bytes of JSON.")


def check_size(row: Row, most: int) -> None:
    """Raise `RowTooLargeError` for a row whose data has more than `most` bytes of JSON.

    Numbers count as PostgreSQL will write them, without exponents: 1e-300 has 302 digits.
    """
    size = len(row.data)
    if b"E" in row.data:
        size += sum(map(int, _EXPONENT.findall(row.data)))
    if size > most:
        raise too_large(most)


def record(table: TableSchema, row_id: str, creator: str | None, row: Row) -> bytes:
    """Return the record of a new row."""
    own = [b'"__id":"' + row_id.encode() + b'"']
    if creator is not None:
        own.append(b'"__creator":' + json.encode(creator))
    if table.is_free_form:
        own.append(b'"__extra":' + row.data)
        return b"{" + b",".join(own) + b"}"
    if row.nulls:
        own.append(b'"__extra":' + json.encode(dict.fromkeys(row.nulls)))
    own.extend(_derived(row))
    if len(row.data) > 2:
        own.append(row.data[1:-1])
    return b"{" + b",".join(own) + b"}"


def change(row: Row) -> bytes:
    """Return the record of a partial row: its given columns with their moments."""
    members = _derived(row)
    if len(row.data) > 2:
        members.append(row.data[1:-1])
    return b"{" + b",".join(members) + b"}"


def _derived(row: Row) -> list[bytes]:
    moments = [b'"__t%d":"%b"' % (number, moment.encode()) for number, moment in row.moments.items()]
    return moments + [b'"__h%d":"%b"' % (number, hash_.encode()) for number, hash_ in row.hashes.items()]


def item(row_id: str, row: Row, created: str) -> bytes:
    """Return the JSON of a row that was just made; `created` is the moment as it reads in answers."""
    moment = created.encode()
    return b'{"id":"%b","data":%b,"created_at":"%b","updated_at":"%b"}' % (row_id.encode(), row.data, moment, moment)

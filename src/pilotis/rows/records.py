"""A row's record: the JSON object that the insert statement reads, with Pilotis' own members beside the user's."""

from __future__ import annotations

from pilotis.kit import json
from pilotis.kit.errors import PayloadTooLargeError
from pilotis.tables.schema import TableSchema
from pilotis.tables.values import Row


class RowTooLargeError(PayloadTooLargeError):
    """413 `ROW_TOO_LARGE`: the row's data is larger than a row may be."""

    code = "ROW_TOO_LARGE"


def check_size(row: Row, most: int) -> None:
    """Raise `RowTooLargeError` for a row whose data has more than `most` bytes of JSON."""
    if len(row.data) > most:
        raise RowTooLargeError(f"A row has at most {most} bytes of JSON.")


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
    own.extend(b'"__t%d":"%b"' % (number, moment.encode()) for number, moment in row.moments.items())
    if len(row.data) > 2:
        own.append(row.data[1:-1])
    return b"{" + b",".join(own) + b"}"


def change(row: Row) -> bytes:
    """Return the record of a partial row: its given columns with their moments."""
    moments = [b'"__t%d":"%b"' % (number, moment.encode()) for number, moment in row.moments.items()]
    members = [*moments, row.data[1:-1]] if len(row.data) > 2 else moments
    return b"{" + b",".join(members) + b"}"


def item(row_id: str, row: Row, created: str) -> bytes:
    """Return the JSON of a row that was just made; `created` is the moment as it reads in answers."""
    moment = created.encode()
    return b'{"id":"%b","data":%b,"created_at":"%b","updated_at":"%b"}' % (row_id.encode(), row.data, moment, moment)

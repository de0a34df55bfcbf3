"""The rows of a bulk create: each checked by itself, so that the valid ones are created and the others reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from pilotis.data.rows import arrays, records
from pilotis.data.rows.arrays import NewRow
from pilotis.data.rows.emitting import CREATED
from pilotis.data.rows.operations import cause_of, writer_of
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import BulkFailure
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.generated import Writer
from pilotis.data.tables.values import Row
from pilotis.http.api.principals import Principal
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, Detail, PilotisError, invalid
from pilotis.kit.ids import uuid7_texts
from pilotis.limits import Limits


class NothingCreatedError(BadRequestError):
    """400: no row of a bulk create could be created; `details` gives the reason for each row."""

    code = "NOTHING_CREATED"
    message = "None of the rows could be created."


Decoded: TypeAlias = tuple[list[NewRow], list[BulkFailure]]
"""The valid rows, and the errors of the others."""


def new_rows(
    principal: Principal,
    table: PreparedTable,
    visible: Visibility,
    data: msgspec.Raw,
    first_id: str | None,
    limits: Limits,
) -> Decoded:
    """Return the valid rows of a JSON array, and the errors of the others. If an id is given, the first row gets it.

    Raises `NothingCreatedError` if none is valid, and `ValidationError` for too few or too many rows.
    """
    decoded, failed = _decoded(table, visible, data, writer_of(principal), limits)
    ids = uuid7_texts(len(decoded))
    if first_id is not None:
        ids[0] = first_id
    return [NewRow(row_id, row) for row, row_id in zip(decoded, ids, strict=True) if row is not None], failed


def new_arrays(
    table: PreparedTable, decode: Callable[[], Decoded], creator: str | None
) -> tuple[list[NewRow], list[BulkFailure], list[str | None]]:
    """Return what `new_rows` does, which `decode` calls, and the arrays of the valid rows."""
    rows, failed = decode()
    return rows, failed, arrays.arguments(table.schema, rows, creator)


def new_records(
    principal: Principal, table: PreparedTable, decode: Callable[[], Decoded], creator: str | None
) -> tuple[list[NewRow], list[BulkFailure], list[bytes]]:
    """Return what `new_rows` does, which `decode` calls, and the records of the valid rows, their stored form."""
    rows, failed = decode()
    cause = cause_of(principal) if CREATED in table.schema.emits else None
    made = [
        records.record(table.schema, one.row_id, creator, table.encrypted(one.row, one.row_id), cause) for one in rows
    ]
    return rows, failed, made


def failed_apart(
    rows: Sequence[NewRow], failed: Sequence[BulkFailure], errors: Mapping[str, PilotisError]
) -> tuple[list[NewRow], list[BulkFailure]]:
    """Return the rows that were created, and the failures with those that were not, by their ids; both in order."""
    if not errors:
        return list(rows), list(failed)
    before = {failure.index for failure in failed}
    places = [index for index in range(len(rows) + len(failed)) if index not in before]
    refused = [
        BulkFailure(index=index, code=error.code, message=error.text, **error.extra)
        for index, row in zip(places, rows, strict=True)
        if (error := errors.get(row.row_id)) is not None
    ]
    made = [row for row in rows if row.row_id not in errors]
    if not made:
        details = [Detail(f"data[{failure.index}]", failure.code, failure.message) for failure in refused]
        raise NothingCreatedError(details=details)
    return made, sorted([*failed, *refused], key=lambda failure: failure.index)


def as_shown(rows: Sequence[NewRow], hidden: frozenset[str], shown: Mapping[str, Collection[str]]) -> list[NewRow]:
    """Return the rows without the columns that are hidden from their creator, but for those that each row shows."""
    return [
        msgspec.structs.replace(one, row=records.shown(one.row, hidden.difference(shown.get(one.row_id, ()))))
        for one in rows
    ]


def bulk_result(rows: Sequence[NewRow], failed: Sequence[BulkFailure], created: str, created_by: bytes) -> bytes:
    """Return the JSON of the result of a bulk create at the time `created`; `created_by` is a member of each row."""
    made = records.items([(row.row_id, row.row) for row in rows], created, created_by)
    tail = b',"failed":' + json.encode(failed) if failed else b""
    return b'{"created":[%b],"total":%d,"success":%d%b}' % (made, len(rows) + len(failed), len(rows), tail)


def _decoded(
    table: PreparedTable, visible: Visibility, data: msgspec.Raw, writer: Writer, limits: Limits
) -> tuple[Sequence[Row | None], list[BulkFailure]]:
    """Return the rows, None in place of each invalid one, and the errors."""
    if not visible.closed and len(memoryview(data)) <= records.MAX_RAW_FACTOR * limits.row_bytes:
        found = table.new_rows.decode_list(data, writer)
        if (
            found
            and len(found) <= limits.bulk_rows
            and not any(records.is_too_large(row, limits.row_bytes) for row in found)
        ):
            return found, []
    return _decoded_singly(table, visible, list_of_rows(data, limits.bulk_rows), writer, limits.row_bytes)


def _decoded_singly(
    table: PreparedTable, visible: Visibility, items: Sequence[msgspec.Raw], writer: Writer, max_bytes: int
) -> tuple[Sequence[Row | None], list[BulkFailure]]:
    rows: list[Row | None] = []
    failed: list[BulkFailure] = []
    details: list[Detail] = []
    for index, item in enumerate(items):
        try:
            records.check_raw_size(item, max_bytes)
            row = table.new_rows.decode(item, writer)
            if visible.closed:
                visible.require_settable(records.names_in(item))
            records.check_size(row, max_bytes)
        except PilotisError as error:
            error.within(f"data[{index}]")
            failed.append(BulkFailure(index=index, code=error.code, message=error.text))
            details += error.details or [Detail(f"data[{index}]", error.code, error.text)]
            rows.append(None)
        else:
            rows.append(row)
    if len(failed) == len(rows):
        raise NothingCreatedError(details=details)
    return rows, failed


def list_of_rows(data: msgspec.Raw, limit: int) -> list[msgspec.Raw]:
    """Return the rows of a list, not decoded; raises `ValidationError` for too few or too many."""
    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise invalid("data", "data must be a list of objects.") from None
    if not items:
        raise invalid("data", "data is an empty list; send at least one row.")
    if len(items) > limit:
        raise invalid("data", f"At most {limit} rows are created in one request.", "TOO_MANY_ROWS")
    return items

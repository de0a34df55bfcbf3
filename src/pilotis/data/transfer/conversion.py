"""Converts a file's records to rows of a table, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from pilotis.data.rows.bulk.types import NewRow, StoredRow
from pilotis.data.tables.schema import ColumnType, TableSchema
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.transfer.formats import MalformedRecordError, Record, json_of_fields
from pilotis.data.transfer.inference import column_names
from pilotis.kit import json
from pilotis.kit.errors import Detail, MalformedJsonError, PilotisError, invalid

CREATOR = "__creator"
OWN_FIELDS = ("__id", CREATOR, "__created_at", "__updated_at")
_LONGEST_MEMBER_ID = 64

_fields = json.decoder(dict[str, msgspec.Raw])


class CsvRows:
    """Converts CSV records under a header to rows."""

    def __init__(self, header: Sequence[str], *, own_fields: bool) -> None:
        self._header = header
        self._own_fields = own_fields
        self._planned: tuple[TableSchema, _Plan] | None = None

    def check(self, schema: TableSchema) -> None:
        """Raise `UnknownColumnError` if the header has names of columns that do not exist."""
        names = self._plan(schema).names
        if schema.is_free_form:
            return
        own = OWN_FIELDS if self._own_fields else ()
        pairs = zip(self._header, names, strict=True)
        if unknown := [given for given, name in pairs if name not in schema.by_name and name not in own]:
            details = [Detail(name, "UNKNOWN_COLUMN", f"The table has no column {name}.") for name in unknown]
            raise UnknownColumnError(
                f"The header has names that are not columns: {', '.join(unknown)}.", details=details
            )

    def new_row(self, schema: TableSchema, record: Record) -> NewRow:
        """Return the row of a record; raises a 400 error."""
        if record.error is not None:
            raise record.error
        plan = self._plan(schema)
        data = json_of_fields(plan.names, plan.types, record.fields)
        return _without_own_fields(data) if self._own_fields else NewRow(data)

    def _plan(self, schema: TableSchema) -> _Plan:
        if self._planned is None or self._planned[0] is not schema:
            self._planned = schema, _plan(schema, self._header, self._own_fields)
        return self._planned[1]


class _Plan(NamedTuple):
    """The column's name of each field, and the types of columns."""

    names: list[str]
    types: dict[str, ColumnType]


def _plan(schema: TableSchema, header: Sequence[str], own_fields: bool) -> _Plan:
    if schema.is_free_form:
        return _Plan(list(header), {})
    taken = [*schema.by_name, *(OWN_FIELDS if own_fields else ())]
    return _Plan(list(column_names(header, taken).values()), {column.name: column.type for column in schema.columns})


class JsonRows:
    """Converts JSON lines to rows."""

    def __init__(self, *, own_fields: bool) -> None:
        self._own_fields = own_fields

    def new_row(self, schema: TableSchema, record: Record) -> NewRow:
        """Return the row of a record; raises a 400 error."""
        if record.error is not None:
            raise record.error
        try:
            fields = json.decode(record.text, _fields)
        except MalformedJsonError as error:
            raise MalformedRecordError(error.text.replace("The body", "The line", 1)) from None
        except PilotisError:
            raise MalformedRecordError("The line is valid JSON, but not an object.") from None
        creator = _creator(fields) if self._own_fields else None
        if self._own_fields:
            fields = {name: value for name, value in fields.items() if name not in OWN_FIELDS}
        if schema.is_free_form or all(name in schema.by_name for name in fields):
            return NewRow(json.encode(fields) if self._own_fields else record.text, creator)
        names = column_names(list(fields), schema.by_name)
        return NewRow(json.encode({names[name]: value for name, value in fields.items()}), creator)


def _without_own_fields(data: bytes) -> NewRow:
    fields = json.decode(data, _fields)
    creator = _creator(fields)
    return NewRow(json.encode({name: value for name, value in fields.items() if name not in OWN_FIELDS}), creator)


def _creator(fields: Mapping[str, msgspec.Raw]) -> str | None:
    raw = fields.get(CREATOR)
    if raw is None or bytes(raw) == b"null":
        return None
    creator = json.decode(bytes(raw))
    if not isinstance(creator, str) or not 0 < len(creator) <= _LONGEST_MEMBER_ID or "\0" in creator:
        raise invalid(CREATOR, f"{CREATOR} is a member's id.")
    return creator


class Exported:
    """Converts stored rows to fields."""

    def __init__(self, schema: TableSchema, *, own_fields: bool, encrypted: bool) -> None:
        self._own_fields = own_fields
        hidden = () if encrypted else tuple(column.name for column in schema.columns if column.encrypted)
        self._hidden = frozenset(hidden)
        columns = [column.name for column in schema.columns if column.name not in self._hidden]
        self.columns = [*(OWN_FIELDS if own_fields else ()), *columns]

    def fields(self, rows: Iterable[StoredRow]) -> list[dict[str, msgspec.Raw]]:
        """Return each row's fields as JSON, by name."""
        return [self._fields(row) for row in rows]

    def _fields(self, row: StoredRow) -> dict[str, msgspec.Raw]:
        data: dict[str, msgspec.Raw] = _stored.decode(row.data)
        for name in self._hidden:
            data.pop(name, None)
        if not self._own_fields:
            return data
        own: dict[str, Any] = dict(zip(OWN_FIELDS, (row.id, row.creator, row.created_at, row.updated_at), strict=True))
        return {name: msgspec.Raw(json.encode(value)) for name, value in own.items() if value is not None} | {
            name: value for name, value in data.items() if name not in OWN_FIELDS
        }


_stored = msgspec.json.Decoder(dict[str, msgspec.Raw])

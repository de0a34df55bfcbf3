"""From JSON to a row's values: one msgspec type per schema version checks and converts them, once.

A row comes out as a struct whose JSON is the row's `data`: fields in column order, numbers as exact as they came in,
fields that were not given left out. What msgspec cannot say of a type (numbers of either kind, dates) is checked
right after.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.kit import json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import BadRequestError, Detail, ValidationError, invalid
from pilotis.tables.schema import Column, ColumnType

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_TYPES: dict[ColumnType, Any] = {
    ColumnType.STRING: str,
    ColumnType.NUMBER: Any,
    ColumnType.BOOLEAN: bool,
    ColumnType.DATE: str,
    ColumnType.OBJECT: dict[str, Any],
    ColumnType.ARRAY: list[Any],
    ColumnType.UUID: UUID,
    ColumnType.INT: Int64,
}


class UnknownColumnError(BadRequestError):
    """400 `UNKNOWN_COLUMN`: a field or condition names no column of the table."""

    code = "UNKNOWN_COLUMN"


class Row(msgspec.Struct):
    """Values of one row, decoded and checked.

    `data` is their JSON. `moments` has the moment of each date by column number, `nulls` the names of the fields
    that were set to null, `hashes` the hash of each encrypted value by column number, `increments` what a change
    adds to numbers, `fields` the decoded struct (a dict for a free-form table).
    """

    fields: Any
    data: bytes
    moments: dict[int, str]
    nulls: list[str]
    hashes: dict[int, str] = {}
    increments: dict[str, int | Decimal] = {}


class _Increment(msgspec.Struct, forbid_unknown_fields=True):
    inc: Any = msgspec.field(name="$inc")


_INCREMENTABLE = {ColumnType.INT, ColumnType.NUMBER}
_raw_fields = json.decoder(dict[str, msgspec.Raw])
_inc = json.decoder(_Increment)


class RowDecoder:
    """Decodes rows of one schema. With `partial`, no field is required and no default applies, as PATCH wants it."""

    def __init__(self, columns: Sequence[Column], *, partial: bool = False) -> None:
        self._columns = {f"c{column.number}": column for column in columns}
        self._by_name = {column.name: column for column in columns}
        self._numbers = [key for key, column in self._columns.items() if column.type is ColumnType.NUMBER]
        self._dates = [key for key, column in self._columns.items() if column.type is ColumnType.DATE]
        self._decoder = json.decoder(_struct(self._columns, partial) if columns else dict[str, Any])

    def decode_change(self, data: bytes | msgspec.Raw) -> Row:
        """Return a partial row in which `{"$inc": n}`, on a number, is something to add; raises a 400 error."""
        raw = bytes(data)
        # An escape may stand for any letter of the name.
        if b"$inc" not in raw and b"\\" not in raw:
            return self.decode(raw)
        fields = json.decode(raw, _raw_fields)
        increments = {
            name: amount for name, value in fields.items() if (amount := self._increment(name, value)) is not None
        }
        rest = {name: value for name, value in fields.items() if name not in increments}
        row = self.decode(json.encode(rest))
        row.increments = increments
        return row

    def _increment(self, name: str, value: msgspec.Raw) -> Any:
        column = self._by_name.get(name)
        if self._columns and (column is None or column.encrypted or column.type not in _INCREMENTABLE):
            return None
        try:
            amount = _inc.decode(value).inc
        except msgspec.ValidationError:
            return None
        if isinstance(amount, bool) or not isinstance(amount, (int, Decimal)) or abs(Decimal(amount)) >= 10**309:
            raise invalid(name, f"{name}: $inc takes a number.", "INVALID_TYPE")
        if column and column.type is ColumnType.INT and not isinstance(amount, int):
            raise invalid(name, f"{name}: $inc takes an integer here.", "INVALID_TYPE")
        return amount

    def decode(self, data: bytes | msgspec.Raw) -> Row:
        """Return the row; raises a 400 error that names the column at fault."""
        raw = bytes(data)
        try:
            fields = json.decode(raw, self._decoder)
        except ValidationError as error:
            raise self._told(error) from None
        if b"\\u0000" in raw and json.has_nul(msgspec.to_builtins(fields)):
            raise ValidationError("A text holds the character U+0000, which cannot be stored.")
        if not self._columns:
            return Row(fields, json.encode(fields), {}, [])
        for key in self._numbers:
            self._check_number(key, getattr(fields, key))
        moments = {}
        for key in self._dates:
            text = getattr(fields, key)
            if text is not UNSET and text is not None:
                moment = self._moment(key, text)
                if self._columns[key].has_time:
                    moments[self._columns[key].number] = moment
        encoded = json.encode(fields)
        return Row(fields, encoded, moments, self._nulls(fields) if b"null" in encoded else [])

    def value(self, row: Row, column: Column) -> Any:
        """Return a column's decoded value; `UNSET` where it was not given."""
        return getattr(row.fields, f"c{column.number}", UNSET)

    def given(self, row: Row) -> list[Column]:
        """Return the columns that were given a value or null."""
        return [column for key, column in self._columns.items() if getattr(row.fields, key) is not UNSET]

    def _check_number(self, key: str, value: Any) -> None:
        if value is UNSET or type(value) is int or type(value) is Decimal:
            if type(value) is int and abs(value) >= 10**309:
                raise self._wrong(key, "the number is out of range")
            return
        if value is None and not self._columns[key].required:
            return
        raise self._wrong(key, "a number is expected")

    def _moment(self, key: str, text: str) -> str:
        moment = parse_rfc3339(text)
        if moment is None:
            raise self._wrong(key, "an RFC 3339 date or date-time is expected, such as 2026-01-31T12:00:00Z")
        return moment.isoformat()

    def _nulls(self, fields: Any) -> list[str]:
        return [column.name for key, column in self._columns.items() if getattr(fields, key) is None]

    def _wrong(self, key: str, sentence: str) -> ValidationError:
        name = self._columns[key].name
        return invalid(name, f"{name}: {sentence}.", "INVALID_TYPE")

    def _told(self, error: ValidationError) -> BadRequestError:
        detail = error.details[0] if error.details else None
        if detail and detail.code == "UNKNOWN_FIELD":
            message = f"{detail.field} is no column of this table."
            return UnknownColumnError(message, details=[Detail(detail.field, "UNKNOWN_COLUMN", message)])
        return error


def _struct(columns: dict[str, Column], partial: bool) -> type[msgspec.Struct]:
    fields = [_field(key, column, partial) for key, column in columns.items()]
    return msgspec.defstruct(
        "Row",
        fields,
        rename={key: column.name for key, column in columns.items()},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


def _field(key: str, column: Column, partial: bool) -> tuple[Any, ...]:
    value_type = _TYPES[column.type]
    if not column.required:
        value_type = value_type | None if value_type is not Any else Any
    if partial:
        return key, value_type | UnsetType if value_type is not Any else Any, UNSET
    if column.default is not None:
        default = column.default
        if isinstance(default, (dict, list)):
            return key, value_type, msgspec.field(default_factory=lambda: default)
        return key, value_type, UUID(default) if column.type is ColumnType.UUID else default
    if column.required:
        return key, value_type
    return key, value_type | UnsetType if value_type is not Any else Any, UNSET


def check_default(column: Column) -> None:
    """Raise a 400 error if a column's default does not fit its type."""
    if column.default is None:
        return
    bare = msgspec.structs.replace(column, default=None, required=None)
    try:
        RowDecoder([bare]).decode(json.encode({column.name: column.default}))
    except BadRequestError as error:
        raise invalid(column.name, f"The default does not fit. {error.text}", "INVALID_DEFAULT") from None

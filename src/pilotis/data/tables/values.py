"""Decodes a row's values from JSON: one msgspec type per schema version validates and converts them.

The result is a struct whose JSON is the row's `data`: fields in column order, numbers with full precision, absent
fields left out. What msgspec types cannot express (numbers of either kind, dates) is checked afterwards.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import repeat
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from uuid import UUID, uuid4

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.data.tables.checks import broken
from pilotis.data.tables.checks import error as broken_check
from pilotis.data.tables.generated import NOBODY, Maker, Writer, normalized, secret
from pilotis.data.tables.keys import MAX_TEXT_BYTES
from pilotis.data.tables.schema import Column, ColumnType, free_field_name
from pilotis.kit import json
from pilotis.kit.clock import are_plain_utc, is_plain_utc, parse_rfc3339
from pilotis.kit.errors import BadRequestError, Detail, PilotisError, ValidationError, invalid

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


_EXPECTED = {
    ColumnType.STRING: "a string",
    ColumnType.NUMBER: "a number",
    ColumnType.BOOLEAN: "a boolean, true or false,",
    ColumnType.DATE: "a date, an RFC 3339 date or date-time such as 2026-01-31T12:00:00Z,",
    ColumnType.OBJECT: "an object",
    ColumnType.ARRAY: "an array",
    ColumnType.UUID: "a uuid, such as 018f0000-0000-7000-8000-000000000000,",
    ColumnType.INT: "an int, a whole number from -2^63 to 2^63-1,",
}


MAX_LISTED = 30
"""Columns that the error about an unknown one lists at most."""


class UnknownColumnError(BadRequestError):
    """400 `UNKNOWN_COLUMN`: a field or condition names a column that the table does not have."""

    code = "UNKNOWN_COLUMN"


def unknown_column(
    name: str, known: Collection[str], *, lacks: str = "The table has no column", has: str = "It has"
) -> UnknownColumnError:
    """Return the error about an unknown column, which lists the first `MAX_LISTED` of the known ones.

    `lacks` and `has` are how its two sentences begin.
    """
    name = name[:100]
    listed = ", ".join(sorted(known)[:MAX_LISTED])
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    message = f"{lacks} {name}." + (f" {has} {listed}{more}." if known else "")
    return UnknownColumnError(message, details=[Detail(name, "UNKNOWN_COLUMN", message)])


class Change(NamedTuple):
    """A change that depends on the value there is.

    `operand` is a number for `$inc`; else the JSON of a number, a text or a date for `$min` and `$max`, of a list for
    the others. `moment` is that of a date.
    """

    operator: str
    operand: Any
    moment: str = ""


_NONE: Mapping[Any, Any] = MappingProxyType({})


class Row(msgspec.Struct, gc=False):
    """Values of one row, decoded and validated.

    `data` is their JSON. `moments` has the moment of each date by column number, `nulls` the names of the fields set to
    null, `hashes` the hash of each encrypted value by column number, `changes` what depends on the value there is,
    `fields` the decoded struct (a dict for a free-form table), `now` the columns that get the time of the write.
    """

    fields: Any
    data: bytes
    moments: Mapping[int, str]
    nulls: Sequence[str]
    hashes: Mapping[int, str] = _NONE
    changes: Mapping[str, Change] = _NONE
    now: Sequence[Column] = ()

    def at(self, moment: str) -> bytes:
        """Return the JSON of the values with the time of the write, in the format of answers."""
        if not self.now:
            return self.data
        return json.encode(msgspec.structs.replace(self.fields, **{f"c{column.number}": moment for column in self.now}))


class _Operators(msgspec.Struct, forbid_unknown_fields=True, rename=lambda name: "$" + name):
    inc: Any = UNSET
    min: Any = UNSET
    max: Any = UNSET
    push: Any = UNSET
    addToSet: Any = UNSET  # noqa: N815
    pull: Any = UNSET
    merge: Any = UNSET


_ORDERED = (ColumnType.INT, ColumnType.NUMBER, ColumnType.STRING, ColumnType.DATE)
_WORKS_ON = {
    "$inc": (ColumnType.INT, ColumnType.NUMBER),
    "$min": _ORDERED,
    "$max": _ORDERED,
    "$push": (ColumnType.ARRAY,),
    "$addToSet": (ColumnType.ARRAY,),
    "$pull": (ColumnType.ARRAY,),
    "$merge": (ColumnType.OBJECT,),
}
_IS_OPERATOR = re.compile(rb"\$(inc|min|max|push|addToSet|pull|merge)\b")
_Decoders = tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]
_KEPT_DECODERS = 500
_decoders_made: dict[tuple[Any, ...], _Decoders] = {}
"""The least recently used first."""
_making = threading.Lock()  # Large bodies are decoded in threads.
_FREE_FORM: _Decoders = json.decoder(dict[str, Any]), json.decoder(list[dict[str, Any]])
_raw_fields = json.decoder(dict[str, msgspec.Raw])
_operators = json.decoder(_Operators)


class RowDecoder:
    """Decodes rows of one schema. With `partial`, no field is required and no default applies, as for PATCH.

    The texts of the columns whose numbers are `in_keys` must fit into the index of a unique key.
    """

    def __init__(
        self, columns: Sequence[Column], *, partial: bool = False, in_keys: Collection[int] = frozenset()
    ) -> None:
        self._in_keys = [f"c{number}" for number in in_keys]
        self._columns = {f"c{column.number}": column for column in columns}
        self._by_name = {column.name: column for column in columns}
        self._numbers = [key for key, column in self._columns.items() if column.type is ColumnType.NUMBER]
        self._checked = [(key, column) for key, column in self._columns.items() if column.checks is not None]
        self._normalized = [(key, column.normalize) for key, column in self._columns.items() if column.normalize]
        made = (
            {} if partial else {key: maker for key, column in self._columns.items() if (maker := column.default_maker)}
        )
        self._made = bool(made)
        self._made_now = [key for key, maker in made.items() if maker is Maker.NOW]
        self._made_of_member = [
            (key, maker) for key, maker in made.items() if maker in {Maker.MEMBER_ID, Maker.NICKNAME}
        ]
        self._on_update = [(key, column) for key, column in self._columns.items() if column.update_maker]
        self._is_checked = bool(self._numbers or self._checked or self._in_keys)
        # With the number of the column that has the moment, if there is one.
        self._dates = [
            (key, column.number if column.has_time else None)
            for key, column in self._columns.items()
            if column.type is ColumnType.DATE
        ]
        # What an operator takes is no value of the column yet.
        unchecked = [msgspec.structs.replace(column, checks=None) for column in columns]
        self._unchecked = RowDecoder(unchecked, partial=partial, in_keys=in_keys) if self._checked else self
        self._decoder, self._list_decoder = _decoders(self._columns, partial)

    def decode_change(self, data: bytes | msgspec.Raw) -> Row:
        """Return a partial row in which an operator, such as `{"$inc": n}`, is a change; raises a 400 error."""
        raw = bytes(data)
        # Any letter of the name may be escaped.
        if b"\\" not in raw and (b"$" not in raw or not _IS_OPERATOR.search(raw)):
            return self.decode(raw)
        rename = _renamed if self._columns else _free
        fields = rename(json.decode(raw, _raw_fields))
        changes = {name: change for name, value in fields.items() if (change := self._change(name, value)) is not None}
        rest = {name: value for name, value in fields.items() if name not in changes}
        row = self.decode(json.encode(rest))
        row.changes = changes
        return row

    def _change(self, name: str, value: msgspec.Raw) -> Change | None:
        column = self._by_name.get(name)
        holds_objects = column is not None and column.type is ColumnType.OBJECT
        if self._columns and (column is None or (column.encrypted and not holds_objects)):
            return None
        try:
            given = msgspec.structs.asdict(_operators.decode(value))
        except msgspec.ValidationError:
            return None
        found = [("$" + operator, operand) for operator, operand in given.items() if operand is not UNSET]
        if len(found) != 1:
            return None
        ((operator, operand),) = found
        # Any other object is an ordinary value there.
        if holds_objects and operator != "$merge":
            return None
        if column and column.encrypted:
            raise invalid(name, f"{name}: an encrypted value cannot be merged: the database does not know it.")
        if column and column.type not in _WORKS_ON[operator]:
            types = " and ".join(_WORKS_ON[operator])
            raise invalid(
                name, f"{name}: {operator} is for columns of type {types}; this one is {column.type}.", "INVALID_TYPE"
            )
        if operator == "$inc":
            return Change(operator, _increment(name, column, operand))
        return self._operand(name, column, operator, operand)

    def _operand(self, name: str, column: Column | None, operator: str, operand: Any) -> Change:
        if operator in {"$min", "$max"}:
            fits, expected = operand is not None and not isinstance(operand, (bool, list, dict)), "a number or a text"
        elif operator == "$merge":
            fits, expected = isinstance(operand, dict), "an object"
        else:
            fits, expected = isinstance(operand, list), "a list"
        if not fits:
            raise invalid(name, f"{name}: {operator} takes {expected}.", "INVALID_TYPE")
        row = self._unchecked.decode(json.encode({name: operand}))
        moment = row.moments.get(column.number, "") if column else ""
        # A free-form table has only checked the text; a column's value is in its own form then.
        value = operand if column is None else self.value(row, column)
        return Change(operator, json.encode(value).decode(), moment)

    def decode_list(self, data: bytes | msgspec.Raw, writer: Writer = NOBODY) -> list[Row] | None:
        """Return the rows of a JSON array, all checked in one step; None unless every row is valid.

        Then `decode` finds the errors of each. How deep they are nested was checked with the body that they are from.
        """
        raw = bytes(data)
        if b"\\u0000" in raw or not self._columns:
            return None
        try:
            return self._rows(self._list_decoder.decode(raw), writer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, PilotisError):
            return None

    def decode(self, data: bytes | msgspec.Raw, writer: Writer = NOBODY) -> Row:
        """Return the row, with what defaults make of its writer; raises a 400 error that names the invalid column."""
        raw = bytes(data)
        fields = self._decoded(raw)
        if b"\\u0000" in raw and json.has_nul(msgspec.to_builtins(fields)):
            raise ValidationError("A text contains the character U+0000, which cannot be stored.")
        if not self._columns:
            fields = _free(fields)
            return Row(fields, json.encode(fields), _NONE, ())
        return self._row(fields, writer)

    def touched(self, row: Row, writer: Writer, named: Collection[str]) -> Row:
        """Return a changed row with what `on_update` makes of the columns that the change does not name."""
        changed = [(key, column) for key, column in self._on_update if column.name not in named]
        if not changed:
            return row
        fields, now = row.fields, []
        for key, column in changed:
            if column.update_maker is Maker.NOW:
                setattr(fields, key, UNSET)
                now.append(column)
            elif writer.member_id is not None:
                setattr(fields, key, writer.member_id)
        touched = self._row(fields, NOBODY)
        touched.changes = row.changes
        touched.now = [*(column for column in touched.now if column not in now), *now]
        return touched

    def _rows(self, found: Sequence[Any], writer: Writer) -> list[Row]:
        """Return what `_row` returns for each; values that need no look at each row are encoded together."""
        if self._made or self._normalized or self._checked or self._in_keys:
            return [self._row(fields, writer) for fields in found]
        for key in self._numbers:
            for number in [getattr(fields, key) for fields in found]:
                if type(number) is not Decimal:
                    self._check_number(key, number)
        moments = self._moments_of_each(found) if self._dates else repeat(_NONE, len(found))
        return [
            Row(fields, encoded, moment, self._nulls(fields) if b"null" in encoded else ())
            for fields, encoded, moment in zip(found, json.encode_each(found), moments, strict=True)
        ]

    def _moments_of_each(self, found: Sequence[Any]) -> Sequence[Mapping[int, str]]:
        """Return what `_moments` does for each."""
        made: list[dict[int, str]] = [{} for _ in found]
        for key, number in self._dates:
            texts = [getattr(fields, key) for fields in found]
            if number is None or set(map(type, texts)) != {str} or not are_plain_utc(texts):
                return [self._moments(fields) for fields in found]
            for moments, text in zip(made, texts, strict=True):
                moments[number] = text
        return made

    def _row(self, fields: Any, writer: Writer) -> Row:
        for key, maker in self._made_of_member:
            if getattr(fields, key) is UNSET:
                self._make(fields, key, writer.value(maker))
        if self._normalized:
            self._normalize(fields)
        if self._is_checked:
            self._check_all(fields)
        encoded = json.encode(fields)
        row = Row(fields, encoded, self._moments(fields), self._nulls(fields) if b"null" in encoded else ())
        if self._made_now:
            row.now = [self._columns[key] for key in self._made_now if getattr(fields, key) is UNSET]
        return row

    def _moments(self, fields: Any) -> dict[int, str]:
        moments = {}
        for key, number in self._dates:
            text = getattr(fields, key)
            if text is not UNSET and text is not None:
                moment = text if is_plain_utc(text) else self._moment(key, text)
                if number is not None:
                    moments[number] = moment
        return moments

    def _normalize(self, fields: Any) -> None:
        for key, steps in self._normalized:
            text = getattr(fields, key)
            if type(text) is str:
                normal = normalized(text, steps)
                if normal is None:
                    name = self._columns[key].name
                    raise invalid(
                        name, f"{name}: this HTML has too many tags, or nests them too deeply.", "TOO_COMPLEX"
                    )
                setattr(fields, key, normal)

    def _check_all(self, fields: Any) -> None:
        for key in self._numbers:
            number = getattr(fields, key)
            if type(number) is not Decimal:
                self._check_number(key, number)
        for key in self._in_keys:
            text = getattr(fields, key)
            if type(text) is str and len(text) * 4 > MAX_TEXT_BYTES and len(text.encode()) > MAX_TEXT_BYTES:
                raise self._too_long(key)
        for key, column in self._checked:
            value = getattr(fields, key)
            if value is not UNSET and value is not None:
                self._check(column, value)

    def _make(self, fields: Any, key: str, value: str | None) -> None:
        if value is not None:
            setattr(fields, key, value)
        elif self._columns[key].required:
            name = self._columns[key].name
            raise invalid(name, f"{name}: no member is signed in to give it a value, so send one.", "REQUIRED")

    def _decoded(self, raw: bytes) -> Any:
        try:
            return json.decode(raw, self._decoder)
        except ValidationError as error:
            if error.details[0].code != "UNKNOWN_FIELD":
                raise self._with_path(error) from None
        # The request may use another normal form of a column's name.
        try:
            return json.decode(json.encode(_renamed(json.decode(raw, _raw_fields))), self._decoder)
        except ValidationError as error:
            raise self._with_path(error) from None

    def value(self, row: Row, column: Column) -> Any:
        """Return a column's decoded value; `UNSET` where it was not given."""
        return getattr(row.fields, f"c{column.number}", UNSET)

    def given(self, row: Row) -> list[Column]:
        """Return the columns that were given a value or null."""
        return [column for key, column in self._columns.items() if getattr(row.fields, key) is not UNSET]

    def named(self, row: Row) -> list[str]:
        """Return the names of the fields that a change names."""
        given = [column.name for column in self.given(row)] if self._columns else list(row.fields)
        return [*given, *row.changes, *row.nulls]

    def _check_number(self, key: str, value: Any) -> None:
        if value is UNSET or type(value) is int or type(value) is Decimal:
            if type(value) is int and abs(value) >= 10**309:
                raise self._wrong(key, "the number is out of range")
            return
        if value is None and not self._columns[key].required:
            return
        raise self._wrong(key, f"a number is expected, not {kind_of(value)}")

    def _check(self, column: Column, value: Any) -> None:
        assert column.checks is not None
        if column.type is ColumnType.DATE and parse_rfc3339(value) is None:
            return  # It is told that it is no date.
        if (found := broken(column.checks, column.type.value, value)) is not None:
            raise broken_check(column.name, found)

    def _moment(self, key: str, text: str) -> str:
        moment = parse_rfc3339(text)
        if moment is None:
            raise self._wrong(key, f"{_EXPECTED[ColumnType.DATE]} is expected")
        return moment.isoformat()

    def _nulls(self, fields: Any) -> list[str]:
        return [column.name for key, column in self._columns.items() if getattr(fields, key) is None]

    def _wrong(self, key: str, sentence: str) -> ValidationError:
        name = self._columns[key].name
        return invalid(name, f"{name}: {sentence}.", "INVALID_TYPE")

    def _too_long(self, key: str) -> ValidationError:
        name = self._columns[key].name
        return invalid(
            name, f"{name}: in a unique key a text has at most {MAX_TEXT_BYTES} bytes.", "TOO_LONG_FOR_UNIQUE"
        )

    def _with_path(self, error: ValidationError) -> BadRequestError:
        """Return the error with the names of the table's own column types."""
        detail = error.details[0]
        if detail.code == "UNKNOWN_FIELD":
            return unknown_column(detail.field, self._by_name.keys())
        column = self._by_name.get(detail.field)
        if detail.code != "INVALID_VALUE" or column is None or "out of range" in detail.message:
            return error
        _, _, found = detail.message.rstrip(".").partition(", not ")
        found = found or "one out of its range"
        return invalid(
            column.name, f"{column.name}: {_EXPECTED[column.type]} is expected, not {found}.", "INVALID_TYPE"
        )


def _increment(name: str, column: Column | None, amount: Any) -> int | Decimal:
    if isinstance(amount, bool) or not isinstance(amount, (int, Decimal)) or abs(Decimal(amount)) >= 10**309:
        raise invalid(name, f"{name}: $inc takes a number.", "INVALID_TYPE")
    if column and column.type is ColumnType.INT and not isinstance(amount, int):
        raise invalid(name, f"{name}: $inc takes an integer here.", "INVALID_TYPE")
    return amount


def _free(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a free-form row, with their names validated and in NFC."""
    return {free_field_name(name): value for name, value in fields.items()}


def _renamed(fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Return a row's fields with their names in NFC."""
    return {unicodedata.normalize("NFC", name): value for name, value in fields.items()}


def kind_of(value: Any) -> str:
    """Return the JSON type of a decoded value."""
    if value is None:
        return "null"
    kinds: dict[type, str] = {str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")


def _decoders(columns: dict[str, Column], partial: bool) -> _Decoders:
    """Return the decoders of a row and of a list of rows, which tables of the same columns share.

    Many apps have the same tables, and a type takes longer to make and to free than all else that a table needs.
    """
    if not columns:
        return _FREE_FORM
    key = (
        partial,
        *(
            (key, column.name, column.type, column.required, column.default_maker, repr(column.default))
            for key, column in columns.items()
        ),
    )
    with _making:
        found = _decoders_made.pop(key, None)
        if found is None:
            row_type = _struct(columns, partial)
            found = json.decoder(row_type), json.decoder(list[row_type])  # type: ignore[valid-type]
            if len(_decoders_made) >= _KEPT_DECODERS:
                del _decoders_made[next(iter(_decoders_made))]
        _decoders_made[key] = found
        return found


def _struct(columns: dict[str, Column], partial: bool) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        "Row",
        [_field(key, column, partial) for key, column in columns.items()],
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
    maker = column.default_maker
    if maker is Maker.UUID:
        return key, value_type, msgspec.field(default_factory=uuid4)
    if maker is Maker.SECRET:
        return key, value_type, msgspec.field(default_factory=secret)
    if maker is not None:
        return key, value_type | UnsetType, UNSET
    if column.default is not None:
        default = column.default
        if isinstance(default, (dict, list)):
            return key, value_type, msgspec.field(default_factory=lambda: default)
        return key, value_type, UUID(default) if column.type is ColumnType.UUID else default
    if column.required:
        return key, value_type
    return key, value_type | UnsetType if value_type is not Any else Any, UNSET


def check_default(column: Column, max_bytes: int, field: str) -> None:
    """Raise a 400 error if a column's default does not fit its type, or has more than `max_bytes` of JSON.

    Every row without a value gets it. `field` is its place in the request.
    """
    if column.default_maker is Maker.SECRET and column.checks is not None:
        made = msgspec.structs.replace(column, default=secret())
        return check_default(made, max_bytes, field)
    if column.default is None or column.default_maker is not None:
        return None
    if len(json.encode(column.default)) > max_bytes:
        raise invalid(field, f"A default has at most {max_bytes} bytes of JSON.", "INVALID_DEFAULT")
    bare = msgspec.structs.replace(column, default=None, required=None)
    try:
        RowDecoder([bare]).decode(json.encode({column.name: column.default}))
    except BadRequestError as error:
        raise invalid(field, f"The default does not fit. {error.text}", "INVALID_DEFAULT") from None

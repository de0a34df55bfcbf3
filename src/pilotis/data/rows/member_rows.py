"""What the columns of a row get that is made with a member: values, facts of the member, inputs, other rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pilotis.data.tables.schema import Column, ColumnType, TableSchema
from pilotis.data.tables.values import RowDecoder
from pilotis.kit import json
from pilotis.kit.account_settings import SignUpField, SignUpRow
from pilotis.kit.errors import Detail, PilotisError, invalid
from pilotis.members.arrivals.types import Newcomer

FACTS = {"id": "member_id", "login_id": "login_id", "email": "email", "nickname": "nickname"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_LABEL_LENGTH = 100
_TYPES = frozenset((ColumnType.STRING, ColumnType.NUMBER, ColumnType.INT, ColumnType.BOOLEAN, ColumnType.DATE))


class OfMember(NamedTuple):
    """A fact of the member."""

    attribute: str


class Input(NamedTuple):
    """What the sign-up says under a name."""

    name: str
    label: str


class OtherRow(NamedTuple):
    """The id of a row that is made before."""

    number: int


def parsed(value: Any, place: str, index: int) -> OfMember | Input | OtherRow | None:
    """Return the operator that a value of row `index` is, or None for a plain value; raises a 400 error."""
    if not isinstance(value, dict) or not any(name.startswith("$") for name in value):
        return None
    fact, name, ref = value.get("$member"), value.get("$input"), value.get("$ref")
    if isinstance(fact, str) and len(value) == 1:
        if fact in FACTS:
            return OfMember(FACTS[fact])
        raise invalid(place, f"{place}: $member is one of {', '.join(FACTS)}.", "UNKNOWN_FACT")
    if isinstance(name, str) and set(value) <= {"$input", "label"}:
        label = value.get("label", name)
        if not _NAME.fullmatch(name):
            raise invalid(place, f"{place}: the name of an $input has a-z, 0-9 and _, at most 32.", "INVALID_NAME")
        if not isinstance(label, str) or not 0 < len(label) <= _LABEL_LENGTH:
            raise invalid(place, f"{place}: a label has at most {_LABEL_LENGTH} characters.", "INVALID_LENGTH")
        return Input(name, label)
    if isinstance(ref, int) and not isinstance(ref, bool) and len(value) == 1:
        if not 0 <= ref < index:
            raise invalid(place, f"{place}: $ref is the place of a row before this one, from 0.", "INVALID_REFERENCE")
        return OtherRow(ref)
    expected = 'an operator is {"$member": …}, {"$input": …} or {"$ref": …}.'
    raise invalid(place, f"{place}: {expected}", "UNKNOWN_OPERATOR")


def check(
    schemas: Sequence[TableSchema], rows: Sequence[SignUpRow], place: str = "on_sign_up"
) -> tuple[SignUpField, ...]:
    """Return what rows take from sign-ups; raises a 400 error for a row that its table cannot have.

    `schemas` are the tables of the rows.
    """
    fields: dict[str, SignUpField] = {}
    for index, (schema, row) in enumerate(zip(schemas, rows, strict=True)):
        for field in _checked(schema, rows, row, index, f"{place}[{index}]"):
            known = fields.setdefault(field.name, field)
            if known.type != field.type:
                where = f"{place}[{index}].data"
                raise invalid(where, f"{where}: the input {field.name} has one type in all rows.", "CONTRADICTION")
    return tuple(fields.values())


def _checked(
    schema: TableSchema, rows: Sequence[SignUpRow], row: SignUpRow, index: int, place: str
) -> list[SignUpField]:
    plain: dict[str, Any] = {}
    fields = []
    for name, value in row.data.items():
        where = f"{place}.data.{name}"
        column = schema.by_name.get(name)
        operator = parsed(value, where, index)
        if column is None and not schema.is_free_form:
            raise invalid(where, f"{where}: the table {row.table} has no column {name[:64]}.", "UNKNOWN_COLUMN")
        type_ = ColumnType.STRING if column is None else column.type
        if operator is None:
            plain[name] = value
        elif isinstance(operator, OfMember):
            if type_ is not ColumnType.STRING:
                raise invalid(where, f"{where}: a fact of a member fits a column of the type string.", "INVALID_TYPE")
            if _is_required(column) and operator.attribute != "member_id":
                raise invalid(where, f"{where}: not every member has this, but the column is required.", "REQUIRED")
        elif isinstance(operator, OtherRow):
            if type_ not in {ColumnType.UUID, ColumnType.STRING}:
                raise invalid(where, f"{where}: the id of a row fits a column of the type uuid.", "INVALID_TYPE")
            if row.guests and not rows[operator.number].guests:
                raise invalid(where, f"{where}: guests do not have that row.", "INVALID_REFERENCE")
        else:
            if type_ not in _TYPES:
                raise invalid(where, f"{where}: an $input fits no column of the type {type_.value}.", "INVALID_TYPE")
            is_required = _is_required(column)
            if row.guests and is_required:
                raise invalid(where, f"{where}: guests say nothing, but the column is required.", "REQUIRED")
            fields.append(
                SignUpField(name=operator.name, label=operator.label, type=type_.value, is_required=is_required)
            )
    _require_fit(schema, row, plain, place)
    return fields


def _require_fit(schema: TableSchema, row: SignUpRow, plain: Mapping[str, Any], place: str) -> None:
    try:
        RowDecoder(schema.columns, partial=True).decode(json.encode(plain))
    except PilotisError as error:
        raise error.within(f"{place}.data") from None
    for column in schema.columns:
        if _is_required(column) and column.name not in row.data:
            where = f"{place}.data.{column.name}"
            raise invalid(where, f"{where}: the column is required.", "REQUIRED")


def _is_required(column: Column | None) -> bool:
    return column is not None and bool(column.required) and column.default is None


def bound(data: Mapping[str, Any], newcomer: Newcomer, made: Sequence[str | None], index: int) -> dict[str, Any]:
    """Return the row of a member. What the sign-up does not say is absent; `made` are the ids of the rows before."""
    row: dict[str, Any] = {}
    for name, value in data.items():
        operator = parsed(value, f"data.{name}", index)
        if operator is None:
            row[name] = value
        elif isinstance(operator, Input):
            if operator.name in newcomer.profile:
                row[name] = newcomer.profile[operator.name]
        else:
            found = made[operator.number] if isinstance(operator, OtherRow) else getattr(newcomer, operator.attribute)
            if found is not None:
                row[name] = found
    return row


def at_input(error: PilotisError, row: SignUpRow, index: int) -> PilotisError:
    """Let an error about a row of a member name the input that it is about, or else the place in the settings."""
    details = []
    for detail in error.details:
        name = detail.field.removeprefix("data.")
        given = row.data.get(name)
        field = f"profile.{given['$input']}" if isinstance(given, dict) and "$input" in given else None
        place = field or f"on_sign_up[{index}].{detail.field}"
        message = detail.message.replace(detail.field, place)
        details.append(Detail(place, detail.code, message))
    if details:
        error.args, error.details = (details[0].message,), tuple(details)
    return error

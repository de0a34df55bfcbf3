"""Values of a pipeline's documents, as SQL expressions with a kind. Pure.

SQL's null stands for both a missing field and null, except in JSON, which distinguishes them. Typed columns stay typed
throughout, so PostgreSQL groups and sums them as in SQL written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from pilotis.data.where.operands import Arguments, Kind
from pilotis.kit import json

_RFC3339 = '\'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\''
NUMBERS = frozenset({Kind.NUMERIC, Kind.BIGINT})


class Value(NamedTuple):
    """One value: its expression and kind.

    `text` is the original text of a date. `computed` values appear as null in answers, others are left out, because
    they may be missing fields. `members` are the fields of a document built in the pipeline, whose names are bound in
    `arguments`; its `sql` is empty. `moment` is the moment that a constant text denotes. `null` is a condition that is
    true, where the value is SQL's null, for an explicit null and not for a missing field. `target` is the id of the
    table to whose rows it refers.
    """

    sql: str
    kind: Kind
    text: str | None = None
    computed: bool = False
    members: Mapping[str, Value] | None = None
    arguments: Arguments | None = None
    moment: str | None = None
    null: str | None = None
    target: UUID | None = None


MAX_BYTES = 16 * 1024 * 1024
"""The largest size of a composed value; otherwise twenty stages that double it would exhaust memory."""


def bounded(sql: str) -> str:
    """Return an expression for a text or jsonb that fails, with SQLSTATE PT413, past `MAX_BYTES`."""
    return f"pilotis.require_size({sql}, {MAX_BYTES})"


def document(members: Mapping[str, Value], arguments: Arguments) -> Value:
    """Return a document of named values."""
    return Value("", Kind.JSON, members=members, arguments=arguments)


def as_json(value: Value) -> str:
    """Return the value as jsonb; a missing field is SQL's null."""
    if value.members is not None:
        return f"{bounded(as_json_text(value))}::jsonb"
    if value.kind is Kind.JSON:
        found = value.sql
    elif value.kind is Kind.TIME:
        found = f"to_jsonb({_time_text(value)})"
    else:
        found = f"to_jsonb({value.sql})"
    return found if value.null is None else f"coalesce({found}, case when {value.null} then 'null'::jsonb end)"


def collected(value: Value) -> str:
    """Return the value as jsonb, SQL's null only if the field is missing."""
    json_ = as_json(value)
    return f"coalesce({json_}, 'null')" if value.computed else json_


def as_json_text(value: Value) -> str:
    """Return the value's JSON as text, SQL's null if it is missing."""
    text = _json_text(value)
    return text if value.null is None else f"coalesce({text}, case when {value.null} then 'null' end)"


def _json_text(value: Value) -> str:
    if value.members is not None and value.arguments is not None:
        bind = value.arguments.bind
        parts = [
            f"{bind(json.encode(name).decode() + ':', 'text')} || {_shown(member)}"
            for name, member in value.members.items()
        ]
        return f"('{{' || {_joined(parts)} || '}}')" if parts else "'{}'::text"
    if value.kind is Kind.TEXT:
        return f"to_json({value.sql})::text"
    if value.kind is Kind.TIME:
        return f"'\"' || {_time_text(value)} || '\"'"
    if value.kind is Kind.UUID:
        return f"'\"' || {value.sql} || '\"'"
    if value.kind is Kind.NUMERIC and value.computed:
        return f"trim_scale({value.sql})::text"
    return f"({value.sql})::text"


def as_number(value: Value) -> str:
    """Return the value as numeric, null if it is not a number."""
    if value.kind is Kind.NUMERIC:
        return value.sql
    if value.kind is Kind.BIGINT:
        return f"({value.sql})::numeric"
    if value.kind is Kind.JSON and value.members is None:
        return f"(case when jsonb_typeof({value.sql}) = 'number' then ({value.sql})::numeric end)"
    return "null::numeric"


def as_text(value: Value) -> str:
    """Return the value as text, null if it is not a string."""
    if value.kind is Kind.TEXT:
        return value.sql
    if value.kind is Kind.UUID:
        return f"({value.sql})::text"
    if value.kind is Kind.TIME:
        return _time_text(value)
    if value.kind is Kind.JSON and value.members is None:
        return f"(case when jsonb_typeof({value.sql}) = 'string' then {value.sql} #>> '{{}}' end)"
    return "null::text"


def as_printed(value: Value) -> str:
    """Return a string, number or date as text, as `$toUpper` and similar operators do; null for anything else."""
    if value.kind in NUMBERS:
        return f"({value.sql})::text"
    if value.kind is Kind.JSON and value.members is None:
        return f"(case when jsonb_typeof({value.sql}) in ('string', 'number') then {value.sql} #>> '{{}}' end)"
    return as_text(value)


def as_time(value: Value) -> str:
    """Return the value as a moment, parsed from a text if necessary; null for null.

    Anything else fails with SQLSTATE 22007, as MongoDB's date operators do.
    """
    if value.kind is Kind.TIME:
        return value.sql
    text = f"({value.sql} #>> '{{}}')" if value.kind is Kind.JSON else f"({value.sql})::text"
    return f"coalesce(pilotis.try_time({text}), ('no date: ' || {text})::timestamptz)"


def as_condition(value: Value) -> str:
    """Return whether the value is truthy: everything except false, zero, null and missing."""
    if value.members is not None:
        return "true"
    if value.kind is Kind.BOOLEAN:
        return f"coalesce({value.sql}, false)"
    if value.kind in NUMBERS:
        return f"coalesce({value.sql} <> 0, false)"
    if value.kind is Kind.JSON:
        false = "'null'::jsonb, 'false'::jsonb, '0'::jsonb"
        return f"({value.sql} is not null and {value.sql} not in ({false}))"
    return f"({value.sql} is not null)"


def order_keys(value: Value, direction: int) -> list[str]:
    """Return sort expressions with directions, in BSON's order: null and missing first, then numbers, strings, …."""
    suffix = "asc nulls first" if direction == 1 else "desc nulls last"
    return [f"{sql} {suffix}" for sql in comparable(value)]


def comparable(value: Value) -> list[str]:
    """Return expressions that together sort values of any type in BSON's comparison order."""
    if value.kind is not Kind.JSON:
        return [f'{value.sql} collate "C"' if value.kind is Kind.TEXT else value.sql]
    sql = as_json(value)
    return [
        f"pilotis.bson_rank({sql})",
        as_number(Value(sql, Kind.JSON)),
        _text_in_order(sql),
        f"nullif({sql}, 'null')",
    ]


def _text_in_order(sql: str) -> str:
    return f"(case when jsonb_typeof({sql}) = 'string' then {sql} #>> '{{}}' end) collate \"C\""


def _shown(value: Value) -> str:
    text = as_json_text(value)
    return f"coalesce({text}, 'null')" if value.computed else text


def _joined(parts: list[str]) -> str:
    # A function takes at most 100 arguments; an empty inner list must vanish like an absent field.
    if len(parts) <= 90:
        return f"concat_ws(',', {', '.join(parts)})"
    groups = [parts[start : start + 90] for start in range(0, len(parts), 90)]
    return _joined([f"nullif({_joined(group)}, '')" for group in groups])


def _time_text(value: Value) -> str:
    return value.text or f"to_char({value.sql} at time zone 'UTC', {_RFC3339})"

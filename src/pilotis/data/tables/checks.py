"""Checks of values: the bounds, lengths, choices and formats that a column's values keep. Pure.

A value is checked when it is written, by whoever writes it. What an operator such as `$inc` makes of a value is checked
by the statement that changes it, and the values of rows that are there by a query: both by the same conditions in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from pilotis.data.tables.keys import literal
from pilotis.kit import json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import ValidationError, invalid

MAX_CHOICES = 200
_SHOWN_CHOICES = 20
Length = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
# Generators of clients want to be told that items may be anything.
Choices = Annotated[list[Any], msgspec.Meta(min_length=1, max_length=MAX_CHOICES, extra_json_schema={"items": {}})]
Format = Literal["email", "url", "slug", "hostname", "e164", "color"]

# Each means the same to Python and to PostgreSQL.
FORMATS: dict[str, tuple[str, str]] = {
    "email": (r"[^\s@]+@[^\s@.]+(\.[^\s@.]+)+", "an email address"),
    "url": (r"https?://[^\s/?#]+([/?#]\S*)?", "a URL with http or https"),
    "slug": (r"[a-z0-9]+(-[a-z0-9]+)*", "a slug: small letters and digits, with single hyphens between them"),
    "hostname": (
        r"([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?",
        "a host name",
    ),
    "e164": (r"\+[1-9][0-9]{1,14}", "a telephone number in the form of E.164, such as +821012345678"),
    "color": (r"#([0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})", "a colour such as #1f7a8c"),
}
_COMPILED = {name: re.compile(pattern) for name, (pattern, _) in FORMATS.items()}

# Which types each check is for, by their names.
_FOR = {
    "min": ("number", "int", "date"),
    "max": ("number", "int", "date"),
    "min_length": ("string", "array"),
    "max_length": ("string", "array"),
    "enum": ("string", "number", "int"),
    "format": ("string",),
}
NAMES = tuple(_FOR)


class Checks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the values of a column keep; null passes every check."""

    min: Any = None
    max: Any = None
    min_length: int | None = None
    max_length: int | None = None
    enum: tuple[Any, ...] | None = None
    format: str | None = None


class GivenChecks(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Checks in a request: what is absent stays as it is, null removes a check."""

    min: Any = msgspec.UNSET
    max: Any = msgspec.UNSET
    min_length: Length | msgspec.UnsetType | None = msgspec.UNSET
    max_length: Length | msgspec.UnsetType | None = msgspec.UNSET
    enum: Choices | msgspec.UnsetType | None = msgspec.UNSET
    format: Format | msgspec.UnsetType | None = msgspec.UNSET


class Broken(NamedTuple):
    """A check that a value does not keep: its code, and what is expected, as a part of a sentence."""

    code: str
    expected: str


def merged(before: Checks | None, given: GivenChecks) -> Checks | None:
    """Return a column's checks with those of a request; None for none."""
    changes = {name: getattr(given, name) for name in NAMES if getattr(given, name) is not msgspec.UNSET}
    if changes.get("enum") is not None:
        changes["enum"] = tuple(changes["enum"])
    found = msgspec.structs.replace(before or Checks(), **changes)
    return None if found == Checks() else found


def require_sensible(checks: Checks | None, type_: str, place: str) -> None:
    """Raise a 400 error for checks that a column of a type cannot have; `place` is that of the column, or empty."""
    if checks is None:
        return
    prefix = f"{place}." if place else ""
    for name in _set(checks):
        value = getattr(checks, name)
        if type_ not in _FOR[name]:
            raise invalid(f"{prefix}{name}", f"{name} is for columns of type {' and '.join(_FOR[name])}.")
        if name in {"min", "max"} and not _fits(value, type_):
            raise invalid(f"{prefix}{name}", f"{name} is a value of the column's type, {type_}.")
        if name == "enum" and not all(_fits(one, type_) for one in value):
            raise invalid(f"{prefix}{name}", f"enum is a list of values of the column's type, {type_}.")
    for low, high in (("min", "max"), ("min_length", "max_length")):
        least, most = getattr(checks, low), getattr(checks, high)
        if least is not None and most is not None and _key(least, type_) > _key(most, type_):
            raise invalid(f"{prefix}{low}", f"{low} is greater than {high}: no value would fit.")


def broken(checks: Checks, type_: str, value: Any) -> Broken | None:
    """Return the first check that a value of a column's type does not keep."""
    for name in _set(checks):
        bound = getattr(checks, name)
        match name:
            case "min":
                holds = _key(value, type_) >= _key(bound, type_)
            case "max":
                holds = _key(value, type_) <= _key(bound, type_)
            case "min_length":
                holds = len(value) >= bound
            case "max_length":
                holds = len(value) <= bound
            case "enum":
                holds = value in bound
            case _:
                holds = _COMPILED[bound].fullmatch(value) is not None
        if not holds:
            return _broken(name, bound, type_)
    return None


def conditions(checks: Checks, type_: str, value: str, moment: str) -> Iterator[tuple[str, Broken]]:
    """Yield conditions in SQL that a value keeps, and what it breaks otherwise.

    `value` and `moment` are the expressions for the value, and for the time of a date.
    """
    compared = moment if type_ == "date" else value
    length = f"char_length({value})" if type_ == "string" else f"jsonb_array_length({value})"
    for name in _set(checks):
        bound = getattr(checks, name)
        match name:
            case "min":
                holds = f"{compared} >= {_sql(bound, type_)}"
            case "max":
                holds = f"{compared} <= {_sql(bound, type_)}"
            case "min_length":
                holds = f"{length} >= {bound}"
            case "max_length":
                holds = f"{length} <= {bound}"
            case "enum":
                holds = f"{value} in ({', '.join(_sql(one, type_) for one in bound)})"
            case _:
                holds = f"{value} ~ {literal(f'^({FORMATS[bound][0]})$')}"
        yield holds, _broken(name, bound, type_)


def _set(checks: Checks) -> list[str]:
    return [name for name in NAMES if getattr(checks, name) is not None]


def _broken(name: str, bound: Any, type_: str) -> Broken:
    what = "characters" if type_ == "string" else "items"
    match name:
        case "min":
            return Broken("BELOW_MIN", f"at least {_shown(bound)} is expected")
        case "max":
            return Broken("ABOVE_MAX", f"at most {_shown(bound)} is expected")
        case "min_length":
            return Broken("TOO_SHORT", f"at least {bound} {what} are expected")
        case "max_length":
            return Broken("TOO_LONG", f"at most {bound} {what} are expected")
        case "enum":
            return Broken("NOT_IN_ENUM", f"one of {', '.join(map(_shown, bound[:_SHOWN_CHOICES]))} is expected")
        case _:
            return Broken("BAD_FORMAT", f"{FORMATS[bound][1]} is expected")


def error(name: str, found: Broken) -> ValidationError:
    """Return the error about a column's value."""
    return invalid(name, f"{name}: {found.expected}.", found.code)


def _fits(value: Any, type_: str) -> bool:
    match type_:
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case "date":
            return isinstance(value, str) and parse_rfc3339(value) is not None
        case _:
            return isinstance(value, str) and "\0" not in value


def _key(value: Any, type_: str) -> Any:
    return parse_rfc3339(value) if type_ == "date" and isinstance(value, str) else value


def _sql(value: Any, type_: str) -> str:
    return f"{literal(value)}::timestamptz" if type_ == "date" else literal(value)


def _shown(value: Any) -> str:
    return json.encode(value).decode()

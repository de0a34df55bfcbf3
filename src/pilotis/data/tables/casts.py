"""Changes a column's type: SQL that finds the stored values that can be cast, and casts them. Pure.

A cast goes through the value's text in JSON, so no pair of types needs its own rules.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotis.data.tables.schema import ColumnType

# Not \d, which matches the digits of every script under many locales.
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?([0-2]?[0-9]?[0-9]|30[0-8]))?$"
# The largest IEEE 754 double, the largest number in a row.
_LARGEST = "1.7976931348623157e308"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class Cast(NamedTuple):
    """SQL expressions on a value: whether it can be cast, and the cast."""

    valid: str
    value: str


def cast(value: str, source: ColumnType | None, target: ColumnType) -> Cast:
    """Return the cast of the SQL expression `value` from a type; from jsonb of any type if `source` is None."""
    text = f"({value} #>> '{{}}')" if source is None else f"{value}::text"
    if source is ColumnType.NUMBER and target is ColumnType.INT:
        # 5.00 equals the integer 5, but its text is not an integer's.
        text = f"trim_scale({value})::text"
    if target is ColumnType.STRING:
        return Cast("true", text)
    if target is ColumnType.NUMBER:
        fits = f"abs({text}::numeric) <= {_LARGEST}"
        return Cast(
            f"(case when {text} ~ '{_NUMBER}' and length({text}) <= 1000 then {fits} else false end)",
            f"{text}::numeric",
        )
    if target is ColumnType.INT:
        bounds = f"{text}::numeric between {-(2**63)} and {2**63 - 1}"
        return Cast(f"(case when {text} ~ '^-?[0-9]{{1,19}}$' then {bounds} else false end)", f"{text}::bigint")
    if target is ColumnType.BOOLEAN:
        return Cast(f"({text} in ('true', 'false'))", f"{text}::boolean")
    if target is ColumnType.UUID:
        return Cast(f"({text} ~ '{_UUID}')", f"{text}::uuid")
    if target is ColumnType.DATE:
        return Cast(f"(pilotis.try_time({text}) is not null)", text)
    json = value if source is None else f"pilotis.try_json({text})"
    return Cast(f"(coalesce(jsonb_typeof({json}), '') = '{target.value}')", json)

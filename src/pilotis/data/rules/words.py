"""Rules in words, for those who did not write them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotis.data.rules.document import is_reference
from pilotis.data.where.operands import CREATOR_NAME
from pilotis.kit import json

Json = Any

_OPERATORS = {
    "$eq": "is {}",
    "$ne": "is not {}",
    "$gt": "is more than {}",
    "$gte": "is at least {}",
    "$lt": "is less than {}",
    "$lte": "is at most {}",
    "$in": "is one of {}",
    "$nin": "is none of {}",
    "$contains": "contains {}",
    "$startsWith": "starts with {}",
    "$endsWith": "ends with {}",
    "$ieq": "is {} in upper or lower case",
    "$icontains": "contains {} in upper or lower case",
    "$istartsWith": "starts with {} in upper or lower case",
    "$arrayContains": "contains {}",
    "$arrayContainsAny": "contains one of {}",
}


def in_words(rule: Json) -> str:
    """Return a rule, with the names of columns and tables in it, as a clause such as `state is "published"`."""
    if not isinstance(rule, Mapping):
        return "everyone" if rule is True else "only the app itself"
    return " and ".join(_entry(name, value) for name, value in rule.items()) or "any"


def _entry(name: str, value: Json) -> str:
    match name:
        case "$and":
            return " and ".join(_grouped(one) for one in value)
        case "$or":
            return f"({' or '.join(in_words(one) for one in value)})"
        case "$not":
            return f"not ({in_words(value)})"
        case "$old":
            return f"before the change {in_words(value)}"
        case "$new":
            return f"after the change {in_words(value)}"
        case "$use":
            return f"“{value}” holds"
        case "$exists":
            where = in_words(value["where"]) if value["where"] else "any"
            return f"there is a row of {value['table']} in which {where}"
        case "$member":
            return " and ".join(_fact(fact, condition) for fact, condition in value.items()) or "a member is signed in"
        case _ if name == CREATOR_NAME and value == {"$member": "id"}:
            return "the caller created the row"
        case _:
            return _compared("the creator" if name == CREATOR_NAME else name, value)


def _grouped(rule: Json) -> str:
    return f"({in_words(rule)})" if isinstance(rule, Mapping) and len(rule) > 1 else in_words(rule)


def _fact(name: str, condition: Json) -> str:
    if name == "is_guest" and isinstance(condition, bool):
        return f"the caller is {'' if condition else 'not '}a guest"
    return _compared(_caller(name), condition)


def _caller(fact: str) -> str:
    return (
        f"the caller's claim {fact.removeprefix('claims.')}" if fact.startswith("claims.") else f"the caller's {fact}"
    )


def _compared(field: str, value: Json) -> str:
    if not isinstance(value, Mapping) or is_reference(value) or not any(name.startswith("$") for name in value):
        return f"{field} is {_value(value)}"
    return " and ".join(_operator(field, name, operand) for name, operand in value.items())


def _operator(field: str, name: str, operand: Json) -> str:
    if name == "$isNull":
        return f"{field} is {'' if operand else 'not '}empty"
    if name == "$between":
        return f"{field} is between {_value(operand[0])} and {_value(operand[1])}"
    if name == "$not":
        return f"not ({_compared(field, operand)})"
    return f"{field} {_OPERATORS[name].format(_value(operand))}"


def _value(value: Json) -> str:
    if not is_reference(value):
        return json.encode(value).decode()
    ((kind, name),) = value.items()
    match kind:
        case "$member":
            return _caller(name)
        case "$row":
            return "the row's creator" if name == CREATOR_NAME else f"the row's {name}"
        case "$old":
            return f"{name} before"
        case "$capability":
            return f"the link's {name}"
        case _:
            return "now" if not name else f"now {'+' if name > 0 else '−'} {abs(name)} s"

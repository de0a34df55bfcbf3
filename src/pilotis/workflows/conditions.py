"""Conditions in the `where` language, evaluated in Python. Pure.

A condition has the same meaning as on a row of a free-form table (see `pilotis.data.where.compiler`), with paths
instead of columns: absent and null are the same, values of different types are never equal, text is compared by code
point, and objects and lists are compared as PostgreSQL compares jsonb. A test compares both on random values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from pilotis.kit import json
from pilotis.kit.errors import PilotisError, invalid
from pilotis.workflows.paths import InvalidPathError, Look, parse

Json = Any
Condition = Callable[[Look], bool]

MAX_BYTES = 2048
MAX_DEPTH = 10
CODE = "INVALID_CONDITION"


def compile_condition(condition: Json, place: str) -> Condition:
    """Return a compiled condition; raises a 400 error `INVALID_CONDITION` that names the place."""
    if len(json.encode(condition)) > MAX_BYTES:
        raise _invalid(place, f"{place}: a condition has at most {MAX_BYTES} bytes.")
    return _conjunction(condition, place, 1)


def paths_of(condition: Json) -> Iterator[str]:
    """Yield the paths that a valid condition reads."""
    for name, value in condition.items():
        if name in {"$and", "$or"}:
            for item in value:
                yield from paths_of(item)
        elif name == "$not":
            yield from paths_of(value)
        else:
            yield name


def _invalid(place: str, message: str) -> PilotisError:
    return invalid(place, message, CODE)


def _conjunction(condition: Json, place: str, depth: int) -> Condition:
    if not isinstance(condition, dict):
        raise _invalid(place, f"{place} must be an object of conditions.")
    if depth > MAX_DEPTH:
        raise _invalid(place, f"Conditions are nested at most {MAX_DEPTH} deep.")
    parts = [_entry(name, value, place, depth) for name, value in condition.items()]
    return lambda look: all(part(look) for part in parts)


def _entry(name: str, value: Json, place: str, depth: int) -> Condition:
    if name in {"$and", "$or"}:
        if not isinstance(value, list):
            raise _invalid(f"{place}.{name}", f"{name} takes a list of conditions.")
        parts = [_conjunction(item, f"{place}.{name}[{at}]", depth + 1) for at, item in enumerate(value)]
        if name == "$and":
            return lambda look: all(part(look) for part in parts)
        return lambda look: any(part(look) for part in parts)
    if name == "$not":
        inner = _conjunction(value, f"{place}.$not", depth + 1)
        return lambda look: not inner(look)
    if not name.startswith("$."):
        raise _invalid(f"{place}.{name[:100]}", f"{name[:100]}: a path such as $.previous.score is expected.")
    try:
        parse(name)
    except InvalidPathError as error:
        raise _invalid(f"{place}.{name[:100]}", str(error)) from None
    test = _field(value, f"{place}.{name[:100]}", depth)
    return lambda look: test(look(name))


Test = Callable[[Json], bool]


def _field(value: Json, place: str, depth: int) -> Test:
    if not _has_operators(value):
        return lambda found: equal(found, value)
    tests = [_operator(name, operand, place, depth) for name, operand in value.items()]
    return lambda found: all(test(found) for test in tests)


def _operator(name: str, operand: Json, place: str, depth: int) -> Test:
    if name == "$not":
        if not _has_operators(operand) or depth >= MAX_DEPTH:
            raise _invalid(f"{place}.$not", "$not takes an object of operators here.")
        inner = _field(operand, f"{place}.$not", depth + 1)
        return lambda found: not inner(found)
    make = _OPERATORS.get(name)
    if make is None:
        known = ", ".join([*_OPERATORS, "$not"])
        raise _invalid(f"{place}.{name[:100]}", f"{name[:100]} is not an operator here; the operators are {known}.")
    return make(operand, f"{place}.{name}")


def _has_operators(value: Json) -> bool:
    return isinstance(value, dict) and any(key.startswith("$") for key in value)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def equal(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal: numbers by value, objects in any order, different types never."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    return type(one) is type(other) and bool(one == other)


def contains(one: Json, other: Json) -> bool:
    """Return whether a JSON value contains another one, as jsonb's `@>` does for two objects or two lists."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(key in one and _contains_inside(one[key], value) for key, value in other.items())
    if isinstance(one, list) and isinstance(other, list):
        return all(any(_contains_inside(mine, value) for mine in one) for value in other)
    return False


def _contains_inside(one: Json, other: Json) -> bool:
    return contains(one, other) if isinstance(other, (dict, list)) else equal(one, other)


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Json, str], Test]:
    def make(operand: Json, place: str) -> Test:
        if operand is None or isinstance(operand, (dict, list)):
            raise _invalid(place, f"{place.rpartition('.')[2]} takes a text, a number or a boolean.")
        for is_of in (_is_text, _is_bool, _is_number):
            if is_of(operand):
                return lambda found: is_of(found) and compare(found, operand)
        raise TypeError(operand)

    return make


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_bool(value: Json) -> bool:
    return isinstance(value, bool)


def _between(operand: Json, place: str) -> Test:
    if not isinstance(operand, list) or len(operand) != 2:
        raise _invalid(place, "$between takes a list of two values, [min, max].")
    low, high = (make(item, place) for make, item in zip((_AT_LEAST, _AT_MOST), operand, strict=True))
    return lambda found: low(found) and high(found)


def _in(operand: Json, place: str) -> Test:
    if not isinstance(operand, list):
        raise _invalid(place, f"{place.rpartition('.')[2]} takes a list.")
    return lambda found: any(equal(found, item) for item in operand)


def _not_in(operand: Json, place: str) -> Test:
    test = _in(operand, place)
    return lambda found: not test(found)


def _is_null(operand: Json, place: str) -> Test:
    if not isinstance(operand, bool):
        raise _invalid(place, "$isNull takes true or false.")
    return lambda found: (found is None) is operand


def _text(test: Callable[[str, str], bool]) -> Callable[[Json, str], Test]:
    def make(operand: Json, place: str) -> Test:
        if not isinstance(operand, str):
            raise _invalid(place, f"{place.rpartition('.')[2]} takes a text.")
        return lambda found: isinstance(found, str) and test(found, operand)

    return make


def _array_contains(operand: Json, _place: str) -> Test:
    elements = operand if isinstance(operand, list) else [operand]
    return lambda found: contains(found, elements)


def _array_contains_any(operand: Json, place: str) -> Test:
    if not isinstance(operand, list):
        raise _invalid(place, "$arrayContainsAny takes a list.")
    return lambda found: any(contains(found, [item]) for item in operand)


_AT_LEAST = _comparison(lambda one, other: one >= other)
_AT_MOST = _comparison(lambda one, other: one <= other)
_OPERATORS: dict[str, Callable[[Json, str], Test]] = {
    "$eq": lambda operand, _: lambda found: equal(found, operand),
    "$ne": lambda operand, _: lambda found: not equal(found, operand),
    "$gt": _comparison(lambda one, other: one > other),
    "$gte": _AT_LEAST,
    "$lt": _comparison(lambda one, other: one < other),
    "$lte": _AT_MOST,
    "$in": _in,
    "$nin": _not_in,
    "$between": _between,
    "$isNull": _is_null,
    "$contains": _text(lambda text, part: part in text),
    "$startsWith": _text(str.startswith),
    "$endsWith": _text(str.endswith),
    "$arrayContains": _array_contains,
    "$arrayContainsAny": _array_contains_any,
}

"""What a `where` means, in plain Python over rows as the API shows them: the second opinion on the SQL compiler."""

import operator
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from pilotis.kit.clock import parse_rfc3339

Json = Any
COMPARISONS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
OWN = {"id": "uuid", "created_at": "date", "updated_at": "date"}


def matches(item: Mapping[str, Json], where: Mapping[str, Json], schema: Mapping[str, str]) -> bool:
    """Return whether a row, as the API returns it, satisfies the condition."""
    return all(_entry(item, name, value, schema) for name, value in where.items())


def _entry(item: Mapping[str, Json], name: str, value: Json, schema: Mapping[str, str]) -> bool:
    if name == "$and":
        return all(matches(item, part, schema) for part in value)
    if name == "$or":
        return any(matches(item, part, schema) for part in value)
    if name == "$not":
        return not matches(item, value, schema)
    return _holds(*field(item, name, schema), value)


def field(item: Mapping[str, Json], name: str, schema: Mapping[str, str]) -> tuple[str, Json]:
    """Return a field's type, `json` for a path, and its value; None where it is absent or null."""
    if name in OWN:
        return OWN[name], item[name]
    if name in schema:
        type_ = schema[name]
        return "json" if type_ in {"object", "array"} else type_, item["data"].get(name)
    value = item["data"]
    for step in name.split("."):
        value = _step(value, step)
    return "json", value


def _step(value: Json, step: str) -> Json:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.removeprefix("-").isdigit():
        index = int(step)
        return value[index] if -len(value) <= index < len(value) else None
    return None


def _holds(type_: str, value: Json, condition: Json) -> bool:
    if not (isinstance(condition, dict) and any(key.startswith("$") for key in condition)):
        return _equal(type_, value, condition)
    return all(_operator(type_, value, name, operand) for name, operand in condition.items())


def _operator(type_: str, value: Json, name: str, operand: Json) -> bool:
    if name == "$not":
        return not _holds(type_, value, operand)
    if name in COMPARISONS:
        return _compare(COMPARISONS[name], type_, value, operand)
    return _OPERATORS[name](type_, value, operand)


def _equal(type_: str, value: Json, operand: Json) -> bool:
    if operand is None or value is None:
        return operand is None and value is None
    if type_ == "json":
        return _same(value, operand)
    left, right = comparable(type_, value), comparable(type_, operand)
    return right is not None and left == right


def comparable(type_: str, value: Json) -> Json:
    """Return what a value of a type is compared by; None for a value of another type."""
    if type_ == "date":
        return parse_rfc3339(value) if isinstance(value, str) else None
    if type_ == "uuid":
        return _uuid(value)
    wanted = {"string": "text", "boolean": "boolean"}.get(type_, "number")
    return value if kind(value) == wanted else None


def kind(value: Json) -> str:
    """Return JSON's own name of a value's type."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    return {str: "text", list: "array", dict: "object"}[type(value)]


def _uuid(value: Json) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) and len(value) == 36 else None
    except ValueError:
        return None


def _same(left: Json, right: Json) -> bool:
    if kind(left) != kind(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return left == right


def _compare(compare: Callable[[Json, Json], bool], type_: str, value: Json, operand: Json) -> bool:
    if value is None:
        return False
    if type_ == "json":
        return kind(value) == kind(operand) and compare(value, operand)
    right = comparable(type_, operand)
    return right is not None and compare(comparable(type_, value), right)


def _between(type_: str, value: Json, operand: Json) -> bool:
    low, high = operand
    return _compare(operator.ge, type_, value, low) and _compare(operator.le, type_, value, high)


def _in(type_: str, value: Json, operand: Json) -> bool:
    return any(_equal(type_, value, item) for item in operand)


def _text(test: Callable[[str, str], bool]) -> Callable[[str, Json, Json], bool]:
    return lambda _, value, operand: isinstance(value, str) and test(value, operand)


def _case_key(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def _contains(whole: Json, part: Json) -> bool:
    """JSON containment as PostgreSQL's manual has it (8.14.3), for a `part` that is a list."""
    if kind(whole) != kind(part):
        return False
    if isinstance(part, list):
        return all(any(_contains(item, wanted) for item in whole) for wanted in part)
    if isinstance(part, dict):
        return all(key in whole and _contains(whole[key], wanted) for key, wanted in part.items())
    return whole == part


_OPERATORS: dict[str, Callable[[str, Json, Json], bool]] = {
    "$eq": _equal,
    "$ne": lambda type_, value, operand: not _equal(type_, value, operand),
    "$in": _in,
    "$nin": lambda type_, value, operand: not _in(type_, value, operand),
    "$between": _between,
    "$isNull": lambda _, value, operand: (value is None) is operand,
    "$contains": _text(lambda text, part: part in text),
    "$startsWith": _text(str.startswith),
    "$endsWith": _text(str.endswith),
    "$ieq": _text(lambda text, other: _case_key(text) == _case_key(other)),
    "$icontains": _text(lambda text, part: _case_key(part) in _case_key(text)),
    "$istartsWith": _text(lambda text, part: _case_key(text).startswith(_case_key(part))),
    "$arrayContains": lambda _, value, operand: _contains(value, operand if isinstance(operand, list) else [operand]),
    "$arrayContainsAny": lambda _, value, operand: any(_contains(value, [item]) for item in operand),
}

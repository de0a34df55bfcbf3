"""Pipelines evaluated in plain Python, as MongoDB's manual describes the stages. Slow, and independent of SQL.

Values are what JSON has; numbers are `Decimal`. A missing field is `MISSING`, which groups and sorts as null does.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

MISSING = object()
Document = dict[str, Any]


def run(documents: list[Document], pipeline: list[Document]) -> list[Document]:
    """Return the documents that come out."""
    for stage in pipeline:
        (name, operand), *_ = stage.items()
        documents = STAGES[name](documents, operand)
    return documents


def is_number(value: Any) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def rank(value: Any) -> int:
    """The place of a value's type in BSON's comparison order."""
    if value is MISSING or value is None:
        return 1
    if isinstance(value, bool):
        return 6
    if is_number(value):
        return 2
    return {str: 3, dict: 4, list: 5}[type(value)]


def compare(left: Any, right: Any) -> int:
    """Compare as BSON does; only what is no object and no list."""
    if rank(left) != rank(right):
        return -1 if rank(left) < rank(right) else 1
    if rank(left) == 1 or left == right:
        return 0
    return -1 if left < right else 1


def value(document: Document, expression: Any) -> Any:
    if isinstance(expression, str) and expression.startswith("$"):
        found: Any = document
        for name in expression[1:].split("."):
            found = found.get(name, MISSING) if isinstance(found, dict) else MISSING
        return found
    if isinstance(expression, dict):
        ((name, operand),) = expression.items()
        operands = [value(document, item) for item in (operand if isinstance(operand, list) else [operand])]
        return OPERATORS[name](*operands)
    return expression


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a, b) if is_number(a) and is_number(b) else None


def truth(found: Any) -> bool:
    return not (found is MISSING or found is None or found is False or (is_number(found) and found == 0))


OPERATORS: dict[str, Callable[..., Any]] = {
    "$add": _arithmetic(lambda a, b: a + b),
    "$subtract": _arithmetic(lambda a, b: a - b),
    "$multiply": _arithmetic(lambda a, b: a * b),
    "$eq": lambda a, b: compare(a, b) == 0,
    "$ne": lambda a, b: compare(a, b) != 0,
    "$gt": lambda a, b: compare(a, b) > 0,
    "$lte": lambda a, b: compare(a, b) <= 0,
    "$and": lambda a, b: truth(a) and truth(b),
    "$or": lambda a, b: truth(a) or truth(b),
    "$not": lambda a: not truth(a),
    "$ifNull": lambda a, b: b if a is MISSING or a is None else a,
    "$cond": lambda a, b, c: b if truth(a) else c,
    "$concat": lambda a, b: a + b if isinstance(a, str) and isinstance(b, str) else None,
}


def _sort(documents: list[Document], keys: dict[str, int]) -> list[Document]:
    for name, direction in reversed(keys.items()):
        key = cmp_to_key(lambda a, b: compare(a, b))
        documents = sorted(documents, key=lambda one: key(value(one, f"${name}")), reverse=direction < 0)
    return documents


def _group(documents: list[Document], operand: Document) -> list[Document]:
    groups: list[tuple[Any, list[Document]]] = []
    for document in documents:
        key = value(document, operand["_id"])
        key = None if key is MISSING else key
        members = next((found for known, found in groups if compare(known, key) == 0), None)
        if members is None:
            groups.append((key, members := []))
        members.append(document)
    return [
        {"_id": key}
        | {
            name: _accumulate(kind, [value(document, item) for document in members])
            for name, accumulator in operand.items()
            if name != "_id"
            for kind, item in accumulator.items()
        }
        for key, members in groups
    ]


def _accumulate(kind: str, found: list[Any]) -> Any:
    numbers = [one for one in found if is_number(one)]
    present = [one for one in found if one is not MISSING and one is not None]
    in_order = sorted(present, key=cmp_to_key(compare))
    match kind:
        case "$sum":
            return sum(numbers)
        case "$min":
            return in_order[0] if in_order else None
        case "$max":
            return in_order[-1] if in_order else None
        case "$first" | "$last":
            one = found[0 if kind == "$first" else -1]
            return None if one is MISSING else one
        case "$push":
            return [one for one in found if one is not MISSING]
    raise AssertionError(kind)


def _add_fields(documents: list[Document], operand: Document) -> list[Document]:
    out = []
    for document in documents:
        changed = document | {name: value(document, item) for name, item in operand.items()}
        out.append({name: one for name, one in changed.items() if one is not MISSING})
    return out


def _unwind(documents: list[Document], path: str) -> list[Document]:
    out = []
    for document in documents:
        found = value(document, path)
        items = found if isinstance(found, list) else [] if found is MISSING or found is None else [found]
        out += [document | {path[1:]: item} for item in items]
    return out


STAGES: dict[str, Callable[[list[Document], Any], list[Document]]] = {
    "$sort": _sort,
    "$group": _group,
    "$addFields": _add_fields,
    "$unwind": _unwind,
    "$limit": lambda documents, count: documents[:count],
    "$skip": lambda documents, count: documents[count:],
    "$count": lambda documents, name: [{name: len(documents)}] if documents else [],
}

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


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal and of the same type: 1 is not true, and no member is missing."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return rank(left) == rank(right) and (rank(left) == 1 or left == right)


def value(document: Document, expression: Any) -> Any:
    if isinstance(expression, str) and expression.startswith("$"):
        found: Any = document
        for name in expression[1:].split("."):
            found = found.get(name, MISSING) if isinstance(found, dict) else MISSING
        return found
    if isinstance(expression, dict):
        if not any(name.startswith("$") for name in expression):
            members = {name: value(document, item) for name, item in expression.items()}
            return {name: one for name, one in members.items() if one is not MISSING}
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
        members = next((found for known, found in groups if same(known, key)), None)
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
    match kind:
        case "$sum":
            return sum(numbers)
        case "$min":
            return min(present, key=cmp_to_key(compare), default=None)
        case "$max":
            return max(present, key=cmp_to_key(compare), default=None)
        case "$first" | "$last":
            one = found[0 if kind == "$first" else -1]
            return None if one is MISSING else one
        case "$push":
            return [one for one in found if one is not MISSING]
        case "$addToSet":
            members: list[Any] = []
            for one in found:
                if one is not MISSING and not any(same(one, other) for other in members):
                    members.append(one)
            return members
    raise AssertionError(kind)


def _add_fields(documents: list[Document], operand: Document) -> list[Document]:
    out = []
    for document in documents:
        changed = document | {name: value(document, item) for name, item in operand.items()}
        out.append({name: one for name, one in changed.items() if one is not MISSING})
    return out


def _unwind(documents: list[Document], operand: Any) -> list[Document]:
    options = operand if isinstance(operand, dict) else {"path": operand}
    path, keeps = options["path"], options.get("preserveNullAndEmptyArrays", False)
    index = options.get("includeArrayIndex")
    out = []
    for document in documents:
        found = value(document, path)
        if found is MISSING or found is None or found == []:
            # Preserved values are unchanged, except that an empty array is removed.
            kept = {name: one for name, one in document.items() if found != [] or name != path[1:]}
            out += [kept | ({index: None} if index else {})] if keeps else []
            continue
        for position, item in enumerate(found if isinstance(found, list) else [found]):
            place = position if isinstance(found, list) else None
            out.append(document | {path[1:]: item} | ({index: place} if index else {}))
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

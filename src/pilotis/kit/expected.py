"""Describes the values that a type accepts, and locates the values that msgspec rejects. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect

Json = Any

_TOKEN = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(\.\.\.)\]")
_GOT = re.compile(r"got `(\w+)`")
_INVALID_ENUM = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_MAX_LISTED = 30
_KINDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number with a fraction",
    "bool": "a boolean",
    "null": "null",
    "array": "an array",
    "object": "an object",
}


class OutOfRange(msgspec.Struct, frozen=True):
    """Marks a number in a decoded body that is out of range."""


described = functools.lru_cache(maxsize=512)(inspect.type_info)


def place_of(path: str, value: Json) -> str:
    """Return msgspec's path, such as `$.rows[...].age`, with the member names that it omits.

    `value` is the decoded body. The path is that of the first member that holds an `OutOfRange` or is not a whole
    number.
    """
    parts = []
    for name, index, unnamed in _TOKEN.findall(path):
        if unnamed:
            name = _odd_member(value)
        value = _member(value, int(index) if index else name)
        parts.append(f"[{index}]" if index else f".{name}")
    return "".join(parts).removeprefix(".")


def _odd_member(value: Json) -> str:
    members = value if isinstance(value, dict) else {}
    for is_odd in (_holds_out_of_range, lambda item: type(item) is not int):
        for name, item in members.items():
            if is_odd(item):
                return str(name)
    return "…"


def _holds_out_of_range(value: Json) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, OutOfRange):
            return True
        pending.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
    return False


def _member(value: Json, key: str | int) -> Json:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return None


def expectation(type_: Any, path: str, sentence: str) -> str | None:
    """Return a sentence about the value expected at msgspec's path; None if the type does not specify it."""
    node = _at(described(type_), path)
    text = None if node is None else _words(node)
    if text is None:
        return None
    enum, got = _INVALID_ENUM.match(sentence), _GOT.search(sentence)
    if enum:
        return f"{text} is expected, not {enum[1].replace(chr(39), chr(34))}"
    return f"{text} is expected, not {_KINDS.get(got[1], got[1])}" if got else f"{text} is expected"


def fields_at(type_: Any, path: str) -> str | None:
    """Return a sentence about the fields of the object at msgspec's path; None if the type does not specify them."""
    node = _at(described(type_), path)
    options = node.types if isinstance(node, inspect.UnionType) else (node,)
    objects = [option for option in options if isinstance(option, inspect.StructType)]
    if len(objects) != 1:
        return None
    names = [field.encode_name for field in objects[0].fields]
    if len(names) > _MAX_LISTED:
        names = [*names[:_MAX_LISTED], f"{len(names) - _MAX_LISTED} more"]
    if not names:
        return "there are none"
    return (
        f"the only one is {names[0]}" if len(names) == 1 else f"the fields are {', '.join(names[:-1])} and {names[-1]}"
    )


def _at(node: inspect.Type, path: str) -> inspect.Type | None:
    found: inspect.Type | None = node
    for name, index, unnamed in _TOKEN.findall(path):
        found = _step(found, name, is_item=bool(index), is_value=bool(unnamed))
    return found


def _step(node: inspect.Type | None, name: str, *, is_item: bool, is_value: bool) -> inspect.Type | None:
    if isinstance(node, inspect.Metadata):
        return _step(node.type, name, is_item=is_item, is_value=is_value)
    if isinstance(node, inspect.UnionType):
        steps = (_step(one, name, is_item=is_item, is_value=is_value) for one in node.types)
        return next((step for step in steps if step is not None), None)
    if isinstance(node, inspect.StructType) and name:
        return next((field.type for field in node.fields if field.encode_name == name), None)
    if isinstance(node, inspect.ListType) and is_item:
        return node.item_type
    return node.value_type if isinstance(node, inspect.DictType) and is_value else None


def _words(node: inspect.Type) -> str | None:
    """Return a description of a type's values, such as `a whole number from 0` or `"asc" or "desc"`."""
    if isinstance(node, inspect.Metadata):
        examples = (node.extra_json_schema or {}).get("examples")
        if examples and isinstance(node.type, inspect.StrType):
            return f"a string{_length(node.type, 'characters')} such as {examples[0]}"
        return _words(node.type)
    if isinstance(node, inspect.UnionType):
        parts = [_words(one) for one in node.types if not isinstance(one, inspect.NoneType)]
        known = list(dict.fromkeys(part for part in parts if part))
        return _or(known) if known and len(known) == len(set(parts)) else None
    if isinstance(node, inspect.LiteralType):
        return _or([_quoted(value) for value in node.values])
    if isinstance(node, inspect.EnumType):
        return _or([_quoted(member.value) for member in node.cls])
    if isinstance(node, (inspect.IntType, inspect.FloatType)):
        return ("a whole number" if isinstance(node, inspect.IntType) else "a number") + _range(node)
    if isinstance(node, inspect.StrType):
        form = f" that matches {node.pattern}" if node.pattern else ""
        return f"a string{_length(node, 'characters')}{form}"
    if isinstance(node, inspect.ListType):
        return f"an array{_length(node, 'items')}"
    return next((words for type_, words in _PLAIN.items() if isinstance(node, type_)), None)


_PLAIN: dict[type, str] = {
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
    inspect.UUIDType: "a UUID",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
}


def _quoted(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _or(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _range(node: inspect.IntType | inspect.FloatType) -> str:
    low = node.ge if node.ge is not None else node.gt
    high = node.le if node.le is not None else node.lt
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f" from {low}" if low is not None else f" up to {high}" if high is not None else ""


def _length(node: inspect.StrType | inspect.ListType, unit: str) -> str:
    low, high = node.min_length, node.max_length
    if low is not None and high is not None:
        return f" of {low} {unit}" if low == high else f" of {low} to {high} {unit}"
    if low == 1:
        unit = unit.removesuffix("s")
    return f" of at least {low} {unit}" if low else f" of at most {high} {unit}" if high is not None else ""

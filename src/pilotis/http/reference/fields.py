"""Parameters, bodies and answers of operations as lists of fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape

from pilotis.http.api.json_schemas import Json

_CODE = re.compile(r"`([^`]+)`")
_MAX_DEPTH = 2

# These types have their own section of the page, so their fields are not repeated.
_EXPLAINED = {"Where": "#where", "Stage": "#pipeline"}

Field = tuple[str, str, str, str]
# The labels of a required and of an optional field.
Words = tuple[str, str]
_REQUEST: Words = ("required", "")
_ANSWER: Words = ("", "optional")


def prose(text: str) -> str:
    """Return a sentence as HTML, with code between backticks."""
    return _CODE.sub(r"<code>\1</code>", escape(" ".join(text.split())))


def parameter_fields(operation: Json, document: Json) -> str:
    """Return the parameters of an operation."""
    return _fields("Parameters", _parameters(operation, document))


def body_fields(operation: Json, document: Json) -> str:
    """Return the fields of an operation's JSON body."""
    return _fields("Body", _content(operation.get("requestBody"), document, _REQUEST))


def answer_fields(response: Json, status: int, document: Json) -> str:
    """Return the fields of an operation's JSON answer, collapsed."""
    inner = _fields("", _content(response, document, _ANSWER))
    return f'<details class="fields"><summary>Answer {status}: fields</summary>\n{inner}</details>' if inner else ""


def _fields(title: str, fields: Iterator[Field]) -> str:
    items = "".join(
        f'<div class="field"><dt><code>{escape(name)}</code> <span class="kind">{kind}</span>'
        + (f' <span class="need">{escape(need)}</span>' if need else "")
        + f"</dt>{f'<dd>{prose(text)}</dd>' if text.strip() else ''}</div>\n"
        for name, kind, need, text in fields
    )
    heading = f"<h4>{escape(title)}</h4>\n" if title else ""
    return f"{heading}<dl>\n{items}</dl>" if items else ""


def _parameters(operation: Json, document: Json) -> Iterator[Field]:
    for parameter in operation.get("parameters", ()):
        need = "required" if parameter["required"] else ""
        place = "" if parameter["in"] == "query" else f"In the {parameter['in']}. "
        text = place + parameter.get("description", "")
        yield parameter["name"], _kind(parameter["schema"], document), need, text


def _content(content: Json | None, document: Json, words: Words) -> Iterator[Field]:
    if content and "application/json" in content.get("content", {}):
        yield from _rows(content["content"]["application/json"]["schema"], document, words, "", 0)


def _rows(schema: Json, document: Json, words: Words, prefix: str, depth: int) -> Iterator[Field]:
    if _name(schema) in _EXPLAINED:
        return
    for alternative in schema.get("anyOf", [schema]):
        resolved = _resolved(alternative, document)
        if _name(alternative) in _EXPLAINED or "anyOf" in resolved:
            continue
        if resolved.get("type") == "array":
            yield from _rows(resolved.get("items", {}), document, words, f"{prefix}[]", depth)
            continue
        for name, field in resolved.get("properties", {}).items():
            full = f"{prefix}.{name}" if prefix else name
            need = words[name not in resolved.get("required", ())]
            yield full, _kind(field, document), need, field.get("description", "")
            if depth < _MAX_DEPTH:
                yield from _rows(field, document, words, full, depth + 1)


def _name(schema: Json) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _resolved(schema: Json, document: Json) -> Json:
    name = _name(schema)
    found: Json = document["components"]["schemas"][name] if name else schema
    return found


def _kind(schema: Json, document: Json) -> str:
    """Return a type in words, as HTML."""
    name = _name(schema)
    if name in _EXPLAINED:
        return f'<a href="{_EXPLAINED[name]}">{name}</a>'
    schema = _resolved(schema, document)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one, document) for one in schema["anyOf"]))
    if "enum" in schema:
        shown = [f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"]]
        return " or ".join(shown)
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}), document)}"
    # The format of a number is its size in memory, which programs need, and people know.
    is_number = kind in {"integer", "number"}
    return escape(schema["format"] if "format" in schema and not is_number else kind + _range(schema))


def _range(schema: Json) -> str:
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if schema.get("type") == "string" else ""
    if low is None and high is None:
        return ""
    if high is None or high >= 2**53:
        return f", from {low}{unit}"
    return f", {low} to {high}{unit}" if low is not None else f", up to {high}{unit}"

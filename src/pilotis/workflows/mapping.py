"""Mappings: compose a step's input from earlier values. Pure.

A text that begins with `$` is a path, and becomes the value there; `$$` at the beginning is a literal `$`. In other
texts `{{ $.path }}` is replaced by the value's text. Values are inserted once: their content is never parsed as a
path.
"""

from __future__ import annotations

import re
from typing import Any

from pilotis.kit import json
from pilotis.kit.errors import invalid
from pilotis.workflows.paths import InvalidPathError, Look, parse

Json = Any
_TEMPLATE = re.compile(r"\{\{\s*(\$[^{}]*?)\s*\}\}")


def check(mapping: Json, place: str) -> None:
    """Raise a 400 error that names the place of an invalid path in a mapping."""
    if isinstance(mapping, dict):
        for name, value in mapping.items():
            check(value, f"{place}.{name[:100]}")
    elif isinstance(mapping, list):
        for at, value in enumerate(mapping):
            check(value, f"{place}[{at}]")
    elif isinstance(mapping, str):
        for path in _paths(mapping):
            try:
                parse(path)
            except InvalidPathError as error:
                raise invalid(place, str(error), "INVALID_MAPPING") from None


def _paths(text: str) -> list[str]:
    if text.startswith("$"):
        return [] if text.startswith("$$") else [text]
    return _TEMPLATE.findall(text)


def apply(mapping: Json, look: Look) -> Json:
    """Return the mapping with the values of its paths."""
    if isinstance(mapping, dict):
        return {name: apply(value, look) for name, value in mapping.items()}
    if isinstance(mapping, list):
        return [apply(value, look) for value in mapping]
    return _of_text(mapping, look) if isinstance(mapping, str) else mapping


def _of_text(text: str, look: Look) -> Json:
    if text.startswith("$$"):
        return text[1:]
    return look(text) if text.startswith("$") else render(text, look)


def render(text: str, look: Look) -> str:
    """Return a template with its values as text, objects and lists as JSON, and null as an empty text."""
    return _TEMPLATE.sub(lambda match: _as_text(look(match[1])), text)


def _as_text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.encode(value).decode()

"""Mappings: compose a step's input from earlier values. Pure.

A text that begins with `$` is a path, and becomes the value there; `$$` at the beginning is a literal `$`. In other
texts `{{ $.path }}` is replaced by the value's text. Values are inserted once: their content is never parsed as a
path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pilotis.kit import json
from pilotis.workflows.paths import Look

Json = Any
_TEMPLATE = re.compile(r"\{\{\s*(\$[^{}]*?)\s*\}\}")


def places(mapping: Json, place: str) -> Iterator[tuple[str, str]]:
    """Yield the paths in a mapping, valid or not, each after its place."""
    if isinstance(mapping, dict):
        for name, value in mapping.items():
            yield from places(value, f"{place}.{name[:100]}")
    elif isinstance(mapping, list):
        for at, value in enumerate(mapping):
            yield from places(value, f"{place}[{at}]")
    elif isinstance(mapping, str):
        yield from ((place, path) for path in _paths(mapping))


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

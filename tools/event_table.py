"""Writes the table of event types into docs/webhooks.md, from the types that the features declare.

.venv/bin/python tools/event_table.py            writes
.venv/bin/python tools/event_table.py --check    exits 1 if the table is not what it would write
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec

import pilotis
from pilotis.events.types import EventType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.pages import rewrite  # noqa: E402

PAGE = ROOT / "docs" / "webhooks.md"
BEGIN, END = "<!-- table of events: begin -->", "<!-- table of events: end -->"


def event_types() -> list[EventType[Any]]:
    """Return every event type that webhooks can name, by feature."""
    found = []
    for module in sorted(pkgutil.walk_packages(pilotis.__path__, "pilotis."), key=lambda module: module.name):
        if module.name.endswith(".events"):
            types = getattr(importlib.import_module(module.name), "EVENT_TYPES", ())
            found += [type_ for type_ in types if not type_.internal]
    return found


def fields(struct: Any, depth: int = 0) -> str:
    """Return the names of a struct's fields, those of structs in it in braces; a `?` means that it can be absent."""
    parts = []
    for field in msgspec.structs.fields(struct):
        if depth and field.encode_name == "created_by" and field.default is msgspec.UNSET:
            # Answers have it for the app's side; events do not.
            continue
        inner = _struct_in(field.type) if depth < 1 else None
        mark = "?" if field.default is msgspec.UNSET else ""
        parts.append(f"{field.encode_name}{mark}" + (f" {{{fields(inner, depth + 1)}}}" if inner else ""))
    return ", ".join(parts)


def _struct_in(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return None if kind is msgspec.Struct else kind
    return next(filter(None, map(_struct_in, typing.get_args(kind))), None)


def table() -> str:
    """Return the table in Markdown."""
    lines = ["| Type | When | `data` |", "|---|---|---|"]
    lines += [f"| `{type_.name}` | {type_.description} | {fields(type_.data)} |" for type_ in event_types()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, BEGIN, END, table()))

"""Paths into the values that a step can read, such as `$.steps.check.output.items[0]`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Json = Any
Look = Callable[[str], Json]
"""Returns the value of a path's text; None where there is none."""

MAX_PATH = 500
_PART = re.compile(r"\.([^.\[\]{}\s\"]+)|\[(\d{1,9})\]|\[\"([^\"\\]*)\"\]")
_ROOTS = ("input", "steps", "previous", "trigger", "item", "index")
_OF_STEP = ("output", "status", "error")


class InvalidPathError(ValueError):
    """The text is not a path; the message gives the reason."""


def parse(text: str) -> tuple[str | int, ...]:
    """Return the parts of a path; raises `InvalidPathError`.

    A path begins with `$.input`, `$.previous`, `$.trigger` or `$.steps.<id>.output`, `.status` or `.error`; inside
    `items` also with `$.item` and `$.index`. Members follow as `.name` or `["any name"]`, elements as `[0]`.
    """
    if len(text) > MAX_PATH:
        raise InvalidPathError(f"A path has at most {MAX_PATH} characters.")
    parts: list[str | int] = []
    position = 1
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise InvalidPathError(f"{text} is not a path such as $.input.user.id or $.steps.check.output.items[0].")
        name, index, quoted = match.groups()
        parts.append(int(index) if index is not None else quoted if name is None else name)
        position = match.end()
    if not parts or parts[0] not in _ROOTS:
        raise InvalidPathError(f"{text}: a path begins with $.input, $.steps, $.previous or $.trigger.")
    if parts[0] == "steps" and (len(parts) < 3 or parts[2] not in _OF_STEP):
        raise InvalidPathError(f"{text}: of a step there is $.steps.<id>.output, .status and .error.")
    return tuple(parts)


def follow(value: Json, parts: tuple[str | int, ...]) -> Json:
    """Return the value at the path inside a value; None if there is none."""
    for part in parts:
        if isinstance(value, dict):
            value = value.get(str(part))
        elif isinstance(value, list):
            at = part if isinstance(part, int) else int(part) if part.isascii() and part.isdigit() else -1
            value = value[at] if 0 <= at < len(value) else None
        else:
            return None
    return value

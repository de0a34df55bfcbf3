"""Shortens values that are too large for an event. Pure."""

from __future__ import annotations

from typing import Any

from pilotis.kit import json

MAX_SHOWN = 16 * 1024


def shown(value: Any) -> Any:
    """Return a value for an event; a large one is replaced by its size in bytes."""
    size = 0 if value is None else len(json.encode(value))
    return value if size <= MAX_SHOWN else {"truncated": True, "size": size}

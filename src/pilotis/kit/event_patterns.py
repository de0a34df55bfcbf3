"""Patterns of event types: a name, a prefix such as `row.*` or `team.member.*`, or `*`. Pure."""

from __future__ import annotations


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern (a name, a prefix followed by `.*`, or `*`) matches a type's name."""
    if pattern == "*":
        return True
    return name.startswith(pattern[:-1]) if pattern.endswith(".*") else pattern == name

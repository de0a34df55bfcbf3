"""The event types that a webhook may name: built-in ones, the app's own, a prefix, or all. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pilotis.kit.event_patterns import matches
from pilotis.webhooks.errors import UnknownEventTypeError

ONLY_BY_TEST = "webhook.test"
"""The type that only the test route sends."""
_MAX_LISTED = 50


def check_provider_patterns(patterns: Iterable[str], names: Collection[str]) -> None:
    """Raise `UnknownEventTypeError` for a pattern other than a provider's own type or a prefix of one."""
    for pattern in patterns:
        if pattern == "*":
            text = "A consumer names the types of the provider, or a prefix such as order.*; it cannot receive all."
            raise UnknownEventTypeError(text).at("event_types")
    check_patterns(patterns, names)


def check_patterns(patterns: Iterable[str], names: Collection[str]) -> None:
    """Raise `UnknownEventTypeError` for a pattern that no type name can ever match."""
    for pattern in patterns:
        is_prefix = pattern.endswith(".*") and any(matches(pattern, name) for name in names)
        if pattern == "*" or (pattern in names and pattern != ONLY_BY_TEST) or is_prefix:
            continue
        listed = ", ".join(sorted({*names} - {ONLY_BY_TEST})[:_MAX_LISTED])
        raise UnknownEventTypeError(f"There is no event type {pattern}; there are {listed}, and *.").at("event_types")

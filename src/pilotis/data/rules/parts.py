"""The parts of a rule, each with its place in the document. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pilotis.data.rules.actions import Action
from pilotis.data.rules.words import in_words

Json = Any


class Part(NamedTuple):
    """A condition of a rule that has no other in it, in its stored form, and what it says.

    `version` is `$old` or `$new` where it is about the row before a change, or after it, alone.
    """

    place: str
    words: str
    condition: dict[str, Json]
    version: str


def parts_of(action: Action, rules: Mapping[Any, Json], shown: Mapping[Any, Json]) -> list[Part]:
    """Return the parts of an action's rule from its stored and its shown form; none of a rule that is null or true."""
    rule = rules.get(action)
    if not isinstance(rule, Mapping):
        return []
    defined = rules.get("define") or {}, shown.get("define") or {}
    return list(_within(rule, shown[action], f"rules.{action.value}", "", defined))


def _within(
    rule: Mapping[str, Json], shown: Mapping[str, Json], place: str, version: str, defined: tuple[Json, Json]
) -> Iterator[Part]:
    for (name, value), (shown_name, shown_value) in zip(rule.items(), shown.items(), strict=True):
        here = f"{place}.{shown_name}"
        if name in {"$and", "$or"}:
            for at, (one, other) in enumerate(zip(value, shown_value, strict=True)):
                yield from _within(one, other, f"{here}[{at}]", version, defined)
        elif name in {"$not", "$old", "$new"}:
            yield from _within(value, shown_value, here, version if name == "$not" else name, defined)
        elif name == "$use":
            yield from _within(defined[0][value], defined[1][value], f"rules.define.{value}", version, defined)
        else:
            yield Part(here, in_words({shown_name: shown_value}), {name: value}, version)

"""What a rule may not have been meant to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pilotis.data.rules.types import RuleWarning
from pilotis.data.tables.schema import TableSchema

Json = Any


BROKEN = RuleWarning(
    "BROKEN_RULES",
    "rules",
    "They name a table or a column that is gone, and allow nothing. Save others.",
)


def warnings(document: Mapping[str, Json], table: TableSchema, thing: str = "row") -> list[RuleWarning]:
    """Return the warnings about a document of rules, with the names of columns and tables in it.

    `thing` is what the rules are about.
    """
    found = [
        RuleWarning("OPEN_TO_ALL", f"rules.{action}", f"Everybody with the public key may {action} every {thing}.")
        for action in ("create", "update", "delete")
        if document.get(action) is True
    ]
    for name, rule in document.items():
        found += _within(rule, f"rules.{name}", table.title)
    return found


def _within(rule: Json, place: str, title: str) -> Iterator[RuleWarning]:
    if isinstance(rule, list):
        for index, one in enumerate(rule):
            yield from _within(one, f"{place}[{index}]", title)
    if not isinstance(rule, dict):
        return
    for name, value in rule.items():
        here = f"{place}.{name}"
        if name == "$member" and isinstance(value, dict):
            yield from _about_claims(value, here)
        else:
            if name == "$exists":
                yield from _about_exists(value, here, title)
            yield from _within(value, here, title)


def _about_claims(facts: Mapping[str, Json], place: str) -> Iterator[RuleWarning]:
    for name, condition in facts.items():
        if name.startswith("claims.") and isinstance(condition, dict) and {"$ne", "$nin"} & set(condition):
            message = f"Members without {name} do not pass: an absent claim is never unequal. Ask for a role instead."
            yield RuleWarning("ABSENT_CLAIM", f"{place}.{name}", message)


def _about_exists(exists: Mapping[str, Json], place: str, title: str) -> Iterator[RuleWarning]:
    if not _has_equality(exists["where"]):
        message = "It reads the whole table: compare a column with the member or with the row."
        yield RuleWarning("WIDE_EXISTS", place, message)
    if exists["table"] == title and place.startswith("rules.create") and ".$not" in place:
        message = "Two requests at once may both find that there is none. A unique key decides such a race."
        yield RuleWarning("RACY_RULE", place, message)
    if exists["table"] == title and place.startswith(("rules.update", "rules.delete")):
        yield RuleWarning("RACY_RULE", place, "Two changes at once may both pass a rule about other rows.")


def _has_equality(where: Json) -> bool:
    if not isinstance(where, dict):
        return False
    return any(
        any(map(_has_equality, value))
        if name == "$and"
        else not name.startswith("$") and isinstance(value, dict) and bool({"$member", "$row", "$eq"} & set(value))
        for name, value in where.items()
    )

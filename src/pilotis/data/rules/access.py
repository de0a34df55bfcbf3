"""How statements under rules read the tables that the rules name: the patterns of the indexes that they need. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.rules.actions import Action
from pilotis.data.rules.document import is_reference
from pilotis.data.rules.paths import without_paths
from pilotis.data.where.access_patterns import AccessKind, AccessPattern, AccessPatterns, Part
from pilotis.data.where.operands import CREATOR, CREATOR_NAME

Json = Any

_KINDS = {
    "$eq": AccessKind.EQUALITY,
    "$in": AccessKind.IN,
    "$gt": AccessKind.RANGE,
    "$gte": AccessKind.RANGE,
    "$lt": AccessKind.RANGE,
    "$lte": AccessKind.RANGE,
    "$between": AccessKind.RANGE,
    "$arrayContains": AccessKind.CONTAINMENT,
    "$arrayContainsAny": AccessKind.CONTAINMENT,
}
_MAX_COLUMNS = 3


def needed(table_id: UUID, rules: Mapping[str, Json]) -> list[tuple[UUID, AccessPattern]]:
    """Return the patterns, with their tables, by which stored rules of a table find rows.

    A new row is not found, but the rows of other tables that its rule asks for are.
    """
    rules = without_paths(rules)
    reading = _Reading(rules.get("define") or {})
    for action in Action:
        if isinstance(rule := rules.get(action.value), Mapping):
            reading.judged = AccessPatterns()
            reading.condition(rule)
            if action is not Action.CREATE:
                reading.found += [(table_id, use) for use in reading.judged.patterns()]
    for column in (rules.get("columns") or {}).values():
        if isinstance(rule := column.get("read"), Mapping):
            # It is asked of rows that have been found.
            reading.condition(rule)
    return list(dict.fromkeys(reading.found))


class Reading(NamedTuple):
    """How a table is read for a branch of a rule: any of the patterns finds the rows; without one, all are read."""

    table_id: UUID
    patterns: tuple[AccessPattern, ...]


def of_branches(table_id: UUID, rules: Mapping[str, Json]) -> list[Reading]:
    """Return how lists under stored rules of a table read it and others: for each branch, the smallest part of an `or`.

    What the caller's facts alone decide reads nothing.
    """
    rules = without_paths(rules)
    defined = rules.get("define") or {}
    found: list[Reading] = []
    for action in (Action.READ, Action.LIST):
        if isinstance(rule := rules.get(action.value), Mapping):
            for branch in _branches(rule, defined):
                reading = _Reading(defined)
                reading.condition(branch)
                found += [Reading(other, (use,)) for other, use in reading.found]
                if not _is_found_otherwise(branch):
                    found.append(Reading(table_id, tuple(reading.judged.patterns())))
    return list(dict.fromkeys(found))


def _branches(rule: Mapping[str, Json], defined: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield the alternatives of a rule, those of what it uses as well."""
    if len(rule) == 1 and "$or" in rule:
        for one in rule["$or"]:
            yield from _branches(one, defined)
    elif len(rule) == 1 and "$use" in rule:
        yield from _branches(defined[rule["$use"]], defined)
    else:
        yield rule


def _is_found_otherwise(branch: Mapping[str, Json]) -> bool:
    """Return whether a branch reads no rows to see which it holds of: by their ids, or not depending on them."""
    return all(
        name == "$member" or (name == "$exists" and not _names_row(value["where"])) for name, value in branch.items()
    ) or any(name == "id" and AccessKind.EQUALITY in _kinds(value) for name, value in branch.items())


def _names_row(where: Json) -> bool:
    """Return whether a condition on rows of another table names the judged row."""
    if is_reference(where):
        return "$row" in where
    if isinstance(where, Mapping):
        return any(_names_row(value) for name, value in where.items() if name != "$exists")
    return isinstance(where, list) and any(map(_names_row, where))


class _Reading:
    def __init__(self, defined: Mapping[str, Json]) -> None:
        self._defined = defined
        self.judged = AccessPatterns()
        self.found: list[tuple[UUID, AccessPattern]] = []

    def condition(self, rule: Mapping[str, Json]) -> None:
        for name, value in rule.items():
            if name == "$and":
                for one in value:
                    self.condition(one)
            elif name == "$or":
                for one in value:
                    with self.judged.alternative():
                        self.condition(one)
            elif name == "$use":
                self.condition(self._defined[value])
            elif name == "$old":
                self.condition(value)
            elif name in {"$not", "$new"}:
                with self.judged.ignored():
                    self.condition(value)
            elif name == "$exists":
                self._exists(UUID(value["table"]), value["where"])
            elif name != "$member":
                for kind in _kinds(value):
                    self.judged.add(kind, _column(name))

    def _exists(self, table_id: UUID, where: Mapping[str, Json]) -> None:
        """Rows are looked up by what the caller or the rule says, and by what the judged row says."""
        given, judged = [], []
        for name, value in _entries(where):
            if name == "$exists":
                self._exists(UUID(value["table"]), value["where"])
            if name.startswith("$") or AccessKind.EQUALITY not in _kinds(value):
                continue
            reference: Json = value.get("$eq", value) if isinstance(value, Mapping) else None
            if is_reference(reference) and "$row" in reference:
                judged.append(_column(name))
                # Where the other table is read once, the judged table is read by what it lists.
                self.judged.add(AccessKind.IN, _column(reference["$row"]))
            else:
                given.append(_column(name))
        columns = [*sorted(filter(None, given)), *sorted(filter(None, judged))]
        if columns:
            use = tuple(Part(AccessKind.EQUALITY, column) for column in columns[:_MAX_COLUMNS])
            self.found.append((table_id, use))


def _entries(where: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the conditions that hold together."""
    for name, value in where.items():
        if name == "$and":
            for one in value:
                yield from _entries(one)
        else:
            yield name, value


def _kinds(value: Json) -> list[AccessKind]:
    if not isinstance(value, Mapping) or is_reference(value) or not any(name.startswith("$") for name in value):
        return [AccessKind.EQUALITY]
    return [_KINDS[name] for name in value if name in _KINDS]


def _column(key: str) -> str | None:
    """Return a column as patterns name it; None for a path into one, the id, and a field of a table without columns."""
    if key == CREATOR_NAME:
        return CREATOR
    if key in {"created_at", "updated_at"}:
        return key
    return key[1:] if key.startswith("#") and key[1:].isdigit() else None

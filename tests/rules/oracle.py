"""A second reading of rules, in plain Python over all rows of an app: what a caller may do, and which error it gets.

It shares no code with the product. A rule is evaluated as it was sent, by names, on one row at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

Json = Any
Row = dict[str, Any]
"""A row's columns, with `id` and `$creator`."""


class Caller(NamedTuple):
    """The facts of a signed-in member, or None for nobody."""

    facts: dict[str, Any] | None


class World(NamedTuple):
    """The rows of each table by its title, the columns that hold UUIDs, and those that refer to rows of a table."""

    tables: Mapping[str, list[Row]]
    uuids: frozenset[str]
    references: Mapping[str, str] = {}


class Denied(NamedTuple):
    """An error: its status and code."""

    status: int
    code: str


NOT_FOUND = Denied(404, "ROW_NOT_FOUND")
DENIED = Denied(403, "RULE_DENIED")
NOBODY = Denied(401, "MEMBER_TOKEN_REQUIRED")
_OPERANDS = ("$member", "$row", "$old", "$now")


def _operand(value: Json) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _OPERANDS


class Oracle:
    """What a caller may do in a table with rules."""

    def __init__(self, world: World, rules: Mapping[str, Json], facts: dict[str, Any] | None) -> None:
        self.world = world
        self.rules = rules
        self.facts = facts

    # What requests ask.

    def listed(self, rows: Sequence[Row]) -> list[Row] | Denied:
        """The rows of a list, or its error."""
        asked = ["list", "read"] if "list" in self.rules else ["read"]
        return self._error(*asked) or [row for row in rows if all(self._allows(action, row) for action in asked)]

    def read(self, row: Row | None) -> Denied | None:
        return self._error("read") or (None if row and self._allows("read", row) else NOT_FOUND)

    def created(self, row: Row) -> Denied | None:
        return self._error("create") or (None if self._allows("create", row) else DENIED)

    def updated(self, row: Row, changes: Row) -> Denied | None:
        error = self._error("update", "read")
        if error or not self._allows("read", row):
            return error or NOT_FOUND
        new = row | changes
        held = all(self._allows("update", judged, old=row, new=new) for judged in (row, new))
        return None if held else DENIED

    def deleted(self, row: Row) -> Denied | None:
        error = self._error("delete", "read")
        if error or not self._allows("read", row):
            return error or NOT_FOUND
        return None if self._allows("delete", row) else DENIED

    def deleted_where(self, rows: Sequence[Row]) -> list[Row] | Denied:
        """Those of the rows that a deletion by condition finds, or its error."""
        asked = ["delete", *(["list"] if "list" in self.rules else []), "read"]
        return self._error(*asked) or [row for row in rows if all(self._allows(action, row) for action in asked)]

    def names(self, column: str) -> bool:
        """Whether a request may name a column: where its value shows in every row."""
        rule = self.rules.get("columns", {}).get(column, {}).get("read", True)
        return self._decided(rule) is True

    def shows(self, column: str, row: Row) -> bool:
        """Whether an answer has the column of a row."""
        rule = self.rules.get("columns", {}).get(column, {}).get("read", True)
        return self._passes(rule, row)

    # What decides.

    def _error(self, *actions: str) -> Denied | None:
        if any(self.rules.get(action) is None for action in actions):
            return DENIED
        for action in actions:
            rule = self.rules[action]
            if self._decided(rule) is False:
                return NOBODY if self.facts is None and "'$member'" in str(rule) + self._defined(rule) else DENIED
        return None

    def _defined(self, rule: Json) -> str:
        return str(self.rules.get("define", {})) if "'$use'" in str(rule) else ""

    def _allows(self, action: str, row: Row, old: Row | None = None, new: Row | None = None) -> bool:
        return self._passes(self.rules.get(action), row, old, new)

    def _passes(self, rule: Json, row: Row, old: Row | None = None, new: Row | None = None) -> bool:
        if rule is None or rule is True:
            return rule is True
        return not self._lacks(rule, None) and not self._strays(rule, row) and self._holds(rule, row, None, old, new)

    def _path(self, name: str) -> tuple[str, str] | None:
        """The column with which a path begins, and what is behind it; None for another name."""
        first, dot, rest = name.partition(".")
        return (first, rest) if dot and first in self.world.references else None

    def _target(self, row: Row, column: str) -> Row | None:
        rows = self.world.tables[self.world.references[column]]
        return next((other for other in rows if other["id"] == row.get(column)), None)

    def _strays(self, rule: Json, row: Row, *, negated: bool = False) -> bool:
        """Whether a negated path leads nowhere, outside of a branch of its own."""

        def strays(name: str, value: Json) -> bool:
            if name == "$and":
                return any(self._strays(one, row, negated=negated) for one in value)
            if name == "$or":
                return negated and any(self._strays(one, row, negated=True) for one in value)
            if name == "$not":
                return self._strays(value, row, negated=True)
            if name == "$use":
                return self._strays(self.rules["define"][value], row, negated=negated)
            path = self._path(name)
            return negated and path is not None and self._target(row, path[0]) is None

        return any(strays(name, value) for name, value in rule.items())

    def _fact(self, name: str) -> Json:
        value: Json = self.facts
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def _decided(self, rule: Json, *, negated: bool = False) -> bool | None:
        """What the caller's facts alone make of a rule; None if a row decides."""
        if rule is None or rule is True:
            return rule is True
        if self._lacks(rule, None, negated=negated, rows=False):
            return False
        return _all([self._entry_decided(name, value, negated) for name, value in rule.items()])

    def _entry_decided(self, name: str, value: Json, negated: bool) -> bool | None:
        if name == "$and":
            return _all([self._decided(one, negated=negated) for one in value])
        if name == "$or":
            found = [self._decided(one, negated=negated) for one in value]
            return True if True in found else False if set(found) <= {False} else None
        if name == "$not":
            inner = self._decided(value, negated=True)
            return None if inner is None else not inner
        if name == "$member":
            return self._member_holds(value)
        if name == "$use":
            return self._decided(self.rules["define"][value], negated=negated)
        if name == "$exists":
            return False if self._decided(value["where"]) is False else None
        if name in {"$old", "$new"}:
            return self._decided(value, negated=negated)
        return None

    def _lacks(self, rule: Json, around: Row | None, *, negated: bool = False, rows: bool = True) -> bool:
        """Whether a condition mentions a value that is missing, outside of a branch of its own."""
        return any(self._entry_lacks(name, value, around, negated, rows) for name, value in rule.items())

    def _entry_lacks(self, name: str, value: Json, around: Row | None, negated: bool, rows: bool) -> bool:
        if name == "$and":
            return any(self._lacks(one, around, negated=negated, rows=rows) for one in value)
        if name == "$or":
            return negated and any(self._lacks(one, around, negated=True, rows=rows) for one in value)
        if name == "$not":
            return self._lacks(value, around, negated=True, rows=rows)
        if name == "$member":
            return self.facts is None or any(self._fact(fact) is None for fact in value)
        if name == "$use":
            return self._lacks(self.rules["define"][value], around, negated=negated, rows=rows)
        if name in {"$old", "$new"}:
            return self._lacks(value, around, negated=negated, rows=rows)
        if (path := self._path(name)) is not None:
            return self._operand_lacks(path[1], value, None, rows=False)
        if name == "$exists":
            # Only the caller's values: those of rows are missing for the inner condition alone.
            return self._lacks(value["where"], None, negated=negated, rows=False)
        return self._operand_lacks(name, value, around, rows)

    def _operand_lacks(self, column: str, value: Json, around: Row | None, rows: bool) -> bool:
        if not _operand(value):
            return isinstance(value, dict) and any(
                self._operand_lacks(column, one, around, rows) for one in value.values()
            )
        ((kind, name),) = value.items()
        if kind == "$member":
            fact = self._fact(name)
            return fact is None or (column in self.world.uuids and not isinstance(fact, list) and not _is_uuid(fact))
        return rows and kind == "$row" and (around is None or around.get(name) is None)

    def _member_holds(self, conditions: Mapping[str, Json]) -> bool:
        return all(_compare(self._fact(name), condition, lambda one: one) for name, condition in conditions.items())

    def _holds(
        self, rule: Json, row: Row, around: Row | None, old: Row | None, new: Row | None, negated: bool = False
    ) -> bool:
        return all(self._entry_holds(name, value, row, around, old, new, negated) for name, value in rule.items())

    def _other_holds(self, name: str, value: Json, row: Row) -> bool:
        """Whether a condition on rows of another table holds."""
        if (path := self._path(name)) is not None:
            target = self._target(row, path[0])
            return target is not None and self._holds({path[1]: value}, target, None, None, None)
        where = value["where"]
        return not self._lacks(where, row) and any(
            self._holds(where, other, row, None, None) for other in self.world.tables[value["table"]]
        )

    def _entry_holds(
        self, name: str, value: Json, row: Row, around: Row | None, old: Row | None, new: Row | None, negated: bool
    ) -> bool:
        if name == "$and":
            return all(self._holds(one, row, around, old, new, negated) for one in value)
        if name == "$or":
            return any(
                (negated or not (self._lacks(one, around) or self._strays(one, row)))
                and self._holds(one, row, around, old, new, negated)
                for one in value
            )
        if name == "$not":
            return not self._holds(value, row, around, old, new, negated=True)
        if name == "$member":
            return self._member_holds(value)
        if name == "$use":
            return self._holds(self.rules["define"][value], row, around, old, new, negated)
        if name == "$old":
            return old is not None and self._holds(value, old, around, old, new, negated)
        if name == "$new":
            return new is not None and self._holds(value, new, around, old, new, negated)
        if name == "$exists" or self._path(name) is not None:
            return self._other_holds(name, value, row)

        def meant(operand: Json) -> Json:
            if not _operand(operand):
                return operand
            ((kind, fact),) = operand.items()
            source = {"$row": around, "$old": old}.get(kind)
            return self._fact(fact) if kind == "$member" else (source or {}).get(fact)

        unchanged = isinstance(value, dict) and isinstance(value.get("$eq"), dict) and "$old" in value["$eq"]
        if unchanged:
            return bool(row.get(name) == meant(value["$eq"]))
        return _compare(row.get(name), value, meant)


def _compare(value: Json, condition: Json, meant: Any) -> bool:
    if not _operand(condition) and isinstance(condition, dict) and any(key.startswith("$") for key in condition):
        return all(_operator(name, value, operand, meant) for name, operand in condition.items())
    return bool(value == meant(condition))


def _operator(name: str, value: Json, operand: Json, meant: Any) -> bool:
    other = meant(operand)
    if name == "$eq":
        return bool(value == other)
    if name == "$ne":
        return bool(value != other)
    if name == "$in":
        return value in other
    if name == "$nin":
        return value not in other
    if name == "$gt":
        return value is not None and other is not None and value > other
    if name == "$arrayContains":
        return isinstance(value, list) and other in value
    assert name == "$not", name
    return not _compare(value, operand, meant)


def _all(found: Sequence[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def _is_uuid(value: Json) -> bool:
    try:
        return str(UUID(value)) == value
    except (ValueError, TypeError, AttributeError):
        return False

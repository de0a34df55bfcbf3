"""Folding: a rule and a caller's facts give everything, nothing, or a condition without the caller. Pure.

A value of the caller that is missing makes the branch that mentions it false as a whole, also under `$ne`, `$nin` and
`$not`. A branch is the smallest enclosing member of an `$or` that is not itself inside a `$not`, else the whole rule.
So an absent claim never meets the rows whose column is null, and a `$not` never turns it into a yes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.rules.document import column_name_of, is_reference
from pilotis.data.rules.paths import as_exists, step_of
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.operands import CREATOR_NAME, CREATOR_OPERAND, Arguments, Operand, operand, plain_operands
from pilotis.http.api.capabilities import Capabilities
from pilotis.http.api.principals import MemberInfo
from pilotis.kit.clock import rfc3339

Json = Any
Folded = bool | dict[str, Json]
"""True for everything, False for nothing, else a condition."""

_MAX_VALUES = 1000
_LISTS = frozenset({"$in", "$nin", "$arrayContainsAny"})
_OF_TEXTS = frozenset({"$contains", "$startsWith", "$endsWith", "$ieq", "$icontains", "$istartsWith"})
_OF_SINGLE_VALUES = frozenset({"$gt", "$gte", "$lt", "$lte"})


class NoValueError(Exception):
    """A value of the caller that a branch needs is missing."""


class Caller(NamedTuple):
    """What decides about a caller: the signed-in member, if there is one, and the time."""

    member: MemberInfo | None
    now: datetime
    capabilities: Capabilities

    @classmethod
    def of(cls, member: MemberInfo | None, capabilities: Capabilities | None = None) -> Caller:
        """Return the caller now, with the capabilities of its request."""
        return cls(member, datetime.now(UTC), capabilities or {})

    def fact(self, name: str) -> Json:
        """Return a fact such as `roles` or `claims.team`; raises `NoValueError` if it is missing or null."""
        if self.member is None:
            raise NoValueError
        if name == "id":
            return self.member.member_id
        if name == "is_guest":
            return self.member.is_guest
        if name == "level":
            return self.member.level
        if name == "roles":
            return list(self.member.roles)
        fact, _, role = name.partition(".")
        if fact == "teams":
            return [team.team_id for team in self.member.teams if not role or role in team.roles]
        value: Json = self.member.claims
        for part in name.split(".")[1:]:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            raise NoValueError
        return value


def fold(
    rule: Json,
    caller: Caller,
    table: TableSchema,
    tables: Mapping[UUID, TableSchema],
    defined: Mapping[str, Json] | None = None,
) -> Folded:
    """Fold a stored rule of a table; `tables` are those that its `$exists` name."""
    try:
        return fold_part(rule, caller, table, tables, defined)
    except NoValueError:
        return False


def fold_part(
    rule: Json,
    caller: Caller,
    table: TableSchema,
    tables: Mapping[UUID, TableSchema],
    defined: Mapping[str, Json] | None = None,
) -> Folded:
    """Do what `fold` does, and raise `NoValueError` if a value of the caller that it needs is missing."""
    if rule is None or rule is True:
        return bool(rule)
    return _Folder(caller, tables, defined or {}).all_of(rule, table)


class _Folder:
    def __init__(self, caller: Caller, tables: Mapping[UUID, TableSchema], defined: Mapping[str, Json]) -> None:
        self._caller = caller
        self._tables = tables
        self._defined = defined
        self._negated = 0

    def all_of(self, rule: Mapping[str, Json], table: TableSchema) -> Folded:
        """Fold the members of a condition, which hold together."""
        return _conjunction([self._entry(name, value, table) for name, value in rule.items()])

    def _entry(self, name: str, value: Json, table: TableSchema) -> Folded:
        if name == "$and":
            return _conjunction([self.all_of(one, table) for one in value])
        if name == "$or":
            return self._any_of(value, table)
        if name == "$not":
            return self._not(value, table)
        if name == "$member":
            return self._member_holds(value)
        if name == "$use":
            return self.all_of(self._defined[value], table)
        if name in {"$old", "$new"}:
            inner = self.all_of(value, table)
            return inner if isinstance(inner, bool) else {name: inner}
        if name == "$exists":
            other = self._tables.get(UUID(value["table"]))
            if other is None:
                # It has been dropped just now: that must not make a `$not` around it hold.
                raise NoValueError
            inner = self.all_of(value["where"], other)
            if inner is False:
                return False
            return {"$exists": {**value, "where": {} if inner is True else inner, "mine": _is_mine(value["where"])}}
        if name == CREATOR_NAME:
            return {name: self._operand(value, CREATOR_OPERAND)}
        if (step := step_of(name)) is not None:
            return self._entry("$exists", as_exists(step, value)["$exists"], table)
        column = column_name_of(table, name)
        found = plain_operands(table).get(column) or operand(
            table, column, Arguments(hash_=lambda _column, _value: b"")
        )
        return {name: self._operand(value, found)}

    def _any_of(self, branches: Sequence[Json], table: TableSchema) -> Folded:
        rest: list[Json] = []
        for branch in branches:
            try:
                folded = self.all_of(branch, table)
            except NoValueError:
                if self._negated:
                    raise
                continue
            if folded is True:
                return True
            if folded is not False:
                rest.append(folded)
        if len(rest) < 2:
            return rest[0] if rest else False
        return {"$or": rest}

    def _not(self, value: Mapping[str, Json], table: TableSchema) -> Folded:
        self._negated += 1
        try:
            inner = self.all_of(value, table)
        finally:
            self._negated -= 1
        return not inner if isinstance(inner, bool) else {"$not": inner}

    def _operand(self, value: Json, field: Operand) -> Json:
        """Return what stands behind a field's name, with the values of the caller in it."""
        if is_reference(value):
            return self._given(value, field) if "$capability" in value else self._value(value, field, "$eq")
        if isinstance(value, dict) and any(name.startswith("$") for name in value):
            found: dict[str, Json] = {}
            for name, item in value.items():
                is_capability = is_reference(item) and "$capability" in item
                found |= self._given(item, field) if is_capability else {name: self._operator(name, item, field)}
            return found
        return value

    def _given(self, reference: Mapping[str, Json], field: Operand) -> dict[str, Json]:
        """Return the condition that a field is one of the texts of a capability."""
        texts = self._caller.capabilities.get(reference["$capability"])
        if texts is None:
            raise NoValueError
        return {"$in": [text for text in texts if _converts(field, text)]}

    def _operator(self, name: str, value: Json, field: Operand) -> Json:
        if name == "$not":
            return self._operand(value, field)
        return self._value(value, field, name) if is_reference(value) else value

    def _value(self, reference: Mapping[str, Json], field: Operand, operator: str) -> Json:
        ((kind, name),) = reference.items()
        if kind == "$now":
            return rfc3339(self._caller.now + timedelta(seconds=name))
        if kind != "$member":
            return dict(reference)
        value = self._caller.fact(name)
        if operator in _LISTS:
            if not isinstance(value, list) or len(value) > _MAX_VALUES:
                raise NoValueError
            return [one for one in value if _converts(field, one)]
        # A claim of another type than the column has no value for it.
        if operator != "$arrayContains" and not _converts(field, value):
            raise NoValueError
        if operator in _OF_TEXTS and not isinstance(value, str):
            raise NoValueError
        if operator in _OF_SINGLE_VALUES and isinstance(value, (dict, list)):
            raise NoValueError
        if isinstance(value, dict) and any(name.startswith("$") for name in value):
            # What is data must not be read as operators.
            raise NoValueError
        return value

    def _member_holds(self, conditions: Mapping[str, Json]) -> bool:
        if self._caller.member is None:
            raise NoValueError
        # Each is asked, since a missing claim decides whatever the others say.
        held = [holds(self._caller.fact(name), condition) for name, condition in conditions.items()]
        return all(held)


def _is_mine(where: Mapping[str, Json]) -> bool:
    """Return whether a condition on rows holds only of those that name the caller, which are few."""
    for name, value in where.items():
        if name == "$and" and any(map(_is_mine, value)):
            return True
        if name == "$exists" and _is_mine(value["where"]):
            return True
        if name.startswith("$") and name != CREATOR_NAME:
            continue
        given = [value] if is_reference(value) else list(value.values()) if _is_equality(value) else []
        if any(is_reference(one) and "$member" in one for one in given):
            return True
    return False


def _is_equality(value: Json) -> bool:
    return isinstance(value, Mapping) and set(value) <= {"$eq", "$in", "$arrayContains"}


def holds(value: Json, condition: Json) -> bool:
    """Return whether a fact satisfies a bare value or operators, with the meaning that these have in `where`."""
    if isinstance(condition, dict) and any(name.startswith("$") for name in condition):
        return all(_HOLDS[name](value, operand) for name, operand in condition.items())
    return _equal(value, condition)


def _equal(left: Json, right: Json) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _contains(values: Json, one: Json) -> bool:
    return isinstance(values, list) and any(_equal(item, one) for item in values)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Json, Json], bool]:
    def compared(value: Json, bound: Json) -> bool:
        numbers = all(isinstance(one, (int, float, Decimal)) and not isinstance(one, bool) for one in (value, bound))
        texts = isinstance(value, str) and isinstance(bound, str)
        # Texts are compared by their bytes, as the database does.
        return (numbers and compare(value, bound)) or (texts and compare(value.encode(), bound.encode()))

    return compared


def _text(test: Callable[[str, str], bool]) -> Callable[[Json, Json], bool]:
    return lambda value, part: isinstance(value, str) and isinstance(part, str) and test(value, part)


def _caseless(test: Callable[[str, str], bool]) -> Callable[[Json, Json], bool]:
    return _text(lambda value, part: test(_case_key(value), _case_key(part)))


def _case_key(text: str) -> str:
    """Return a text as `pilotis.case_key` does."""
    return unicodedata.normalize("NFKC", text).lower()


_at_least, _at_most = _ordered(lambda a, b: a >= b), _ordered(lambda a, b: a <= b)

_HOLDS: dict[str, Callable[[Json, Json], bool]] = {
    "$eq": _equal,
    "$ne": lambda value, other: not _equal(value, other),
    "$in": lambda value, several: _contains(several, value),
    "$nin": lambda value, several: not _contains(several, value),
    "$gt": _ordered(lambda a, b: a > b),
    "$gte": _at_least,
    "$lt": _ordered(lambda a, b: a < b),
    "$lte": _at_most,
    "$between": lambda value, bounds: _at_least(value, bounds[0]) and _at_most(value, bounds[1]),
    "$contains": _text(lambda value, part: part in value),
    "$startsWith": _text(str.startswith),
    "$endsWith": _text(str.endswith),
    "$ieq": _caseless(str.__eq__),
    "$icontains": _caseless(lambda value, part: part in value),
    "$istartsWith": _caseless(str.startswith),
    "$arrayContains": lambda value, ones: all(
        _contains(value, one) for one in (ones if isinstance(ones, list) else [ones])
    ),
    "$arrayContainsAny": lambda value, several: any(_contains(value, one) for one in several),
    "$not": lambda value, condition: not holds(value, condition),
}


def _converts(field: Operand, value: Json) -> bool:
    return field.convert(value) is not None


def _conjunction(parts: Sequence[Folded]) -> Folded:
    conditions: list[dict[str, Json]] = []
    for part in parts:
        if part is False:
            return False
        if part is not True:
            conditions.append(part)
    if len(conditions) < 2:
        return conditions[0] if conditions else True
    return {"$and": conditions}

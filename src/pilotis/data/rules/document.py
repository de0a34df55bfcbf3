"""Rule documents: their checks, and their stored form, which names tables by id and columns by number. Pure.

A rule is null (only the app itself), true (everybody with the public key) or a condition in the language of `where`,
with values of the caller in it. Stored, `#3` is the column with the number 3, so renaming a column changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.rules.actions import Action
from pilotis.data.rules.paths import MAX_STEPS, first_step, step_of, stored_step
from pilotis.data.tables.schema import OWN_FIELDS, Column, TableSchema, normal_path
from pilotis.data.where.compiler import OPERATORS, InvalidOperatorError, compile_where
from pilotis.data.where.operands import (
    CREATOR_NAME,
    CREATOR_OPERAND,
    Arguments,
    EncryptedColumnError,
    Kind,
    Operand,
    operand,
    unknown,
)
from pilotis.http.api.capabilities import NAME
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, PilotisError
from pilotis.limits import Limits

Json = Any

MEMBER_FACTS = ("id", "is_guest", "level", "roles", "teams")
"""What the app knows of a member, besides its claims: `claims.team` is the claim `team`.

`teams` are the ids of its teams, `teams.owner` of those in which it has the role `owner`.
"""
REFERENCES = frozenset({"$member", "$row", "$old", "$now", "$capability"})
"""The operands that stand for a value: the caller's, the judged row's, the row's before, the time, a shared link's."""
_WITH_CAPABILITIES = frozenset({"read", "list", "update", "define"})
MAX_EXISTS, MAX_DEPTH, MAX_DEFINITIONS = 8, 3, 20
MAX_SUBQUERIES = 24
"""How many `$exists` and steps of paths a rule has: planning 8 that are 3 deep takes half a second."""
_MAX_SECONDS = 100 * 366 * 86_400
_ORDERED = frozenset({"$gt", "$gte", "$lt", "$lte"})
_BETWEEN_COLUMNS = frozenset({"$eq", "$ne", "$in", "$arrayContains"}) | _ORDERED
"""The operators that compare a column with another one."""
_IDS = frozenset({Kind.TEXT, Kind.UUID})
_COLUMN_OPERATORS = ", ".join(sorted(_BETWEEN_COLUMNS))
_FACT_KINDS = {
    "id": {Kind.TEXT, Kind.UUID, Kind.JSON, Kind.ENCRYPTED},
    "is_guest": {Kind.BOOLEAN, Kind.JSON},
    "level": {Kind.NUMERIC, Kind.BIGINT, Kind.JSON},
    "roles": {Kind.TEXT, Kind.JSON},
    "teams": {Kind.TEXT, Kind.UUID, Kind.JSON},
}
_LIST_FACTS = frozenset({"roles", "teams"})
_SAMPLES: dict[Kind, Json] = {
    Kind.TEXT: "x",
    Kind.NUMERIC: 0,
    Kind.BIGINT: 0,
    Kind.BOOLEAN: True,
    Kind.TIME: "2026-01-01T00:00:00Z",
    Kind.UUID: "00000000-0000-7000-8000-000000000000",
    Kind.JSON: "x",
    Kind.ENCRYPTED: "x",
}
_ACTIONS = [action.value for action in Action]
_PARTS = [*_ACTIONS, "define", "columns"]
_COLUMN_ACTIONS = ("read", "create", "update")


class InvalidRuleError(BadRequestError):
    """400 `INVALID_RULE`: a part of a table's rules has another form than rules have; the detail says where."""

    code = "INVALID_RULE"


class RuleEmptyError(InvalidRuleError):
    """400 `RULE_EMPTY`: an empty condition, which would mean every row."""

    code = "RULE_EMPTY"


class RuleTooComplexError(InvalidRuleError):
    """400 `RULE_TOO_COMPLEX`: a rule is too long, or has too many `$exists`."""

    code = "RULE_TOO_COMPLEX"


class UnknownTableError(InvalidRuleError):
    """400 `UNKNOWN_TABLE`: the app has no table that an `$exists` names."""

    code = "UNKNOWN_TABLE"


class InvalidOperandError(InvalidRuleError):
    """400 `INVALID_OPERAND`: a value or a condition stands where it does not belong."""

    code = "INVALID_OPERAND"


class OperandTypeError(InvalidRuleError):
    """400 `OPERAND_TYPE`: what a rule compares is of different types."""

    code = "OPERAND_TYPE"


class MemberWritesThisError(InvalidRuleError):
    """400 `MEMBER_WRITES_THIS`: a rule would depend on what the member itself can change."""

    code = "MEMBER_WRITES_THIS"


class ColumnRuleNeedsRowError(InvalidRuleError):
    """400 `COLUMN_RULE_NEEDS_ROW`: who may set a column depends on a row, and may only depend on the member."""

    code = "COLUMN_RULE_NEEDS_ROW"


RULE_ERRORS: list[type[PilotisError]] = [
    InvalidRuleError,
    RuleEmptyError,
    RuleTooComplexError,
    UnknownTableError,
    InvalidOperandError,
    OperandTypeError,
    MemberWritesThisError,
    ColumnRuleNeedsRowError,
]
"""What is said of a table's rules that are wrong, by every route that takes rules."""


class Related(NamedTuple):
    """The other tables of an app that rules may name in `$exists`, by id and by title."""

    by_id: Mapping[UUID, TableSchema]
    by_title: Mapping[str, TableSchema]

    @classmethod
    def of(cls, tables: Sequence[TableSchema]) -> Related:
        """Return the tables by both."""
        return cls({table.table_id: table for table in tables}, {table.title: table for table in tables})

    def find(self, name: str) -> TableSchema | None:
        """Return the table with an id or a title."""
        try:
            return self.by_id.get(UUID(name)) or self.by_title.get(name)
        except ValueError:
            return self.by_title.get(name)


def is_reference(value: Json) -> bool:
    """Return whether a value stands for another: `{"$member": "id"}`."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in REFERENCES


def column_key(table: TableSchema, name: str) -> str:
    """Return the stored name of a column, or of a path into it; names that are no column's stay as they are.

    Raises `UnknownColumnError`.
    """
    name = normal_path(name)
    if name in OWN_FIELDS:
        return name
    if table.is_free_form:
        return f"#{name}" if name.startswith("#") else name
    if column := table.by_name.get(name):
        return f"#{column.number}"
    first, dot, rest = name.partition(".")
    if dot and (column := table.by_name.get(first)):
        return f"#{column.number}.{rest}"
    raise unknown(table, name)


def column_name_of(table: TableSchema, key: str) -> str:
    """Return the name of a column, or of a path into it, by its stored name; raises `UnknownColumnError`."""
    if not key.startswith("#"):
        return key
    if (known := _names_of(table).get(key)) is not None:
        return known
    if key.startswith("##") or not key[1:2].isdigit():
        return key[1:]
    number, dot, rest = key[1:].partition(".")
    for column in table.columns:
        if column.number == int(number):
            return column.name + dot + rest
    raise unknown(table, key)


def _names_of(table: TableSchema) -> Mapping[str, str]:
    """Return the names of a table's columns by their stored names."""
    names: dict[str, str] | None = table.__dict__.get("stored_names")
    if names is None:
        names = table.__dict__["stored_names"] = {f"#{column.number}": column.name for column in table.columns}
    return names


def stored(
    document: Mapping[str, Json],
    table: TableSchema,
    related: Related,
    limits: Limits,
    *,
    texts_are_ids: bool = False,
) -> dict[str, Json]:
    """Check a document of rules and return its stored form; raises a 400 error whose detail names the place.

    With `texts_are_ids` a text may be compared with an id: one that is none equals no id.
    """
    checker = _Checker(table, related, limits, _IDS if texts_are_ids else frozenset())
    unknown_names = [name for name in document if name not in _PARTS]
    if unknown_names:
        known = ", ".join(_PARTS)
        raise InvalidRuleError(f"The parts of a table's rules are {known}.").at(f"rules.{unknown_names[0][:100]}")
    if len(json.encode(document)) > 4 * limits.rule_bytes:
        raise RuleTooComplexError(f"The rules of a table have at most {4 * limits.rule_bytes} bytes.").at("rules")
    return checker.document(document)


def checked_rule(rule: Json, place: str, table: TableSchema, limits: Limits) -> Json:
    """Check one rule on `$member` alone; raises a 400 error whose detail names the place."""
    return _Checker(table, Related({}, {}), limits).only_member(rule, place)


class _Context(NamedTuple):
    """Where a condition stands: its table, the tables around it, and what may be named there."""

    table: TableSchema
    outer: tuple[TableSchema, ...] = ()
    action: str | None = None
    version: str | None = None
    """`$old` or `$new` around it."""
    only_member: bool = False
    may_use: bool = True


class _Checker:
    def __init__(
        self, table: TableSchema, related: Related, limits: Limits, alike: frozenset[Kind] = frozenset()
    ) -> None:
        self._table = table
        self._related = related
        self._limits = limits
        self._alike = alike
        """The kinds that may be compared with each other."""
        self._defined: Mapping[str, Json] = {}
        self._exists = 0
        self._steps = 0

    def document(self, document: Mapping[str, Json]) -> dict[str, Json]:
        defined = document.get("define") or {}
        if not isinstance(defined, dict) or len(defined) > MAX_DEFINITIONS:
            raise InvalidRuleError(f"define is an object of at most {MAX_DEFINITIONS} conditions.").at("rules.define")
        self._defined = defined
        result: dict[str, Json] = {}
        for action in _ACTIONS:
            if action in document:
                self._exists = self._steps = 0
                result[action] = self._rule(document[action], f"rules.{action}", _Context(self._table, action=action))
        if defined:
            result["define"] = {
                name: self._condition(
                    value, f"rules.define.{name[:100]}", _Context(self._table, action="define", may_use=False)
                )
                for name, value in defined.items()
            }
        if columns := document.get("columns"):
            result["columns"] = self._columns(columns)
        return result

    def _columns(self, columns: Json) -> dict[str, Json]:
        if not isinstance(columns, dict):
            raise InvalidRuleError("columns is an object of columns.").at("rules.columns")
        result: dict[str, dict[str, Json]] = {}
        for name, rules in columns.items():
            place = f"rules.columns.{name[:100]}"
            if name == CREATOR_NAME:
                result[name] = self._creator(rules, place)
                continue
            column = self._table.by_name.get(normal_path(name))
            if column is None:
                raise unknown(self._table, name).at(place)
            if not isinstance(rules, dict) or not set(rules) <= set(_COLUMN_ACTIONS):
                raise InvalidRuleError("A column's rules are read, create and update.").at(place)
            found = result[f"#{column.number}"] = {}
            for action, rule in rules.items():
                self._exists = self._steps = 0
                context = _Context(self._table, only_member=action != "read")
                found[action] = self._rule(rule, f"{place}.{action}", context)
        return result

    def _creator(self, rules: Json, place: str) -> dict[str, Json]:
        """Check who is shown the profile of the member that created a row: a condition on the caller alone."""
        if not isinstance(rules, dict) or set(rules) != {"read"}:
            raise InvalidRuleError("Of $creator there is the rule read alone: nobody changes who created a row.").at(
                place
            )
        self._exists = self._steps = 0
        return {"read": self._rule(rules["read"], f"{place}.read", _Context(self._table, only_member=True))}

    def only_member(self, rule: Json, place: str) -> Json:
        return self._rule(rule, place, _Context(self._table, only_member=True))

    def _rule(self, rule: Json, place: str, context: _Context) -> Json:
        if rule is None or rule is True:
            return rule
        if rule is False:
            raise InvalidRuleError("Write null for a closed action, not false.").at(place)
        if not isinstance(rule, dict):
            raise InvalidRuleError("A rule is null, true or an object of conditions.").at(place)
        if len(json.encode(rule)) > self._limits.rule_bytes:
            raise RuleTooComplexError(f"A rule has at most {self._limits.rule_bytes} bytes.").at(place)
        return self._condition(rule, place, context)

    def _condition(self, rule: Json, place: str, context: _Context) -> dict[str, Json]:
        if not isinstance(rule, dict):
            raise InvalidRuleError("A condition is an object.").at(place)
        if not rule and not context.outer:
            raise RuleEmptyError("An empty condition would mean every row: write true.").at(place)
        result: dict[str, Json] = {}
        for name, value in rule.items():
            key, item = self._entry(name, value, f"{place}.{name[:100]}", context)
            result[key] = item
        return result

    def _entry(self, name: str, value: Json, place: str, context: _Context) -> tuple[str, Json]:
        if name in {"$and", "$or"}:
            if not isinstance(value, list) or not value:
                raise InvalidRuleError(f"{name} takes a list of conditions.").at(place)
            return name, [self._condition(one, f"{place}[{index}]", context) for index, one in enumerate(value)]
        if name == "$not":
            return name, self._condition(value, place, context)
        if name == "$member":
            _check_member(value, place)
            return name, value
        if name == "$use":
            if not context.may_use or context.outer or not isinstance(value, str) or value not in self._defined:
                raise InvalidOperandError("$use names a condition of define, not in define nor in $exists.").at(place)
            self._condition(self._defined[value], place, context._replace(may_use=False))
            return name, value
        if context.only_member:
            message = "Who may set a column is null, true, or a condition on $member alone."
            raise ColumnRuleNeedsRowError(message).at(place)
        if name == CREATOR_NAME:
            self._check_leaf(CREATOR_OPERAND, value, place, context)
            return name, self._value(value, place, context)
        if name.startswith("$"):
            return name, self._about_rows(name, value, place, context)
        if (path := first_step(context.table, name)) is not None:
            return self._path(*path, value, place, context, 1)
        return self._column(name, value, place, context)

    def _column(self, name: str, value: Json, place: str, context: _Context) -> tuple[str, Json]:
        try:
            key = column_key(context.table, name)
        except PilotisError as error:
            raise error.at(place) from None
        column = context.table.by_name.get(normal_path(name))
        if column is not None and column.encrypted and context.outer:
            raise EncryptedColumnError(column.name, "A rule cannot read it in another table.").at(place)
        field = operand(context.table, name, Arguments(hash_=lambda _column, _value: b""))
        self._check_leaf(field, value, place, context)
        return key, self._value(value, place, context)

    def _path(
        self, column: Column, name: str, value: Json, place: str, context: _Context, steps: int
    ) -> tuple[str, Json]:
        """Check what is asked of the row to which a column refers."""
        self._steps += 1
        self._require_few(place)
        if steps > MAX_STEPS:
            raise RuleTooComplexError(f"A path follows at most {MAX_STEPS} references.").at(place)
        if _of_other_rows(value):
            message = "A path is compared with a value, or with the member's: compare rows by $exists."
            raise InvalidOperandError(message).at(place)
        assert column.references is not None
        target = self._related.by_id.get(column.references.target)
        if target is None:
            raise UnknownTableError("The table to which this refers is gone.").at(place)
        inner = context._replace(table=target, outer=(context.table, *context.outer))
        if (path := first_step(target, name)) is not None:
            key, item = self._path(*path, value, place, inner, steps + 1)
        elif name.startswith("$") and name != CREATOR_NAME:
            raise InvalidOperandError("A path ends with a column, an id, a time or $creator.").at(place)
        else:
            key, item = self._entry(name, value, place, inner)
        return stored_step(column, target.table_id, key), item

    def _require_few(self, place: str) -> None:
        if self._exists + self._steps > MAX_SUBQUERIES:
            message = f"A rule has at most {MAX_SUBQUERIES} $exists and references that it follows."
            raise RuleTooComplexError(message).at(place)

    def _about_rows(self, name: str, value: Json, place: str, context: _Context) -> Json:
        if name in {"$old", "$new"}:
            if context.action != "update" or context.outer or context.version:
                raise InvalidOperandError(f"{name} belongs at the top of an update rule.").at(place)
            return self._condition(value, place, context._replace(version=name))
        if name == "$exists":
            return self._exists_in(value, place, context)
        known = "$and, $or, $not, $member, $creator, $exists, $use, and in update rules $old and $new"
        raise InvalidOperatorError(f"{name[:64]} is no condition here; there are {known}.").at(place)

    def _exists_in(self, value: Json, place: str, context: _Context) -> Json:
        self._exists += 1
        if self._exists > MAX_EXISTS or len(context.outer) >= MAX_DEPTH:
            raise RuleTooComplexError(f"A rule has at most {MAX_EXISTS} $exists, {MAX_DEPTH} deep.").at(place)
        self._require_few(place)
        if not isinstance(value, dict) or set(value) != {"table", "where"} or not isinstance(value["table"], str):
            raise InvalidOperandError('$exists takes {"table", "where"}.').at(place)
        other = self._related.find(value["table"])
        if other is None:
            raise UnknownTableError("The app has no such table.").at(f"{place}.table")
        inner = context._replace(table=other, outer=(context.table, *context.outer))
        return {"table": str(other.table_id), "where": self._condition(value["where"], f"{place}.where", inner)}

    def _value(self, value: Json, place: str, context: _Context) -> Json:
        """Check what stands behind a column's name: a value, a reference, or operators with them."""
        if is_reference(value):
            return self._reference(value, place, context)
        if isinstance(value, dict) and any(name.startswith("$") for name in value):
            return {name: self._operator(name, item, f"{place}.{name[:64]}", context) for name, item in value.items()}
        return value

    def _check_leaf(self, field: Operand, value: Json, place: str, context: _Context) -> None:
        """Raise the errors of a condition of `where` with a value of the column's type for each reference."""
        # Its errors name the field by its path.
        name, is_creator = field.name, field is CREATOR_OPERAND
        arguments = Arguments(hash_=lambda _column, _value: b"", creators=is_creator)

        def sample(value: Json, operator: str = "$eq") -> Json:
            if is_reference(value):
                self._check_type(value, field, operator, place, context)
                one = _SAMPLES[field.kind]
                return [one] if operator in {"$in", "$nin", "$arrayContainsAny"} else one
            if isinstance(value, dict) and any(key.startswith("$") for key in value):
                return {key: sample(item, key) for key, item in value.items()}
            return value

        try:
            compile_where({name: sample(value)}, lambda _name: field, self._limits, arguments)
        except InvalidRuleError:
            raise
        except PilotisError as error:
            inner = error.details[0].field.removeprefix(f"where.{name[:100]}") if error.details else ""
            raise error.at(place + inner) from None

    def _check_type(
        self, reference: dict[str, Json], field: Operand, operator: str, place: str, context: _Context
    ) -> None:
        ((kind, name),) = reference.items()
        in_list = operator in {"$in", "$nin", "$arrayContainsAny"}
        if kind == "$now":
            fits, given = field.kind is Kind.TIME, "a time"
        elif kind == "$capability":
            if operator not in {"$eq", "$in"}:
                raise InvalidOperandError("A capability is compared by $eq or $in.").at(place)
            fits, given = field.kind in _IDS, "a capability, which is a text"
        elif kind == "$member":
            fact = name.partition(".")[0]
            kinds = _FACT_KINDS.get(fact)
            fits = kinds is None or (field.kind in kinds and in_list == (fact in _LIST_FACTS))
            given = f"the member's {name}"
        else:
            table = context.table if kind == "$old" else context.outer[0] if context.outer else None
            if table is None:
                return
            try:
                other = _kind_of(table, name)
            except PilotisError as error:
                raise error.at(place) from None
            if operator not in _BETWEEN_COLUMNS or (operator in _ORDERED and field.kind is Kind.JSON):
                message = f"{operator} does not compare {field.name} with a column: there are {_COLUMN_OPERATORS}."
                raise InvalidOperandError(message).at(place)
            if operator == "$arrayContains":
                fits = field.kind is Kind.JSON
            elif operator == "$in":
                fits = other is Kind.JSON and field.kind is not Kind.ENCRYPTED
            else:
                fits = other is field.kind or {other, field.kind} == self._alike
            given = f"{name}, of type {other}"
        if not fits:
            raise OperandTypeError(f"{field.name} is of type {field.kind}, and is compared with {given}.").at(place)

    def _operator(self, name: str, value: Json, place: str, context: _Context) -> Json:
        if name == "$not":
            return self._value(value, place, context)
        if name == "$matches":
            raise InvalidOperatorError("A rule must cost little: $matches is not for rules.").at(place)
        if name == "$within":
            raise InvalidOperatorError("Rules do not name places: $within is for the conditions of requests.").at(place)
        if name not in OPERATORS:
            raise InvalidOperatorError(f"{name[:64]} is not an operator.").at(place)
        if isinstance(value, list) and any(map(is_reference, value)):
            raise InvalidOperandError("A list holds values; the member's lists stand by name.").at(place)
        return self._reference(value, place, context) if is_reference(value) else value

    def _reference(self, reference: dict[str, Json], place: str, context: _Context) -> dict[str, Json]:
        ((kind, name),) = reference.items()
        if kind == "$now":
            if isinstance(name, bool) or not isinstance(name, int) or abs(name) > _MAX_SECONDS:
                message = f"$now takes a number of seconds, at most {_MAX_SECONDS} away."
                raise InvalidOperandError(message).at(place)
            return reference
        if not isinstance(name, str):
            raise InvalidOperandError(f"{kind} takes a name.").at(place)
        if kind == "$member":
            _check_fact(name, place)
            return reference
        if kind == "$capability":
            if context.action not in _WITH_CAPABILITIES:
                raise InvalidOperandError("$capability belongs in read, list and update.").at(place)
            if NAME.fullmatch(name) is None:
                raise InvalidOperandError("A capability's name has 1 to 32 letters a to z and _.").at(place)
            return reference
        if kind == "$old":
            if context.version != "$new" or context.outer:
                raise InvalidOperandError("$old as a value belongs inside $new.").at(place)
            return {kind: self._key(context.table, name, place)}
        if not context.outer:
            raise InvalidOperandError("$row belongs inside $exists.").at(place)
        if name == CREATOR_NAME:
            return reference
        return {kind: self._key(context.outer[0], name, place)}

    def _key(self, table: TableSchema, name: str, place: str) -> str:
        try:
            return column_key(table, name)
        except PilotisError as error:
            raise error.at(place) from None


def shown(rules: Mapping[str, Json], table: TableSchema, related: Related) -> dict[str, Json]:
    """Return a stored document with today's names of columns and titles of tables."""
    names = _Names(related)
    result = {action: names.condition(rules[action], table) for action in _ACTIONS if action in rules}
    if "define" in rules:
        result["define"] = {name: names.condition(one, table) for name, one in rules["define"].items()}
    if "columns" in rules:
        result["columns"] = {
            column_name_of(table, key): {action: names.condition(rule, table) for action, rule in one.items()}
            for key, one in rules["columns"].items()
        }
    return result


class _Names:
    """Puts names in the place of numbers and ids."""

    def __init__(self, related: Related) -> None:
        self._related = related

    def condition(self, rule: Json, table: TableSchema, outer: tuple[TableSchema, ...] = ()) -> Json:
        if not isinstance(rule, dict):
            return rule
        return dict(self._entry(key, value, table, outer) for key, value in rule.items())

    def _entry(self, key: str, value: Json, table: TableSchema, outer: tuple[TableSchema, ...]) -> tuple[str, Json]:
        if key in {"$and", "$or"}:
            return key, [self.condition(one, table, outer) for one in value]
        if key in {"$not", "$old", "$new"}:
            return key, self.condition(value, table, outer)
        if key == "$exists":
            other = self._related.by_id[UUID(value["table"])]
            return key, {"table": other.title, "where": self.condition(value["where"], other, (table, *outer))}
        if key in {"$member", "$use"}:
            return key, value
        return self._name(key, table), self._operand(value, table, outer)

    def _name(self, key: str, table: TableSchema) -> str:
        step = step_of(key)
        if step is None:
            return column_name_of(table, key)
        return f"{column_name_of(table, step.column)}.{self._name(step.rest, self._related.by_id[step.table_id])}"

    def _operand(self, value: Json, table: TableSchema, outer: tuple[TableSchema, ...]) -> Json:
        if is_reference(value):
            ((kind, name),) = value.items()
            if kind == "$row" and name != CREATOR_NAME:
                return {kind: column_name_of(outer[0], name)}
            return {kind: column_name_of(table, name)} if kind == "$old" else value
        if isinstance(value, dict) and any(name.startswith("$") for name in value):
            return {name: self._operand(item, table, outer) for name, item in value.items()}
        return value


def secrets_of(rules: Mapping[str, Json]) -> set[str]:
    """Return the stored names of the columns of the table itself that its rules compare with a capability."""
    found: set[str] = set()

    def visit(rule: Json) -> None:
        if isinstance(rule, list):
            for one in rule:
                visit(one)
        elif isinstance(rule, dict):
            for name, value in rule.items():
                if name in {"$and", "$or", "$not", "$old", "$new"}:
                    visit(value)
                elif name.startswith("#") and step_of(name) is None and "'$capability'" in str(value):
                    found.add(name)

    for part in (*_ACTIONS, "define"):
        rule = rules.get(part)
        visit(list(rule.values()) if part == "define" and isinstance(rule, dict) else rule)
    return found


def asks_for_facts(rules: Json) -> bool:
    """Return whether a stored document asks for more of a member than who it is."""
    if isinstance(rules, Mapping):
        member = rules.get("$member")
        return (
            (isinstance(member, str) and member != "id")
            or (isinstance(member, Mapping) and not set(member) <= {"id"})
            or any(map(asks_for_facts, rules.values()))
        )
    return isinstance(rules, list) and any(map(asks_for_facts, rules))


def named_tables(rules: Mapping[str, Json]) -> set[UUID]:
    """Return the ids of the tables that a stored document names in `$exists` and in paths."""
    found: set[UUID] = set()

    def visit(value: Json) -> None:
        if isinstance(value, dict):
            if "$exists" in value:
                found.add(UUID(value["$exists"]["table"]))
            for name, item in value.items():
                step = step_of(name)
                while step is not None:
                    found.add(step.table_id)
                    step = step_of(step.rest)
                visit(item)
        elif isinstance(value, list):
            for item in value:
                visit(item)

    visit(rules)
    return found


def _of_other_rows(value: Json) -> bool:
    """Return whether a value names a column of another row."""
    if is_reference(value):
        return bool({"$row", "$old"} & set(value))
    return isinstance(value, dict) and any(map(_of_other_rows, value.values()))


def _kind_of(table: TableSchema, name: Json) -> Kind | None:
    if name == CREATOR_NAME:
        return Kind.TEXT
    return operand(table, name, Arguments()).kind if isinstance(name, str) else None


def _check_fact(name: str, place: str) -> None:
    if name in {"custom_data", "nickname"} or name.startswith("custom_data."):
        raise MemberWritesThisError(f"The member writes its {name} itself: use its roles or claims.").at(place)
    part, dot, rest = name.partition(".")
    if name not in MEMBER_FACTS and not (dot and rest and part in {"claims", "teams"}):
        raise InvalidOperandError("A member has id, is_guest, level, roles, teams, teams.… and claims.….").at(place)


def _check_member(value: Json, place: str) -> None:
    """Check the conditions on a member's facts."""
    if not isinstance(value, dict):
        raise InvalidOperandError("$member takes an object of conditions on the member.").at(place)
    for name, condition in value.items():
        _check_fact(name, f"{place}.{name[:100]}")
        _check_member_operators(name, condition, f"{place}.{name[:100]}")


def _check_member_operators(name: str, condition: Json, place: str) -> None:
    if not isinstance(condition, dict):
        return
    for operator, value in condition.items():
        if operator == "$not":
            _check_member_operators(name, value, f"{place}.$not")
        elif operator == "$isNull":
            raise InvalidOperandError("An absent claim decides nothing: ask for a role instead.").at(place)
        elif operator in {"$in", "$nin", "$arrayContainsAny"} and not isinstance(value, list):
            raise InvalidOperandError(f"{operator} takes a list.").at(f"{place}.{operator}")
        elif operator == "$between" and not (isinstance(value, list) and len(value) == 2):
            raise InvalidOperandError("$between takes a list of two values.").at(f"{place}.{operator}")
        elif operator not in OPERATORS or operator in {"$matches", "$within"}:
            raise InvalidOperatorError(f"{operator[:64]} is not for rules.").at(f"{place}.{operator[:64]}")

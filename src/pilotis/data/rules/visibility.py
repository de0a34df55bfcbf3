"""What a caller may do with the rows of a table: the only door to them.

Every statement on rows that a request causes asks `visibility` for its condition. The access level of a table is a set
of rules: `Public` allows every action, `AppMember` every action of a signed-in member, and `Creator` limits a member to
the rows it created. A table's own rules take its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from pilotis.data.rules.actions import Action
from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.document import column_name_of, secrets_of
from pilotis.data.rules.fold import Caller, Folded, fold
from pilotis.data.tables.schema import AccessLevel, Column, TableSchema
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.access_patterns import AccessKind, AccessPatterns
from pilotis.data.where.operands import CREATOR, CREATOR_NAME, Arguments, ColumnNotReadableError, Hash
from pilotis.http.api.principals import MemberInfo, Principal, RoleRequiredError
from pilotis.kit import json
from pilotis.kit.errors import Detail, ForbiddenError, UnauthorizedError

Json = Any
Tables = Mapping[UUID, TableSchema]

_MAX_KNOWN = 500
"""For how many callers, and actions of theirs, a table's rules are kept as they are folded and compiled."""
_ANY_MEMBER: Json = {"$member": {}}
_OWN: Json = {"$creator": {"$member": "id"}}
LEVELS: Mapping[AccessLevel, Mapping[Action, Json]] = {
    AccessLevel.PUBLIC: dict.fromkeys(Action, True),
    AccessLevel.APP_MEMBER: dict.fromkeys(Action, _ANY_MEMBER),
    AccessLevel.CREATOR: {**dict.fromkeys(Action, _OWN), Action.CREATE: _ANY_MEMBER},
}
"""The rules that each access level stands for."""


class MemberTokenRequiredError(UnauthorizedError):
    """401: the table's access level, or a rule, requires a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This table requires a signed-in member: send a member's access token as Authorization: Bearer …."


class RuleDeniedError(ForbiddenError):
    """403 `RULE_DENIED`: the table's rules do not allow the caller to do this."""

    code = "RULE_DENIED"

    def __init__(self, action: Action) -> None:
        super().__init__(f"The rules of this table do not let you {action} this.")


def new_row_denied(action: Action) -> RuleDeniedError:
    """Return the error about a row as it would be after the action."""
    error = RuleDeniedError(action)
    error.details = (Detail("data", "NEW_ROW", error.text),)
    return error


class ColumnReadOnlyError(ForbiddenError):
    """403 `COLUMN_READ_ONLY`: the table's rules do not let the caller set these columns."""

    code = "COLUMN_READ_ONLY"

    def __init__(self, names: Sequence[str]) -> None:
        text = "The rules of this table do not let you set this column."
        super().__init__(
            f"The rules of this table do not let you set {', '.join(names)}.",
            details=[Detail(f"data.{name}", "COLUMN_READ_ONLY", text) for name in names],
        )


class _Compiled(NamedTuple):
    """A compiled rule: its condition, what it binds, and how it reads the table."""

    sql: str
    values: Sequence[Any]
    places: Sequence[str]
    access: AccessPatterns


class Visibility(msgspec.Struct, frozen=True, dict=True):
    """The rows of a table on which a caller may perform an action: all of them, or those of a condition.

    `table` is the table as the caller sees it, without the columns that are hidden from it, `whole` the table as it is,
    and `tables` are those that the condition names. With `shows_creator`, the caller sees who created a row, and may
    name `$creator` in a condition. The app's own side does, and members in tables in which they see only their own
    rows: to all others the members of an app stay unknown.
    """

    action: Action
    whole: TableSchema
    table: TableSchema
    shows_creator: bool
    rule: Folded = True
    tables: Tables = {}
    readable: Folded = True
    """For a change: the rows that the caller may read, of which it may change those of `rule`."""
    after: Folded = True
    """For an update: its rule, which must hold of the row before and afterwards."""
    closed: frozenset[str] = frozenset()
    """The columns that the caller may not set."""
    tells_profile: bool = False
    """Whether the caller is shown the profile of who created a row, where it does not see who that was."""
    by_row: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    """The columns whose value the caller sees in the rows for which a condition holds, and that condition.

    `table` does not have them: whoever could name such a column in a condition would learn its values.
    """
    hash: Hash | None = None
    """Hashes the values with which a rule compares encrypted columns."""

    def require_settable(self, names: Iterable[str]) -> None:
        """Raise `ColumnReadOnlyError` if the caller may not set one of the columns."""
        if self.closed and (refused := sorted(self.closed & set(names))):
            raise ColumnReadOnlyError(refused)

    def require_readable(self, names: Iterable[str]) -> None:
        """Raise `ColumnNotReadableError` if a change depends on a value that the caller may not read."""
        for name in names:
            if name in self.table.hidden:
                raise ColumnNotReadableError(name).at(f"data.{name}")

    @property
    def is_everything(self) -> bool:
        """Whether it is all rows, so that the statement needs no condition."""
        return self.rule is True

    @property
    def is_ruled(self) -> bool:
        """Whether a row that the caller sees may still be closed to the action."""
        return self.readable != self.rule

    @property
    def hides(self) -> bool:
        """Whether the caller does not see some columns."""
        return self.table is not self.whole

    @property
    def key(self) -> Hashable:
        """What tells it from those with other rows or columns: answers are shared among equal ones only."""
        shown = tuple(column.number for column in self.table.columns) if self.hides else ()
        rule = self.rule if isinstance(self.rule, bool) else json.encode(self.rule)
        return self.shows_creator, rule, shown, json.encode(self.by_row) if self.by_row else b""

    def shown_by_row(self, arguments: Arguments, row: str) -> tuple[tuple[Column, str], ...]:
        """Return the columns of `by_row`, and the conditions on the row that a statement calls `row`."""
        columns = self.whole.by_name
        return tuple((columns[name], self._compiled(rule, arguments, row=row)) for name, rule in self.by_row)

    def and_condition(self, arguments: Arguments, *, row: str = "", many: bool = False) -> str:
        """Return the condition of a statement, with a leading `and`; empty for all rows. See `compile_rule`.

        It precedes the request's conditions: among conditions of equal cost PostgreSQL evaluates the first one first,
        and a pattern must not be evaluated on rows that the caller may not see, or its timing would reveal them.
        """
        return self._and(self.rule, arguments, row=row, many=many)

    def and_readable(self, arguments: Arguments, *, row: str = "") -> str:
        """Return the condition of the rows that the caller may read, like `and_condition`."""
        return self._and(self.readable, arguments, row=row)

    def _and(self, rule: Folded, arguments: Arguments, *, row: str = "", many: bool = False) -> str:
        if isinstance(rule, bool):
            return "" if rule else " and false"
        arguments.access.ruled = self.whole.rules is not None
        if not row and _is_own(rule):
            arguments.access.add(AccessKind.EQUALITY, CREATOR)
            return f" and __creator = {arguments.bind(rule[CREATOR_NAME], 'text')}"
        return f" and {self._compiled(rule, arguments, row=row, many=many)}"

    def _compiled(self, rule: Mapping[str, Json], arguments: Arguments, **names: Any) -> str:
        known: dict[Hashable, _Compiled] = self.__dict__.setdefault("compiled", {})
        # Placeholders have the numbers after those that there are. The rules live as long as this does.
        key = id(rule), len(arguments.values), *names.values()
        if key not in known:
            known[key] = self._compile(rule, len(arguments.values), names)
        found = known[key]
        arguments.add(found.values, found.places, found.access)
        return found.sql

    def _compile(self, rule: Mapping[str, Json], bound: int, names: Mapping[str, Any]) -> _Compiled:
        arguments = Arguments(*[None] * bound, hash_=self.hash)
        try:
            sql = compile_rule(rule, self.whole, self.tables, arguments, **names)
        except UnknownColumnError:
            # As in `_Asked`.
            sql = "false"
        return _Compiled(sql, arguments.values[bound:], arguments.places, arguments.access)

    @property
    def may_be_few(self) -> bool:
        """Whether the rows may be few, and no index has them in the order of a list, so that they are found first."""
        return not (isinstance(self.rule, bool) or _is_single(self.rule))

    @property
    def needs_before(self) -> bool:
        """Whether what must hold after an update names the row before."""
        return not isinstance(self.after, bool) and (_names(self.after, "$old") or _names(self.after, "$new"))

    def holds_after(self, arguments: Arguments, *, old: str, new: str) -> str:
        """Return the condition that an update's rule holds, of the row that a statement calls `new`; empty for any.

        `old` is the row before, for `needs_before`.
        """
        after = self.after
        if isinstance(after, bool):
            return "" if after else "false"

        def of(row: str) -> str:
            return self._compiled(after, arguments, row=row, old=old, new=new)

        return f"{of(old)} and {of(new)}" if _names(self.after, "$new") else of(new)

    @property
    def is_simple(self) -> bool:
        """Whether the condition costs no more than a comparison, so that it is evaluated before all others."""
        return isinstance(self.rule, bool) or _is_own(self.rule)


def visibility(
    principal: Principal,
    table: TableSchema,
    action: Action,
    member: MemberInfo | None,
    tables: Tables,
    hash_: Hash | None = None,
    *,
    found_by_condition: bool = False,
) -> Visibility:
    """Return the rows on which the caller may perform an action; raises an error if there can be none.

    `member` is the signed-in member with its facts, `tables` are those that the table's rules name, `hash_` hashes
    values of encrypted columns. `found_by_condition` says that the request does not name the rows that it changes
    or deletes, so that only those which the caller may list may be found.
    """
    role = principal.role
    if role is not None and role >= action.role:
        return everything(table, action, shows_creator=True)
    if is_open(table, member):
        # What folding would give, for the tables of most requests.
        return everything(table, action, shows_creator=role is not None)
    if table.rules is None and member is not None:
        own: Folded = True if action is Action.CREATE else {CREATOR_NAME: member.member_id}
        return Visibility(action, table, table, shows_creator=True, rule=own, readable=own)
    known: dict[Hashable, Visibility] = table.__dict__.setdefault("visible", {})
    facts = None
    if member is not None:
        claims = json.encode(member.claims)
        facts = member.member_id, member.is_guest, member.level, member.roles, claims, member.teams
    versions = frozenset((other.table_id, other.version) for other in tables.values())
    capabilities = frozenset(principal.capabilities.items()) if principal.capabilities else None
    key = role, action, facts, capabilities, found_by_condition, versions
    visible = known.get(key)
    if visible is None:
        visible = _under_rules(principal, table, action, member, tables, found_by_condition=found_by_condition)
        if hash_ is not None:
            visible = msgspec.structs.replace(visible, hash=hash_)
        if table.rules is None or not _names(table.rules, "$now"):
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[key] = visible
    return visible


def _under_rules(
    principal: Principal,
    table: TableSchema,
    action: Action,
    member: MemberInfo | None,
    tables: Tables,
    *,
    found_by_condition: bool,
) -> Visibility:
    asked = _Asked(principal, table, Caller.of(member, principal.capabilities), tables)
    shows_creator = principal.role is not None or _shows_creator(table)
    hidden, by_row = asked.hidden()
    seen = table.without(hidden) if hidden else table
    visible = asked.visible(action, seen, shows_creator, found_by_condition=found_by_condition)
    tells = asked.tells_profile()
    if by_row or tells:
        return msgspec.structs.replace(visible, by_row=by_row, tells_profile=tells)
    return visible


def everything(table: TableSchema, action: Action, *, shows_creator: bool = False) -> Visibility:
    """Return the visibility of all rows and columns."""
    known: dict[tuple[Action, bool], Visibility] = table.__dict__.setdefault("everything", {})
    found = known.get((action, shows_creator))
    if found is None:
        found = known[action, shows_creator] = Visibility(action, table, table, shows_creator)
    return found


class _Asked:
    """The rules of a table for one caller."""

    def __init__(self, principal: Principal, table: TableSchema, caller: Caller, tables: Tables) -> None:
        self._principal = principal
        self._table = table
        self._caller = caller
        self._tables = tables
        self._rules: Mapping[Any, Json] = LEVELS[table.access_level] if table.rules is None else table.rules

    def visible(
        self, action: Action, seen: TableSchema, shows_creator: bool, *, found_by_condition: bool
    ) -> Visibility:
        """Return the rows on which the caller may perform an action, of which it sees the columns of `seen`."""
        table, tables = self._table, self._tables
        match action:
            case Action.CREATE:
                rule = self.fold(Action.CREATE)
                return Visibility(action, table, seen, shows_creator, rule, tables, closed=self.closed(action))
            case Action.READ:
                rule = self.fold(Action.READ)
                return Visibility(action, table, seen, shows_creator, rule, tables, rule)
            case Action.LIST:
                rule = both(*self.fold_all(*self.listing(), Action.READ))
                return Visibility(action, table, seen, shows_creator, rule, tables, rule)
            case Action.DELETE:
                changed, *seen_rows = self.fold_all(
                    Action.DELETE, *(self.listing() if found_by_condition else ()), Action.READ
                )
                readable = both(*seen_rows)
                return Visibility(action, table, seen, shows_creator, both(readable, changed), tables, readable)
            case Action.UPDATE:
                changed, *seen_rows = self.fold_all(
                    Action.UPDATE, *(self.listing() if found_by_condition else ()), Action.READ
                )
                readable = both(*seen_rows)
                before = both(readable, of_row_before(changed))
                closed = self.closed(action)
                # Nobody changes who created a row.
                after = True if not isinstance(changed, bool) and _is_own(changed) else changed
                return Visibility(action, table, seen, shows_creator, before, tables, readable, after, closed)

    def listing(self) -> tuple[Action, ...]:
        """Return the action that lists ask for beside reading, if the rules tell it apart."""
        return (Action.LIST,) if Action.LIST in self._rules else ()

    def fold(self, action: Action) -> Folded:
        """Fold an action's rule; raises an error if nothing is left of it."""
        rule = self._rules.get(action)
        folded = self._folded(rule)
        if folded is False:
            raise self._denied(action, rule)
        return folded

    def fold_all(self, *actions: Action) -> list[Folded]:
        """Fold the rules of several actions, all of which have to hold."""
        for action in actions:
            # What no member may do is not asked for a token.
            if self._rules.get(action) is None:
                raise self._denied(action, None)
        return [self.fold(action) for action in actions]

    def _folded(self, rule: Json) -> Folded:
        try:
            return fold(rule, self._caller, self._table, self._tables, self._rules.get("define"))
        except UnknownColumnError:
            # Rules that came back from the trash, and name what is no longer there.
            return False

    def _denied(self, action: Action, rule: Json) -> ForbiddenError | UnauthorizedError:
        if self._principal.role is not None:
            return RoleRequiredError()
        if self._caller.member is None and mentions_member(rule, self._rules):
            return MemberTokenRequiredError()
        return RuleDeniedError(action)

    def closed(self, action: Action) -> frozenset[str]:
        """Return the columns that the caller may not set."""
        return self._columns(action.value)

    def hidden(self) -> tuple[frozenset[str], tuple[tuple[str, Mapping[str, Json]], ...]]:
        """Return the columns that the caller may not name, and of these the ones that it sees in some rows."""
        folded = {name: self._folded(rule) for name, rule in self._column_rules("read")}
        hidden = frozenset(name for name, rule in folded.items() if rule is not True) | self._secrets()
        return hidden, tuple((name, rule) for name, rule in folded.items() if not isinstance(rule, bool))

    def tells_profile(self) -> bool:
        """Return whether the rules show the profile of who created a row."""
        rule = (self._rules.get("columns") or {}).get(CREATOR_NAME)
        return rule is not None and self._folded(rule["read"]) is True

    def _secrets(self) -> frozenset[str]:
        """Return the columns that are compared with a capability, unless the rules say who may read them."""
        rules = self._rules.get("columns") or {}
        told = {key for key, column in rules.items() if "read" in column}
        secrets: set[str] | None = self._table.__dict__.get("secrets")
        if secrets is None:
            secrets = self._table.__dict__["secrets"] = secrets_of(self._rules)
        names = [column_name_of(self._table, key) for key in secrets - told]
        return frozenset(name for name in names if name in self._table.by_name)

    def _columns(self, part: str) -> frozenset[str]:
        return frozenset(name for name, rule in self._column_rules(part) if self._folded(rule) is not True)

    def _column_rules(self, part: str) -> list[tuple[str, Json]]:
        rules = self._rules.get("columns") or {}
        return [
            (column_name_of(self._table, key), column[part])
            for key, column in rules.items()
            if part in column and key != CREATOR_NAME
        ]


def both(*parts: Folded) -> Folded:
    """Return the condition that all parts hold."""
    conditions = list[Folded]({json.encode(part): part for part in parts if part is not True}.values())
    if False in conditions:
        return False
    if len(conditions) < 2:
        return conditions[0] if conditions else True
    return {"$and": conditions}


def of_row_before(rule: Folded) -> Folded:
    """Return what an update's rule requires of the row before: the least that must hold, where it names the row after.

    The whole rule is checked afterwards.
    """
    if isinstance(rule, bool) or (_names(rule, "$new") and _names(rule, "$not")):
        return rule if isinstance(rule, bool) else True
    return _before(rule)


def _before(rule: Mapping[str, Json]) -> Folded:
    parts: list[Folded] = []
    for name, value in rule.items():
        if name == "$new":
            continue
        if name == "$old":
            parts.append(_before(value))
        elif name == "$and":
            parts.append(both(*map(_before, value)))
        elif name == "$or":
            branches = [_before(one) for one in value]
            parts.append(True if True in branches else {"$or": branches})
        else:
            parts.append({name: value})
    return both(*parts)


def _is_own(rule: Mapping[str, Json]) -> bool:
    """Return whether a rule is that of the rows that one member created."""
    return len(rule) == 1 and isinstance(rule.get(CREATOR_NAME), str)


def _is_single(rule: Mapping[str, Json]) -> bool:
    """Return whether a rule is one equality, by which an index finds the rows in the order of their ids."""
    ((name, value), *others) = rule.items()
    if others or (name.startswith("$") and name != CREATOR_NAME):
        return False
    return not isinstance(value, Mapping) or set(value) == {"$eq"} or not any(key.startswith("$") for key in value)


def _names(rule: Json, name: str) -> bool:
    if isinstance(rule, Mapping):
        return name in rule or any(_names(value, name) for value in rule.values())
    return isinstance(rule, list) and any(_names(value, name) for value in rule)


def mentions_member(rule: Json, rules: Mapping[Any, Json]) -> bool:
    """Return whether a rule, one of `rules`, asks who the member is."""
    return _names(rule, "$member") or (_names(rule, "$use") and _names(rules.get("define"), "$member"))


def is_open(table: TableSchema, member: MemberInfo | None = None) -> bool:
    """Return whether everybody with the public key, or this member, may perform every action on all rows."""
    return table.rules is None and (
        table.access_level is AccessLevel.PUBLIC
        or (member is not None and table.access_level is AccessLevel.APP_MEMBER)
    )


def creator_of_new_row(principal: Principal) -> str | None:
    """Return the member that owns a new row, if a member creates it."""
    return principal.member.member_id if principal.member else None


def _shows_creator(table: TableSchema) -> bool:
    return table.rules is None and table.access_level is AccessLevel.CREATOR

"""What the rules of an app's tables leave open: to the public key, and to whoever signs up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec

from pilotis.data.rules.actions import Action
from pilotis.data.rules.document import column_name_of, is_reference, secrets_of
from pilotis.data.rules.fold import Caller, Folded, fold
from pilotis.data.rules.paths import without_paths
from pilotis.data.rules.types import RuleFinding
from pilotis.data.rules.visibility import LEVELS, both
from pilotis.data.tables.schema import ColumnType, OnDelete, TableSchema
from pilotis.data.tables.values import UnknownColumnError
from pilotis.http.api.capabilities import SHORTEST
from pilotis.http.api.principals import AppInfo, MemberInfo

Json = Any
_ME = {"$member": "id"}
_DOES = {
    Action.LIST: "list",
    Action.READ: "read",
    Action.CREATE: "create",
    Action.UPDATE: "change",
    Action.DELETE: "delete",
}


class _Kind(NamedTuple):
    """What rules are about: rows of a table, or files of a storage."""

    place: str
    thing: str
    code: str


_ROWS, _FILES = _Kind("Table", "row", "TABLE"), _Kind("Storage", "file", "STORAGE")


class _Exists(NamedTuple):
    """An `$exists`: the table that has it in its rules, the one that it reads, and its condition."""

    table: TableSchema
    other: TableSchema
    where: Mapping[str, Json]


def exposed(app: AppInfo, tables: Sequence[TableSchema], storages: Sequence[TableSchema] = ()) -> list[RuleFinding]:
    """Return what is open in the tables that have rules, and one finding about each where nothing is.

    `storages` are file storages with rules, as the tables that their rules are about.
    """
    tables, storages = (
        [msgspec.structs.replace(one, rules=without_paths(one.rules)) for one in several]
        for several in (tables, storages)
    )
    by_id = {table.table_id: table for table in tables}
    newcomer = _newcomer(app)
    found: list[RuleFinding] = []
    for storage in storages:
        found += _open(storage, Caller.of(None), newcomer, by_id, _FILES)
    for table in tables:
        if table.rules is not None:
            found += _short_secrets(table)
            found += _open(table, Caller.of(None), newcomer, by_id)
            if newcomer is not None and (finding := _creator_not_bound(table, newcomer, by_id)):
                found.append(finding)
    if newcomer is not None:
        found += _self_promotion([*tables, *storages], newcomer, by_id)
        for table in tables:
            found += _cascades_by_member(table, newcomer, by_id)
    return found


def _newcomer(app: AppInfo) -> Caller | None:
    """Return who has just signed up, if the public can: a member of whom the app says nothing yet."""
    if not (app.allow_id_password_login or app.allow_guest_login):
        return None
    return Caller.of(MemberInfo("", uuid4(), is_guest=not app.allow_id_password_login))


def _folded(table: TableSchema, action: Action, caller: Caller, tables: Mapping[UUID, TableSchema]) -> Folded:
    rules: Mapping[Any, Json] = LEVELS[table.access_level] if table.rules is None else table.rules
    # What may not be read is neither changed nor deleted.
    asked = [action] if action in {Action.CREATE, Action.READ} else [action, Action.READ]
    try:
        parts = [
            fold(
                rules.get(one, rules.get(Action.READ) if one is Action.LIST else None),
                caller,
                table,
                tables,
                rules.get("define"),
            )
            for one in asked
        ]
    except UnknownColumnError:
        return False
    return both(*parts)


def _open(
    table: TableSchema,
    public: Caller,
    newcomer: Caller | None,
    tables: Mapping[UUID, TableSchema],
    kind: _Kind = _ROWS,
) -> Iterator[RuleFinding]:
    name = f"{kind.place} {table.title}"
    anybody = {action: _folded(table, action, public, tables) for action in Action}
    for writes in ((Action.UPDATE, Action.DELETE), (Action.CREATE,)):
        if opened := [action for action in writes if anybody[action] is not False]:
            message = f"{name}: by its rules the public key alone can {_listed(opened, anybody, kind)}."
            # A drop box is meant to be open.
            yield RuleFinding("medium" if Action.CREATE in writes else "high", kind.code, table.table_id, message)
    reads = [action for action in (Action.READ,) if anybody[action] is not False]
    if reads:
        message = f"{name}: by its rules the public key alone can {_listed(reads, anybody, kind)}."
        yield RuleFinding("low", kind.code, table.table_id, message)
    elif all(folded is False for folded in anybody.values()):
        message = f"{name}: its rules give nothing to the public key alone."
        yield RuleFinding("none", kind.code, table.table_id, message)
    if newcomer is not None:
        signed_in = {action: _folded(table, action, newcomer, tables) for action in Action}
        all_rows = [
            action
            for action in (Action.READ, Action.UPDATE, Action.DELETE)
            if signed_in[action] is True and anybody[action] is not True
        ]
        if all_rows:
            message = f"{name}: by its rules anyone who signs up can {_listed(all_rows, signed_in, kind)}."
            yield RuleFinding("medium", kind.code, table.table_id, message)


def _cascades_by_member(
    table: TableSchema, newcomer: Caller, tables: Mapping[UUID, TableSchema]
) -> Iterator[RuleFinding]:
    """Yield a finding for each column by which whoever signs up can have rows deleted that it may not delete."""
    changed, deleted = (_folded(table, action, newcomer, tables) for action in (Action.UPDATE, Action.DELETE))
    if changed is False or deleted is True:
        return
    for column in table.of_members:
        if column.of_member is OnDelete.CASCADE and not _is_bound(table, "update", f"#{column.number}", newcomer):
            message = (
                f"Table {table.title}: anyone who signs up can set {column.name} to itself, and with its account goes "
                "the row. Let rules say who sets it, or use another on_delete."
            )
            yield RuleFinding("high", "CASCADE_BY_MEMBER", table.table_id, message)


def _short_secrets(table: TableSchema) -> Iterator[RuleFinding]:
    """Yield a finding for each column that is compared with a capability and may hold what can be guessed."""
    columns = {f"#{column.number}": column for column in table.columns}
    for key in sorted(secrets_of(table.rules)):
        column = columns.get(key)
        if column is None or column.type is not ColumnType.STRING:
            continue
        if column.checks is None or (column.checks.min_length or 0) < SHORTEST:
            message = (
                f"Table {table.title}: whoever guesses a value of {column.name} gets what its shared links give. "
                f"Give the column a min_length of {SHORTEST} or more."
            )
            yield RuleFinding("medium", "SHORT_SECRET", table.table_id, message)


def _listed(actions: Sequence[Action], folded: Mapping[Action, Folded], kind: _Kind) -> str:
    def rows(action: Action) -> str:
        if action is Action.CREATE:
            return f"{kind.thing}s"
        return f"every {kind.thing}" if folded[action] is True else f"some {kind.thing}s"

    return " and ".join(f"{_DOES[action]} {rows(action)}" for action in actions)


def _creator_not_bound(table: TableSchema, newcomer: Caller, tables: Mapping[UUID, TableSchema]) -> RuleFinding | None:
    """Return the finding that members can create rows in the name of others."""
    if _folded(table, Action.CREATE, newcomer, tables) is False:
        return None
    owners = {
        key
        for action in (Action.READ, Action.UPDATE, Action.DELETE)
        for key, value in _leaves(_expanded(table.rules.get(action), table))
        if key.startswith("#") and value in (_ME, {"$eq": _ME})
    }
    free = [key for key in sorted(owners) if not _is_bound(table, "create", key, newcomer)]
    if not free:
        return None
    name = column_name_of(table, free[0])
    message = (
        f"Table {table.title}: rules ask whether {name} is the member, and a member can create rows with any {name}."
    )
    return RuleFinding("medium", "NO_CREATOR_BOUND", table.table_id, message)


def _self_promotion(
    tables: Sequence[TableSchema], newcomer: Caller, by_id: Mapping[UUID, TableSchema]
) -> Iterator[RuleFinding]:
    """Yield a finding for each table that gives rights by its rows, and whose rows anyone who signs up can write."""
    told: set[tuple[UUID, UUID]] = set()
    for table in tables:
        for exists in _all_exists(table, by_id):
            pair = table.table_id, exists.other.table_id
            leaves = list(_leaves(exists.where))
            if pair in told or not any(value in (_ME, {"$eq": _ME}) for _, value in leaves):
                continue
            names_row = any(key == "id" and is_reference(value) and "$row" in value for key, value in leaves)
            # Where a row names the one that gives rights, no new one does, but who is named in it may be changed.
            deciding = {
                key for key, value in leaves if key.startswith("#") and (value in (_ME, {"$eq": _ME})) is names_row
            }
            if names_row and not deciding:
                continue
            for action in (Action.UPDATE,) if names_row else (Action.CREATE, Action.UPDATE):
                can = _folded(exists.other, action, newcomer, by_id) is not False
                if can and not any(_is_bound(exists.other, action.value, key, newcomer) for key in deciding):
                    told.add(pair)
                    message = (
                        f"Table {exists.other.title}: anyone who signs up can {_DOES[action]} its rows, "
                        f"which give rights in {'table' if table.table_id in by_id else 'storage'} {table.title}."
                    )
                    yield RuleFinding("high", "SELF_PROMOTION", exists.other.table_id, message)
                    break


def _all_exists(table: TableSchema, by_id: Mapping[UUID, TableSchema]) -> Iterator[_Exists]:
    def within(rule: Json) -> Iterator[_Exists]:
        if isinstance(rule, list):
            for one in rule:
                yield from within(one)
        elif isinstance(rule, dict):
            for name, value in rule.items():
                if name == "$exists" and (other := by_id.get(UUID(value["table"]))) is not None:
                    yield _Exists(table, other, value["where"])
                yield from within(value)

    yield from within(table.rules)


def _expanded(rule: Json, table: TableSchema) -> Json:
    """Return a rule with what it uses in its place."""
    if isinstance(rule, list):
        return [_expanded(one, table) for one in rule]
    if not isinstance(rule, dict):
        return rule
    own = {name: _expanded(value, table) for name, value in rule.items() if name != "$use"}
    return {"$and": [own, table.rules["define"][rule["$use"]]]} if "$use" in rule else own


def _leaves(rule: Json) -> Iterator[tuple[str, Json]]:
    """Yield the conditions on columns of the judged row, at any depth."""
    if not isinstance(rule, dict):
        return
    for name, value in rule.items():
        if name in {"$and", "$or"}:
            for one in value:
                yield from _leaves(one)
        elif name in {"$not", "$old", "$new"}:
            yield from _leaves(value)
        elif name not in {"$member", "$exists", "$use"}:
            yield name, value


def _is_bound(table: TableSchema, action: str, key: str, newcomer: Caller) -> bool:
    """Return whether the caller cannot choose the value of a column in a row that it creates or changes."""
    if table.rules is None:
        return False
    column = (table.rules.get("columns") or {}).get(key.partition(".")[0], {})
    if action in column and fold(column[action], newcomer, table, {}, table.rules.get("define")) is False:
        return True
    return _binds(_expanded(table.rules.get(action), table), key)


def _binds(rule: Json, key: str) -> bool:
    if not isinstance(rule, dict):
        return False
    for name, value in rule.items():
        if name == "$or" and all(_binds(one, key) for one in value):
            return True
        if name == "$and" and any(_binds(one, key) for one in value):
            return True
        if name == "$new" and _binds(value, key):
            return True
        if name == key and _fixes(value):
            return True
        if name == "$exists" and {"$row": key} in _values(value["where"]) and "$member" in str(value["where"]):
            return True
    return False


def _fixes(value: Json) -> bool:
    """Return whether a condition leaves the caller no value to choose."""
    if is_reference(value) or not isinstance(value, dict) or not any(name.startswith("$") for name in value):
        return True
    return bool({"$eq", "$in"} & set(value))


def _values(where: Json) -> list[Json]:
    return [value for _, value in _leaves(where)]

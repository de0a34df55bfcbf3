"""Trying the rules of a table: what a caller would be answered, and which conditions decide it. Nothing is changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.rows.operations import RowNotFoundError, perform, plan_create, plan_delete, plan_update
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.fold import Caller, NoValueError, fold_part
from pilotis.data.rules.parts import Part, parts_of
from pilotis.data.rules.service import Rules
from pilotis.data.rules.trying.callers import tried_caller
from pilotis.data.rules.types import RulePart, RuleTest, RuleTestResult
from pilotis.data.rules.visibility import LEVELS, Visibility
from pilotis.data.tables.schema import AccessLevel
from pilotis.data.tables.service import Tables
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.operands import Arguments
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit import json
from pilotis.kit.errors import PilotisError, QueryTimeoutError, invalid
from pilotis.members.service import Members

Json = Any
Index = Literal["used", "missing", "small table"]


class _Seen(NamedTuple):
    """The rows that a caller could list: their number if it could be counted in time, and how they are found."""

    rows: int | None = None
    by: Index | None = None


class _UndoneError(Exception):
    """Ends a transaction whose changes were only tried."""


class RuleTests:
    """Tries rules, those of a table or a draft."""

    def __init__(
        self, database: Database, tables: Tables, prepared: PreparedTables, rules: Rules, members: Members
    ) -> None:
        self._database = database
        self._tables = tables
        self._prepared = prepared
        self._rules = rules
        self._members = members

    async def run(self, app: AppInfo, table_id: UUID, test: RuleTest) -> RuleTestResult:
        """Return what a caller would be answered; raises a 400 error for a draft that is none, 404 for the rest."""
        caller = await tried_caller(app, test.caller, test.capabilities, self._members.acting)
        schema = await self._tables.current(app.app_id, table_id)
        if test.rules is not msgspec.UNSET:
            stored = await self._rules.draft(app, table_id, msgspec.to_builtins(test.rules))
            schema = msgspec.structs.replace(schema, rules=stored)
        table = await self._prepared.drafted(schema)
        started = time.perf_counter()
        error = await self._outcome(app, caller, table, test)
        seconds = time.perf_counter() - started
        seen = _Seen()
        if error is None and test.action is Action.LIST:
            started = time.perf_counter()
            seen = await self._seen(app, caller, table)
            seconds = time.perf_counter() - started
        return RuleTestResult(
            allowed=error is None,
            status=_status(test.action) if error is None else error.status,
            code=None if error is None else error.code,
            message=None if error is None else error.text,
            visible_columns=await _readable(caller, table, test),
            writable_columns=_settable(caller, table, test.action),
            parts=await self._parts(app, caller, table, test),
            visible_count=seen.rows,
            milliseconds=round(seconds * 1000, 1),
            index=seen.by,
        )

    async def _outcome(
        self, app: AppInfo, caller: Principal, table: PreparedTable, test: RuleTest
    ) -> PilotisError | None:
        """Return the error that the caller would be answered, or None."""
        try:
            if test.action in {Action.LIST, Action.READ}:
                visible = table.visible_now(caller, test.action)
                if test.action is Action.READ and test.row_id is not msgspec.UNSET:
                    arguments = Arguments(test.row_id)
                    sql = table.statements.select(visible.and_condition(arguments))
                    if await table.fetchval(sql, *arguments.values) is None:
                        raise RowNotFoundError
            else:
                await self._try(app, caller, table, test)
        except PilotisError as error:
            if error.status >= 500:
                raise
            return error
        return None

    async def _try(
        self, app: AppInfo, caller: Principal, table: PreparedTable, test: RuleTest, parts: Sequence[Part] = ()
    ) -> list[bool | None]:
        """Write as the caller, return which of the parts hold of what was written, and undo it."""
        held: list[bool | None] = []
        try:
            async with table.transaction() as connection:
                before = None
                if parts and test.row_id is not msgspec.UNSET:
                    select = f"select to_jsonb(t)::text from {table.schema.physical} t where __id = $1"
                    before = await connection.fetchval(select, test.row_id)
                row_id = await _write(connection, app, caller, table, test)
                if parts:
                    held = await _held(connection, caller, table, parts, row_id, before)
                raise _UndoneError
        except _UndoneError:
            return held

    async def _parts(self, app: AppInfo, caller: Principal, table: PreparedTable, test: RuleTest) -> list[RulePart]:
        schema = table.schema
        rules: Mapping[Any, Json] = LEVELS[schema.access_level] if schema.rules is None else schema.rules
        shown = rules if schema.rules is None else await self._rules.shown(schema)
        parts = parts_of(test.action, rules, shown)
        if test.action not in {Action.CREATE, Action.READ}:
            # What may not be read is neither listed nor changed; a row is read as it was before the change.
            parts += [part._replace(version="$old") for part in parts_of(Action.READ, rules, shown)]
        # Of a rule that may forbid it, it is asked as if there was none.
        unruled = msgspec.structs.replace(schema, rules=None, access_level=AccessLevel.PUBLIC)
        everything = await self._prepared.drafted(unruled)
        everything.related = table.related
        held: list[bool | None] = []
        try:
            if test.action in {Action.CREATE, Action.UPDATE}:
                held = await self._try(app, caller, everything, test, parts)
            elif test.row_id is not msgspec.UNSET:
                async with self._database.statement(app.app_id, read_only=True) as connection:
                    held = await _held(connection, caller, everything, parts, test.row_id, None)
        except PilotisError as error:
            if error.status >= 500:
                raise
        known = held or [_known(caller, table, part) for part in parts]
        return [RulePart(part.place, part.words, holds) for part, holds in zip(parts, known, strict=True)]

    async def _seen(self, app: AppInfo, caller: Principal, table: PreparedTable) -> _Seen:
        """Count the rows that the caller could list."""
        arguments = Arguments(hash_=table.hash)
        condition = table.visible_now(caller, Action.LIST).and_condition(arguments, many=True)
        source = f"from {table.schema.physical} where true{condition}"
        count = index = None
        with contextlib.suppress(QueryTimeoutError):
            count = await table.fetchval(f"select count(*) {source}", *arguments.values)
        if condition:
            plan = await table.fetchval(f"explain (format json) select {source}", *arguments.values)
            rows = await self._database.fetchval(
                "select greatest(reltuples, 0) from pg_class where oid = to_regclass($1)",
                table.schema.physical,
                tenant=app.app_id,
            )
            index = _index(plan, rows or 0, app)
        return _Seen(count, index)


def _allowed(caller: Principal, table: PreparedTable, action: Action) -> Visibility | None:
    """Return the rows on which the caller may perform an action; None if there can be none."""
    try:
        return table.visible_now(caller, action)
    except PilotisError:
        return None


async def _readable(caller: Principal, table: PreparedTable, test: RuleTest) -> list[str]:
    """Return the columns that the caller sees: in every row, and in the one that is tried."""
    visible = _allowed(caller, table, Action.READ)
    if visible is None:
        return []
    names = {column.name for column in visible.table.columns}
    if visible.by_row and test.row_id is not msgspec.UNSET:
        arguments = Arguments(test.row_id)
        sql = table.statements.names_shown(visible.shown_by_row(arguments, "chosen"), visible.and_condition(arguments))
        names.update(await table.fetchval(sql, *arguments.values) or ())
    return [column.name for column in table.schema.columns if column.name in names]


def _settable(caller: Principal, table: PreparedTable, action: Action) -> list[str]:
    visible = _allowed(caller, table, action if action is Action.CREATE else Action.UPDATE)
    if visible is None:
        return []
    return [column.name for column in table.schema.columns if column.name not in visible.closed]


async def _write(connection: Connection, app: AppInfo, caller: Principal, table: PreparedTable, test: RuleTest) -> UUID:
    """Write what is tried, and return the row's id."""
    data = msgspec.Raw(json.encode(test.data or {}))
    if test.action is Action.CREATE:
        plan = plan_create(caller, table, app.limits, data)
    else:
        if test.row_id is msgspec.UNSET:
            raise invalid("row_id", "Give the row that is to be changed or deleted.")
        if test.action is Action.UPDATE:
            plan = plan_update(caller, table, app.limits, test.row_id, data)
        else:
            plan = plan_delete(caller, table, test.row_id)
    await perform(connection.fetchrow, plan)
    return UUID(plan.row_id)


async def _held(
    connection: Connection,
    caller: Principal,
    table: PreparedTable,
    parts: Sequence[Part],
    row_id: UUID,
    before: str | None,
) -> list[bool | None]:
    """Return which parts hold of a row, which was `before`, as JSON, where it has been changed."""
    known = [_fold(caller, table, part) for part in parts]
    asked = [at for at, folded in enumerate(known) if isinstance(folded, dict)]
    held = [None if isinstance(folded, dict) else folded for folded in known]
    if not asked:
        return held
    physical = table.schema.physical
    arguments = Arguments(row_id, hash_=table.hash)
    old = "t"
    source = f"{physical} t"
    if before is not None:
        old = "b"
        source += f", jsonb_populate_record(null::{physical}, {arguments.bind(before, 'jsonb')}) b"

    def condition(part: Part, folded: Json) -> str:
        rows = {"$old": (old,), "$new": ("t",)}.get(part.version, (old, "t") if old != "t" else ("t",))
        compiled = [
            compile_rule(folded, table.schema, table.related, arguments, row=row, old=old, new="t") for row in rows
        ]
        return f"coalesce({' and '.join(compiled)}, false)"

    selected = ", ".join(condition(parts[at], known[at]) for at in asked)
    row = await connection.fetchrow(f"select {selected} from {source} where t.__id = $1", *arguments.values)
    for at, value in zip(asked, row or (), strict=False):
        held[at] = value
    return held


def _known(caller: Principal, table: PreparedTable, part: Part) -> bool | None:
    folded = _fold(caller, table, part)
    return None if isinstance(folded, dict) else folded


def _fold(caller: Principal, table: PreparedTable, part: Part) -> bool | dict[str, Json] | None:
    """Fold a part; None if a value of the caller that it needs is missing."""
    try:
        return fold_part(part.condition, Caller.of(caller.member, caller.capabilities), table.schema, table.related)
    except (NoValueError, UnknownColumnError):
        return None


def _status(action: Action) -> int:
    return 201 if action is Action.CREATE else 200


def _index(plan: str, rows: float, app: AppInfo) -> Index:
    """Return how the rows of a plan, in EXPLAIN's JSON, are found in a table of so many rows."""
    if "Seq Scan" not in _nodes(json.decode(plan.encode())):
        return "used"
    return "missing" if rows >= app.limits.index_rows else "small table"


def _nodes(plan: Json) -> list[str]:
    if isinstance(plan, list):
        return [node for one in plan for node in _nodes(one)]
    if not isinstance(plan, Mapping):
        return []
    own = [plan["Node Type"]] if "Node Type" in plan else []
    return own + [node for value in plan.values() for node in _nodes(value)]

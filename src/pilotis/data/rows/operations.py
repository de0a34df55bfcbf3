"""Writes to single rows as plans of one statement each, which a request runs alone and a transaction runs together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import asyncpg
import msgspec

from pilotis.data.rows import records
from pilotis.data.rows.emitting import CREATED, DELETED, UPDATED, BoundCause, Cause
from pilotis.data.rows.referring import BOUND_AS, ReferenceNotFoundError
from pilotis.data.rows.statements import BoundChange, Requirement
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import RuleDeniedError, Visibility, creator_of_new_row, new_row_denied
from pilotis.data.tables.checks import conditions
from pilotis.data.tables.generated import NOBODY, Writer
from pilotis.data.tables.schema import Column
from pilotis.data.tables.values import Row
from pilotis.data.where.operands import Arguments, EncryptedColumnError
from pilotis.http.api.principals import Principal
from pilotis.kit import json, origin
from pilotis.kit.clock import parse_rfc3339, rfc3339
from pilotis.kit.errors import BadRequestError, ConflictError, NotFoundError, PilotisError, invalid
from pilotis.kit.ids import uuid7_text
from pilotis.kit.offload import offload
from pilotis.limits import Limits

CANNOT_CHANGE = "PT400"
ROW_TOO_LARGE = "PT413"
RULE_DENIED = "PT403"
REFERENCE_NOT_FOUND = "PT404"
CHECK_NOT_KEPT = "PT422"

FetchRow = Callable[..., Awaitable[asyncpg.Record | None]]
FetchMany = Callable[..., Awaitable[list[asyncpg.Record]]]


class RowNotFoundError(NotFoundError):
    """404: the table has no such row that the caller may see."""

    code = "ROW_NOT_FOUND"
    message = "The table has no such row."


class PreconditionFailedError(ConflictError):
    """409: the row has changed since `expected_updated_at`."""

    code = "PRECONDITION_FAILED"
    message = "The row has changed since expected_updated_at. Read it again."


class CannotIncrementError(BadRequestError):
    """400: `$inc` on a value that is not a number, or the sum is out of range."""

    code = "CANNOT_INCREMENT"
    message = "$inc works on numbers, and the sum must be in the column's range."


class CannotChangeError(BadRequestError):
    """400: an operator on a field without a column, whose value is absent or of another type."""

    code = "CANNOT_CHANGE"
    message = "The operator does not work on this field: it is absent, or its value is of another type."


class UndecidedError(Exception):
    """One of several plans that ran together failed; running them one by one shows which."""


def _nothing() -> None:
    """Do nothing."""


class Plan(NamedTuple):
    """A statement that writes one row; `finish` builds the result from its value, which is None if no row was found.

    `probe` finds out, if there is a precondition, whether the row exists. `size` is the number of bytes of data
    in the request.
    """

    row_id: str
    sql: str
    arguments: Sequence[Any]
    finish: Callable[[Any], bytes]
    """Takes the value, and with `columns` the value and what these are."""
    max_bytes: int = 0
    probe: tuple[str, Sequence[Any]] | None = None
    size: int = 0
    missing: type[PilotisError] | Callable[[], PilotisError] = RowNotFoundError
    """The error if no row was found."""
    seen: tuple[str, Sequence[Any]] | None = None
    """Finds out whether the caller sees a row that it may not change."""
    action: Action = Action.DELETE
    counted: tuple[str, int] | None = None
    """A statement that changes the row count, by how much, where the plan's does not: in the same transaction."""
    judged: tuple[str, Sequence[Any]] | None = None
    """Finds out beforehand whether a rule allows the new row, where the plan's statement does not."""
    taken: Callable[[str], PilotisError | None] = lambda _: None
    """Returns the error for a unique key that PostgreSQL's message names, if it is one of the table's."""
    refused: tuple[str, Sequence[Any], Callable[[asyncpg.Record], PilotisError | None]] | None = None
    """Finds out why a new row was not inserted, and returns the error."""
    before: Callable[[FetchRow], Awaitable[object]] | None = None
    """Writes what must be written before, in the same transaction."""
    committed: Callable[[], None] = _nothing
    """Tells of what `before` has written, after the transaction."""
    columns: tuple[str, Sequence[Any]] | None = None
    """Selects, as `names`, the columns that the creator of a new row sees in it, where that depends on the row."""
    ruled: bool = False
    """Whether rules of the table decide about the row."""
    emitted: str = ""
    """A statement that stores the events that the plan's returns beside its value, where it does not store them."""

    @property
    def is_whole(self) -> bool:
        """Whether the plan is a single statement, which needs no transaction around it."""
        return self.counted is None and not self.emitted and self.before is None


async def perform(fetchrow: FetchRow, plan: Plan) -> bytes:
    """Run a plan and return the row's JSON, or an empty text for a deletion; raises a 4xx error otherwise."""
    if plan.judged is not None:
        allowed = await fetchrow(plan.judged[0], *plan.judged[1])
        if allowed is None or not allowed[0]:
            raise await _missing(fetchrow, plan)
    try:
        if plan.before is not None:
            await plan.before(fetchrow)
        row = await fetchrow(plan.sql, *plan.arguments)
    except asyncpg.PostgresError as error:
        if (refused := refusal(error, plan.max_bytes, plan.taken)) is None:
            raise
        raise refused from None
    if row is None or not row[0]:
        if plan.probe is not None and await fetchrow(plan.probe[0], *plan.probe[1]):
            raise PreconditionFailedError
        if plan.seen is not None and await fetchrow(plan.seen[0], *plan.seen[1]):
            raise RuleDeniedError(plan.action)
        raise await _missing(fetchrow, plan)
    if plan.counted:
        await fetchrow(*plan.counted)
    if plan.emitted:
        await fetchrow(plan.emitted, row["events"])
    value = row[0]
    if plan.columns is not None:
        shown = await fetchrow(plan.columns[0], *plan.columns[1])
        assert shown is not None
        value = value, shown["names"]
    return await offload(plan.size, plan.finish, value)


async def _missing(fetchrow: FetchRow, plan: Plan) -> PilotisError:
    if plan.refused is not None:
        sql, values, error_of = plan.refused
        row = await fetchrow(sql, *values)
        if row is not None and (error := error_of(row)) is not None:
            return error
    return plan.missing()


def refusal(
    error: asyncpg.PostgresError, max_bytes: int, taken: Callable[[str], PilotisError | None]
) -> PilotisError | None:
    """Return the error to answer for one of PostgreSQL about a write, if it is the request's; see `Plan`."""
    if isinstance(error, asyncpg.NumericValueOutOfRangeError | asyncpg.InvalidParameterValueError):
        return CannotIncrementError()
    if error.sqlstate == ROW_TOO_LARGE:
        return records.too_large(max_bytes)
    if error.sqlstate == CANNOT_CHANGE:
        return CannotChangeError()
    if error.sqlstate == REFERENCE_NOT_FOUND:
        return ReferenceNotFoundError(str(error))
    if error.sqlstate == CHECK_NOT_KEPT:
        name, code, expected = json.decode(str(error).encode())
        return invalid(f"data.{name}", f"data.{name}: {expected}.", code)
    return new_row_denied(Action.UPDATE) if error.sqlstate == RULE_DENIED else taken(str(error))


async def perform_many(fetchmany: FetchMany, plans: Sequence[Plan]) -> list[bytes]:
    """Run plans with the same statement in one round trip, and return what `perform` returns for each.

    Raises `UndecidedError` if one of them fails.
    """
    if plans[0].judged is not None or plans[0].before is not None or plans[0].columns is not None:
        raise UndecidedError
    try:
        rows = await fetchmany(plans[0].sql, [plan.arguments for plan in plans])
    except asyncpg.PostgresError as error:
        if refusal(error, plans[0].max_bytes, plans[0].taken) is not None:
            raise UndecidedError from error
        raise
    if len(rows) != len(plans) or not all(row[0] for row in rows):
        raise UndecidedError
    if (counted := plans[0].counted) is not None:
        await fetchmany(counted[0], [(counted[1] * len(plans),)])
    if plans[0].emitted:
        await fetchmany(plans[0].emitted, [(row["events"],) for row in rows])
    return await offload(sum(plan.size for plan in plans), _finished, plans, rows)


def _finished(plans: Sequence[Plan], rows: Sequence[asyncpg.Record]) -> list[bytes]:
    return [plan.finish(row[0]) for plan, row in zip(plans, rows, strict=True)]


def plan_create(
    principal: Principal, table: PreparedTable, limits: Limits, data: msgspec.Raw, row_id: str | None = None
) -> Plan:
    """Return the plan that creates a row, with the id if one is given."""
    row_id = row_id or uuid7_text()
    visible = table.visible_now(principal, Action.CREATE)
    new = new_record(principal, table, visible, limits, data, row_id)
    rows = (b"[" + new.record + b"]").decode()

    def finish(created: datetime, shown: Collection[str] = ()) -> bytes:
        return records.item(row_id, new.shown(shown), rfc3339(created), new.created_by)

    refers = table.referring(principal)
    is_judged = bool(refers) or not visible.is_everything
    apart = table.statements.apart
    is_plain = apart or not is_judged
    sql, values = (table.statements.insert, [rows]) if is_plain else table.insert_if(rows, visible, refers)
    return Plan(
        row_id,
        sql,
        values,
        (lambda value: finish(*value)) if visible.by_row else finish,
        size=len(new.record),
        action=Action.CREATE,
        counted=_counted(table, 1),
        judged=table.judge(rows, visible, refers) if is_plain and is_judged else None,
        refused=(*table.verdicts(rows, visible, refers), table.verdict) if refers else None,
        taken=table.violated,
        columns=table.columns_of_new(rows, visible) if visible.by_row else None,
        emitted=_emitted(table, CREATED),
        missing=_new_row_denied,
    )


def _new_row_denied() -> PilotisError:
    return new_row_denied(Action.CREATE)


class NewRecord(msgspec.Struct, frozen=True):
    """A new row: its record, its fields, those hidden from its creator, and the member of its JSON that names it."""

    record: bytes
    row: Row
    hidden: frozenset[str]
    created_by: bytes

    def shown(self, also: Collection[str] = ()) -> Row:
        """Return the fields that its creator sees: those that are not hidden, and others that this row shows."""
        return records.shown(self.row, self.hidden.difference(also))


def new_record(
    principal: Principal, table: PreparedTable, visible: Visibility, limits: Limits, data: msgspec.Raw, row_id: str
) -> NewRecord:
    """Return a validated new row."""
    creator = creator_of_new_row(principal)
    records.check_raw_size(data, limits.row_bytes)
    try:
        row = table.new_rows.decode(data, writer_of(principal))
    except PilotisError as error:
        raise error.within("data") from None
    if visible.closed:
        visible.require_settable(records.names_in(data))
    records.check_size(row, limits.row_bytes)
    cause = cause_of(principal) if CREATED in table.schema.emits else None
    created_by = records.created_by(creator) if visible.shows_creator else b""
    return NewRecord(
        records.record(table.schema, row_id, creator, table.encrypted(row, row_id), cause),
        row,
        visible.table.hidden,
        created_by,
    )


def writer_of(principal: Principal) -> Writer:
    """Return the member who writes, as columns get its values by themselves."""
    member = principal.member
    return NOBODY if member is None else Writer(member.member_id, member.nickname)


def cause_of(principal: Principal) -> Cause:
    """Return the cause of a change, for its events: the principal, and the request that is being worked for."""
    return Cause(principal.kind, principal.actor_id, principal.depth, origin.current())


def bound_cause(
    principal: Principal, table: PreparedTable, operation: str, arguments: Arguments, changed: Sequence[str] = ()
) -> BoundCause | None:
    """Bind the cause of an operation to a statement; None if the table emits no event for it."""
    if operation not in table.schema.emits:
        return None
    cause = cause_of(principal)
    return BoundCause(
        arguments.bind(cause.kind, "text"),
        arguments.bind(cause.id, "text"),
        arguments.bind(cause.depth, "smallint"),
        arguments.bind(cause.request_id, "text"),
        arguments.bind(list(changed), "text[]") if operation == UPDATED else "",
    )


def plan_update(
    principal: Principal,
    table: PreparedTable,
    limits: Limits,
    row_id: UUID,
    data: msgspec.Raw,
    expected: str | None = None,
    *,
    replaces: bool = False,
) -> Plan:
    """Return the plan that changes the given fields of a row; operators change values, as `{"$inc": n}` adds to one.

    With `replaces` the other fields become absent, or their defaults, except those that the caller may not write or not
    read.
    """
    visible = table.visible_now(principal, Action.UPDATE)
    records.check_raw_size(data, limits.row_bytes)
    decoder = table.new_rows if replaces else table.changes
    writer = writer_of(principal)
    try:
        row = decoder.decode(data, writer) if replaces else decoder.decode_change(data)
    except PilotisError as error:
        raise error.within("data") from None
    named = records.names_in(data) if replaces else table.changes.named(row)
    row = decoder.touched(row, writer, named)
    records.check_size(row, limits.row_bytes)
    stored = table.encrypted(row, str(row_id))
    columns = decoder.given(row)
    if replaces:
        kept = visible.closed | visible.table.hidden
        made = [column for column in columns if column.update_maker and column.name not in named]
        columns = [column for column in table.schema.columns if column.name not in kept or column in made]
        columns = [column for column in columns if column not in row.now]
    source, lifted, extra = sources(table, row, stored, columns)
    limit = limits.row_bytes + records.BESIDE_DATA
    arguments = Arguments(row_id, source.decode(), lifted, extra.decode(), limit)
    changes = bound_changes(table, row, arguments)
    condition = _condition(visible, expected, arguments, row="" if visible.is_simple else "t")
    given = row.fields if table.schema.is_free_form else [column.name for column in (*columns, *row.now)]
    changed = list(dict.fromkeys([*given, *row.changes]))
    visible.require_settable(named)
    visible.require_readable(row.changes)
    cause = bound_cause(principal, table, UPDATED, arguments, changed)
    statements = table.statements_that_show(visible, arguments, "written")
    after = visible.holds_after(arguments, old="before", new="written")
    requires = requirements(principal, table, row, arguments)
    sql = statements.update(
        columns, condition, changes, cause, after, reads_before=visible.needs_before, requires=requires, now=row.now
    )

    def finish(item: str) -> bytes:
        return table.decrypted_item(item)

    probe = _probe(table, visible, row_id) if expected is not None else None
    size = len(source) + len(extra)
    return Plan(
        str(row_id),
        sql,
        arguments.values,
        finish,
        limits.row_bytes,
        probe,
        size,
        seen=_seen(table, visible, row_id),
        action=Action.UPDATE,
        taken=table.violated_by_change,
        ruled=arguments.access.ruled,
        emitted=_emitted(table, UPDATED),
    )


def change_of_many(
    table: PreparedTable, limits: Limits, data: msgspec.Raw, writer: Writer
) -> tuple[Row, list[Column], list[str]]:
    """Return the decoded change of an unknown number of rows, the columns that it sets, and the fields that it names.

    Raises `EncryptedColumnError` if one is encrypted: its stored value depends on the row.
    """
    records.check_raw_size(data, limits.row_bytes)
    try:
        row = table.changes.decode_change(data)
    except PilotisError as error:
        raise error.within("data") from None
    named = table.changes.named(row)
    row = table.changes.touched(row, writer, named)
    records.check_size(row, limits.row_bytes)
    columns = table.changes.given(row)
    for column in columns:
        if column.encrypted:
            raise EncryptedColumnError(column.name, "Change it row by row.").at(f"data.{column.name}")
    return row, columns, named


def sources(table: PreparedTable, row: Row, stored: Row, columns: Sequence[Column]) -> tuple[bytes, list[str], bytes]:
    """Return what an update reads: the record, the names whose explicit nulls are removed, and fields without a column.

    `stored` is the row in its stored form.
    """
    if table.schema.is_free_form:
        return b"{}", list(row.changes), row.data
    lifted = [column.name for column in (*columns, *row.now)] + list(row.changes)
    return records.change(stored), lifted, json.encode(dict.fromkeys(row.nulls))


def bound_changes(table: PreparedTable, row: Row, arguments: Arguments) -> list[BoundChange]:
    """Bind the operators of a change to a statement."""
    bound = []
    for name, change in row.changes.items():
        label = "" if name in table.schema.by_name else arguments.bind(name, "text")
        operand = arguments.bind(change.operand, "numeric" if change.operator == "$inc" else "jsonb")
        # On Citus an update may not read a time from its text inside of a `case`.
        moment = arguments.bind(datetime.fromisoformat(change.moment), "timestamptz") if change.moment else ""
        bound.append(BoundChange(name, change.operator, label, operand, moment))
    return bound


def requirements(
    principal: Principal | None, table: PreparedTable, row: Row, arguments: Arguments
) -> list[Requirement]:
    """Return what must hold after a change: references that it sets lead to rows, and what operators make fits.

    Without a principal it is a change by the app itself.
    """
    found = []
    for one in table.referring(principal) if table.schema.refers else ():
        value = table.changes.value(row, one.column)
        if value is not None and value is not msgspec.UNSET:
            # A value that no condition names must not be bound.
            holds = "false"
            if not one.is_closed:
                holds = one.finds(arguments.bind(value, BOUND_AS[one.column.type]), arguments)
            found.append(Requirement("require_reference", holds, one.column.name))
        elif one.column.name in row.changes:
            # What an operator makes of the value is known afterwards.
            found.append(Requirement("require_reference", one.holds("written", arguments), one.column.name))
    for name in row.changes:
        column = table.schema.by_name.get(name)
        if column is None or column.checks is None:
            continue
        for kept, broken in conditions(column.checks, column.type.value, column.physical, column.time):
            holds = f"coalesce({kept}, true)"
            found.append(Requirement("require_value", holds, json.encode([name, *broken]).decode()))
    return found


class TakenAlong(Protocol):
    """What a deletion takes along; see `pilotis.data.rows.cascades`."""

    async def run(self, fetchrow: FetchRow, condition: str, values: Sequence[Any]) -> object:
        """Write it, before the rows that satisfy a condition are deleted."""

    def committed(self) -> None:
        """Tell of it."""


def plan_delete(
    principal: Principal,
    table: PreparedTable,
    row_id: UUID,
    expected: str | None = None,
    along: TakenAlong | None = None,
) -> Plan:
    """Return the plan that deletes a row, and what that takes along."""
    visible = table.visible_now(principal, Action.DELETE)
    arguments = Arguments(row_id)
    condition = f"__id = $1 and {_condition(visible, expected, arguments)}"
    probe = _probe(table, visible, row_id) if expected is not None else None
    locked = list(arguments.values)
    sql = table.statements.delete(condition, bound_cause(principal, table, DELETED, arguments))

    async def before(fetchrow: FetchRow) -> None:
        assert along is not None
        await along.run(fetchrow, condition, locked)

    return Plan(
        str(row_id),
        sql,
        arguments.values,
        lambda _: b"",
        probe=probe,
        seen=_seen(table, visible, row_id),
        counted=_counted(table, -1),
        ruled=arguments.access.ruled,
        emitted=_emitted(table, DELETED),
        taken=table.violated,
        before=None if along is None else before,
        committed=_nothing if along is None else along.committed,
    )


def _counted(table: PreparedTable, change: int) -> tuple[str, int] | None:
    return (table.statements.add_to_count, change) if table.statements.apart else None


def _emitted(table: PreparedTable, operation: str) -> str:
    statements = table.statements
    tells = operation in table.schema.emits or table.schema.watched
    return statements.add_events if statements.apart and tells else ""


def _condition(visible: Visibility, expected: str | None, arguments: Arguments, *, row: str = "") -> str:
    condition = "true" + visible.and_condition(arguments, row=row)
    if expected is None:
        return condition
    moment = parse_rfc3339(expected)
    if moment is None:
        raise invalid("expected_updated_at", "expected_updated_at is the row's updated_at, an RFC 3339 date-time.")
    return f"{condition} and __updated_at = {arguments.bind(moment, 'timestamptz')}"


def _probe(table: PreparedTable, visible: Visibility, row_id: UUID) -> tuple[str, Sequence[Any]]:
    arguments = Arguments(row_id)
    condition = f"__id = $1{visible.and_condition(arguments)}"
    return f"select true from {table.schema.physical} where {condition}", arguments.values


def _seen(table: PreparedTable, visible: Visibility, row_id: UUID) -> tuple[str, Sequence[Any]] | None:
    if not visible.is_ruled:
        return None
    arguments = Arguments(row_id)
    condition = f"__id = $1{visible.and_readable(arguments)}"
    return f"select true from {table.schema.physical} where {condition}", arguments.values

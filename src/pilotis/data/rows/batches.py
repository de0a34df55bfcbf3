"""Several writes in one request: a batch, whose writes are independent, and a transaction, which is atomic."""

from __future__ import annotations

import asyncio
import functools
import itertools
import operator
import random
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, cast
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.rows.cascades import Cascade, cascade_of
from pilotis.data.rows.keyed import KeyedRows, LookUp, NamedRow, named_row
from pilotis.data.rows.operations import (
    Plan,
    RowNotFoundError,
    UndecidedError,
    perform,
    perform_many,
    plan_create,
    plan_delete,
    plan_update,
)
from pilotis.data.rows.query import ResultTooLargeError
from pilotis.data.rows.references import Made, reference, where_with_references, with_references
from pilotis.data.rows.referring import RowReferencedError
from pilotis.data.rows.running import try_patterns
from pilotis.data.rows.service import Rows
from pilotis.data.rows.table import TOO_OLD, PreparedTable, PreparedTables
from pilotis.data.rows.types import (
    DeleteWhere,
    Operation,
    OperationFailure,
    OperationResult,
    OperationResults,
    UpdateWhere,
    Upsert,
    UpsertMode,
)
from pilotis.data.rows.upserting import Upserting, Upserts, Written
from pilotis.data.rows.where_writes import WhereWrite, plan_delete_where, plan_update_where
from pilotis.data.rules.actions import Action
from pilotis.db.pool import ACQUIRE_SECONDS, Database
from pilotis.http.api.principals import AppInfo, Client, Principal
from pilotis.http.api.repeating import ContendedError
from pilotis.kit import ids, json
from pilotis.kit.errors import ConflictError, PilotisError, UnavailableError, invalid
from pilotis.kit.keyed_locks import KeyedLocks
from pilotis.kit.offload import INLINE_BYTES, offload

_MAX_TRIES = 12
# The largest rows allowed, as many as fit into an answer.
_MAX_TOGETHER = 64
_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class TransactionConflictError(ConflictError):
    """409: the transaction conflicted with other writers repeatedly; nothing was written."""

    code = "TRANSACTION_CONFLICT"
    message = "The transaction conflicted with other writers too often. Nothing was written; try again."


class AnswerTooLargeError(ResultTooLargeError):
    """400: the rows of the operations before this one already fill the largest answer."""

    message = "The rows of this answer are too large to send together. Send fewer operations in one request."


class _Written(msgspec.Struct):
    """The part of a row's JSON that goes into a result; `data` is empty if the row is gone.

    A write by a condition has no row, but a count.
    """

    id: str | None = None
    data: msgspec.Raw = msgspec.Raw()
    updated_at: str | None = None
    created: bool | None = None
    updated_count: int | None = None
    deleted_count: int | None = None


_written = msgspec.json.Decoder(_Written).decode


def _check_count(operations: Sequence[msgspec.Raw], max_operations: int) -> None:
    if len(operations) > max_operations:
        raise invalid(
            "operations", f"At most {max_operations} operations are done in one request.", "TOO_MANY_OPERATIONS"
        )


class _Sent(NamedTuple):
    """The message about an unknown operation."""

    type: str
    doc_id: str | None


_operation = json.decoder(Operation)


class _Work(Protocol):
    """An operation that is more than the statement of a plan."""

    @property
    def row_id(self) -> str:
        """The row, or what stands for it among those that this node writes one after another."""

    async def run(self, connection: Connection) -> _Written:
        """Run it in a transaction."""

    def committed(self) -> None:
        """Tell of what was written, once the transaction is over."""


class _UpsertWork:
    """An upsert of one row."""

    def __init__(self, upserting: Upserting, data: msgspec.Raw) -> None:
        self._upserting = upserting
        self._data = data
        self._done: list[Written] = []
        self.row_id = upserting.lock_name(data)

    async def run(self, connection: Connection) -> _Written:
        done = await self._upserting.write(connection, self._data, set())
        self._done = [done]
        written = _written(done.item)
        written.created = done.outcome == "created"
        return written

    def committed(self) -> None:
        self._upserting.end(self._done)


class _KeyedWork:
    """A change or a deletion of the row that has the values of a unique key."""

    def __init__(self, table: PreparedTable, named: NamedRow, found: LookUp, plan: Callable[[UUID], Plan]) -> None:
        self._table = table
        self._lookup = found
        self._plan_of = plan
        self._plan: Plan | None = None
        self.row_id = f"{table.schema.table_id} {named.key} {json.encode(named.values).decode()}"

    @property
    def was_guess(self) -> bool:
        """Whether it was counted, and has found its row."""
        return self._lookup.is_guess and self._plan is not None

    async def run(self, connection: Connection) -> _Written:
        row_id = await connection.fetchval(self._lookup.sql, *self._lookup.values)
        if row_id is None:
            raise RowNotFoundError
        plan = self._plan_of(row_id)
        item = await perform(connection.fetchrow, plan)
        self._plan = plan
        return _written(item) if item else _Written(plan.row_id)

    def committed(self) -> None:
        if self._plan is not None:
            self._table.written(1)
            self._plan.committed()


class _WhereWork:
    """A change or a deletion of the rows that satisfy a condition; `counted` is the field of their number."""

    def __init__(self, write: WhereWrite, table: PreparedTable, counted: str) -> None:
        self._write = write
        self._counted = counted
        self.row_id = f"{table.schema.table_id} where"

    async def run(self, connection: Connection) -> _Written:
        written = _Written()
        setattr(written, self._counted, await self._write.within(connection))
        return written

    def committed(self) -> None:
        self._write.committed()


class _Planned(NamedTuple):
    table: PreparedTable
    plan: Plan | _Work


class _Answer:
    """The results of operations in order, of bounded size."""

    def __init__(self, app: AppInfo) -> None:
        self.results: list[OperationResult] = []
        self._room = app.limits.page_bytes

    def check_room(self) -> None:
        """Raise `AnswerTooLargeError` for the next operation if there is no room for another row."""
        if self._room < 0:
            error = AnswerTooLargeError()
            error.failed_index = len(self.results)
            raise error

    def add_done(self, operation: Operation, written: _Written) -> None:
        size = len(memoryview(written.data))
        self._room -= size
        data = written.data if size else None
        self._add(
            operation,
            success=True,
            id=written.id,
            data=data,
            updated_at=written.updated_at,
            created=written.created,
            updated_count=written.updated_count,
            deleted_count=written.deleted_count,
        )

    def add_failed(self, operation: Operation | _Sent, error: PilotisError) -> None:
        row_id = operation.doc_id if isinstance(operation.doc_id, str) and ids.is_uuid(operation.doc_id) else None
        self._add(operation, success=False, id=row_id, error=OperationFailure(error.code, error.text))

    def _add(self, operation: Operation | _Sent, **members: Any) -> None:
        self.results.append(OperationResult(index=len(self.results), type=operation.type, **members))

    def whole(self) -> OperationResults:
        """Return all results with their counts."""
        done = sum(result.success for result in self.results)
        return OperationResults(self.results, done, len(self.results) - done)


class _TableIds:
    """The ids of the tables that the operations of a request name, each looked up once."""

    def __init__(self, tables: PreparedTables, app: AppInfo) -> None:
        self._tables = tables
        self._app = app
        self._known: dict[str, UUID] = {}

    async def of(self, name: str) -> UUID:
        """Return the id of the table with an id or title; raises a 400 error."""
        if name not in self._known:
            self._known[name] = await self._tables.id_of(self._app, name)
        return self._known[name]


class Batches:
    """Runs batches and transactions."""

    def __init__(
        self, database: Database, tables: PreparedTables, rows: Rows, upserts: Upserts, keyed: KeyedRows
    ) -> None:
        self._keyed = keyed
        self._database = database
        self._tables = tables
        self._rows = rows
        self._upserts = upserts
        self._row_locks = KeyedLocks()

    async def batch(self, principal: Principal, client: Client, operations: Sequence[msgspec.Raw]) -> OperationResults:
        """Run the operations, each the JSON of an `Operation`, in order; one that fails does not affect the others.

        An error names the invalid field by its path in the request.
        """
        app = _app(principal)
        _check_count(operations, app.limits.batch_operations)
        answer = _Answer(app)
        ids = _TableIds(self._tables, app)
        for index, sent in enumerate(operations):
            operation: Operation | _Sent | None = None
            try:
                operation = await offload(len(memoryview(sent)), _decoded, sent)
                answer.check_room()
                answer.add_done(operation, await self._one(principal, client, operation, ids))
            except PilotisError as error:
                answer.add_failed(operation or _sent(sent), error.within(f"operations[{index}]"))
        return answer.whole()

    async def transaction(self, principal: Principal, client: Client, sent: Sequence[msgspec.Raw]) -> OperationResults:
        """Run all operations, each the JSON of an `Operation`, at the serializable level, or none.

        Raises the error of the failed operation with its index as `failed_index`, or `TransactionConflictError`.
        """
        app = _app(principal)
        _check_count(sent, app.limits.transaction_operations)
        operations = await offload(sum(len(memoryview(one)) for one in sent), _all_decoded, sent)
        together = True
        for attempt in range(_MAX_TRIES):
            if attempt:
                await asyncio.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 6)))  # noqa: S311 - spreads tries
            try:
                planned = await self._planned(principal, client, app, operations, counts=attempt == 0)
            except _OutdatedError:
                continue
            try:
                async with self._locked_rows(planned):
                    answer = await self._attempt(app, operations, planned, together=together)
                await self._committed(planned, client, app)
                return answer
            except (*_CONFLICTS, ContendedError):
                continue
            except UndecidedError:
                together = False
            except RowReferencedError as error:
                outdated = [await self._tables.forget_outdated(table.schema, error) for table, _ in planned]
                if not any(outdated):
                    raise
            except asyncpg.ProgramLimitExceededError as error:
                await self._drop_blocking_indexes(planned, error)
            except (*TOO_OLD, asyncpg.ForeignKeyViolationError):
                for table, _ in planned:
                    self._tables.forget(table)
        raise TransactionConflictError

    async def _committed(self, planned: Sequence[_Planned], client: Client, app: AppInfo) -> None:
        """Tell of what was written, and take back what was counted as a guess and was none."""
        _tell(planned)
        for _, plan in planned:
            if isinstance(plan, _KeyedWork) and plan.was_guess:
                await self._keyed.found_out(client, app)

    @asynccontextmanager
    async def _locked_rows(self, planned: Sequence[_Planned]) -> AsyncGenerator[None]:
        """Wait for this node's transactions on the same rows; of concurrent ones, all but one would be rolled back.

        Conflicts with other nodes are left to PostgreSQL.
        """
        try:
            async with self._row_locks.acquire((plan.row_id for _, plan in planned), ACQUIRE_SECONDS):
                yield
        except TimeoutError:
            raise UnavailableError("The rows are busy. Try again shortly.") from None

    async def _drop_blocking_indexes(
        self, planned: Sequence[_Planned], error: asyncpg.ProgramLimitExceededError
    ) -> None:
        """Drop indexes that cannot hold a value; PostgreSQL does not always name the table."""
        tables = {table.schema.table_id: table.schema for table, _ in planned}
        made = [await self._tables.drop_blocking_index(table, error) for table in tables.values()]
        if not any(made):
            raise error

    async def _one(self, principal: Principal, client: Client, operation: Operation, ids: _TableIds) -> _Written:
        table_id = await ids.of(operation.table_id)
        _check_form(operation)
        expected = operation.expected_updated_at
        if operation.type == "create":
            return _written(await self._rows.create(principal, table_id, operation.data))
        if operation.type == "upsert":
            return _written((await self._upserts.one(principal, table_id, _upsert(operation, operation.data)))[1])
        if operation.type in _BY_CONDITION:
            raise invalid("type", f"An operation of type {operation.type} is for transactions. It has a route, too.")
        if (named := named_row(operation.doc_id)) is not None:
            row_id = await self._keyed.id_of(principal, client, table_id, named)
        else:
            row_id = _row_id(operation.doc_id, [])
        if operation.type == "update":
            return _written(await self._rows.update(principal, table_id, row_id, operation.data, expected))
        await self._rows.delete(principal, table_id, row_id, expected)
        return _Written(str(row_id))

    async def _planned(
        self, principal: Principal, client: Client, app: AppInfo, operations: Sequence[Operation], *, counts: bool
    ) -> list[_Planned]:
        """Compile the operations; raises `_OutdatedError` where a cached schema rejects one and is not the current."""
        planned: list[_Planned] = []
        ids = _TableIds(self._tables, app)
        made: list[str | None] = []
        size = 0
        for index, operation in enumerate(operations):
            with _OperationIndex(index):
                table_id = await ids.of(operation.table_id)
                _check_form(operation)
                table = await self._tables.current(app, table_id)
                # Many small ones take as long together as a large one.
                size += len(memoryview(operation.data))
                plan: Plan | _Work
                try:
                    if operation.type in _BY_CONDITION:
                        plan = await self._by_condition(principal, table, operation, made)
                    else:
                        is_deletion = operation.type == "delete"
                        along = await cascade_of(self._tables, principal, table) if is_deletion else None
                        writer = await self._tables.introduced(principal, table)
                        named = None if operation.doc_id is None else named_row(operation.doc_id)
                        if named is not None:
                            found = await self._keyed.look_up(principal, client, table, named, counts=counts)
                            data = with_references(operation.data, made)
                            of = functools.partial(_plan_of, principal, app, table, operation, data, along)
                            plan = _KeyedWork(table, named, found, of)
                            planned.append(_Planned(table, plan))
                            made.append(None)
                            continue
                        plan = await offload(size, _plan, writer, app, table, operation, made, along)
                except PilotisError as error:
                    if await self._tables.forget_outdated(table.schema, error):
                        raise _OutdatedError from error
                    raise
                size = 0 if size > INLINE_BYTES else size
            planned.append(_Planned(table, plan))
            made.append(plan.row_id if operation.type == "create" else None)
        return planned

    async def _by_condition(
        self, principal: Principal, table: PreparedTable, operation: Operation, made: Made
    ) -> _WhereWork:
        where, all_ = where_with_references(operation.where, made), bool(operation.all)
        write: WhereWrite
        if operation.type == "update-where":
            data = with_references(operation.data, made)
            changes = UpdateWhere(data, where, all_, operation.max_rows)
            write = await plan_update_where(self._tables, principal, table, changes)
        else:
            write = await plan_delete_where(self._tables, principal, table, DeleteWhere(where, all_))
        await try_patterns(table, write.patterns)
        return _WhereWork(write, table, _BY_CONDITION[operation.type])

    async def _attempt(
        self, app: AppInfo, operations: Sequence[Operation], planned: Sequence[_Planned], *, together: bool
    ) -> OperationResults:
        """Run the plans in a transaction; with `together`, adjacent plans with the same statement in one round trip."""
        answer = _Answer(app)
        runs = list(_runs([plan for _, plan in planned], _MAX_TOGETHER if together else 1))
        locks = _locks(planned)
        if len(runs) == 1 and not locks and _needs_no_transaction(app, planned):
            async with self._database.statement(app.app_id) as connection:
                await _perform_in(connection, operations, runs[0], answer)
            return answer.whole()
        async with self._database.transaction(app.app_id, isolation="serializable", first=locks) as connection:
            for run in runs:
                await _perform_in(connection, operations, run, answer)
        return answer.whole()


async def _perform_in(
    connection: Connection, operations: Sequence[Operation], run: Sequence[Plan | _Work], answer: _Answer
) -> None:
    """Run plans with the same statement in one round trip, and add their results to the answer."""
    first = len(answer.results)
    answer.check_room()
    plans = [plan for plan in run if isinstance(plan, Plan)]
    with _OperationIndex(first):
        if len(plans) > 1:
            items = await perform_many(connection.fetchmany, plans)
        elif plans:
            items = [await perform(connection.fetchrow, plans[0])]
        else:
            answer.add_done(operations[first], await cast("_Work", run[0]).run(connection))
            return
    for index, (plan, item) in enumerate(zip(plans, items, strict=True), first):
        answer.check_room()
        answer.add_done(operations[index], _written(item) if item else _Written(plan.row_id))


def _tell(planned: Sequence[_Planned]) -> None:
    """Tell of what was written, once the transaction is over."""
    for table, plan in planned:
        if isinstance(plan, Plan):
            table.written(1)
        plan.committed()


def _needs_no_transaction(app: AppInfo, planned: Sequence[_Planned]) -> bool:
    """Whether plans with the same statement can run without a transaction around them, which costs two round trips.

    The driver sends the same statement with several arguments as one implicit transaction. Each must read nothing but
    the row that it writes: then no other transaction can come between them, at any level of isolation. And nothing may
    turn out to be wrong after they took effect: rows that are not there, or an answer that is too large.
    """
    table, plan = planned[0]
    return (
        isinstance(plan, Plan)
        and (len(planned) == 1 or plan.action is Action.CREATE)
        and len(planned) * app.limits.row_bytes <= app.limits.page_bytes
        and plan.is_whole
        and table.schema.rules is None
    )


def _locks(planned: Sequence[_Planned]) -> str:
    """Return SQL that locks the existing rows by table and id, as everyone does who changes many; empty if they are.

    Whoever locks rows in another order waits for somebody who waits for it.
    """
    written = [
        (table.schema.table_id, plan.row_id)
        for table, plan in planned
        if isinstance(plan, Plan) and plan.action is not Action.CREATE
    ]
    if written == sorted(written):
        return ""
    statements = {one.table.schema.table_id: one.table.statements for one in planned}
    by_table = itertools.groupby(sorted(set(written)), key=operator.itemgetter(0))
    return "; ".join(statements[table_id].lock_all(row_id for _, row_id in rows) for table_id, rows in by_table)


def _runs(plans: Sequence[Plan | _Work], limit: int) -> Generator[Sequence[Plan | _Work]]:
    """Yield the plans in order, adjacent ones with the same statement together, in groups of bounded size."""
    for _, alike in itertools.groupby(plans, key=lambda plan: plan.sql if isinstance(plan, Plan) else id(plan)):
        run = list(alike)
        for start in range(0, len(run), limit):
            yield run[start : start + limit]


class _OutdatedError(Exception):
    """An operation was rejected by an outdated schema, which is no longer cached."""


class _OperationIndex:
    """Adds the operation's index to the errors raised within. A generator would cost five times as much."""

    __slots__ = ("_index",)

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, PilotisError):
            error.failed_index = self._index
            error.within(f"operations[{self._index}]")


def _decoded(sent: msgspec.Raw) -> Operation:
    operation: Operation = json.decode(bytes(sent), _operation)
    return operation


def _all_decoded(sent: Sequence[msgspec.Raw]) -> list[Operation]:
    operations = []
    for index, one in enumerate(sent):
        with _OperationIndex(index):
            operations.append(_decoded(one))
    return operations


def _sent(raw: msgspec.Raw) -> _Sent:
    """Return the readable parts of an operation that does not decode."""
    try:
        value = json.decode(bytes(raw))
    except PilotisError:
        value = None
    fields = value if isinstance(value, dict) else {}
    kind, doc_id = fields.get("type"), fields.get("doc_id")
    return _Sent(kind[:64] if isinstance(kind, str) else "", doc_id if isinstance(doc_id, str) else None)


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _plan(
    principal: Principal,
    app: AppInfo,
    table: PreparedTable,
    operation: Operation,
    made: Made,
    along: Cascade | None,
) -> Plan | _Work:
    data = with_references(operation.data, made)
    if operation.type == "upsert":
        return _UpsertWork(Upserting(principal, table, _upsert(operation, data)), data)
    if operation.type == "create":
        return plan_create(principal, table, app.limits, data)
    return _plan_of(principal, app, table, operation, data, along, _row_id(operation.doc_id, made))


def _plan_of(
    principal: Principal,
    app: AppInfo,
    table: PreparedTable,
    operation: Operation,
    data: msgspec.Raw,
    along: Cascade | None,
    row_id: UUID,
) -> Plan:
    """Return the plan that changes or deletes a row."""
    if operation.type == "update":
        return plan_update(principal, table, app.limits, row_id, data, operation.expected_updated_at)
    return plan_delete(principal, table, row_id, operation.expected_updated_at, along)


def _upsert(operation: Operation, data: msgspec.Raw) -> Upsert:
    return Upsert(operation.key or "", data, operation.mode or UpsertMode.MERGE)


def _check_form(operation: Operation) -> None:
    """Raise a 400 error for a field that the operation's type requires and lacks, or has and does not take."""
    kind = operation.type
    given = {
        "data": bytes(operation.data) != b"null",
        "doc_id": operation.doc_id is not None,
        "expected_updated_at": operation.expected_updated_at is not None,
        "key": operation.key is not None,
        "mode": operation.mode is not None,
        "where": operation.where is not None,
        "all": operation.all is not None,
        "max_rows": operation.max_rows is not None,
    }
    for field in _NEEDS[kind]:
        if not given[field]:
            raise invalid(field, f"An operation of type {kind} needs {field}.", "REQUIRED")
    for field, is_given in given.items():
        if is_given and field not in _TAKES[kind]:
            raise invalid(field, f"An operation of type {kind} takes no {field}.")


_NEEDS = {
    "create": ["data"],
    "update": ["doc_id", "data"],
    "delete": ["doc_id"],
    "upsert": ["key", "data"],
    "update-where": ["data"],
    "delete-where": [],
}
_TAKES = {
    "create": ["data"],
    "update": ["doc_id", "data", "expected_updated_at"],
    "delete": ["doc_id", "expected_updated_at"],
    "upsert": ["key", "data", "mode"],
    "update-where": ["where", "all", "data", "max_rows"],
    "delete-where": ["where", "all"],
}
# The operations on all rows that satisfy a condition, with the fields of their results that tell how many they were.
_BY_CONDITION = {"update-where": "updated_count", "delete-where": "deleted_count"}


def _row_id(doc_id: str | dict[str, Any] | None, made: Made) -> UUID:
    if isinstance(doc_id, dict):
        doc_id = reference(doc_id, made)
    if doc_id is None or not ids.is_uuid(doc_id):
        raise invalid("doc_id", "doc_id is not a UUID.", "INVALID_ID")
    return UUID(doc_id)

"""Several writes in one request: a batch, in which each stands alone, and a transaction, all or none."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from pilotis.db.pool import ACQUIRE_SECONDS, Database
from pilotis.http.principals import AppInfo, Principal
from pilotis.kit import ids
from pilotis.kit.errors import ConflictError, PilotisError, UnavailableError, invalid
from pilotis.kit.turns import Turns
from pilotis.rows.operations import (
    Plan,
    UndecidedError,
    perform,
    perform_alike,
    plan_create,
    plan_delete,
    plan_update,
)
from pilotis.rows.prepared import TOO_OLD, PreparedTables
from pilotis.rows.references import Made, reference, with_references
from pilotis.rows.service import ResultTooLargeError, Rows
from pilotis.rows.table import PreparedTable
from pilotis.rows.types import Failure, Operation, OperationResult, OperationResults

_MOST_TRIES = 12
# Rows as large as a row may be, and as many of them as an answer may hold.
_MOST_TOGETHER = 64
_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class TransactionConflictError(ConflictError):
    """409: other writers were in the way again and again; nothing was written."""

    code = "TRANSACTION_CONFLICT"
    message = "Other writers were in the way too often. Nothing was written; try again."


class AnswerTooLargeError(ResultTooLargeError):
    """400: the rows that the operations before this one answer with are as large as an answer may be."""

    message = "The rows of this answer are too large to send together. Send fewer operations in one request."


class _Written(msgspec.Struct):
    """What of a row's JSON goes into a result; `data` is empty where the row is gone."""

    id: str
    data: msgspec.Raw = msgspec.Raw()


_written = msgspec.json.Decoder(_Written).decode


class _Planned(NamedTuple):
    table: PreparedTable
    plan: Plan


class _Answer:
    """The results of operations in their order, of bounded size."""

    def __init__(self, app: AppInfo) -> None:
        self.results: list[OperationResult] = []
        self._room = app.limits.page_bytes

    def check_room(self) -> None:
        """Raise `AnswerTooLargeError`, about the next operation, if there is no room for a further row."""
        if self._room < 0:
            error = AnswerTooLargeError()
            error.failed_index = len(self.results)
            raise error

    def add_done(self, operation: Operation, written: _Written) -> None:
        size = len(memoryview(written.data))
        self._room -= size
        self._add(operation, success=True, id=written.id, data=written.data if size else None)

    def add_failed(self, operation: Operation, error: PilotisError) -> None:
        row_id = operation.doc_id if isinstance(operation.doc_id, str) else None
        self._add(operation, success=False, id=row_id, error=Failure(error.code, error.text))

    def _add(self, operation: Operation, **members: Any) -> None:
        self.results.append(OperationResult(len(self.results), operation.type, **members))

    def whole(self) -> OperationResults:
        """Return all results with their counts."""
        done = sum(result.success for result in self.results)
        return OperationResults(self.results, done, len(self.results) - done)


class Batches:
    """Runs batches and transactions."""

    def __init__(self, database: Database, tables: PreparedTables, rows: Rows) -> None:
        self._database = database
        self._tables = tables
        self._rows = rows
        self._turns = Turns()

    async def batch(self, principal: Principal, operations: Sequence[Operation]) -> OperationResults:
        """Run each operation by itself, in order; one that fails leaves the others alone."""
        answer = _Answer(_app(principal))
        for operation in operations:
            try:
                answer.check_room()
                answer.add_done(operation, await self._one(principal, operation))
            except PilotisError as error:
                answer.add_failed(operation, error)
        return answer.whole()

    async def transaction(self, principal: Principal, operations: Sequence[Operation]) -> OperationResults:
        """Run all operations at the serializable level, or none.

        Raises the error of the operation at fault with its index as `failed_index`, or `TransactionConflictError`.
        """
        app = _app(principal)
        together = True
        for attempt in range(_MOST_TRIES):
            if attempt:
                await asyncio.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 6)))  # noqa: S311 - spreads tries
            planned = await self._planned(principal, app, operations)
            try:
                async with self._turn(planned):
                    return await self._attempt(app, operations, [plan for _, plan in planned], together=together)
            except _CONFLICTS:
                continue
            except UndecidedError:
                together = False
            except asyncpg.ProgramLimitExceededError as error:
                await self._make_way(planned, error)
            except TOO_OLD:
                for table, _ in planned:
                    self._tables.forget(table)
        raise TransactionConflictError

    @asynccontextmanager
    async def _turn(self, planned: Sequence[_Planned]) -> AsyncGenerator[None]:
        """Wait for transactions of this node on the same rows: run beside them, all but one would be undone.

        Rows that another node writes at the same time are left to PostgreSQL.
        """
        try:
            async with self._turns.take((plan.row_id for _, plan in planned), ACQUIRE_SECONDS):
                yield
        except TimeoutError:
            raise UnavailableError("The rows are busy. Try again shortly.") from None

    async def _make_way(self, planned: Sequence[_Planned], error: asyncpg.ProgramLimitExceededError) -> None:
        """Let indexes that cannot hold a value make way; PostgreSQL does not always say of which table."""
        tables = {table.schema.table_id: table.schema for table, _ in planned}
        made = [await self._tables.made_way(table, error) for table in tables.values()]
        if not any(made):
            raise error

    async def _one(self, principal: Principal, operation: Operation) -> _Written:
        _check_form(operation)
        table_id, expected = operation.table_id, operation.expected_updated_at
        if operation.type == "create":
            return _written(await self._rows.create(principal, table_id, operation.data))
        row_id = _row_id(operation.doc_id, [])
        if operation.type == "update":
            return _written(await self._rows.update(principal, table_id, row_id, operation.data, expected))
        await self._rows.delete(principal, table_id, row_id, expected)
        return _Written(str(row_id))

    async def _planned(self, principal: Principal, app: AppInfo, operations: Sequence[Operation]) -> list[_Planned]:
        planned: list[_Planned] = []
        made: list[str | None] = []
        for index, operation in enumerate(operations):
            with _Blaming(index):
                table = await self._tables.current(app, operation.table_id)
                plan = _plan(principal, app, table, operation, made)
            planned.append(_Planned(table, plan))
            made.append(plan.row_id if operation.type == "create" else None)
        return planned

    async def _attempt(
        self, app: AppInfo, operations: Sequence[Operation], plans: Sequence[Plan], *, together: bool
    ) -> OperationResults:
        """Run the plans in a transaction; `together`: neighbours with the same statement in one round trip."""
        answer = _Answer(app)
        async with (
            self._database.share(app.app_id),
            self._database.transaction(isolation="serializable") as connection,
        ):
            for run in _runs(plans, _MOST_TOGETHER if together else 1):
                first = len(answer.results)
                answer.check_room()
                with _Blaming(first):
                    if len(run) == 1:
                        items = [await perform(connection.fetchval, run[0])]
                    else:
                        items = await perform_alike(connection.fetchmany, run)
                for index, (plan, item) in enumerate(zip(run, items, strict=True), first):
                    answer.check_room()
                    answer.add_done(operations[index], _written(item) if item else _Written(plan.row_id))
        return answer.whole()


def _runs(plans: Sequence[Plan], most: int) -> Generator[Sequence[Plan]]:
    """Yield the plans in their order, neighbours with the same statement together, at most so many."""
    for _, alike in itertools.groupby(plans, key=lambda plan: plan.sql):
        run = list(alike)
        for start in range(0, len(run), most):
            yield run[start : start + most]


class _Blaming:
    """Says in the errors raised within which operation they are about. A generator would cost five times as much."""

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


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _plan(principal: Principal, app: AppInfo, table: PreparedTable, operation: Operation, made: Made) -> Plan:
    _check_form(operation)
    data = with_references(operation.data, made)
    if operation.type == "create":
        return plan_create(principal, table, app.limits, data)
    row_id = _row_id(operation.doc_id, made)
    if operation.type == "update":
        return plan_update(principal, table, app.limits, row_id, data, operation.expected_updated_at)
    return plan_delete(principal, table, row_id, operation.expected_updated_at)


def _check_form(operation: Operation) -> None:
    """Raise a 400 error for a field that the operation's type needs and has not, or has and does not take."""
    kind = operation.type
    given = {
        "data": bytes(operation.data) != b"null",
        "doc_id": operation.doc_id is not None,
        "expected_updated_at": operation.expected_updated_at is not None,
    }
    for field in _NEEDS[kind]:
        if not given[field]:
            raise invalid(field, f"An operation of type {kind} needs {field}.", "REQUIRED")
    for field in _REFUSES[kind]:
        if given[field]:
            raise invalid(field, f"An operation of type {kind} takes no {field}.")


_NEEDS = {"create": ["data"], "update": ["doc_id", "data"], "delete": ["doc_id"]}
_REFUSES = {"create": ["doc_id", "expected_updated_at"], "update": [], "delete": ["data"]}


def _row_id(doc_id: str | dict[str, int] | None, made: Made) -> UUID:
    if isinstance(doc_id, dict):
        doc_id = reference(doc_id, made)
    if doc_id is None or not ids.is_uuid(doc_id):
        raise invalid("doc_id", "doc_id is not a UUID.", "INVALID_ID")
    return UUID(doc_id)

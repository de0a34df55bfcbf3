"""Several writes in one request: a batch, in which each stands alone, and a transaction, all or none."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

import asyncpg
import msgspec

from pilotis.db.pool import Database
from pilotis.http.principals import AppInfo, Principal
from pilotis.kit import ids, json
from pilotis.kit.errors import BadRequestError, ConflictError, PilotisError, invalid
from pilotis.rows.operations import Plan, perform, plan_create, plan_delete, plan_update
from pilotis.rows.prepared import TOO_OLD, PreparedTables
from pilotis.rows.service import Rows
from pilotis.rows.table import PreparedTable

MOST_OPERATIONS = 500
_MOST_TRIES = 12
_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

# What stands for data that was not sent; null is sent data.
_NO_DATA = msgspec.Raw(b"")

Json = Any


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One write. `doc_id` names the row to update or delete; in a transaction it may be `{"$ref": n}`."""

    type: Literal["create", "update", "delete"]
    table_id: UUID
    doc_id: str | dict[str, int] | None = None
    data: msgspec.Raw = _NO_DATA
    expected_updated_at: str | None = None


class Operations(msgspec.Struct, forbid_unknown_fields=True):
    """Writes, in order."""

    operations: Annotated[list[Operation], msgspec.Meta(min_length=1, max_length=MOST_OPERATIONS)]


class OperationShape(msgspec.Struct):
    """One write: `data` to create or update, `doc_id` to update or delete.

    `{"$inc": n}` in place of a number adds to it. In a transaction `{"$ref": n}` in place of a value stands for the
    id of the row that operation `n` made.
    """

    type: Literal["create", "update", "delete"]
    table_id: UUID
    doc_id: str | None = None
    data: dict[str, Any] | None = None
    expected_updated_at: str | None = None


class OperationsShape(msgspec.Struct):
    """Up to 500 writes, in order."""

    operations: list[OperationShape]


class Failure(msgspec.Struct):
    """Why an operation was not done."""

    code: str
    message: str


class OperationResult(msgspec.Struct, omit_defaults=True):
    """What became of one operation; `data` is the row's data after a create or an update."""

    index: int
    type: str
    success: bool
    id: str | None = None
    data: msgspec.Raw | None = None
    error: Failure | None = None


class OperationResults(msgspec.Struct):
    """What became of each operation."""

    results: list[OperationResult]
    success_count: int
    failed_count: int


class TransactionConflictError(ConflictError):
    """409: other writers were in the way again and again; nothing was written."""

    code = "TRANSACTION_CONFLICT"
    message = "Other writers were in the way too often. Nothing was written; try again."


class OperationFailedError(PilotisError):
    """An operation's own status and code, with its index as `failed_index`; nothing was written."""

    def __init__(self, error: PilotisError, index: int) -> None:
        super().__init__(error.text, details=error.details, headers=error.headers)
        self.status = error.status  # type: ignore[misc]
        self.code = error.code  # type: ignore[misc]
        self.failed_index = index


class _Item(msgspec.Struct):
    data: msgspec.Raw


_item = msgspec.json.Decoder(_Item)


class Batches:
    """Runs batches and transactions."""

    def __init__(self, database: Database, tables: PreparedTables, rows: Rows) -> None:
        self._database = database
        self._tables = tables
        self._rows = rows

    async def batch(self, principal: Principal, operations: Sequence[Operation]) -> OperationResults:
        """Run each operation by itself, in order; one that fails leaves the others alone."""
        results = [await self._one(principal, index, operation) for index, operation in enumerate(operations)]
        done = sum(result.success for result in results)
        return OperationResults(results, done, len(results) - done)

    async def transaction(self, principal: Principal, operations: Sequence[Operation]) -> OperationResults:
        """Run all operations at the serializable level, or none; raises `OperationFailedError` for the one at fault."""
        app = principal.app
        assert app is not None
        for attempt in range(_MOST_TRIES):
            plans = await self._plans(principal, app, operations)
            try:
                results = await self._attempt(app, operations, plans)
            except _CONFLICTS:
                await asyncio.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 6)))  # noqa: S311 - spreads tries
            except asyncpg.ProgramLimitExceededError as error:
                await self._make_way(plans, error)
            except TOO_OLD:
                for table, _ in plans:
                    self._tables.forget(table)
            else:
                return OperationResults(results, len(results), 0)
        raise TransactionConflictError

    async def _make_way(
        self, plans: Sequence[tuple[PreparedTable, Plan]], error: asyncpg.ProgramLimitExceededError
    ) -> None:
        """Let indexes that cannot hold a value make way; PostgreSQL does not always say of which table."""
        tables = {table.schema.table_id: table.schema for table, _ in plans}
        made = [await self._tables.made_way(table, error) for table in tables.values()]
        if not any(made):
            raise error

    async def _one(self, principal: Principal, index: int, operation: Operation) -> OperationResult:
        result = OperationResult(index, operation.type, success=True)
        try:
            _check_form(operation)
            data = operation.data
            if operation.type == "create":
                item = await self._rows.create(principal, operation.table_id, data)
                result.id = _id_of(item)
            else:
                row_id = _row_id(operation.doc_id, [])
                result.id = str(row_id)
                table_id, expected = operation.table_id, operation.expected_updated_at
                if operation.type == "update":
                    item = await self._rows.update(principal, table_id, row_id, data, expected)
                else:
                    item = b""
                    await self._rows.delete(principal, table_id, row_id, expected)
            result.data = _item.decode(item).data if item else None
        except PilotisError as error:
            return OperationResult(index, operation.type, success=False, error=Failure(error.code, error.text))
        return result

    async def _plans(
        self, principal: Principal, app: AppInfo, operations: Sequence[Operation]
    ) -> list[tuple[PreparedTable, Plan]]:
        plans: list[tuple[PreparedTable, Plan]] = []
        for index, operation in enumerate(operations):
            try:
                made = [plan.row_id if operations[i].type == "create" else None for i, (_, plan) in enumerate(plans)]
                table = await self._tables.current(app, operation.table_id)
                plans.append((table, _plan(principal, app, table, operation, made)))
            except PilotisError as error:
                raise OperationFailedError(error, index) from error
        return plans

    async def _attempt(
        self, app: AppInfo, operations: Sequence[Operation], plans: Sequence[tuple[PreparedTable, Plan]]
    ) -> list[OperationResult]:
        results = []
        async with (
            self._database.share(app.app_id),
            self._database.transaction(isolation="serializable") as connection,
        ):
            for index, (operation, (_, plan)) in enumerate(zip(operations, plans, strict=True)):
                try:
                    item = await perform(connection.fetchval, plan)
                except PilotisError as error:
                    raise OperationFailedError(error, index) from error
                data = _item.decode(item).data if item else None
                results.append(OperationResult(index, operation.type, success=True, id=plan.row_id, data=data))
        return results


def _plan(
    principal: Principal, app: AppInfo, table: PreparedTable, operation: Operation, made: Sequence[str | None]
) -> Plan:
    _check_form(operation)
    data = _with_references(operation.data, made)
    if operation.type == "create":
        return plan_create(principal, table, app.limits, data)
    row_id = _row_id(operation.doc_id, made)
    if operation.type == "update":
        return plan_update(principal, table, app.limits, row_id, data, operation.expected_updated_at)
    return plan_delete(principal, table, row_id, operation.expected_updated_at)


def _check_form(operation: Operation) -> None:
    has_data = bool(bytes(operation.data))
    if operation.type != "delete" and not has_data:
        raise invalid("data", f"An operation of type {operation.type} needs data.", "REQUIRED")
    if operation.type == "delete" and has_data:
        raise invalid("data", "An operation of type delete takes no data.")
    if (operation.type == "create") != (operation.doc_id is None):
        needs = "takes no" if operation.type == "create" else "needs a"
        raise invalid("doc_id", f"An operation of type {operation.type} {needs} doc_id.")
    if operation.type == "create" and operation.expected_updated_at is not None:
        raise invalid("expected_updated_at", "An operation of type create takes no expected_updated_at.")


def _row_id(doc_id: str | dict[str, int] | None, made: Sequence[str | None]) -> UUID:
    if isinstance(doc_id, dict):
        doc_id = _reference(doc_id, made)
    if doc_id is None or not ids.is_uuid(doc_id):
        raise invalid("doc_id", "doc_id is not a UUID.", "INVALID_ID")
    return UUID(doc_id)


def _with_references(data: msgspec.Raw, made: Sequence[str | None]) -> msgspec.Raw:
    if b'"$ref"' not in bytes(data):
        return data
    return msgspec.Raw(json.encode(_replaced(json.decode(bytes(data)), made)))


def _replaced(value: Json, made: Sequence[str | None]) -> Json:
    if isinstance(value, dict):
        if set(value) == {"$ref"}:
            return _reference(value, made)
        return {name: _replaced(item, made) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, made) for item in value]
    return value


def _reference(value: dict[str, Json], made: Sequence[str | None]) -> str:
    index = value.get("$ref")
    whole = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(made)
    row_id = made[index] if whole and index is not None else None
    if row_id is None or len(value) != 1:
        raise InvalidReferenceError
    return row_id


class InvalidReferenceError(BadRequestError):
    """400: `$ref` names no earlier operation that makes a row."""

    code = "INVALID_REFERENCE"
    message = "$ref must be the index of an earlier operation of type create, in a transaction."


class _Id(msgspec.Struct):
    id: str


_id = msgspec.json.Decoder(_Id)


def _id_of(item: bytes) -> str:
    return _id.decode(item).id

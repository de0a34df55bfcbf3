"""Rows: who may see and change which, and every operation on them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from pilotis.db.pool import Database
from pilotis.encryption.service import Encryption
from pilotis.http.principals import AppInfo, Principal, Role, RoleRequiredError
from pilotis.kit import json
from pilotis.kit.errors import (
    BadRequestError,
    Detail,
    NotFoundError,
    PilotisError,
    UnauthorizedError,
    UnavailableError,
    invalid,
)
from pilotis.kit.ids import uuid7_text
from pilotis.rows import records
from pilotis.rows.operands import Arguments, operand
from pilotis.rows.query import CompiledQuery, compile_query
from pilotis.rows.table import PreparedTable
from pilotis.rows.types import BulkFailure, DeleteWhere, Page, Query
from pilotis.rows.where import InvalidRegexError, compile_where
from pilotis.tables.schema import AccessLevel, TableSchema
from pilotis.tables.service import Tables
from pilotis.tables.values import Row

Result = TypeVar("Result")

_MOST_TRIES = 5
_ROW_TOO_LARGE = "PT413"
_TRY_PATTERNS = "select count('' ~ pattern) from unnest($1::text[]) pattern"
# What PostgreSQL says to a statement that was compiled for a schema that is gone.
_TOO_OLD = (
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.DatatypeMismatchError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidCachedStatementError,
)


class RowNotFoundError(NotFoundError):
    """404: the table has no such row, or none that the caller may see."""

    code = "ROW_NOT_FOUND"
    message = "The table has no such row."


class MemberTokenRequiredError(UnauthorizedError):
    """401: the table's access level asks for a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This table asks for a signed-in member: send a member's access token as Authorization: Bearer …."


class WhereRequiredError(BadRequestError):
    """400: a conditional delete without a condition."""

    code = "WHERE_REQUIRED"
    message = "Give a condition in where, or all: true to delete every row."


class ResultTooLargeError(BadRequestError):
    """400: the rows of a page are too large to be answered together."""

    code = "RESULT_TOO_LARGE"
    message = "The rows of this page are too large to send together. Ask for fewer with limit."


class NothingCreatedError(BadRequestError):
    """400: not one row of a bulk create could be made; `details` tells why, row by row."""

    code = "NOTHING_CREATED"
    message = "None of the rows could be created."


class Rows:
    """Operations on rows. Each takes the principal, whose app and rights bound what it sees."""

    def __init__(self, database: Database, tables: Tables, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption
        self._tables = tables

    async def create(self, principal: Principal, table_id: UUID, data: msgspec.Raw) -> bytes:
        """Make a row and return its JSON."""
        app = _app(principal)

        async def create(table: PreparedTable) -> bytes:
            creator = _creator_of_new_row(principal, table.schema)
            row = table.new_rows.decode(data)
            records.check_size(row, app.limits.row_bytes)
            row_id = uuid7_text()
            stored = table.sealed(row, row_id)
            created = await table.insert(records.record(table.schema, row_id, creator, stored))
            return records.item(row_id, row, created)

        return await self._with_table(app, table_id, create)

    async def create_many(self, principal: Principal, table_id: UUID, data: msgspec.Raw) -> bytes:
        """Make as many rows of a list as can be made; the answer's JSON tells of the others."""
        app = _app(principal)
        items = _list_of_rows(data, app.limits.bulk_rows)

        async def create(table: PreparedTable) -> bytes:
            creator = _creator_of_new_row(principal, table.schema)
            rows, failed = _decode_all(table, items, app.limits.row_bytes)
            if not rows:
                details = [Detail(f"data[{item.index}]", item.code, item.message) for item in failed]
                raise NothingCreatedError(details=details)
            ids = [uuid7_text() for _ in rows]
            new = [
                records.record(table.schema, row_id, creator, table.sealed(row, row_id))
                for row_id, row in zip(ids, rows, strict=True)
            ]
            created = await table.insert_many(new)
            made = b",".join(records.item(row_id, row, created) for row_id, row in zip(ids, rows, strict=True))
            tail = b',"failed":' + json.encode(failed) if failed else b""
            return b'{"created":[%b],"total":%d,"success":%d%b}' % (made, len(items), len(rows), tail)

        return await self._with_table(app, table_id, create)

    async def read(self, principal: Principal, table_id: UUID, row_id: UUID) -> bytes:
        """Return one row's JSON."""

        async def read(table: PreparedTable) -> bytes:
            creator = _visible_creator(principal, table.schema, Role.VIEWER)
            if creator is None:
                text = await table.read(str(row_id))
            else:
                sql = table.statements.select("__creator = $2")
                text = await table.fetchval(sql, row_id, creator)
            return _one(table, text)

        return await self._with_table(_app(principal), table_id, read)

    async def page(self, principal: Principal, table_id: UUID, page: Page) -> bytes:
        """Return a page of a table in the order of creation, with the exact total."""
        started = time.perf_counter()
        query = Query(limit=page.limit, offset=page.offset)
        body = await self._find(principal, table_id, query)
        milliseconds = (time.perf_counter() - started) * 1000
        return body[:-1] + b',"execution_time_ms":%.3f}' % milliseconds

    async def query(self, principal: Principal, table_id: UUID, query: Query) -> bytes:
        """Return the rows that satisfy a condition."""
        return await self._find(principal, table_id, query)

    async def _find(self, principal: Principal, table_id: UUID, query: Query) -> bytes:
        app = _app(principal)

        async def find(table: PreparedTable) -> bytes:
            creator = _visible_creator(principal, table.schema, Role.VIEWER)
            compiled = compile_query(table, query, creator, app.limits)
            row = await _run(table, compiled)
            if row["data"] is None:
                raise ResultTooLargeError
            limit = min(query.limit, app.limits.page_rows)
            tail = b',"total_count":%d,"limit":%d,"offset":%d}' % (row["total_count"], limit, query.offset)
            return b'{"data":%b%b' % (table.opened(row["data"]), tail)

        return await self._with_table(app, table_id, find)

    async def update(self, principal: Principal, table_id: UUID, row_id: UUID, data: msgspec.Raw) -> bytes:
        """Change the given fields of a row and return its JSON."""
        app = _app(principal)

        async def update(table: PreparedTable) -> bytes:
            creator = _visible_creator(principal, table.schema, Role.EDITOR)
            row = table.changes.decode(data)
            records.check_size(row, app.limits.row_bytes)
            most = app.limits.row_bytes
            stored = table.sealed(row, str(row_id))
            sql, arguments = _update(table, stored, row_id, creator, most + records.BESIDE_DATA)
            try:
                text = await table.fetchval(sql, *arguments)
            except asyncpg.PostgresError as error:
                raise (records.too_large(most) if error.sqlstate == _ROW_TOO_LARGE else error) from None
            return _one(table, text)

        return await self._with_table(app, table_id, update)

    async def delete(self, principal: Principal, table_id: UUID, row_id: UUID) -> None:
        """Delete a row."""

        async def delete(table: PreparedTable) -> None:
            creator = _visible_creator(principal, table.schema, Role.EDITOR)
            arguments = Arguments(row_id)
            condition = "__id = $1" + _and_creator(creator, arguments)
            if not await table.fetchval(table.statements.delete(condition), *arguments.values):
                raise RowNotFoundError

        await self._with_table(_app(principal), table_id, delete)

    async def delete_where(self, principal: Principal, table_id: UUID, request: DeleteWhere) -> int:
        """Delete the rows that satisfy a condition and return how many there were."""
        app = _app(principal)
        if not request.where and not request.all:
            raise WhereRequiredError

        async def delete(table: PreparedTable) -> int:
            creator = _visible_creator(principal, table.schema, Role.EDITOR)
            arguments = Arguments(hash_=table.hash)
            condition, patterns = compile_where(
                request.where or {}, lambda name: operand(table.schema, name, arguments), app.limits, arguments
            )
            if condition == "true" and not request.all:
                raise WhereRequiredError
            condition += _and_creator(creator, arguments)
            row = await _run(table, CompiledQuery(table.statements.delete(condition), arguments.values, patterns))
            count: int = row["count"]
            return count

        return await self._with_table(app, table_id, delete)

    async def _with_table(
        self, app: AppInfo, table_id: UUID, action: Callable[[PreparedTable], Awaitable[Result]]
    ) -> Result:
        """Run an action on the current schema; run it anew, validation included, if the schema turns out to be gone."""
        failed_version = None
        for _ in range(_MOST_TRIES):
            table = await self._tables.current(app.app_id, table_id)
            try:
                return await action(await self._prepare(table))
            except asyncpg.DeadlockDetectedError:
                # PostgreSQL undid this statement to let another one finish.
                continue
            except _TOO_OLD:
                if table.version == failed_version:
                    raise
                failed_version = table.version
                self._tables.forget(table)
        raise UnavailableError("The table is busy. Try again shortly.")

    async def _prepare(self, schema: TableSchema) -> PreparedTable:
        prepared = schema.__dict__.get("prepared")
        if prepared is None:
            sealed = any(column.encrypted for column in schema.columns)
            cipher = await self._encryption.cipher(schema.app_id) if sealed else None
            prepared = schema.__dict__["prepared"] = PreparedTable(schema, self._database, cipher)
        return prepared


async def _run(table: PreparedTable, compiled: CompiledQuery) -> asyncpg.Record:
    try:
        async with table.connection() as connection:
            if compiled.patterns:
                # A table without rows would not try them.
                await connection.fetchval(_TRY_PATTERNS, compiled.patterns)
            row = await connection.fetchrow(compiled.sql, *compiled.arguments)
    except asyncpg.InvalidRegularExpressionError:
        raise InvalidRegexError from None
    assert row is not None
    return row


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _one(table: PreparedTable, text: str | None) -> bytes:
    if text is None:
        raise RowNotFoundError
    return table.opened(f"[{text}]")[1:-1]


def _visible_creator(principal: Principal, table: TableSchema, role: Role) -> str | None:
    """Return whose rows alone the caller may use, or None for everybody's; raises where it may use none."""
    if table.access_level is AccessLevel.PUBLIC or principal.may(role):
        return None
    if principal.member is None:
        if principal.role is not None:
            raise RoleRequiredError
        raise MemberTokenRequiredError
    return principal.member.member_id if table.access_level is AccessLevel.CREATOR else None


def _creator_of_new_row(principal: Principal, table: TableSchema) -> str | None:
    _visible_creator(principal, table, Role.EDITOR)
    return principal.member.member_id if principal.member else None


def _and_creator(creator: str | None, arguments: Arguments) -> str:
    return "" if creator is None else f" and __creator = {arguments.bind(creator, 'text')}"


def _update(
    table: PreparedTable, row: Row, row_id: UUID, creator: str | None, most_bytes: int
) -> tuple[str, Sequence[Any]]:
    columns = table.changes.given(row)
    if table.schema.is_free_form:
        source, lifted, extra = "{}", [], row.data.decode()
    else:
        source = records.change(row).decode()
        lifted = [column.name for column in columns]
        extra = json.encode(dict.fromkeys(row.nulls)).decode()
    arguments: list[Any] = [row_id, source, lifted, extra, most_bytes]
    condition = "true"
    if creator is not None:
        arguments.append(creator)
        condition = "t.__creator = $6"
    return table.statements.update(columns, condition), arguments


def _list_of_rows(data: msgspec.Raw, most: int) -> list[msgspec.Raw]:
    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise invalid("data", "data must be a list of objects.") from None
    if not items:
        raise invalid("data", "data is an empty list; send at least one row.")
    if len(items) > most:
        raise invalid("data", f"At most {most} rows are created in one request.", "TOO_MANY_ROWS")
    return items


def _decode_all(
    table: PreparedTable, items: Sequence[msgspec.Raw], most_bytes: int
) -> tuple[list[Row], list[BulkFailure]]:
    rows: list[Row] = []
    failed: list[BulkFailure] = []
    for index, item in enumerate(items):
        try:
            row = table.new_rows.decode(item)
            records.check_size(row, most_bytes)
            rows.append(row)
        except PilotisError as error:
            failed.append(BulkFailure(index, error.code, error.text))
    return rows, failed

"""Rows: who may see and change which, and every operation on them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from pilotis.db.pool import Database
from pilotis.http.principals import AppInfo, Principal, Role, RoleRequiredError
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import (
    BadRequestError,
    Detail,
    NotFoundError,
    PilotisError,
    UnauthorizedError,
    invalid,
)
from pilotis.kit.ids import uuid7_text
from pilotis.rows import records
from pilotis.rows.operands import Arguments
from pilotis.rows.query import CompiledQuery, compile_query
from pilotis.rows.table import PreparedTable
from pilotis.rows.types import BulkFailure, DeleteWhere, Page, Query
from pilotis.rows.where import InvalidRegexError, compile_where
from pilotis.tables.schema import AccessLevel, TableSchema
from pilotis.tables.service import TableNotFoundError, Tables
from pilotis.tables.values import Row

Result = TypeVar("Result")

_MOST_TRIES = 5
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


class NothingCreatedError(BadRequestError):
    """400: not one row of a bulk create could be made; `details` tells why, row by row."""

    code = "NOTHING_CREATED"
    message = "None of the rows could be created."


class Rows:
    """Operations on rows. Each takes the principal, whose app and rights bound what it sees."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self._database = database
        self._tables = tables

    async def create(self, principal: Principal, table_id: UUID, data: msgspec.Raw) -> bytes:
        """Make a row and return its JSON."""
        app = _app(principal)

        async def create(table: PreparedTable) -> bytes:
            creator = _creator_of_new_row(principal, table.schema)
            row = table.new_rows.decode(data)
            records.check_size(row, app.limits.row_bytes)
            row_id = uuid7_text()
            created = await table.insert(records.record(table.schema, row_id, creator, row))
            return records.item(row_id, row, rfc3339(created))

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
            new = [records.record(table.schema, row_id, creator, row) for row_id, row in zip(ids, rows, strict=True)]
            created = rfc3339(await table.insert_many(new))
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
                text = await self._database.fetchval(sql, row_id, creator)
            if text is None:
                raise RowNotFoundError
            return str(text).encode()

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

            async def answer() -> bytes:
                compiled = compile_query(table.schema, table.statements, query, creator, app.limits)
                row = await self._run(compiled)
                limit = min(query.limit, app.limits.page_rows)
                tail = b',"total_count":%d,"limit":%d,"offset":%d}' % (row["total_count"], limit, query.offset)
                return b'{"data":%b%b' % (row["data"].encode(), tail)

            # The page that every client looks at is read once for all who ask for it together.
            return await table.pages.run((creator, json.encode(query)), answer)

        return await self._with_table(app, table_id, find)

    async def update(self, principal: Principal, table_id: UUID, row_id: UUID, data: msgspec.Raw) -> bytes:
        """Change the given fields of a row and return its JSON."""
        app = _app(principal)

        async def update(table: PreparedTable) -> bytes:
            creator = _visible_creator(principal, table.schema, Role.EDITOR)
            row = table.changes.decode(data)
            records.check_size(row, app.limits.row_bytes)
            sql, arguments = _update(table, row, row_id, creator)
            text = await self._database.fetchval(sql, *arguments)
            if text is None:
                raise RowNotFoundError
            return str(text).encode()

        return await self._with_table(app, table_id, update)

    async def delete(self, principal: Principal, table_id: UUID, row_id: UUID) -> None:
        """Delete a row."""

        async def delete(table: PreparedTable) -> None:
            creator = _visible_creator(principal, table.schema, Role.EDITOR)
            arguments = Arguments(row_id)
            condition = "__id = $1" + _and_creator(creator, arguments)
            if not await self._database.fetchval(table.statements.delete(condition), *arguments.values):
                raise RowNotFoundError

        await self._with_table(_app(principal), table_id, delete)

    async def delete_where(self, principal: Principal, table_id: UUID, request: DeleteWhere) -> int:
        """Delete the rows that satisfy a condition and return how many there were."""
        app = _app(principal)
        if not request.where and not request.all:
            raise WhereRequiredError

        async def delete(table: PreparedTable) -> int:
            creator = _visible_creator(principal, table.schema, Role.EDITOR)
            arguments = Arguments()
            condition, patterns = compile_where(request.where or {}, table.schema, app.limits, arguments)
            condition += _and_creator(creator, arguments)
            row = await self._run(CompiledQuery(table.statements.delete(condition), arguments.values, patterns))
            count: int = row["count"]
            return count

        return await self._with_table(app, table_id, delete)

    async def _run(self, compiled: CompiledQuery) -> asyncpg.Record:
        try:
            async with self._database.connection() as connection:
                for pattern in compiled.patterns:
                    # A table without rows would not try it.
                    await connection.fetchval("select '' ~ $1", pattern)
                row = await connection.fetchrow(compiled.sql, *compiled.arguments)
        except asyncpg.InvalidRegularExpressionError:
            raise InvalidRegexError from None
        assert row is not None
        return row

    async def _with_table(
        self, app: AppInfo, table_id: UUID, action: Callable[[PreparedTable], Awaitable[Result]]
    ) -> Result:
        """Run an action on the current schema; run it anew, validation included, if the schema turns out to be gone."""
        for _ in range(_MOST_TRIES):
            table = await self._tables.current(app.app_id, table_id)
            try:
                return await action(self._prepare(table))
            except _TOO_OLD:
                self._tables.forget(table)
        raise TableNotFoundError

    def _prepare(self, schema: TableSchema) -> PreparedTable:
        prepared = schema.__dict__.get("prepared")
        if prepared is None:
            prepared = schema.__dict__["prepared"] = PreparedTable(schema, self._database)
        return prepared


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


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


def _update(table: PreparedTable, row: Row, row_id: UUID, creator: str | None) -> tuple[str, Sequence[Any]]:
    columns = table.changes.given(row)
    if table.schema.is_free_form:
        source, lifted, extra = "{}", [], row.data.decode()
    else:
        source = records.change(row).decode()
        lifted = [column.name for column in columns]
        extra = json.encode(dict.fromkeys(row.nulls)).decode()
    arguments: list[Any] = [row_id, source, lifted, extra]
    condition = "true"
    if creator is not None:
        arguments.append(creator)
        condition = "t.__creator = $5"
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

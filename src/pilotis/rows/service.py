"""Rows: every operation on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec

from pilotis.http.principals import AppInfo, Principal, Role
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import BadRequestError, Detail, PilotisError, invalid
from pilotis.kit.ids import uuid7_text
from pilotis.rows import records
from pilotis.rows.operands import Arguments, operand
from pilotis.rows.operations import RowNotFoundError, new_record, perform, plan_delete, plan_update
from pilotis.rows.prepared import PreparedTables
from pilotis.rows.query import CompiledQuery, compile_query
from pilotis.rows.table import PreparedTable
from pilotis.rows.types import BulkFailure, DeleteWhere, Page, Query
from pilotis.rows.visibility import and_creator, creator_of_new_row, visible_creator
from pilotis.rows.where import InvalidRegexError, compile_where
from pilotis.tables.values import Row

_TRY_PATTERNS = "select count('' ~ pattern) from unnest($1::text[]) pattern"


class WhereRequiredError(BadRequestError):
    """400: a conditional delete without a condition."""

    code = "WHERE_REQUIRED"
    message = "Give a condition in where, or all: true to delete every row."


class ResultTooLargeError(BadRequestError):
    """400: the rows of a page are too large to be answered together."""

    code = "RESULT_TOO_LARGE"
    message = "The rows of this page are too large to send together. Ask for fewer with limit."


class QueryTooLargeError(BadRequestError):
    """400: one request would have to take more memory, or a longer statement, than the database gives it."""

    code = "QUERY_TOO_LARGE"
    message = "The query needs more memory than one request may use. Ask for less, or compute less in it."


class NothingCreatedError(BadRequestError):
    """400: not one row of a bulk create could be made; `details` tells why, row by row."""

    code = "NOTHING_CREATED"
    message = "None of the rows could be created."


class Rows:
    """Operations on rows. Each takes the principal, whose app and rights bound what it sees."""

    def __init__(self, tables: PreparedTables) -> None:
        self._tables = tables

    async def create(self, principal: Principal, table_id: UUID, data: msgspec.Raw) -> bytes:
        """Make a row and return its JSON."""
        app = _app(principal)

        async def create(table: PreparedTable) -> bytes:
            row_id = uuid7_text()
            record, row = new_record(principal, table, app.limits, data, row_id)
            return records.item(row_id, row, rfc3339(await table.insert(record)))

        return await self._tables.use(app, table_id, create)

    async def create_many(self, principal: Principal, table_id: UUID, data: msgspec.Raw) -> bytes:
        """Make as many rows of a list as can be made; the answer's JSON tells of the others."""
        app = _app(principal)
        items = _list_of_rows(data, app.limits.bulk_rows)

        async def create(table: PreparedTable) -> bytes:
            creator = creator_of_new_row(principal, table.schema)
            rows, failed = _decode_all(table, items, app.limits.row_bytes)
            if not rows:
                details = [Detail(f"data[{item.index}]", item.code, item.message) for item in failed]
                raise NothingCreatedError(details=details)
            ids = [uuid7_text() for _ in rows]
            new = [
                records.record(table.schema, row_id, creator, table.sealed(row, row_id))
                for row_id, row in zip(ids, rows, strict=True)
            ]
            created = rfc3339(await table.insert_many(new))
            made = b",".join(records.item(row_id, row, created) for row_id, row in zip(ids, rows, strict=True))
            tail = b',"failed":' + json.encode(failed) if failed else b""
            return b'{"created":[%b],"total":%d,"success":%d%b}' % (made, len(items), len(rows), tail)

        return await self._tables.use(app, table_id, create)

    async def read(self, principal: Principal, table_id: UUID, row_id: UUID) -> bytes:
        """Return one row's JSON."""

        async def read(table: PreparedTable) -> bytes:
            creator = visible_creator(principal, table.schema, Role.VIEWER)
            if creator is None:
                text = await table.read(str(row_id))
            else:
                sql = table.statements.select("__creator = $2")
                text = await table.fetchval(sql, row_id, creator)
            return _one(table, text)

        return await self._tables.use(_app(principal), table_id, read)

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
            creator = visible_creator(principal, table.schema, Role.VIEWER)

            async def answer() -> bytes:
                compiled = compile_query(table, query, creator, app.limits)
                row = await run_compiled(table, compiled)
                if row["data"] is None:
                    raise ResultTooLargeError
                limit = min(query.limit, app.limits.page_rows)
                tail = b',"total_count":%d,"limit":%d,"offset":%d}' % (row["total_count"], limit, query.offset)
                return b'{"data":%b%b' % (table.opened(row["data"]), tail)

            # The page that every client looks at is read once for all who ask for it together.
            return await table.pages.run((creator, json.encode(query)), answer)

        return await self._tables.use(app, table_id, find)

    async def update(
        self, principal: Principal, table_id: UUID, row_id: UUID, data: msgspec.Raw, expected: str | None = None
    ) -> bytes:
        """Change the given fields of a row and return its JSON; `expected` is the `updated_at` it must have."""
        app = _app(principal)

        async def update(table: PreparedTable) -> bytes:
            plan = plan_update(principal, table, app.limits, row_id, data, expected)
            return await perform(table.fetchval, plan)

        return await self._tables.use(app, table_id, update)

    async def delete(self, principal: Principal, table_id: UUID, row_id: UUID, expected: str | None = None) -> None:
        """Delete a row; `expected` is the `updated_at` it must have."""

        async def delete(table: PreparedTable) -> None:
            await perform(table.fetchval, plan_delete(principal, table, row_id, expected))

        await self._tables.use(_app(principal), table_id, delete)

    async def delete_where(self, principal: Principal, table_id: UUID, request: DeleteWhere) -> int:
        """Delete the rows that satisfy a condition and return how many there were."""
        app = _app(principal)
        if not request.where and not request.all:
            raise WhereRequiredError

        async def delete(table: PreparedTable) -> int:
            creator = visible_creator(principal, table.schema, Role.EDITOR)
            arguments = Arguments(hash_=table.hash)
            condition, patterns = compile_where(
                request.where or {}, lambda name: operand(table.schema, name, arguments), app.limits, arguments
            )
            if condition == "true" and not request.all:
                raise WhereRequiredError
            condition = f"true{and_creator(creator, arguments)} and {condition}"
            row = await run_compiled(
                table, CompiledQuery(table.statements.delete(condition), arguments.values, patterns, arguments.notes)
            )
            count: int = row["count"]
            return count

        return await self._tables.use(app, table_id, delete)


async def run_compiled(table: PreparedTable, compiled: CompiledQuery) -> asyncpg.Record:
    """Run a statement that was compiled from a request; raises `InvalidRegexError` for a pattern that is none.

    Raises `QueryTooLargeError` where the statement is beyond what the database can do.
    """
    try:
        async with table.connection() as connection:
            if compiled.patterns:
                # A table without rows would not try them.
                await connection.fetchval(_TRY_PATTERNS, compiled.patterns)
            with table.noting(compiled.notes):
                # All of its one row: with a limit, as fetchrow sets, PostgreSQL starts no parallel workers.
                (row,) = await connection.fetch(table.planned_anew(compiled.sql), *compiled.arguments)
    except asyncpg.InvalidRegularExpressionError:
        raise InvalidRegexError from None
    except (asyncpg.ProgramLimitExceededError, asyncpg.OutOfMemoryError):
        raise QueryTooLargeError from None
    return row


def is_list(data: msgspec.Raw) -> bool:
    """Tell whether data is a list, of rows to make in bulk."""
    return bytes(memoryview(data)[:1]) == b"["


def count_rows(data: msgspec.Raw) -> int:
    """Return how many rows are to be made."""
    return len(msgspec.json.decode(data, type=list[msgspec.Raw])) if is_list(data) else 1


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _one(table: PreparedTable, text: str | None) -> bytes:
    if text is None:
        raise RowNotFoundError
    return table.opened(f"[{text}]")[1:-1]


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

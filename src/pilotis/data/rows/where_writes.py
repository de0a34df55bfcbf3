"""Changes and deletions of all rows that satisfy a condition, each as a plan, run alone or within a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import asyncpg
from asyncpg import Connection

from pilotis.data.rows import records
from pilotis.data.rows.cascades import Cascade, cascade_of
from pilotis.data.rows.emitting import DELETED, UPDATED
from pilotis.data.rows.operations import (
    bound_cause,
    bound_changes,
    change_of_many,
    refusal,
    requirements,
    sources,
    writer_of,
)
from pilotis.data.rows.paths import Paths, paths_of
from pilotis.data.rows.query import within
from pilotis.data.rows.running import run_compiled, telling_what_is_too_large, try_patterns
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rows.types import DeleteWhere, UpdateWhere
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import creator_of_new_row
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.compiler import compile_where
from pilotis.data.where.operands import Arguments, operand
from pilotis.http.api.principals import Principal
from pilotis.kit.errors import BadRequestError
from pilotis.kit.offload import offload
from pilotis.limits import Limits


class TooManyRowsError(BadRequestError):
    """400 `TOO_MANY_ROWS`: more rows satisfy the condition than one update may change."""

    code = "TOO_MANY_ROWS"


class WhereRequiredError(BadRequestError):
    """400: a conditional delete without a condition."""

    code = "WHERE_REQUIRED"
    message = "Give a condition in where, or all: true to delete every row."


class WhereWrite(Protocol):
    """A change or a deletion of all rows that satisfy a condition."""

    @property
    def patterns(self) -> Sequence[str]:
        """The patterns of the condition, to be tried before a transaction in which it runs."""

    async def alone(self) -> int:
        """Run it by itself, and return the number of rows."""

    async def within(self, connection: Connection) -> int:
        """Run it in a transaction, and return the number of rows; then `committed` tells of it."""

    def committed(self) -> None:
        """Tell of what was written, once the transaction is over."""


class UpdateMany(NamedTuple):
    """A change of at most `max_rows` rows, whose data then has at most `row_bytes` bytes each."""

    table: PreparedTable
    compiled: CompiledQuery
    max_rows: int
    row_bytes: int

    @property
    def patterns(self) -> Sequence[str]:
        """The patterns of the condition."""
        return self.compiled.patterns

    async def alone(self) -> int:
        """Run it by itself, and return the number of changed rows; raises `TooManyRowsError`, and changes none."""
        try:
            found = await run_compiled(self.table, self.compiled, read_only=False)
        except asyncpg.PostgresError as error:
            raise self._told(error) from None
        count = self._count(found)
        self.committed()
        return count

    async def within(self, connection: Connection) -> int:
        """Run it in a transaction, and return the number of changed rows; raises `TooManyRowsError`."""
        try:
            with telling_what_is_too_large():
                found = await connection.fetchrow(self.compiled.sql, *self.compiled.arguments)
        except asyncpg.PostgresError as error:
            raise self._told(error) from None
        assert found is not None
        count = self._count(found)
        if self.table.statements.apart:
            await self.table.settle(connection.execute, 0, found.get("events"))
        return count

    def committed(self) -> None:
        """Tell of the changes, once they are committed."""
        self.table.emitted()

    def _told(self, error: asyncpg.PostgresError) -> Exception:
        return refusal(error, self.row_bytes, self.table.violated_by_change) or error

    def _count(self, found: asyncpg.Record) -> int:
        if found["found"] > self.max_rows:
            raise TooManyRowsError(f"More than {self.max_rows} rows satisfy the condition. Nothing was changed.")
        count: int = found["updated"]
        return count


class DeleteMany:
    """A deletion, and what it takes along."""

    def __init__(
        self,
        principal: Principal,
        table: PreparedTable,
        along: Cascade | None,
        condition: str,
        patterns: Sequence[str],
        arguments: Arguments,
    ) -> None:
        self._principal = principal
        self._table = table
        self._along = along
        self._condition = condition
        self.patterns = patterns
        self._arguments = arguments
        self._deleted = 0

    async def alone(self) -> int:
        """Run it by itself, and return the number of deleted rows."""
        if self._along is None:
            table, arguments = self._table, self._arguments
            sql = table.statements.delete(self._condition, bound_cause(self._principal, table, DELETED, arguments))
            compiled = CompiledQuery(sql, arguments.values, list(self.patterns), arguments.access)
            try:
                row = await run_compiled(table, compiled, read_only=False)
            except asyncpg.ForeignKeyViolationError as error:
                raise self._told(error) from None
            self._deleted = row["count"]
        else:
            await try_patterns(self._table, self.patterns)
            async with self._table.transaction() as connection:
                await self.within(connection)
        self.committed()
        return self._deleted

    async def within(self, connection: Connection) -> int:
        """Run it in a transaction, and return the number of deleted rows."""
        table, arguments, condition = self._table, self._arguments, self._condition
        try:
            with telling_what_is_too_large():
                if self._along is not None:
                    ids = await self._along.run(connection.fetchrow, condition, arguments.values)
                    arguments, condition = Arguments(list(ids)), "__id = any($1::uuid[])"
                sql = table.statements.delete(condition, bound_cause(self._principal, table, DELETED, arguments))
                row = await connection.fetchrow(sql, *arguments.values)
        except asyncpg.ForeignKeyViolationError as error:
            raise self._told(error) from None
        assert row is not None
        self._deleted = row["count"]
        if table.statements.apart:
            await table.settle(connection.execute, -self._deleted, row.get("events"))
        return self._deleted

    def committed(self) -> None:
        """Tell of the deletions, once they are committed."""
        self._table.written(self._deleted)
        if self._along is not None:
            self._along.committed()

    def _told(self, error: asyncpg.PostgresError) -> Exception:
        return self._table.violated(str(error)) or error


async def plan_update_where(
    tables: PreparedTables, principal: Principal, table: PreparedTable, request: UpdateWhere
) -> UpdateMany:
    """Return the change of the rows that satisfy a condition; raises a 4xx error."""
    _require_where(request)
    assert principal.app is not None
    limits = principal.app.limits
    most = min(request.max_rows or limits.update_where_rows, limits.update_where_rows)
    visible = table.visible_now(principal, Action.UPDATE, found_by_condition=True)
    size = len(memoryview(request.data))
    row, columns, named = await offload(size, change_of_many, table, limits, request.data, writer_of(principal))
    source, lifted, extra = sources(table, row, row, columns)
    given = [*row.fields] if table.schema.is_free_form else [column.name for column in (*columns, *row.now)]
    changed = list(dict.fromkeys([*given, *row.changes]))
    visible.require_settable(named)
    visible.require_readable(row.changes)
    seen = table.seen_by(visible).schema
    paths = await paths_of(tables, principal, table, seen, request.where)
    arguments = Arguments(
        most,
        source.decode(),
        lifted,
        extra.decode(),
        limits.row_bytes + records.BESIDE_DATA,
        hash_=table.hash,
        creators=visible.shows_creator,
        own=creator_of_new_row(principal),
    )
    condition, patterns = _matching(seen, request, arguments, limits, paths)
    condition = within(visible, condition, patterns, arguments)
    changes = bound_changes(table, row, arguments)
    cause = bound_cause(principal, table, UPDATED, arguments, changed)
    after = visible.holds_after(arguments, old="before", new="written")
    requires = requirements(principal, table, row, arguments)
    sql = table.statements.update_many(columns, condition, changes, cause, after, requires, row.now)
    compiled = CompiledQuery(sql, arguments.values, patterns, arguments.access)
    return UpdateMany(table, compiled, most, limits.row_bytes)


async def plan_delete_where(
    tables: PreparedTables, principal: Principal, table: PreparedTable, request: DeleteWhere
) -> DeleteMany:
    """Return the deletion of the rows that satisfy a condition; raises a 4xx error."""
    _require_where(request)
    assert principal.app is not None
    visible = table.visible_now(principal, Action.DELETE, found_by_condition=True)
    seen = table.seen_by(visible).schema
    paths = await paths_of(tables, principal, table, seen, request.where)
    own = creator_of_new_row(principal)
    arguments = Arguments(hash_=table.hash, creators=visible.shows_creator, own=own)
    condition, patterns = _matching(seen, request, arguments, principal.app.limits, paths)
    condition = within(visible, condition, patterns, arguments)
    along = await cascade_of(tables, principal, table)
    return DeleteMany(principal, table, along, condition, patterns, arguments)


def _require_where(request: DeleteWhere | UpdateWhere) -> None:
    if not request.where and not request.all:
        raise WhereRequiredError


def _matching(
    seen: TableSchema,
    request: DeleteWhere | UpdateWhere,
    arguments: Arguments,
    limits: Limits,
    paths: Paths | None,
) -> tuple[str, list[str]]:
    """Return the request's own condition and its `$matches` patterns; raises `WhereRequiredError` if it has none."""
    condition, patterns = compile_where(
        request.where or {},
        lambda name: operand(seen, name, arguments),
        limits,
        arguments,
        through=None if paths is None else paths.through(arguments, limits),
    )
    if condition == "true" and not request.all:
        raise WhereRequiredError
    return condition, patterns

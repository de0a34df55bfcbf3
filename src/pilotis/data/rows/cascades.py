"""What the deletion of rows takes along: rows that refer to them are deleted, or refer to nothing any more.

PostgreSQL's own cascades would change neither row counts nor events, so these are statements like any other deletion,
in the transaction of the deletion: the rows are locked table by table, from the deleted ones outward, and deleted from
the outermost ones inward. Nobody refers to a locked row meanwhile. The rules of these tables do not apply: a cascade is
the app's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from pilotis.data.rows import records
from pilotis.data.rows.emitting import DELETED, UPDATED
from pilotis.data.rows.operations import FetchRow, bound_cause, change_of_many, sources
from pilotis.data.rows.referring import TooManyReferencesError
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.tables.generated import NOBODY
from pilotis.data.tables.references import name_of
from pilotis.data.tables.schema import Column, OnDelete, Referrer
from pilotis.data.where.operands import Arguments
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit import json

Ids = Sequence[UUID]


async def cascade_of(tables: PreparedTables, principal: Principal, table: PreparedTable) -> Cascade | None:
    """Return what deletions from a table take along; None if nothing refers to it but by `restrict`."""
    if all(one.on_delete is OnDelete.RESTRICT for one in table.schema.referrers):
        return None
    reached = {table.schema.table_id: table}
    waiting = [table]
    while waiting:
        for one in waiting.pop().schema.referrers:
            if one.on_delete is not OnDelete.RESTRICT and one.table_id not in reached:
                child = reached[one.table_id] = await tables.named(table.schema.app_id, one.table_id)
                if one.on_delete is OnDelete.CASCADE:
                    waiting.append(child)
    return Cascade(principal, table, reached)


class Cascade:
    """The rows that one deletion takes along. It is for one request."""

    def __init__(self, principal: Principal, root: PreparedTable, tables: Mapping[UUID, PreparedTable]) -> None:
        assert principal.app is not None
        self._principal = principal
        self._app: AppInfo = principal.app
        self._root = root
        self._tables = tables
        self._gone: dict[UUID, set[UUID]] = {}
        self._cut: list[tuple[PreparedTable, PreparedTable, Referrer, Ids]] = []
        self._left = self._app.limits.cascade_rows
        self._written: dict[UUID, int] = {}

    async def run(self, fetchrow: FetchRow, condition: str, values: Sequence[Any]) -> Ids:
        """Delete or change what refers to the rows that satisfy a condition, lock these rows and return their ids.

        Raises `TooManyReferencesError`. The caller deletes the rows in the same transaction.
        """
        self._gone, self._cut, self._written = {}, [], {}
        self._left = self._app.limits.cascade_rows
        root = self._root.schema
        found = f"select __id from {root.physical} where {condition} and {root.at_this_version_within}"
        ids = await self._lock(fetchrow, found, values)
        await self._find(fetchrow, ids)
        for parent, child, one, targets in self._cut:
            await self._cut_off(fetchrow, parent, child, one, targets)
        if self._gone.get(root.table_id):
            # Rows of one table may refer to each other in a circle, and it loses them by two statements.
            own = [one for one in root.referrers if one.table_id == root.table_id and one.on_delete is OnDelete.CASCADE]
            await fetchrow(self._root.statements.defer, [name_of(one.table_id, one.number) for one in own])
        for table_id in self._outermost_first():
            await self._delete(fetchrow, self._tables[table_id], list(self._gone[table_id]))
        return ids

    def committed(self) -> None:
        """Tell of what was written, once the transaction is over."""
        for table_id, rows in self._written.items():
            self._tables[table_id].written(rows)

    async def _find(self, fetchrow: FetchRow, ids: Ids) -> None:
        """Lock the rows that refer to the given ones, and those that refer to them in turn."""
        waiting = [(self._root, ids)]
        while waiting:
            parent, targets = waiting.pop(0)
            for one in parent.schema.referrers if targets else ():
                child = self._tables.get(one.table_id)
                if one.on_delete is OnDelete.RESTRICT or child is None:
                    continue
                if one.on_delete is OnDelete.SET_NULL:
                    self._cut.append((parent, child, one, targets))
                    continue
                gone = self._gone.setdefault(one.table_id, set())
                going = gone.union(ids) if child is self._root else gone
                found = await self._referring(fetchrow, parent, child, one, targets)
                fresh = [row_id for row_id in found if row_id not in going]
                gone.update(fresh)
                waiting.append((child, fresh))

    async def _referring(
        self, fetchrow: FetchRow, parent: PreparedTable, child: PreparedTable, one: Referrer, targets: Ids
    ) -> Ids:
        schema = child.schema
        column = next((column for column in schema.columns if column.number == one.number), None)
        if column is None:
            raise asyncpg.UndefinedColumnError("The reference is gone.")
        refers = f"{column.physical} = any({_values(parent, one, '$1::uuid[]')})"
        found = f"select __id from {schema.physical} where {refers} and {schema.at_this_version_within}"
        return await self._lock(fetchrow, found, [list(targets)])

    async def _lock(self, fetchrow: FetchRow, found: str, values: Sequence[Any]) -> Ids:
        sql = f"select array({found} order by __id limit {self._left + 1} for update) as ids"
        row = await fetchrow(sql, *values)
        assert row is not None
        ids: list[UUID] = row["ids"]
        self._left -= len(ids)
        self._require_few()
        return ids

    def _require_few(self) -> None:
        if self._left < 0:
            most = self._app.limits.cascade_rows
            raise TooManyReferencesError(
                f"With all that refers to them, more than {most} rows would be deleted or changed. Nothing was."
            )

    async def _cut_off(
        self, fetchrow: FetchRow, parent: PreparedTable, child: PreparedTable, one: Referrer, targets: Ids
    ) -> None:
        """Make the references of rows null that stay."""
        going = self._gone.get(one.table_id, set())

        def condition(column: Column, arguments: Arguments) -> str:
            refers = f"{column.physical} = any({_values(parent, one, arguments.bind(list(targets), 'uuid[]'))})"
            return f"{refers} and __id <> all({arguments.bind(list(going), 'uuid[]')})"

        sql, values = cut(self._principal, child, one.column, self._left, condition)
        found = await fetchrow(sql, *values)
        assert found is not None
        self._left -= found["found"]
        self._require_few()
        await self._settle(fetchrow, child, 0, found)

    async def _delete(self, fetchrow: FetchRow, child: PreparedTable, ids: Ids) -> None:
        if not ids:
            return
        arguments = Arguments(list(ids))
        cause = bound_cause(self._principal, child, DELETED, arguments)
        try:
            found = await fetchrow(child.statements.delete("__id = any($1::uuid[])", cause), *arguments.values)
        except asyncpg.ForeignKeyViolationError as error:
            if (refused := child.violated(str(error))) is None:
                raise
            raise refused from None
        assert found is not None
        await self._settle(fetchrow, child, found[0], found)

    async def _settle(self, fetchrow: FetchRow, child: PreparedTable, deleted: int, found: asyncpg.Record) -> None:
        table_id = child.schema.table_id
        self._written[table_id] = self._written.get(table_id, 0) + deleted
        if child.statements.apart:
            await child.settle(fetchrow, -deleted, found.get("events"))

    def _outermost_first(self) -> list[UUID]:
        """Return the tables that lose rows, each before those to which it refers.

        Tables may refer to each other in a circle that a deletion does not go round; there its own way decides.
        """
        ordered: list[UUID] = []
        left = list(self._gone)
        while left:
            ends = [table_id for table_id in left if not self._referrers(table_id, left)]
            ends = ends or [table_id for table_id in left if not self._referrers(table_id, left, OnDelete.CASCADE)]
            ordered += ends
            left = [table_id for table_id in left if table_id not in ends]
        return ordered

    def _referrers(self, table_id: UUID, among: Sequence[UUID], on_delete: OnDelete | None = None) -> bool:
        return any(
            one.table_id in among and one.table_id != table_id and on_delete in {None, one.on_delete}
            for one in self._tables[table_id].schema.referrers
        )


def cut(
    principal: Principal, table: PreparedTable, name: str, most: int, condition: Callable[[Column, Arguments], str]
) -> tuple[str, list[Any]]:
    """Return the statement that makes a column null in the rows of a condition, if they are at most so many.

    It returns what `Statements.update_many` does. `condition` is given the column, and the arguments to bind to.
    """
    assert principal.app is not None
    limits = principal.app.limits
    row, columns, _ = change_of_many(table, limits, msgspec.Raw(json.encode({name: None})), NOBODY)
    source, lifted, extra = sources(table, row, row, columns)
    arguments = Arguments(most, source.decode(), lifted, extra.decode(), limits.row_bytes + records.BESIDE_DATA)
    found = condition(columns[0], arguments)
    cause = bound_cause(principal, table, UPDATED, arguments, [name])
    return table.statements.update_many(columns, found, [], cause, now=row.now), arguments.values


def _values(parent: PreparedTable, one: Referrer, ids: str) -> str:
    """Return the array of the values by which a reference names rows of a table; `ids` is that of their ids."""
    if one.of is None:
        return ids
    schema = parent.schema
    referred = schema.referred_column(one.of)
    return (
        f"array(select {referred} from {schema.physical} where __id = any({ids}) and {schema.at_this_version_within})"
    )

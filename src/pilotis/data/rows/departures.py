"""What becomes of the rows that refer to members who are deleted: of some the columns become null, others are deleted.

A job does this after the member is gone, table by table and some rows at a time, each time counting them and telling
of them like a deletion of theirs. It runs a second time a minute later: a request that had found the member may still
have written such a row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection

from pilotis.data.rows import cascades
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rows.where_writes import DeleteMany
from pilotis.data.tables import store
from pilotis.data.tables.schema import Column, OnDelete
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.where.operands import Arguments
from pilotis.http.api.principals import AppInfo, AppItself
from pilotis.jobs.kinds import DiscardError, Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.errors import ConflictError, NotFoundError

AGAIN = timedelta(seconds=60)
_BATCH_SIZE = 500

_log = structlog.get_logger("pilotis.data.rows")


class Departed(msgspec.Struct):
    """The payload of the job: the ids of the members."""

    member_ids: list[str]


class Departures:
    """Deletes and changes what refers to members that are deleted."""

    def __init__(
        self, tables: Tables, prepared: PreparedTables, jobs: Jobs, app: Callable[[UUID], Awaitable[AppInfo]]
    ) -> None:
        self._tables = tables
        self._prepared = prepared
        self._jobs = jobs
        self._app = app
        self.kind = JobKind(name="rows.departures", queue="light", payload=Departed, run=self.run, seconds=3600.0)

    async def deleted(self, connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> None:
        """Enqueue the job, in the transaction that deletes members."""
        if member_ids and await store.has_columns_of_members(connection, app_id):
            departed, now = Departed([*member_ids]), datetime.now(UTC)
            for run_at in (now, now + AGAIN):
                await self._jobs.enqueue(connection, self.kind, app_id, departed, run_at=run_at)

    async def run(self, job: Job[Departed]) -> None:
        """Follow the members through all tables of their app."""
        try:
            app = await self._app(job.app_id)
        except NotFoundError:
            raise DiscardError("The app is gone.") from None
        for schema in await self._tables.schemas(app.app_id):
            for column in schema.of_members:
                if column.of_member is not OnDelete.KEEP:
                    try:
                        await self._follow(job, app, schema.table_id, column)
                    except TableNotFoundError:
                        break

    async def _follow(self, job: Job[Departed], app: AppInfo, table_id: UUID, column: Column) -> None:
        principal, staying = AppItself(app), list[UUID]()
        size = _BATCH_SIZE

        async def step(table: PreparedTable) -> int:
            now = next((one for one in table.schema.of_members if one.number == column.number), None)
            if now is None or now.of_member is OnDelete.KEEP:
                return 0
            if now.of_member is OnDelete.SET_NULL:
                return await _cut_off(principal, table, now, job.payload.member_ids)
            return await _delete(self._prepared, principal, table, now, job.payload.member_ids, staying, size)

        while True:
            job.require_lease()
            try:
                if not await self._prepared.use(app, table_id, step):
                    break
            except ConflictError as error:
                if size > 1:
                    size = 1
                    continue
                # Another row holds this one by a reference, or it would take too many along.
                staying.append(await self._first(app, table_id, column, job.payload.member_ids, staying))
                _log.warning("row of a deleted member stays", table_id=str(table_id), reason=error.code)
                size = _BATCH_SIZE

    async def _first(
        self, app: AppInfo, table_id: UUID, column: Column, member_ids: Sequence[str], staying: Sequence[UUID]
    ) -> UUID:
        async def find(table: PreparedTable) -> UUID:
            arguments = Arguments()
            found: UUID = await table.fetchval(
                _some(table, column, member_ids, staying, 1, arguments), *arguments.values
            )
            return found

        return await self._prepared.use(app, table_id, find)


def _some(
    table: PreparedTable,
    column: Column,
    member_ids: Sequence[str],
    staying: Sequence[UUID],
    most: int,
    arguments: Arguments,
) -> str:
    """Return the select of the ids of some rows that refer to members."""
    refers = f"{column.physical} = any({arguments.bind(list(member_ids), 'text[]')})"
    others = f" and __id <> all({arguments.bind(list(staying), 'uuid[]')})" if staying else ""
    schema = table.schema
    condition = f"{refers}{others} and {schema.at_this_version_within}"
    return f"select __id from {schema.physical} where {condition} order by __id limit {most}"


async def _delete(
    tables: PreparedTables,
    principal: AppItself,
    table: PreparedTable,
    column: Column,
    member_ids: Sequence[str],
    staying: Sequence[UUID],
    most: int,
) -> int:
    arguments = Arguments()
    condition = f"__id = any(array({_some(table, column, member_ids, staying, most, arguments)}))"
    along = await cascades.cascade_of(tables, principal, table)
    return await DeleteMany(principal, table, along, condition, [], arguments).alone()


async def _cut_off(principal: AppItself, table: PreparedTable, column: Column, member_ids: Sequence[str]) -> int:
    def condition(column: Column, arguments: Arguments) -> str:
        return f"__id = any(array({_some(table, column, member_ids, [], _BATCH_SIZE, arguments)}))"

    sql, values = cascades.cut(principal, table, column.name, _BATCH_SIZE, condition)
    async with table.transaction() as connection:
        found = await connection.fetchrow(sql, *values)
        assert found is not None
        await table.settle(connection.execute, 0, found.get("events"))
    table.emitted()
    changed: int = found["updated"]
    return changed

"""SQL statements for the records of calls and their statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.filters import Filters
from pilotis.db.paging import MAX_COUNTED, fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.functions.types import LogLevel, RequestedCall


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a call; times are in milliseconds."""

    app_id: UUID
    function_id: UUID
    execution_id: UUID
    version: str
    status: str
    trigger: str
    caller_type: str
    caller_id: str | None
    start: str
    duration: float
    queue_ms: float
    load_ms: float
    cpu_ms: float
    peak_memory_mb: float | None
    error: str | None
    error_code: str | None
    request_id: str | None
    workflow_execution_id: UUID | None
    step_id: str | None
    log_lines: int
    log_dropped: int
    started_at: datetime
    finished_at: datetime


class LoggedExecution(ExecutionRecord, frozen=True, kw_only=True):
    """The record of a call with its log as JSON text."""

    logs: str


class LineRecord(msgspec.Struct, frozen=True):
    """A line of the log of a call: its index, the seconds since 1970, a level, a text."""

    execution_id: UUID
    index: int
    time: float
    level: LogLevel
    message: str


class StatRecord(NamedTuple):
    """The number of calls that began in a step of time, ended with a status, and took as long as a bucket says."""

    time: datetime
    status: str
    bucket: int
    calls: int


_COLUMNS = columns(ExecutionRecord)


async def keep_functions(connection: Connection, functions: Iterable[tuple[UUID, UUID]]) -> None:
    """Keep functions, given by app and id, from deletion until the transaction ends: before what belongs to them."""
    app_ids, function_ids = zip(*functions, strict=True)
    await connection.execute(
        """
        select from pilotis.functions
        where (app_id, function_id) in (select * from unnest($1::uuid[], $2::uuid[]))
        order by app_id, function_id for key share
        """,
        app_ids,
        function_ids,
    )


async def insert(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert records, in the order of the columns with the log last; skips deleted functions."""
    await connection.executemany(
        f"""
        insert into pilotis.function_executions ({_COLUMNS}, logs)
        select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
            $23, $24
        where exists (select from pilotis.functions where app_id = $1 and function_id = $2 for key share)
        on conflict do nothing
        """,
        rows,
    )


async def count(connection: Connection, rows: Sequence[tuple[UUID, UUID, datetime, str, int, int]]) -> None:
    """Add to the statistics; each row is app, function, minute, status, bucket and number of calls."""
    await connection.execute(
        """
        insert into pilotis.function_stats as s (app_id, function_id, minute, status, bucket, calls)
        select c.* from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::smallint[], $6::bigint[])
            as c (app_id, function_id, minute, status, bucket, calls)
        join pilotis.functions f using (app_id, function_id)
        order by 1, 2, 3, 4, 5
        on conflict (app_id, function_id, minute, status, bucket) do update set calls = s.calls + excluded.calls
        """,
        *([row[at] for row in rows] for at in range(6)),
    )


async def page(
    database: Database,
    app_id: UUID,
    function_id: UUID,
    status: str | None,
    version: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    offset: int,
) -> tuple[list[ExecutionRecord], int]:
    """Return a page of a function's executions, newest first, and their number, counted up to `MAX_COUNTED`."""
    asked = Filters({"app_id": app_id, "function_id": function_id}).equal("status", status).equal("version", version)
    asked.between("started_at", "execution_id", since, until)
    return await fetch_page(
        database,
        app_id,
        f"select {_COLUMNS} from pilotis.function_executions where {asked.text}",
        tuple(asked.arguments),
        order_by="execution_id desc",
        limit=limit,
        offset=offset,
        max_total=MAX_COUNTED,
        record=ExecutionRecord,
    )


async def of_request(connection: TenantDatabase, app_id: UUID, request_id: str, limit: int) -> list[RequestedCall]:
    """Return the calls that a request has led to, oldest first."""
    rows = await connection.fetch(
        """
        select e.execution_id, e.function_id, f.name, e.trigger, e.status, e.error_code, e.workflow_execution_id,
            e.started_at, e.duration
        from pilotis.function_executions e join pilotis.functions f using (app_id, function_id)
        where e.app_id = $1 and e.request_id = $2 order by e.execution_id limit $3
        """,
        app_id,
        request_id,
        limit,
    )
    return [RequestedCall(**row) for row in rows]


async def read(
    connection: TenantDatabase, app_id: UUID, function_id: UUID, execution_id: UUID
) -> LoggedExecution | None:
    """Return the record of a call with its log."""
    row = await connection.fetchrow(
        f"""
        select {_COLUMNS}, logs::text from pilotis.function_executions
        where app_id = $1 and function_id = $2 and execution_id = $3
        """,
        app_id,
        function_id,
        execution_id,
    )
    return LoggedExecution(**row) if row else None


async def now(connection: TenantDatabase) -> datetime:
    """Return the database's time."""
    moment: datetime = await connection.fetchval("select clock_timestamp()")
    return moment


async def ids_since(
    connection: TenantDatabase, app_id: UUID, function_id: UUID, since: datetime
) -> dict[UUID, datetime]:
    """Return the executions that have ended since a time, and when."""
    rows = await connection.fetch(
        """
        select execution_id, finished_at from pilotis.function_executions
        where app_id = $1 and function_id = $2 and finished_at >= $3
        """,
        app_id,
        function_id,
        since,
    )
    return {row[0]: row[1] for row in rows}


async def number_since(connection: TenantDatabase, app_id: UUID, function_id: UUID, since: datetime, limit: int) -> int:
    """Return how many executions have ended since a time, at most `limit`."""
    number: int = await connection.fetchval(
        """
        select count(*) from (
            select from pilotis.function_executions
            where app_id = $1 and function_id = $2 and finished_at >= $3 limit $4
        ) e
        """,
        app_id,
        function_id,
        since,
        limit,
    )
    return number


async def since(
    connection: TenantDatabase,
    app_id: UUID,
    function_id: UUID,
    moment: datetime,
    without: Sequence[UUID],
    limit: int,
) -> list[LoggedExecution]:
    """Return executions that have ended since a moment with their logs, oldest first, without some of them."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS}, logs::text from pilotis.function_executions
        where app_id = $1 and function_id = $2 and finished_at >= $3 and execution_id <> all($4)
        order by finished_at, execution_id limit $5
        """,
        app_id,
        function_id,
        moment,
        without,
        limit,
    )
    return [LoggedExecution(**row) for row in rows]


async def lines(
    connection: TenantDatabase,
    app_id: UUID,
    function_id: UUID,
    *,
    level: str | None,
    search: str,
    execution_id: UUID | None,
    since: datetime | None,
    until: datetime | None,
    after: tuple[UUID, int] | None,
    limit: int,
) -> list[LineRecord]:
    """Return log lines, newest first."""
    rows = await connection.fetch(
        """
        select e.execution_id, l.index - 1 as index, (l.line ->> 0)::float8 as time, l.line ->> 1 as level,
            l.line ->> 2 as message
        from pilotis.function_executions e, jsonb_array_elements(e.logs) with ordinality as l (line, index)
        where e.app_id = $1 and e.function_id = $2 and ($3::text is null or l.line ->> 1 = $3)
            and ($4 = '' or position(lower($4) in lower(l.line ->> 2)) > 0)
            and ($5::uuid is null or e.execution_id = $5) and ($6::timestamptz is null or e.finished_at >= $6)
            and ($7::timestamptz is null or e.started_at < $7)
            and ($8::uuid is null or (e.execution_id, l.index - 1) < ($8, $9::bigint))
        order by e.execution_id desc, l.index desc limit $10
        """,
        app_id,
        function_id,
        level,
        search,
        execution_id,
        since,
        until,
        after[0] if after else None,
        after[1] if after else None,
        limit,
    )
    return [LineRecord(*row) for row in rows]


async def stats(
    connection: TenantDatabase, app_id: UUID, function_id: UUID, since: datetime, until: datetime, step: int
) -> list[StatRecord]:
    """Return the number of calls by step, status and bucket."""
    rows = await connection.fetch(
        """
        select date_bin(make_interval(secs => $5), minute, $3) as time, status, bucket, sum(calls)::bigint as calls
        from pilotis.function_stats
        where app_id = $1 and function_id = $2 and minute >= $3 and minute < $4
        group by 1, 2, 3 order by 1
        """,
        app_id,
        function_id,
        since,
        until,
        float(step),
    )
    return [StatRecord(*row) for row in rows]


BY_DAY = """
    select date_trunc('day', minute, 'UTC') as day, sum(calls)::bigint as total,
        coalesce(sum(calls) filter (where status <> 'success'), 0)::bigint as failed
    from pilotis.function_stats
    where app_id = $1 and minute >= date_trunc('day', now(), 'UTC') - make_interval(days => $2 - 1)
    group by 1
"""
"""The calls of all functions of an app, for `pilotis.db.daily`."""


async def delete_old(connection: Connection, days: int, batch_size: int) -> int:
    """Delete records that are older than `days`, or than their app's own limit, and return how many."""
    deleted = await connection.execute(
        """
        delete from pilotis.function_executions where (app_id, function_id, execution_id) in (
            select e.app_id, e.function_id, e.execution_id
            from (
                select app_id, least($1, (limits ->> 'function_record_days')::integer) as days from pilotis.apps
            ) a
            cross join lateral (
                select app_id, function_id, execution_id from pilotis.function_executions
                where app_id = a.app_id and finished_at < now() - make_interval(days => a.days) limit $2
            ) e
            limit $2
        )
        """,
        days,
        batch_size,
    )
    return int(deleted.split()[1])


async def delete_old_stats(connection: Connection, days: int) -> None:
    """Delete statistics that are older than so many days."""
    await connection.execute(
        "delete from pilotis.function_stats where minute < now() - make_interval(days => $1)", days
    )

"""SQL statements that read executions and their steps, and delete old ones."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.filters import Filters
from pilotis.db.paging import MAX_COUNTED, fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND
from pilotis.workflows.types import ExecutionStatus, RequestedExecution, StepStatus

_COLUMNS = """
    x.app_id, x.execution_id, x.workflow_id, x.version, x.status, x.trigger::text as trigger, x.input::text as input,
    x.output::text as output, x.error::text as error, x.attempt, x.failed_steps, x.completed_steps, x.seq,
    x.cancel_requested, x.deadline_at, x.created_at, x.started_at, x.finished_at, x.request_id
"""


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An execution. `trigger`, `input`, `output` and `error` are JSON texts; `seq` is the number of its last event.

    `has_workflow` is false if its workflow is deleted.
    """

    app_id: UUID
    execution_id: UUID
    workflow_id: UUID
    version: int
    status: ExecutionStatus
    trigger: str
    input: str
    output: str | None
    error: str | None
    attempt: int
    failed_steps: int
    completed_steps: int
    seq: int
    cancel_requested: bool
    deadline_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    request_id: str | None
    has_workflow: bool = True


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a step. `input`, `output` and `error` are JSON texts, `queue_ms` and `duration` milliseconds."""

    step_id: str
    attempt: int
    try_: int
    parent_id: str | None
    status: StepStatus
    input: str | None
    output: str | None
    error: str | None
    function_version: int | None
    function_execution_id: UUID | None
    queue_ms: float | None
    duration: float | None
    retry_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


async def read(
    connection: TenantDatabase | Connection, app_id: UUID, workflow_id: UUID, execution_id: UUID
) -> ExecutionRecord | None:
    """Return an execution."""
    row = await connection.fetchrow(
        f"""
        select {_COLUMNS}, exists (
            select from pilotis.workflows w where w.app_id = $1 and w.workflow_id = $2 and w.deleted_at is null
        ) as has_workflow
        from pilotis.workflow_executions x
        where x.app_id = $1 and x.workflow_id = $2 and x.execution_id = $3
        """,
        app_id,
        workflow_id,
        execution_id,
    )
    return ExecutionRecord(**row) if row else None


async def page(
    database: Database,
    app_id: UUID,
    workflow_id: UUID,
    filters: tuple[str | None, str | None, datetime | None, datetime | None],
    limit: int,
    offset: int,
) -> tuple[list[ExecutionRecord], int]:
    """Return a page of a workflow's executions, newest first, and their number, counted up to `MAX_COUNTED`.

    `filters` are the status, the type of the trigger, and the times between which they were created.
    """
    status, trigger_type, since, until = filters
    asked = Filters({"x.app_id": app_id, "x.workflow_id": workflow_id})
    asked.equal("x.status", status).equal("x.trigger_type", trigger_type)
    asked.between("x.created_at", "x.execution_id", since, until)
    return await fetch_page(
        database,
        app_id,
        f"select {_COLUMNS} from pilotis.workflow_executions x where {asked.text}",
        tuple(asked.arguments),
        order_by="execution_id desc",
        limit=limit,
        offset=offset,
        max_total=MAX_COUNTED,
        record=ExecutionRecord,
    )


async def steps_of(connection: TenantDatabase | Connection, app_id: UUID, execution_id: UUID) -> list[StepRecord]:
    """Return every try of an execution's steps, in the order in which they began."""
    rows = await connection.fetch(
        """
        select step_id, attempt, try as try_, parent_id, status, input::text as input, output::text as output,
            error::text as error, function_version, function_execution_id, queue_ms, duration, retry_at, started_at,
            finished_at
        from pilotis.workflow_steps where app_id = $1 and execution_id = $2
        order by started_at, attempt, try, step_id
        """,
        app_id,
        execution_id,
    )
    return [StepRecord(**row) for row in rows]


async def state_of(connection: TenantDatabase, app_id: UUID, execution_id: UUID, step_id: str) -> str | None:
    """Return the saved conversation of an agent step as JSON text."""
    state: str | None = await connection.fetchval(
        """
        select state::text from pilotis.workflow_steps
        where app_id = $1 and execution_id = $2 and step_id = $3 and state is not null
        order by attempt desc, try desc limit 1
        """,
        app_id,
        execution_id,
        step_id,
    )
    return state


async def of_request(connection: TenantDatabase, app_id: UUID, request_id: str, limit: int) -> list[RequestedExecution]:
    """Return the executions that a request has led to, oldest first."""
    rows = await connection.fetch(
        """
        select x.execution_id, x.workflow_id, w.name, x.trigger_type, x.status, x.error ->> 'code' as error_code,
            x.created_at, x.started_at, x.finished_at
        from pilotis.workflow_executions x join pilotis.workflows w using (app_id, workflow_id)
        where x.app_id = $1 and x.request_id = $2 and w.deleted_at is null order by x.execution_id limit $3
        """,
        app_id,
        request_id,
        limit,
    )
    return [RequestedExecution(**row) for row in rows]


async def count_pending(database: Database) -> int:
    """Return how many executions are pending in the whole database."""
    number: int = await database.fetchval(
        "select count(*) from pilotis.workflow_executions where status = 'pending'", tenant=BACKGROUND
    )
    return number


async def unfinished(database: Database, app_id: UUID) -> int:
    """Return how many executions of an app have not ended."""
    number: int = await database.fetchval(
        "select count(*) from pilotis.workflow_executions where app_id = $1 and status in ('pending', 'running')",
        app_id,
        tenant=app_id,
    )
    return number


async def open_of(connection: Connection, app_id: UUID, workflow_id: UUID) -> int:
    """Return how many executions of a workflow are pending or running."""
    number: int = await connection.fetchval(
        """
        select count(*) from pilotis.workflow_executions
        where app_id = $1 and workflow_id = $2 and status in ('pending', 'running')
        """,
        app_id,
        workflow_id,
    )
    return number


# The ids, in the order of time, are in the index.
BY_DAY = """
    select date_trunc('day', created_at, 'UTC') as day, count(*) as total,
        count(*) filter (where status in ('failed', 'timeout')) as failed
    from pilotis.workflow_executions
    where app_id = $1 and execution_id >= $3
        and created_at >= date_trunc('day', now(), 'UTC') - make_interval(days => $2 - 1)
    group by 1
"""
"""The executions of an app by the day of their creation, for `pilotis.db.daily`."""


async def delete_old(connection: Connection, days: int, kept: int, batch: int) -> int:
    """Delete at most `batch` ended executions that are too old, or exceed the number `kept` for each workflow."""
    status = await connection.execute(
        """
        delete from pilotis.workflow_executions where (app_id, execution_id) in (
            select app_id, execution_id from pilotis.workflow_executions
            where finished_at < now() - make_interval(days => $1) limit $3
        ) or (app_id, execution_id) in (
            select x.app_id, x.execution_id from pilotis.workflows w
            cross join lateral (
                select app_id, execution_id, finished_at from pilotis.workflow_executions e
                where e.app_id = w.app_id and e.workflow_id = w.workflow_id
                order by execution_id desc offset $2 limit $3
            ) x
            where x.finished_at is not null limit $3
        )
        """,
        days,
        kept,
        batch,
    )
    return int(status.split()[1])


async def delete_old_events(
    connection: Connection, hours: int, batch: int, since: datetime | None
) -> tuple[datetime | None, bool]:
    """Delete the events of at most `batch` executions that ended so many hours ago, but not before `since`.

    Return up to when ended executions have no events any more, and whether there are later ones.
    """
    row = await connection.fetchrow(
        """
        with ended as materialized (
            select app_id, execution_id, finished_at from pilotis.workflow_executions
            where finished_at < now() - make_interval(hours => $1) and ($3::timestamptz is null or finished_at >= $3)
            order by finished_at fetch first $2 rows with ties
        ), deleted as (
            delete from pilotis.workflow_events v using ended
            where v.app_id = ended.app_id and v.execution_id = ended.execution_id
        )
        select max(finished_at) as until, count(*) >= $2 and max(finished_at) is distinct from $3 as has_more from ended
        """,
        hours,
        batch,
        since,
    )
    assert row is not None
    until, has_more = row
    return until or since, has_more

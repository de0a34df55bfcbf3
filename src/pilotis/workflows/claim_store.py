"""SQL statements about which process runs an execution: claims and their end, places, and cancellation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs.kinds import Hold
from pilotis.jobs.sql import fair_claim

MAX_RECOVERIES = 5

_WAITING = "w.status = 'pending' and not w.is_gated"
PROBE = f"select min(run_at) from pilotis.workflow_executions w where {_WAITING}"
OWNED = "select execution_id, fence from pilotis.workflow_executions where owner = $1 and status = 'running'"
_CLAIM = fair_claim(
    table="pilotis.workflow_executions",
    waiting=_WAITING,
    due="run_at",
    key="execution_id",
    changes="""
        , status = 'running', started_at = coalesce(x.started_at, clock_timestamp()),
        deadline_at = coalesce(x.deadline_at, clock_timestamp() + make_interval(secs => x.timeout_seconds))
    """,
    returning="""
        x.app_id, x.execution_id, x.workflow_id, x.version, x.owner, x.fence, x.trigger::text as trigger,
        x.trigger_type, x.input::text as input, x.depth, x.attempt, x.recoveries, x.seq, x.has_limit,
        x.cancel_requested, x.request_id, x.created_at, x.started_at, x.deadline_at, clock_timestamp() as now
    """,
)


class ClaimedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that this process, its `owner`, has claimed. `now` is the database's time of the claim.

    `trigger` and `input` are JSON texts.
    """

    app_id: UUID
    execution_id: UUID
    workflow_id: UUID
    version: int
    owner: UUID
    fence: int
    trigger: str
    trigger_type: str
    input: str
    depth: int
    attempt: int
    recoveries: int
    seq: int
    has_limit: bool
    cancel_requested: bool
    request_id: str | None
    created_at: datetime
    started_at: datetime
    deadline_at: datetime
    now: datetime

    @property
    def hold(self) -> Hold:
        """Return the id of the execution, and the fence of the claim."""
        return self.execution_id, self.fence


class CancelledExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that was asked to end; its status is `cancelled` if it has ended at once."""

    app_id: UUID
    execution_id: UUID
    workflow_id: UUID
    status: str
    attempt: int
    trigger_type: str
    depth: int
    request_id: str | None


async def claim(
    database: Database, node_id: UUID, free: int, full: Sequence[UUID], after: UUID, lease_seconds: float
) -> list[ClaimedExecution]:
    """Claim at most `free` due executions for a process, starting with the apps that follow `after`."""
    rows = await database.fetch(_CLAIM, node_id, free, list(full), after, lease_seconds, tenant=BACKGROUND)
    return [ClaimedExecution(**row) for row in rows]


async def give_up(
    database: Database, app_id: UUID, execution_id: UUID, owner: UUID, fence: int, *, counts: bool
) -> None:
    """Return an execution that this process failed to continue, for another attempt soon."""
    await database.execute(
        """
        update pilotis.workflow_executions set status = 'pending', owner = null, fence = fence + 1,
            run_at = clock_timestamp() + interval '1 second', recoveries = recoveries + $5::int
        where app_id = $1 and execution_id = $2 and owner = $3 and fence = $4 and status = 'running'
        """,
        app_id,
        execution_id,
        owner,
        fence,
        int(counts),
        tenant=BACKGROUND,
    )


async def release(connection: Connection, owner: UUID, *, lost: bool, keep: Sequence[Hold] = ()) -> None:
    """Return the executions that a process holds, except those in `keep`; they are due at once."""
    await connection.execute(
        """
        update pilotis.workflow_executions x set status = 'pending', owner = null, run_at = clock_timestamp(),
            fence = fence + $2::int, recoveries = recoveries + $2::int
        where owner = $1 and status = 'running' and not exists (
            select from unnest($3::uuid[], $4::bigint[]) as kept (execution_id, fence)
            where kept.execution_id = x.execution_id and kept.fence = x.fence)
        """,
        owner,
        int(lost),
        [execution_id for execution_id, _ in keep],
        [fence for _, fence in keep],
    )


async def admit(connection: Connection, app_id: UUID, workflow_id: UUID) -> int:
    """Let gated executions run, up to the workflow's concurrency limit, and return their number.

    The workflow's row is locked first, and counted in a second statement: one statement would count the rows as they
    were before it had the lock.
    """
    max_concurrency: int | None = await connection.fetchval(
        "select max_concurrency from pilotis.workflows where app_id = $1 and workflow_id = $2 for no key update",
        app_id,
        workflow_id,
    )
    if max_concurrency is None:
        return 0
    # Without a limit, such as for queued slots, one at a time.
    limit = max_concurrency or 1
    status = await connection.execute(
        """
        update pilotis.workflow_executions set is_gated = false, run_at = clock_timestamp()
        where (app_id, execution_id) in (
            select app_id, execution_id from pilotis.workflow_executions
            where app_id = $1 and workflow_id = $2 and status = 'pending' and is_gated
            order by execution_id
            limit greatest(0, $3 - (
                select count(*) from pilotis.workflow_executions
                where app_id = $1 and workflow_id = $2 and status in ('pending', 'running') and not is_gated
            ))
            for update
        )
        """,
        app_id,
        workflow_id,
        limit,
    )
    return int(status.split()[1])


async def gated_workflows(connection: Connection) -> list[tuple[UUID, UUID]]:
    """Return the workflows with gated executions, each with its app's id first.

    A process may have died before it let them run.
    """
    rows = await connection.fetch(
        """
        select distinct app_id, workflow_id from pilotis.workflow_executions where status = 'pending' and is_gated
        limit 1000
        """
    )
    return [(app_id, workflow_id) for app_id, workflow_id in rows]


_CANCEL = """
    with found as (
        select app_id, execution_id, status from pilotis.workflow_executions
        where app_id = $1 and {which} and status in ('pending', 'running') for update
    ),
    changed as (
        update pilotis.workflow_executions x set cancel_requested = true,
            status = case when x.status = 'pending' then 'cancelled' else x.status end,
            seq = case when x.status = 'pending' then x.seq + 1 else x.seq end,
            is_gated = x.is_gated and x.status <> 'pending',
            finished_at = case when x.status = 'pending' then clock_timestamp() end
        from found where x.app_id = found.app_id and x.execution_id = found.execution_id
        returning x.app_id, x.execution_id, x.workflow_id, x.seq, x.status, x.attempt,
            x.trigger_type, x.depth, x.request_id
    ),
    steps as (
        update pilotis.workflow_steps s set status = 'cancelled', finished_at = clock_timestamp() from changed c
        where c.status = 'cancelled' and s.app_id = c.app_id and s.execution_id = c.execution_id
            and s.status = 'running'
    ),
    events as (
        insert into pilotis.workflow_events (app_id, execution_id, workflow_id, seq, type, data)
        select app_id, execution_id, workflow_id, seq, 'execution.cancelled',
            json_build_object('status', 'cancelled', 'attempt', attempt, 'output', null, 'error', null)
        from changed where status = 'cancelled'
    )
    select app_id, execution_id, workflow_id, status, attempt, trigger_type, depth, request_id from changed
"""


async def cancel(connection: Connection, app_id: UUID, execution_id: UUID) -> CancelledExecution | None:
    """Ask an execution to end; a pending one ends at once. None if it has ended."""
    row = await connection.fetchrow(_CANCEL.format(which="execution_id = $2"), app_id, execution_id)
    return CancelledExecution(**row) if row else None


async def cancel_all(connection: Connection, app_id: UUID, workflow_id: UUID) -> list[CancelledExecution]:
    """Ask all executions of a workflow to end."""
    rows = await connection.fetch(_CANCEL.format(which="workflow_id = $2"), app_id, workflow_id)
    return [CancelledExecution(**row) for row in rows]


async def cancel_requests(database: Database, owner: UUID) -> list[UUID]:
    """Return the executions of a process to cancel: those that were asked to end, and those of deleted apps."""
    rows = await database.fetch(
        """
        select x.execution_id from pilotis.workflow_executions x join pilotis.apps a using (app_id)
        where x.owner = $1 and (x.cancel_requested or a.deleted_at is not null)
        """,
        owner,
        tenant=BACKGROUND,
    )
    return [execution_id for (execution_id,) in rows]

"""SQL statements that insert, claim and read executions, and write their checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.db.filters import Filters
from pilotis.db.paging import MAX_COUNTED, fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND
from pilotis.events.statements import emission
from pilotis.events.types import NewEvent, encoded
from pilotis.jobs.kinds import Hold
from pilotis.jobs.sql import fair_claim
from pilotis.kit import json
from pilotis.security.audit.service import ENTRY_COLUMNS, Entry, entries_insert

MAX_RECOVERIES = 5

_WAITING = "w.status = 'pending' and not w.is_gated"
PROBE = f"select min(run_at) from pilotis.workflow_executions w where {_WAITING}"
OWNED = "select execution_id, fence from pilotis.workflow_executions where owner = $1 and status = 'running'"
_READ = """
    x.app_id, x.execution_id, x.workflow_id, x.version, x.status, x.trigger::text as trigger, x.input::text as input,
    x.output::text as output, x.error::text as error, x.depth, x.attempt, x.failed_steps, x.completed_steps, x.run_at,
    x.owner, x.fence, x.recoveries, x.seq, x.has_limit, x.is_gated, x.cancel_requested, x.timeout_seconds,
    x.deadline_at, x.created_at, x.started_at, x.finished_at, x.trigger_type, x.request_id
"""
_CLAIM = fair_claim(
    table="pilotis.workflow_executions",
    waiting=_WAITING,
    due="run_at",
    key="execution_id",
    changes="""
        , status = 'running', started_at = coalesce(x.started_at, clock_timestamp()),
        deadline_at = coalesce(x.deadline_at, clock_timestamp() + make_interval(secs => x.timeout_seconds))
    """,
    returning=f"{_READ}, clock_timestamp() as now",
)

_STEP_FIELDS = {
    "step_id": "text",
    "attempt": "integer",
    "try": "integer",
    "parent_id": "text",
    "status": "text",
    "input": "json",
    "output": "json",
    "error": "json",
    "function_id": "uuid",
    "function_version": "integer",
    "function_execution_id": "uuid",
    "queue_ms": "double precision",
    "duration": "double precision",
    "retry_at": "timestamptz",
    "state": "json",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
}
_STEP_NAMES = ", ".join(_STEP_FIELDS)
_STEP_TYPES = ", ".join(f"{name} {type_}" for name, type_ in _STEP_FIELDS.items())
_STEP_READ = ", ".join(
    f"{name}::text" if type_ == "json" else name for name, type_ in _STEP_FIELDS.items() if name != "state"
)
_CHANGED = ", ".join(
    f"{name} = excluded.{name}"
    for name in _STEP_FIELDS
    if name not in {"step_id", "attempt", "try", "input", "state", "started_at"}
)
# A group's end does not move its start; a step that runs again after a crash starts again.
_CHANGED += ", started_at = case when excluded.status = 'running' then excluded.started_at else s.started_at end"
# An agent's conversation outlives a try that failed, but not the step.
_CHANGED += ", state = case when excluded.status <> 'completed' then coalesce(excluded.state, s.state) end"

# The columns of a checkpoint, each an array parameter from `$2` on; the steps and the events are JSON arrays.
_POINT_FIELDS = {
    "execution_id": "uuid",
    "owner": "uuid",
    "fence": "bigint",
    "completed_steps": "integer",
    "failed_steps": "integer",
    "steps": "text",
    "events": "text",
    "status": "text",
    "output": "text",
    "error": "text",
    "attempt": "integer",
    "run_at": "timestamptz",
    "cancels_steps": "boolean",
}
# As `events.subject` composes it.
_SUBJECT = "'workflows/' || held.workflow_id || '/executions/' || held.execution_id"
_EMITS = f"${len(_POINT_FIELDS) + 2}"
_PLACES = [f"${n}::{type_}" for n, type_ in enumerate(_POINT_FIELDS.values(), 2)]
_ONE = "select " + ", ".join(f"{place} as {name}" for place, name in zip(_PLACES, _POINT_FIELDS, strict=True))
# Rows that another statement has locked are left out, so that neither does one execution hold up others, nor do two
# statements wait for each other. Subqueries with a lock are run for each checkpoint, so the plan is always by key.
_MANY = f"""
    select p.* from unnest({", ".join(f"{place}[]" for place in _PLACES)}) p ({", ".join(_POINT_FIELDS)})
    cross join lateral (
        select from pilotis.workflow_executions x where x.app_id = $1 and x.execution_id = p.execution_id
        for no key update skip locked
    ) x
"""
# `case` keeps the planner to the key: the small indexes of running and of owned executions, which look cheaper, have an
# entry for each execution that ended since the last vacuum.
_CHECKPOINT = f"""
    with points as ({{points}}),
    held as (
        update pilotis.workflow_executions x set
            seq = x.seq + json_array_length(p.events::json), completed_steps = p.completed_steps,
            failed_steps = p.failed_steps,
            status = coalesce(p.status, x.status), output = coalesce(p.output::json, x.output),
            error = coalesce(p.error::json, x.error), attempt = coalesce(p.attempt, x.attempt),
            run_at = coalesce(least(p.run_at, x.deadline_at), x.run_at),
            owner = case when p.status is null then x.owner end,
            finished_at = case
                when p.status in ('completed', 'failed', 'cancelled', 'timeout') then clock_timestamp()
            end
        from points p
        where x.app_id = $1 and x.execution_id = p.execution_id
            and case when x.owner = p.owner and x.fence = p.fence then x.status = 'running' end
        returning x.execution_id, x.seq, x.workflow_id, x.cancel_requested, p.status as new_status, p.steps, p.events,
            p.cancels_steps
    ),
    steps as (
        insert into pilotis.workflow_steps as s (app_id, execution_id, {_STEP_NAMES})
        select $1, held.execution_id, {", ".join(f"r.{name}" for name in _STEP_FIELDS)}
        from held, json_to_recordset(held.steps::json) r ({_STEP_TYPES})
        on conflict (app_id, execution_id, step_id, attempt, try) do update set {_CHANGED}
    ),
    cancelled as (
        update pilotis.workflow_steps s set status = 'cancelled', finished_at = clock_timestamp() from held
        cross join lateral (
            select o.step_id, o.attempt, o.try from pilotis.workflow_steps o
            where o.app_id = $1 and o.execution_id = held.execution_id and o.status = 'running'
                and not exists (
                    select from json_to_recordset(held.steps::json) r (step_id text, attempt integer, try integer)
                    where r.step_id = o.step_id and r.attempt = o.attempt and r.try = o.try
                )
            offset 0
        ) o
        where held.new_status in ('failed', 'cancelled', 'timeout', 'pending') and held.cancels_steps
            and s.app_id = $1 and s.execution_id = held.execution_id
            and s.step_id = o.step_id and s.attempt = o.attempt and s.try = o.try
    ),
    events as (
        insert into pilotis.workflow_events (app_id, execution_id, workflow_id, seq, type, data)
        select $1, held.execution_id, held.workflow_id, held.seq - json_array_length(held.events::json) + e.place,
            e.event->>'type', e.event->'data'
        from held, json_array_elements(held.events::json) with ordinality e (event, place)
    ),
    emitted as (
        {emission("$1", _EMITS, f"join held on {_SUBJECT} = e.subject")} returning subject
    )
    select execution_id, seq, cancel_requested, clock_timestamp() as now,
        exists (select from emitted where subject = {_SUBJECT}) as has_emitted
    from held
"""
_CHECKPOINT_OF_ONE = _CHECKPOINT.format(points=_ONE)
_CHECKPOINT_OF_MANY = _CHECKPOINT.format(points=_MANY)


_NEW_FIELDS = {
    "execution_id": "uuid",
    "workflow_id": "uuid",
    "version": "integer",
    "trigger": "text",
    "trigger_type": "text",
    "input": "text",
    "depth": "smallint",
    "slot": "timestamptz",
    "has_limit": "boolean",
    "is_gated": "boolean",
    "timeout_seconds": "double precision",
}
# An entry of the audit log has a `request_id` of its own.
_NEW_COLUMNS = {**_NEW_FIELDS, "leading_request_id": "text", "event": "text", **ENTRY_COLUMNS}
_INSERT = f"""
    with new as materialized (
        select * from unnest({", ".join(f"${n}::{type_}[]" for n, type_ in enumerate(_NEW_COLUMNS.values(), 4))})
            with ordinality n ({", ".join(_NEW_COLUMNS)}, place)
    ),
    counted as materialized (
        select coalesce($3::integer, (
            select count(*) from (
                select from pilotis.workflow_executions where app_id = $1 and status = 'pending' limit $2
            ) waiting
        )) as number
    ),
    placed as (
        select n.*, counted.number + n.place - 1 as before from counted cross join new n
    ),
    made as (
        insert into pilotis.workflow_executions (app_id, {", ".join(_NEW_FIELDS)}, request_id, status)
        select $1, {", ".join(f"{name}::json" if name in {"trigger", "input"} else name for name in _NEW_FIELDS)},
            leading_request_id, 'pending'
        from placed where before < $2
        on conflict do nothing
        returning execution_id, workflow_id
    ),
    event as (
        insert into pilotis.workflow_events (app_id, execution_id, workflow_id, seq, type, data)
        select $1, execution_id, made.workflow_id, 1, 'execution.created', placed.event::json
        from made join placed using (execution_id)
    ),
    audited as (
        {
    entries_insert(
        "$1", ", ".join(ENTRY_COLUMNS), "from made join placed using (execution_id) where entry_id is not null"
    )
}
    )
    select placed.before, made.execution_id is not null as is_made
    from placed left join made using (execution_id) order by placed.place
"""


class Checkpoint(msgspec.Struct, kw_only=True):
    """The changes that one commit makes to an execution that this process holds.

    `status` is the new status, unless it continues to run: a final one, or `pending` until `run_at`. `cancel_steps`
    cancels the running steps.
    """

    steps: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    completed_steps: int = 0
    failed_steps: int = 0
    status: str | None = None
    output: Any = msgspec.UNSET
    error: Any = None
    attempt: int | None = None
    run_at: datetime | None = None
    cancel_steps: bool = False
    emits: list[NewEvent] = []


class HeldCheckpoint(NamedTuple):
    """A checkpoint of an execution under the lease of one claim."""

    execution_id: UUID
    owner: UUID
    fence: int
    point: Checkpoint
    steps: str
    events: str
    output: str | None

    @property
    def size(self) -> int:
        """The number of characters of its JSON texts."""
        return len(self.steps) + len(self.events) + len(self.output or "")

    def values(self) -> tuple[Any, ...]:
        """Return the values of `_POINT_FIELDS`."""
        point = self.point
        return (
            self.execution_id,
            self.owner,
            self.fence,
            point.completed_steps,
            point.failed_steps,
            self.steps,
            self.events,
            point.status,
            self.output,
            None if point.error is None else json.encode(point.error).decode(),
            point.attempt,
            point.run_at,
            point.cancel_steps,
        )


def held_checkpoint(execution_id: UUID, owner: UUID, fence: int, point: Checkpoint) -> HeldCheckpoint:
    """Return a checkpoint that is ready to be written."""
    output = None if point.output is msgspec.UNSET else json.encode(point.output).decode()
    steps, events = json.encode(point.steps).decode(), json.encode(point.events).decode()
    return HeldCheckpoint(execution_id, owner, fence, point, steps, events, output)


class Inserted(NamedTuple):
    """Whether an execution was inserted, and how many of the app were pending before."""

    is_made: bool
    pending: int


class NewRow(NamedTuple):
    """A new execution of an app: its columns, its first event, and an entry of the audit log."""

    values: tuple[Any, ...]
    event: dict[str, Any]
    audit: Entry | None = None

    def parameters(self) -> tuple[Any, ...]:
        """Return the values of `_NEW_COLUMNS`."""
        entry = (None,) * len(ENTRY_COLUMNS) if self.audit is None else self.audit.values()
        return (*self.values, json.encode(self.event).decode(), *entry)


async def insert(
    connection: Connection | TenantDatabase,
    app_id: UUID,
    new: Sequence[NewRow],
    max_pending: int,
    known: int | None = None,
) -> list[Inserted]:
    """Insert executions of an app, each unless too many are pending, or its schedule's slot has one already.

    `known` is the number of pending ones; without it they are counted, up to `max_pending`.
    """
    columns = zip(*(row.parameters() for row in new), strict=True)
    rows = await connection.fetch(_INSERT, app_id, max_pending, known, *columns)
    return [Inserted(row["is_made"], row["before"]) for row in rows]


async def insert_rejected(
    connection: Connection | TenantDatabase,
    values: dict[str, Any],
    events: list[dict[str, Any]],
    since: UUID,
    limit: int,
    emitted: NewEvent,
) -> bool:
    """Insert an execution that has failed, unless `limit` executions with the id `since` or a later one have.

    Return whether it was inserted.
    """
    places = ", ".join(
        f"${at}" + ("::text::json" if name in {"trigger", "input", "error"} else "")
        for at, name in enumerate(values, 6)
    )
    names = [*values, "seq", "started_at", "finished_at"]
    app, workflow = (f"${list(values).index(name) + 6}" for name in ("app_id", "workflow_id"))
    row = await connection.fetchrow(
        f"""
        with made as (
            insert into pilotis.workflow_executions ({", ".join(names)})
            select {places}, json_array_length($1::text::json), clock_timestamp(), clock_timestamp()
            where $3 > (
                select count(*) from (
                    select from pilotis.workflow_executions
                    where app_id = {app} and workflow_id = {workflow} and execution_id >= $2
                        and status = 'failed' and trigger_type = 'webhook' limit $3
                ) failed
            )
            returning app_id, execution_id, workflow_id
        ),
        events as (
            insert into pilotis.workflow_events (app_id, execution_id, workflow_id, seq, type, data)
            select app_id, execution_id, workflow_id, e.place, e.event->>'type', e.event->'data'
            from made, json_array_elements($1::text::json) with ordinality e (event, place)
        ),
        emitted as ({emission("$4", "$5", "cross join made")})
        select 1 from made
        """,
        json.encode(events).decode(),
        since,
        limit,
        values["app_id"],
        encoded(emitted),
        *values.values(),
    )
    return row is not None


async def insert_step(connection: Connection, app_id: UUID, execution_id: UUID, row: dict[str, Any]) -> None:
    """Insert a step that has ended before its execution began."""
    await connection.execute(
        f"""
        insert into pilotis.workflow_steps (app_id, execution_id, {_STEP_NAMES})
        select $1, $2, {", ".join(f"r.{name}" for name in _STEP_FIELDS)}
        from json_to_record($3::text::json) r ({_STEP_TYPES})
        """,
        app_id,
        execution_id,
        json.encode(row).decode(),
    )


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


async def claim(
    database: Database, node_id: UUID, free: int, full: Sequence[UUID], after: UUID, lease_seconds: float
) -> list[Record]:
    """Claim at most `free` due executions for a process, starting with the apps that follow `after`."""
    return await database.fetch(_CLAIM, node_id, free, list(full), after, lease_seconds, tenant=BACKGROUND)


async def steps_of(connection: TenantDatabase | Connection, app_id: UUID, execution_id: UUID) -> list[Record]:
    """Return every try of an execution's steps, in the order in which they began."""
    return await connection.fetch(
        f"""
        select {_STEP_READ}
        from pilotis.workflow_steps where app_id = $1 and execution_id = $2
        order by started_at, attempt, try, step_id
        """,
        app_id,
        execution_id,
    )


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


async def write(connection: TenantDatabase, app_id: UUID, points: Sequence[HeldCheckpoint]) -> dict[UUID, Record]:
    """Write checkpoints of an app's executions in one statement; return what was written by execution.

    An execution that this process no longer holds is missing; of several, also one whose row is locked.
    """
    is_one = len(points) == 1
    rows = await connection.fetch(
        _CHECKPOINT_OF_ONE if is_one else _CHECKPOINT_OF_MANY,
        app_id,
        *(points[0].values() if is_one else zip(*(point.values() for point in points), strict=True)),
        encoded(*(event for point in points for event in point.point.emits)),
    )
    return {row["execution_id"]: row for row in rows}


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
    row = await connection.fetchrow(
        "select max_concurrency from pilotis.workflows where app_id = $1 and workflow_id = $2 for no key update",
        app_id,
        workflow_id,
    )
    if row is None:
        return 0
    # Without a limit, such as for queued slots, one at a time.
    limit = row["max_concurrency"] or 1
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


async def gated_workflows(connection: Connection) -> list[Record]:
    """Return the workflows with gated executions; a process may have died before it let them run."""
    return await connection.fetch(
        """
        select distinct app_id, workflow_id from pilotis.workflow_executions where status = 'pending' and is_gated
        limit 1000
        """
    )


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
        returning x.app_id, x.execution_id, x.workflow_id, x.seq, x.status, x.attempt, x.has_limit,
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
    select * from changed
"""


async def cancel(connection: Connection, app_id: UUID, execution_id: UUID) -> Record | None:
    """Ask an execution to end; a pending one ends at once. None if it has ended."""
    return await connection.fetchrow(_CANCEL.format(which="execution_id = $2"), app_id, execution_id)


async def cancel_all(connection: Connection, app_id: UUID, workflow_id: UUID) -> list[Record]:
    """Ask all executions of a workflow to end."""
    return await connection.fetch(_CANCEL.format(which="workflow_id = $2"), app_id, workflow_id)


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
    return [row["execution_id"] for row in rows]


async def read(
    connection: TenantDatabase | Connection, app_id: UUID, workflow_id: UUID, execution_id: UUID
) -> Record | None:
    """Return an execution; `has_workflow` is false if its workflow is deleted."""
    return await connection.fetchrow(
        f"""
        select {_READ}, exists (
            select from pilotis.workflows w where w.app_id = $1 and w.workflow_id = $2 and w.deleted_at is null
        ) as has_workflow
        from pilotis.workflow_executions x
        where x.app_id = $1 and x.workflow_id = $2 and x.execution_id = $3
        """,
        app_id,
        workflow_id,
        execution_id,
    )


async def page(
    database: Database,
    app_id: UUID,
    workflow_id: UUID,
    filters: tuple[str | None, str | None, datetime | None, datetime | None],
    limit: int,
    offset: int,
) -> tuple[list[Record], int]:
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
        f"select {_READ} from pilotis.workflow_executions x where {asked.text}",
        tuple(asked.arguments),
        order_by="execution_id desc",
        limit=limit,
        offset=offset,
        max_total=MAX_COUNTED,
    )


async def of_request(connection: TenantDatabase, app_id: UUID, request_id: str, limit: int) -> list[Record]:
    """Return the executions that a request has led to, oldest first, with the names of their workflows."""
    return await connection.fetch(
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


async def copy_steps(connection: Connection, app_id: UUID, source: UUID, target: UUID) -> None:
    """Copy the completed and skipped steps of another execution to a new one."""
    await connection.execute(
        f"""
        insert into pilotis.workflow_steps (app_id, execution_id, {_STEP_NAMES})
        select distinct on (step_id) app_id, $3::uuid, step_id, 1, try, {", ".join(list(_STEP_FIELDS)[3:])}
        from pilotis.workflow_steps
        where app_id = $1 and execution_id = $2 and status in ('completed', 'skipped')
        order by step_id, attempt desc, try desc
        """,
        app_id,
        source,
        target,
    )


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
    return row["until"] or since, row["has_more"]

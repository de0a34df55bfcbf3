"""The SQL statement that writes checkpoints: what an execution has done, and what it does next, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from pilotis.db.pool import TenantDatabase
from pilotis.events.statements import emission
from pilotis.events.types import NewEvent, encoded
from pilotis.kit import json

# The values of a checkpoint: see `HeldCheckpoint.values`. `steps` and `events` are JSON arrays.
_ONE = """
    select $2::uuid as execution_id, $3::uuid as owner, $4::bigint as fence, $5::integer as completed_steps,
        $6::integer as failed_steps, $7::text as steps, $8::text as events, $9::text as status, $10::text as output,
        $11::text as error, $12::integer as attempt, $13::timestamptz as run_at, $14::boolean as cancels_steps
"""
# Rows that another statement has locked are left out, so that neither does one execution hold up others, nor do two
# statements wait for each other. Subqueries with a lock are run for each checkpoint, so the plan is always by key.
_MANY = """
    select p.* from unnest(
        $2::uuid[], $3::uuid[], $4::bigint[], $5::integer[], $6::integer[], $7::text[], $8::text[], $9::text[],
        $10::text[], $11::text[], $12::integer[], $13::timestamptz[], $14::boolean[]
    ) p (
        execution_id, owner, fence, completed_steps, failed_steps, steps, events, status,
        output, error, attempt, run_at, cancels_steps
    )
    cross join lateral (
        select from pilotis.workflow_executions x where x.app_id = $1 and x.execution_id = p.execution_id
        for no key update skip locked
    ) x
"""
# As `events.subject` composes it.
_SUBJECT = "'workflows/' || held.workflow_id || '/executions/' || held.execution_id"


def _checkpoint(points: str) -> str:
    # `case` keeps the planner to the key: the small indexes of running and of owned executions, which look cheaper,
    # have an entry for each execution that ended since the last vacuum. A group's end does not move its start; a step
    # that runs again after a crash starts again. An agent's conversation outlives a try that failed, but not the step.
    return f"""
    with points as ({points}),
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
        insert into pilotis.workflow_steps as s (
            app_id, execution_id, step_id, attempt, try, parent_id, status, input, output, error, function_id,
            function_version, function_execution_id, queue_ms, duration, retry_at, state, started_at, finished_at
        )
        select $1, held.execution_id, r.*
        from held, json_to_recordset(held.steps::json) r (
            step_id text, attempt integer, try integer, parent_id text, status text, input json, output json,
            error json, function_id uuid, function_version integer, function_execution_id uuid,
            queue_ms double precision, duration double precision, retry_at timestamptz, state json,
            started_at timestamptz, finished_at timestamptz
        )
        on conflict (app_id, execution_id, step_id, attempt, try) do update set
            parent_id = excluded.parent_id, status = excluded.status, output = excluded.output, error = excluded.error,
            function_id = excluded.function_id, function_version = excluded.function_version,
            function_execution_id = excluded.function_execution_id, queue_ms = excluded.queue_ms,
            duration = excluded.duration, retry_at = excluded.retry_at, finished_at = excluded.finished_at,
            started_at = case when excluded.status = 'running' then excluded.started_at else s.started_at end,
            state = case when excluded.status <> 'completed' then coalesce(excluded.state, s.state) end
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
        {emission("$1", "$15", f"join held on {_SUBJECT} = e.subject")} returning subject
    )
    select execution_id, seq, cancel_requested, clock_timestamp() as now,
        exists (select from emitted where subject = {_SUBJECT}) as has_emitted
    from held
    """


_CHECKPOINT_OF_ONE = _checkpoint(_ONE)
_CHECKPOINT_OF_MANY = _checkpoint(_MANY)


class StepRow(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"try_": "try"}):
    """One try of a step, as the statement reads it from JSON; times are in milliseconds."""

    step_id: str
    attempt: int
    try_: int
    parent_id: str | None
    status: str
    input: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    function_id: str | None = None
    function_version: int | None = None
    function_execution_id: UUID | None = None
    queue_ms: float | None = None
    duration: float | None = None
    retry_at: datetime | None = None
    state: Any = None
    started_at: datetime
    finished_at: datetime | None = None


class Checkpoint(msgspec.Struct, kw_only=True):
    """The changes that one commit makes to an execution that this process holds.

    `status` is the new status, unless it continues to run: a final one, or `pending` until `run_at`. `cancel_steps`
    cancels the running steps.
    """

    steps: list[StepRow] = []
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
        """Return the parameters of the statement from `$2` on."""
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


class Written(NamedTuple):
    """An execution after a checkpoint: the number of its last event, and the database's time.

    `has_emitted`: events of the app were stored with it.
    """

    execution_id: UUID
    seq: int
    cancel_requested: bool
    now: datetime
    has_emitted: bool


def held_checkpoint(execution_id: UUID, owner: UUID, fence: int, point: Checkpoint) -> HeldCheckpoint:
    """Return a checkpoint that is ready to be written."""
    output = None if point.output is msgspec.UNSET else json.encode(point.output).decode()
    steps, events = json.encode(point.steps).decode(), json.encode(point.events).decode()
    return HeldCheckpoint(execution_id, owner, fence, point, steps, events, output)


async def write(connection: TenantDatabase, app_id: UUID, points: Sequence[HeldCheckpoint]) -> dict[UUID, Written]:
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
    return {execution.execution_id: execution for execution in (Written(*row) for row in rows)}

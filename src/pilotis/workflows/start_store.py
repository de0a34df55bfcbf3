"""SQL statements that insert executions, with what they begin with: events, steps, and an entry of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase
from pilotis.events.statements import emission
from pilotis.events.types import NewEvent, encoded
from pilotis.kit import json
from pilotis.security.audit.service import ENTRY_COLUMNS, Entry, entries_insert
from pilotis.workflows.checkpoint_store import StepRow

_ENTRY = ", ".join(ENTRY_COLUMNS)
# After the 16 columns of an execution and its first event.
_ENTRY_PLACES = ", ".join(f"${n}::{type_}[]" for n, type_ in enumerate(ENTRY_COLUMNS.values(), 17))

# An entry of the audit log has a `request_id` of its own.
_INSERT = f"""
    with new as materialized (
        select * from unnest(
            $4::uuid[], $5::uuid[], $6::integer[], $7::text[], $8::text[], $9::text[], $10::smallint[],
            $11::timestamptz[], $12::boolean[], $13::boolean[], $14::double precision[], $15::text[], $16::text[],
            {_ENTRY_PLACES}
        ) with ordinality n (
            execution_id, workflow_id, version, trigger, trigger_type, input, depth,
            slot, has_limit, is_gated, timeout_seconds, leading_request_id, event,
            {_ENTRY}, place
        )
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
        insert into pilotis.workflow_executions (
            app_id, execution_id, workflow_id, version, trigger, trigger_type, input, depth,
            slot, has_limit, is_gated, timeout_seconds, request_id, status
        )
        select $1, execution_id, workflow_id, version, trigger::json, trigger_type, input::json, depth,
            slot, has_limit, is_gated, timeout_seconds, leading_request_id, 'pending'
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
        {entries_insert("$1", _ENTRY, "from made join placed using (execution_id) where entry_id is not null")}
    )
    select made.execution_id is not null as is_made, placed.before
    from placed left join made using (execution_id) order by placed.place
"""

_INSERT_REJECTED = f"""
    with made as (
        insert into pilotis.workflow_executions (
            app_id, execution_id, workflow_id, version, status, trigger, trigger_type, input,
            error, timeout_seconds, request_id, seq, started_at, finished_at
        )
        select $1, $2, $3, $4, 'failed', $5::text::json, 'webhook', $6::text::json,
            $7::text::json, $8, $9, json_array_length($10::text::json), clock_timestamp(), clock_timestamp()
        where $12 > (
            select count(*) from (
                select from pilotis.workflow_executions
                where app_id = $1 and workflow_id = $3 and execution_id >= $11
                    and status = 'failed' and trigger_type = 'webhook' limit $12
            ) failed
        )
        returning app_id, execution_id, workflow_id
    ),
    events as (
        insert into pilotis.workflow_events (app_id, execution_id, workflow_id, seq, type, data)
        select app_id, execution_id, workflow_id, e.place, e.event->>'type', e.event->'data'
        from made, json_array_elements($10::text::json) with ordinality e (event, place)
    ),
    emitted as ({emission("$1", "$13", "cross join made")})
    select true from made
"""


class Inserted(NamedTuple):
    """Whether an execution was inserted, and how many of the app were pending before."""

    is_made: bool
    pending: int


class NewRow(NamedTuple):
    """A new execution of an app, the data of its first event, and an entry of the audit log.

    `trigger` and `input` are JSON texts; `request_id` is the request that led to it.
    """

    execution_id: UUID
    workflow_id: UUID
    version: int
    trigger: str
    trigger_type: str
    input: str
    depth: int
    slot: datetime | None
    has_limit: bool
    is_gated: bool
    timeout_seconds: float
    request_id: str | None
    event: dict[str, Any]
    audit: Entry | None = None

    def parameters(self) -> tuple[Any, ...]:
        """Return the values of the columns of `new` in the insert."""
        *columns, event, audit = self
        entry = (None,) * len(ENTRY_COLUMNS) if audit is None else audit.values()
        return (*columns, json.encode(event).decode(), *entry)


class RejectedRow(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that has failed before it began, because its first function rejected the request."""

    app_id: UUID
    execution_id: UUID
    workflow_id: UUID
    version: int
    trigger: dict[str, Any]
    input: dict[str, Any]
    error: dict[str, Any]
    timeout_seconds: float
    request_id: str | None


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
    return [Inserted(*row) for row in rows]


async def insert_rejected(
    connection: Connection,
    rejected: RejectedRow,
    events: list[dict[str, Any]],
    since: UUID,
    limit: int,
    emitted: NewEvent,
) -> bool:
    """Insert a rejected execution, unless `limit` executions with the id `since` or a later one have been.

    Return whether it was inserted.
    """
    inserted = await connection.fetchval(
        _INSERT_REJECTED,
        rejected.app_id,
        rejected.execution_id,
        rejected.workflow_id,
        rejected.version,
        json.encode(rejected.trigger).decode(),
        json.encode(rejected.input).decode(),
        json.encode(rejected.error).decode(),
        rejected.timeout_seconds,
        rejected.request_id,
        json.encode(events).decode(),
        since,
        limit,
        encoded(emitted),
    )
    return inserted is True


async def insert_step(connection: Connection, app_id: UUID, execution_id: UUID, row: StepRow) -> None:
    """Insert a step that has ended before its execution began."""
    await connection.execute(
        """
        insert into pilotis.workflow_steps (
            app_id, execution_id, step_id, attempt, try, parent_id, status, input, output, error,
            function_id, function_version, function_execution_id, queue_ms, duration, started_at, finished_at
        )
        select $1, $2, r.*
        from json_to_record($3::text::json) r (
            step_id text, attempt integer, try integer, parent_id text, status text, input json, output json,
            error json, function_id uuid, function_version integer, function_execution_id uuid,
            queue_ms double precision, duration double precision, started_at timestamptz, finished_at timestamptz
        )
        """,
        app_id,
        execution_id,
        json.encode(row).decode(),
    )


async def copy_steps(connection: Connection, app_id: UUID, source: UUID, target: UUID) -> None:
    """Copy the completed and skipped steps of another execution to a new one."""
    await connection.execute(
        """
        insert into pilotis.workflow_steps (
            app_id, execution_id, step_id, attempt, try, parent_id, status, input, output, error, function_id,
            function_version, function_execution_id, queue_ms, duration, retry_at, state, started_at, finished_at
        )
        select distinct on (step_id)
            app_id, $3::uuid, step_id, 1, try, parent_id, status, input, output, error, function_id,
            function_version, function_execution_id, queue_ms, duration, retry_at, state, started_at, finished_at
        from pilotis.workflow_steps
        where app_id = $1 and execution_id = $2 and status in ('completed', 'skipped')
        order by step_id, attempt desc, try desc
        """,
        app_id,
        source,
        target,
    )

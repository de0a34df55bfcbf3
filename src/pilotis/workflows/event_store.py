"""SQL statements that read the events of executions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from pilotis.db.pool import TenantDatabase

SETTLED_SECONDS = 10
"""Ids are assigned before a commit: only events older than this cannot be followed by one with a smaller id."""


class EventRecord(NamedTuple):
    """An event of an execution; `data` is JSON text."""

    event_id: int
    execution_id: UUID
    workflow_id: UUID
    seq: int
    type: str
    data: str
    created_at: datetime


_COLUMNS = "event_id, execution_id, workflow_id, seq, type, data::text as data, created_at"
_OLD = f"created_at < clock_timestamp() - interval '{SETTLED_SECONDS} seconds'"


async def continues(connection: TenantDatabase, app_id: UUID, execution_id: UUID, after: int) -> bool:
    """Return whether all events after a number still exist."""
    return bool(
        await connection.fetchval(
            """
            select x.seq >= $3::int8 and (x.seq = $3::int8 or exists (
                select from pilotis.workflow_events e
                where e.app_id = $1 and e.execution_id = $2 and e.seq = least($3::int8, x.seq) + 1
            )) from pilotis.workflow_executions x where x.app_id = $1 and x.execution_id = $2
            """,
            app_id,
            execution_id,
            after,
        )
    )


async def after(
    connection: TenantDatabase, app_id: UUID, execution_id: UUID, seq: int, limit: int
) -> list[EventRecord]:
    """Return the events of an execution after a number, in order."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS} from pilotis.workflow_events
        where app_id = $1 and execution_id = $2 and seq > $3::int8 order by seq limit $4
        """,
        app_id,
        execution_id,
        seq,
        limit,
    )
    return [EventRecord(*row) for row in rows]


async def of_agents(connection: TenantDatabase, app_id: UUID, execution_id: UUID) -> list[EventRecord]:
    """Return the events of agents in an execution, and those of their starts, in order; at most 10,000."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS} from pilotis.workflow_events
        where app_id = $1 and execution_id = $2 and (
            type like 'agent.%' or (type = 'step.started' and data->'step'->>'step_type' = 'agent')
        )
        order by seq limit 10000
        """,
        app_id,
        execution_id,
    )
    return [EventRecord(*row) for row in rows]


async def of_workflow(
    connection: TenantDatabase, app_id: UUID, workflow_id: UUID, floor: int, seen: Sequence[int], limit: int
) -> list[EventRecord]:
    """Return the events of a workflow above an id that were not seen, without the details of steps."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS} from pilotis.workflow_events
        where app_id = $1 and workflow_id = $2 and event_id > $3 and event_id <> all($4::bigint[])
            and type <> 'step.log' and type not like 'agent.%'
        order by event_id limit $5
        """,
        app_id,
        workflow_id,
        floor,
        list(seen),
        limit,
    )
    return [EventRecord(*row) for row in rows]


async def now(connection: TenantDatabase, app_id: UUID, workflow_id: UUID) -> tuple[int, int, list[int]]:
    """Return the id up to which no more events can appear, the newest id, and the ids between."""
    row = await connection.fetchrow(
        f"""
        select coalesce(max(event_id) filter (where {_OLD}), 0) as floor, coalesce(max(event_id), 0) as newest,
            coalesce(array_agg(event_id) filter (where not ({_OLD})), '{{}}') as known
        from (
            select event_id, created_at from pilotis.workflow_events
            where app_id = $1 and workflow_id = $2 order by event_id desc limit 2000
        ) newest
        """,
        app_id,
        workflow_id,
    )
    assert row is not None
    floor, newest, known = row
    return floor, newest, known


async def floor_of(connection: TenantDatabase, app_id: UUID, workflow_id: UUID, event_id: int) -> int | None:
    """Return the id after which a client that has seen an event continues; None if the event no longer exists."""
    if event_id == 0:
        return 0
    floor: int | None = await connection.fetchval(
        f"""
        select coalesce((
            select max(o.event_id) from pilotis.workflow_events o
            where o.app_id = $1 and o.workflow_id = $2 and o.event_id < $3
                and o.created_at < e.created_at - interval '{SETTLED_SECONDS} seconds'
        ), 0)
        from pilotis.workflow_events e where e.app_id = $1 and e.workflow_id = $2 and e.event_id = $3
        """,
        app_id,
        workflow_id,
        event_id,
    )
    return floor


async def settled(connection: TenantDatabase, app_id: UUID, workflow_id: UUID, floor: int) -> int:
    """Return the id up to which no more events can appear, at least `floor`."""
    found: int = await connection.fetchval(
        f"""
        select coalesce(max(event_id), $3) from pilotis.workflow_events
        where app_id = $1 and workflow_id = $2 and event_id > $3 and {_OLD}
        """,
        app_id,
        workflow_id,
        floor,
    )
    return found

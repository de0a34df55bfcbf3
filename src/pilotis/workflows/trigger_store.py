"""SQL statements for trigger URLs, deliveries, and requests that functions read later."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import UNAUTHENTICATED
from pilotis.workflows.types import ExecutionStatus, TriggerMethod

LEASE_SECONDS = 35.0
KEPT_HOURS = 72
_CALLED_SECONDS = 10


class ActiveTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger that starts executions, with its workflow's definition; `dedupe` and `definition` are JSON texts."""

    app_id: UUID
    workflow_id: UUID
    methods: list[str]
    dedupe: str | None
    version: int
    definition: str


class TriggerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger: its encrypted token, and its settings; the token before is valid until `previous_until`."""

    token: bytes
    token_hash: bytes
    previous_until: datetime | None
    is_active: bool
    methods: list[TriggerMethod]
    dedupe: str | None
    created_at: datetime
    last_called_at: datetime | None


class DeliveryRecord(NamedTuple):
    """A delivery, with the status of its execution; that is null once the execution is deleted."""

    execution_id: UUID
    is_accepted: bool
    status: ExecutionStatus | None


async def by_token(database: Database, token_hash: bytes) -> ActiveTrigger | None:
    """Return the active trigger of a token; None for a deleted or inactive one."""
    row = await database.fetchrow(
        """
        select t.app_id, t.workflow_id, t.methods, t.dedupe::text as dedupe, w.version, v.definition::text as definition
        from pilotis.workflow_triggers t
        join pilotis.workflows w on w.app_id = t.app_id and w.workflow_id = t.workflow_id
        join pilotis.workflow_versions v
            on v.app_id = w.app_id and v.workflow_id = w.workflow_id and v.version = w.version
        where (t.token_hash = $1 or (t.previous_hash = $1 and t.previous_until > now()))
            and t.is_active and w.is_active and w.deleted_at is null
        """,
        token_hash,
        tenant=UNAUTHENTICATED,
    )
    return ActiveTrigger(**row) if row else None


async def read(connection: Connection | TenantDatabase, app_id: UUID, workflow_id: UUID) -> TriggerRecord | None:
    """Return the trigger of a workflow."""
    row = await connection.fetchrow(
        """
        select token, token_hash, previous_until, is_active, methods, dedupe::text as dedupe, created_at,
            last_called_at
        from pilotis.workflow_triggers where app_id = $1 and workflow_id = $2
        """,
        app_id,
        workflow_id,
    )
    return TriggerRecord(**row) if row else None


async def insert(connection: Connection, app_id: UUID, workflow_id: UUID, values: dict[str, Any]) -> bool:
    """Insert a workflow's trigger; return False if it has one."""
    status = await connection.execute(
        f"""
        insert into pilotis.workflow_triggers (app_id, workflow_id, {", ".join(values)})
        values ($1, $2, {_places(values, 3)}) on conflict do nothing
        """,
        app_id,
        workflow_id,
        *values.values(),
    )
    return status != "INSERT 0 0"


async def update(connection: Connection, app_id: UUID, workflow_id: UUID, values: dict[str, Any]) -> bool:
    """Change a workflow's trigger; return False if it has none."""
    sets = ", ".join(f"{name} = {place}" for name, place in zip(values, _places(values, 3).split(", "), strict=True))
    status = await connection.execute(
        f"update pilotis.workflow_triggers set {sets} where app_id = $1 and workflow_id = $2",
        app_id,
        workflow_id,
        *values.values(),
    )
    return status != "UPDATE 0"


async def rotate(
    connection: Connection, app_id: UUID, workflow_id: UUID, token_hash: bytes, token: bytes, seconds: int
) -> bool:
    """Give a workflow's trigger a new token; the one before works for so many seconds. False if it has none."""
    status = await connection.execute(
        """
        update pilotis.workflow_triggers set
            previous_hash = case when $5 > 0 then token_hash end,
            previous_until = case when $5 > 0 then now() + make_interval(secs => $5) end,
            token_hash = $3, token = $4
        where app_id = $1 and workflow_id = $2
        """,
        app_id,
        workflow_id,
        token_hash,
        token,
        seconds,
    )
    return status != "UPDATE 0"


async def delete(connection: Connection, app_id: UUID, workflow_id: UUID) -> bool:
    """Delete a workflow's trigger and what it knows of deliveries; return whether there was one."""
    await connection.execute(
        "delete from pilotis.workflow_deliveries where app_id = $1 and workflow_id = $2", app_id, workflow_id
    )
    status = await connection.execute(
        "delete from pilotis.workflow_triggers where app_id = $1 and workflow_id = $2", app_id, workflow_id
    )
    return status != "DELETE 0"


async def called(connection: Connection, app_id: UUID, workflow_id: UUID) -> None:
    """Note that a trigger was called; at most every few seconds, so that calls at once do not wait for each other."""
    await connection.execute(
        """
        update pilotis.workflow_triggers set last_called_at = now() where (app_id, workflow_id) in (
            select app_id, workflow_id from pilotis.workflow_triggers
            where app_id = $1 and workflow_id = $2
                and (last_called_at is null or last_called_at < now() - make_interval(secs => $3))
            for update skip locked
        )
        """,
        app_id,
        workflow_id,
        float(_CALLED_SECONDS),
    )


async def reserve(
    connection: Connection | TenantDatabase, app_id: UUID, workflow_id: UUID, delivery: bytes, execution_id: UUID
) -> bool:
    """Reserve a delivery for an execution; return False if it was accepted, or another request holds it."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.workflow_deliveries as d (app_id, workflow_id, delivery_hash, execution_id, lease_until)
        values ($1, $2, $3, $4, now() + make_interval(secs => $5))
        on conflict (app_id, workflow_id, delivery_hash) do update set
            execution_id = $4, lease_until = excluded.lease_until, created_at = now(), is_accepted = false
        where (not d.is_accepted and d.lease_until < now())
            or d.created_at < now() - interval '{KEPT_HOURS} hours'
        returning 1
        """,
        app_id,
        workflow_id,
        delivery,
        execution_id,
        LEASE_SECONDS,
    )
    return row is not None


async def delivery(
    connection: Connection | TenantDatabase, app_id: UUID, workflow_id: UUID, delivery_hash: bytes
) -> DeliveryRecord | None:
    """Return a delivery."""
    row = await connection.fetchrow(
        """
        select d.execution_id, d.is_accepted, x.status from pilotis.workflow_deliveries d
        left join pilotis.workflow_executions x on x.app_id = d.app_id and x.execution_id = d.execution_id
        where d.app_id = $1 and d.workflow_id = $2 and d.delivery_hash = $3
        """,
        app_id,
        workflow_id,
        delivery_hash,
    )
    return DeliveryRecord(*row) if row else None


async def accept(
    connection: Connection, app_id: UUID, workflow_id: UUID, delivery_hash: bytes, execution_id: UUID
) -> bool:
    """Accept a delivery that is reserved for an execution; return False if the reservation was lost."""
    status = await connection.execute(
        """
        update pilotis.workflow_deliveries set is_accepted = true, created_at = now()
        where app_id = $1 and workflow_id = $2 and delivery_hash = $3 and execution_id = $4
        """,
        app_id,
        workflow_id,
        delivery_hash,
        execution_id,
    )
    return status != "UPDATE 0"


async def free(
    connection: TenantDatabase, app_id: UUID, workflow_id: UUID, delivery_hash: bytes, execution_id: UUID
) -> None:
    """Delete a reservation, so that the same delivery may be tried again."""
    await connection.execute(
        """
        delete from pilotis.workflow_deliveries
        where app_id = $1 and workflow_id = $2 and delivery_hash = $3 and execution_id = $4 and not is_accepted
        """,
        app_id,
        workflow_id,
        delivery_hash,
        execution_id,
    )


async def insert_request(connection: Connection, app_id: UUID, execution_id: UUID, request: bytes) -> None:
    """Insert the encrypted request of an execution."""
    await connection.execute(
        "insert into pilotis.workflow_requests (app_id, execution_id, request) values ($1, $2, $3)",
        app_id,
        execution_id,
        request,
    )


async def request(connection: TenantDatabase, app_id: UUID, execution_id: UUID) -> bytes | None:
    """Return the encrypted request of an execution."""
    found: bytes | None = await connection.fetchval(
        "select request from pilotis.workflow_requests where app_id = $1 and execution_id = $2", app_id, execution_id
    )
    return found


async def delete_old(connection: Connection, batch: int) -> int:
    """Delete at most `batch` deliveries that are too old, and as many requests of executions that have ended."""
    deliveries = await connection.execute(
        f"""
        delete from pilotis.workflow_deliveries where (app_id, workflow_id, delivery_hash) in (
            select app_id, workflow_id, delivery_hash from pilotis.workflow_deliveries
            where created_at < now() - interval '{KEPT_HOURS} hours' limit $1
        )
        """,
        batch,
    )
    requests = await connection.execute(
        """
        delete from pilotis.workflow_requests where (app_id, execution_id) in (
            select r.app_id, r.execution_id from pilotis.workflow_requests r
            join pilotis.workflow_executions x on x.app_id = r.app_id and x.execution_id = r.execution_id
            where x.finished_at is not null limit $1
        )
        """,
        batch,
    )
    return int(deliveries.split()[1]) + int(requests.split()[1])


def _places(values: dict[str, Any], first: int) -> str:
    return ", ".join(f"${at}" + ("::text::json" if name == "dedupe" else "") for at, name in enumerate(values, first))

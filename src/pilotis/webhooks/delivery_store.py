"""SQL statements for deliveries: inserted by the fan-out, read and ended by the holder of the webhook's lane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.db.pool import TenantDatabase
from pilotis.events.statements import selected
from pilotis.events.types import Event
from pilotis.jobs.lanes import Lane

QUEUE_FULL = "QUEUE_FULL"
WEBHOOK_DISABLED = "WEBHOOK_DISABLED"


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to insert; one with an `error` has already failed."""

    app_id: UUID
    delivery_id: UUID
    target_id: UUID
    event_app_id: UUID
    event_id: UUID
    event_type: str
    error: str | None = None


class DueDelivery(msgspec.Struct, frozen=True):
    """A delivery to attempt now. `event` is None once the event is no longer stored.

    `attempts` counts all attempts, `tries` those since it last became pending.
    """

    delivery_id: UUID
    attempts: int
    tries: int
    event: Event | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt for its delivery. `delay` is in seconds; without an attempt `number` is unchanged."""

    delivery_id: UUID
    state: str
    number: int
    tries: int
    delay: float | None
    reason: str | None
    attempted: bool
    ok: bool
    at: datetime | None = None
    duration_ms: int | None = None
    status_code: int | None = None
    error: str | None = None
    excerpt: str | None = None
    headers: dict[str, str] | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of writing results: whether the lane was still held, and whether the webhook failed for too long."""

    held: bool
    exhausted: bool


async def insert(connection: Connection, deliveries: Sequence[NewDelivery], delay: float) -> None:
    """Insert deliveries that are due after `delay` seconds."""
    await connection.execute(
        """
        insert into pilotis.deliveries (app_id, delivery_id, target_id, event_app_id, event_id, event_type, error,
            state, next_attempt_at, next_attempt_reason, finished_at)
        select d.*, case when d.error is null then 'pending' else 'failed' end,
            case when d.error is null then now() + make_interval(secs => $8) end,
            case when d.error is null then 'schedule' end, case when d.error is not null then now() end
        from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::text[])
            as d (app_id, delivery_id, target_id, event_app_id, event_id, event_type, error)
        """,
        *([getattr(one, name) for one in deliveries] for name in NewDelivery.__struct_fields__),
        delay,
    )


async def pending(
    connection: TenantDatabase | Connection, app_id: UUID, target_ids: Sequence[UUID], limit: int
) -> dict[UUID, int]:
    """Return how many deliveries of each webhook are pending, counted up to `limit`."""
    rows = await connection.fetch(
        """
        select t.target_id, c.number from unnest($2::uuid[]) t (target_id) cross join lateral (
            select count(*) as number from (
                select from pilotis.deliveries d
                where d.app_id = $1 and d.target_id = t.target_id and d.state = 'pending' limit $3
            ) counted
        ) c
        """,
        app_id,
        list(target_ids),
        limit,
    )
    return {row[0]: row[1] for row in rows}


_DUE = f"""
    with due as materialized (
        select delivery_id, attempts, tries, event_app_id, event_id, next_attempt_at from pilotis.deliveries
        where app_id = $1 and target_id = $2 and state = 'pending' and next_attempt_at <= now()
            and delivery_id <> all($3)
        order by next_attempt_at limit $4
    )
    select due.delivery_id, due.attempts, due.tries, due.event_app_id as app_id, {selected("e")}
    from due left join pilotis.events e
        on e.app_id = due.event_app_id and e.event_id = due.event_id and e.has_payload
    order by due.next_attempt_at
"""


async def due(
    connection: TenantDatabase, app_id: UUID, target_id: UUID, without: Collection[UUID], limit: int
) -> list[DueDelivery]:
    """Return a webhook's due deliveries, the longest waiting first, except those already in progress."""
    rows = await connection.fetch(_DUE, app_id, target_id, list(without), limit)
    return [DueDelivery(row["delivery_id"], row["attempts"], row["tries"], _event_of(row)) for row in rows]


def _event_of(row: Record) -> Event | None:
    if row["event_id"] is None:
        return None
    return Event(**{name: row[name] for name in Event.__struct_fields__})


async def next_due(connection: TenantDatabase, app_id: UUID, target_id: UUID) -> tuple[datetime | None, datetime]:
    """Return when a webhook's next delivery is due, None if there is none, and the database's time."""
    row = await connection.fetchrow(
        """
        select (
            select min(next_attempt_at) from pilotis.deliveries
            where app_id = $1 and target_id = $2 and state = 'pending'
        ) as due_at, clock_timestamp() as now
        """,
        app_id,
        target_id,
    )
    assert row is not None
    due_at, now = row
    return due_at, now


_RECORD = """
    with held as materialized (
        select from pilotis.lanes
        where app_id = $1 and kind = 'webhook' and target_id = $2 and owner = $3 and fence = $4 for update
    ),
    given as materialized (
        select r.* from json_to_recordset($5::text::json) as r (delivery_id uuid, state text, number int, tries int,
            delay float8, reason text, attempted boolean, ok boolean, at timestamptz, duration_ms int, status_code int,
            error text, excerpt text, headers json), held
    ),
    ended as (
        update pilotis.deliveries d set state = r.state, attempts = r.number, tries = r.tries,
            status_code = r.status_code, error = r.error, duration_ms = r.duration_ms, next_attempt_reason = r.reason,
            next_attempt_at = clock_timestamp() + make_interval(secs => r.delay),
            finished_at = case when r.state <> 'pending' then clock_timestamp() end
        from given r where d.app_id = $1 and d.delivery_id = r.delivery_id and d.state = 'pending'
    ),
    attempted as (
        insert into pilotis.delivery_attempts
            (app_id, delivery_id, number, at, duration_ms, status_code, error, response_excerpt, response_headers,
            fence)
        select $1, delivery_id, number, at, duration_ms, status_code, error, excerpt, headers, $4
        from given where attempted on conflict do nothing
    ),
    outcome as (
        select max(at) filter (where ok) as success, max(at) filter (where not ok) as failure,
            (count(*) filter (where not ok))::int as failed
        from given where attempted having count(*) > 0
    ),
    health as (
        insert into pilotis.webhook_health as h
            (app_id, webhook_id, failing_since, failed_count, last_success_at, last_failure_at)
        select $1, $2, case when success is null then failure end, case when success is null then failed else 0 end,
            success, failure
        from outcome where exists (select from pilotis.webhooks where app_id = $1 and webhook_id = $2)
        on conflict (app_id, webhook_id) do update set
            failing_since = case when excluded.last_success_at is null
                then coalesce(h.failing_since, excluded.failing_since) end,
            failed_count = case when excluded.last_success_at is null
                then h.failed_count + excluded.failed_count else 0 end,
            last_success_at = coalesce(excluded.last_success_at, h.last_success_at),
            last_failure_at = coalesce(excluded.last_failure_at, h.last_failure_at)
        returning failing_since < now() - make_interval(secs => $6) and failed_count >= $7 as exhausted
    )
    select exists (select from held) as held, coalesce((select exhausted from health), false) as exhausted
"""


async def record(
    connection: TenantDatabase, lane: Lane, results: Sequence[Result], disable_seconds: float, disable_failures: int
) -> Written:
    """Write results, if the lane is still held under its fence: one statement for all of them."""
    row = await connection.fetchrow(
        _RECORD,
        lane.app_id,
        lane.target_id,
        lane.owner,
        lane.fence,
        msgspec.json.encode(results).decode(),
        disable_seconds,
        disable_failures,
    )
    assert row is not None
    held, exhausted = row
    return Written(held=held, exhausted=exhausted)


async def end_pending(connection: Connection, app_id: UUID, target_id: UUID, state: str, error: str) -> int:
    """End a webhook's pending deliveries as `failed` or `cancelled`; return their number.

    The webhook's lane must have been closed or removed first, so that no result is written at the same time.
    """
    status = await connection.execute(
        """
        update pilotis.deliveries set state = $3, error = $4, next_attempt_at = null, next_attempt_reason = null,
            finished_at = now()
        where app_id = $1 and target_id = $2 and state = 'pending'
        """,
        app_id,
        target_id,
        state,
        error,
    )
    return int(status.split()[1])


async def insert_test(connection: Connection, delivery: NewDelivery, result: Result) -> None:
    """Insert a test delivery, which has been attempted once."""
    await connection.execute(
        """
        insert into pilotis.deliveries (app_id, delivery_id, target_id, event_app_id, event_id, event_type, is_test,
            state, attempts, status_code, error, duration_ms, finished_at)
        values ($1, $2, $3, $4, $5, $6, true, $7, 1, $8, $9, $10, now())
        """,
        delivery.app_id,
        delivery.delivery_id,
        delivery.target_id,
        delivery.event_app_id,
        delivery.event_id,
        delivery.event_type,
        result.state,
        result.status_code,
        result.error,
        result.duration_ms,
    )
    await insert_attempt(connection, delivery.app_id, result)


async def end_alone(connection: Connection, app_id: UUID, result: Result) -> None:
    """Write the result of a temporary webhook's delivery, which has no lane."""
    await connection.execute(
        """
        update pilotis.deliveries set state = $3, attempts = $4, tries = $4, status_code = $5, error = $6,
            duration_ms = $7, next_attempt_at = null, next_attempt_reason = null, finished_at = now()
        where app_id = $1 and delivery_id = $2 and state = 'pending'
        """,
        app_id,
        result.delivery_id,
        result.state,
        result.number,
        result.status_code,
        result.error,
        result.duration_ms,
    )
    await insert_attempt(connection, app_id, result)


async def insert_attempt(connection: Connection, app_id: UUID, result: Result) -> None:
    """Insert an attempt made without a lane."""
    headers: Any = None if result.headers is None else msgspec.json.encode(result.headers).decode()
    await connection.execute(
        """
        insert into pilotis.delivery_attempts
            (app_id, delivery_id, number, at, duration_ms, status_code, error, response_excerpt, response_headers)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """,
        app_id,
        result.delivery_id,
        result.number,
        result.at,
        result.duration_ms,
        result.status_code,
        result.error,
        result.excerpt,
        headers,
    )


async def reset_health(connection: Connection, app_id: UUID, webhook_id: UUID) -> None:
    """Reset the failures of a webhook when it becomes active again."""
    await connection.execute(
        """
        update pilotis.webhook_health set failing_since = null, failed_count = 0
        where app_id = $1 and webhook_id = $2
        """,
        app_id,
        webhook_id,
    )

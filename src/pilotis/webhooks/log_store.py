"""SQL statements that list, resend, count and delete deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.filters import Filters
from pilotis.db.log_sizes import purged
from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns
from pilotis.webhooks.types import DeliveryStatus, LogQuery, RequestedDelivery

ROW_BYTES = "800"
"""The bytes of a delivery with its attempt and index entries, as SQL; measured."""


# The app whose event it is comes first in the index of events.
_OF_EVENT = """
    event_app_id in (
        $1, (select provider_app_id from pilotis.webhooks w where w.app_id = $1 and w.webhook_id = $2)
    ) and event_id = {}
"""


class DeliveryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery; `request_id` is the request that led to the event."""

    delivery_id: UUID
    event_app_id: UUID
    event_id: UUID
    event_type: str
    is_test: bool
    state: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    next_attempt_reason: str | None
    status_code: int | None
    error: str | None
    duration_ms: int | None
    created_at: datetime
    finished_at: datetime | None
    request_id: str | None


class AttemptRecord(NamedTuple):
    """An attempt of a delivery; `headers` are those of the response as JSON text."""

    delivery_id: UUID
    number: int
    at: datetime
    duration_ms: int
    status_code: int | None
    error: str | None
    response_excerpt: str | None
    headers: str | None


class DeliveryStats(NamedTuple):
    """The deliveries that ended in the last 24 hours, and all that have failed; times are in milliseconds."""

    succeeded_24h: int
    failed_24h: int
    p50_ms: int | None
    p95_ms: int | None
    failed_count: int


class HourRecord(NamedTuple):
    """The deliveries of a webhook that ended in an hour."""

    webhook_id: UUID
    hour: datetime
    succeeded: int
    failed: int
    p50_ms: int | None
    p95_ms: int | None


class PayloadRecord(NamedTuple):
    """A stored event with data, and whether it was delivered everywhere."""

    app_id: UUID
    event_id: UUID
    created_at: datetime
    is_delivered: bool


_OWN = columns(DeliveryRecord, without={"request_id"})
# An event of another app is traced there alone.
_READ = f"""
    select {columns(DeliveryRecord, "d", without={"request_id"})}, e.request_id from {{}} d left join pilotis.events e
        on e.app_id = d.event_app_id and e.event_id = d.event_id and d.event_app_id = d.app_id
"""


async def page(
    connection: TenantDatabase, app_id: UUID, webhook_id: UUID, query: LogQuery, limit: int
) -> list[DeliveryRecord]:
    """Return deliveries of a webhook, newest first."""
    asked = Filters({"app_id": app_id, "target_id": webhook_id})
    asked.equal("state", query.status).equal("event_type", query.event_type).add(_OF_EVENT, query.event_id)
    asked.between("created_at", "delivery_id", query.since, query.until).add("delivery_id < {}", query.before)
    size = asked.argument(limit)
    listed = f"select app_id, {_OWN} from pilotis.deliveries where {asked.text} order by delivery_id desc limit {size}"
    rows = await connection.fetch(
        f"{_READ.format(f'({listed})')} order by d.delivery_id desc",
        *asked.arguments,
    )
    return [DeliveryRecord(**row) for row in rows]


async def read(
    connection: TenantDatabase | Connection, app_id: UUID, webhook_id: UUID, delivery_id: UUID
) -> DeliveryRecord | None:
    """Return a delivery."""
    row = await connection.fetchrow(
        f"{_READ.format('pilotis.deliveries')} where d.app_id = $1 and d.target_id = $2 and d.delivery_id = $3",
        app_id,
        webhook_id,
        delivery_id,
    )
    return DeliveryRecord(**row) if row else None


async def of_request(connection: TenantDatabase, app_id: UUID, request_id: str, limit: int) -> list[RequestedDelivery]:
    """Return the deliveries of events of the app that a request has led to, oldest first."""
    rows = await connection.fetch(
        """
        select d.delivery_id, d.target_id, w.name, w.url, d.event_type, d.state, d.error, d.created_at, d.duration_ms
        from pilotis.events e
        join pilotis.deliveries d on d.event_app_id = e.app_id and d.event_id = e.event_id
        join pilotis.webhooks w on w.app_id = d.app_id and w.webhook_id = d.target_id
        where e.app_id = $1 and e.request_id = $2 and d.app_id = $1 order by d.delivery_id limit $3
        """,
        app_id,
        request_id,
        limit,
    )
    return [RequestedDelivery(**row) for row in rows]


async def attempts(
    connection: TenantDatabase | Connection, app_id: UUID, delivery_ids: Sequence[UUID]
) -> list[AttemptRecord]:
    """Return the attempts of deliveries in order."""
    rows = await connection.fetch(
        """
        select delivery_id, number, at, duration_ms, status_code, error, response_excerpt,
            response_headers::text as headers
        from pilotis.delivery_attempts
        where app_id = $1 and delivery_id = any($2) order by delivery_id, number
        """,
        app_id,
        list(delivery_ids),
    )
    return [AttemptRecord(*row) for row in rows]


_AGAIN = """
    state = 'pending', tries = 0, next_attempt_at = now(), next_attempt_reason = 'schedule', error = null,
    status_code = null, duration_ms = null, finished_at = null
"""


async def send_again(connection: Connection, app_id: UUID, webhook_id: UUID, delivery_id: UUID) -> None:
    """Make a delivery pending, with a new schedule and its earlier attempts."""
    await connection.execute(
        f"update pilotis.deliveries set {_AGAIN} where app_id = $1 and target_id = $2 and delivery_id = $3",
        app_id,
        webhook_id,
        delivery_id,
    )


async def recover(
    connection: Connection,
    app_id: UUID,
    webhook_id: UUID,
    since: datetime,
    until: datetime | None,
    types: Sequence[str] | None,
    states: Sequence[str],
) -> int:
    """Make ended deliveries whose event is still stored pending, and return their number."""
    status = await connection.execute(
        f"""
        update pilotis.deliveries d set {_AGAIN}
        where app_id = $1 and target_id = $2 and created_at >= $3 and ($4::timestamptz is null or created_at < $4)
            and ($5::text[] is null or event_type = any($5)) and state = any($6) and not is_test
            and exists (
                select from pilotis.events e
                where e.app_id = d.event_app_id and e.event_id = d.event_id and e.has_payload
            )
        """,
        app_id,
        webhook_id,
        since,
        until,
        None if types is None else list(types),
        list(states),
    )
    return int(status.split()[1])


async def stats(connection: TenantDatabase, app_id: UUID, webhook_id: UUID) -> DeliveryStats:
    """Return the statistics of a webhook's deliveries."""
    row = await connection.fetchrow(
        """
        select count(*) filter (where state = 'succeeded') as succeeded_24h,
            count(*) filter (where state = 'failed') as failed_24h,
            percentile_disc(0.5) within group (order by duration_ms) filter (where state = 'succeeded') as p50_ms,
            percentile_disc(0.95) within group (order by duration_ms) filter (where state = 'succeeded') as p95_ms,
            (select count(*) from pilotis.deliveries
             where app_id = $1 and target_id = $2 and state = 'failed' and not is_test) as failed_count
        from pilotis.deliveries
        where app_id = $1 and target_id = $2 and finished_at > now() - interval '24 hours' and not is_test
        """,
        app_id,
        webhook_id,
    )
    assert row is not None
    return DeliveryStats(*row)


async def hours(connection: TenantDatabase, app_id: UUID, number: int) -> list[HourRecord]:
    """Return the counts by webhook and by the hour in which deliveries ended."""
    rows = await connection.fetch(
        """
        select w.webhook_id, date_trunc('hour', d.finished_at, 'UTC') as hour,
            count(*) filter (where d.state = 'succeeded') as succeeded,
            count(*) filter (where d.state = 'failed') as failed,
            percentile_disc(0.5) within group (order by d.duration_ms) filter (where d.state = 'succeeded') as p50_ms,
            percentile_disc(0.95) within group (order by d.duration_ms) filter (where d.state = 'succeeded') as p95_ms
        from pilotis.webhooks w join pilotis.deliveries d on d.app_id = w.app_id and d.target_id = w.webhook_id
        where w.app_id = $1 and d.finished_at > now() - make_interval(hours => $2) and not d.is_test
        group by 1, 2 order by 1, 2
        """,
        app_id,
        number,
    )
    return [HourRecord(*row) for row in rows]


BY_DAY = """
    select date_trunc('day', d.finished_at, 'UTC') as day, count(*) as total,
        count(*) filter (where d.state = 'failed') as failed
    from pilotis.webhooks w join pilotis.deliveries d on d.app_id = w.app_id and d.target_id = w.webhook_id
    where w.app_id = $1 and d.finished_at >= date_trunc('day', now(), 'UTC') - make_interval(days => $2 - 1)
        and d.state in ('succeeded', 'failed') and not d.is_test
    group by 1
"""
"""The deliveries of an app by the day in which they ended, for `pilotis.db.daily`."""


async def delete_old(connection: Connection, states: Sequence[str], days: int, limit: int) -> int:
    """Delete at most `limit` deliveries that ended `days` ago in one of the states; return their number."""
    condition = "state = 'succeeded'" if "succeeded" in states else "state in ('failed', 'cancelled')"
    return await _delete(
        connection, f"finished_at < now() - make_interval(days => $1) and {condition} order by finished_at", limit, days
    )


async def delete_old_of(connection: Connection, app_id: UUID, states: Sequence[str], days: int, limit: int) -> int:
    """Delete at most `limit` deliveries of an app as `delete_old` does; return their number."""
    condition = """
        app_id = $1 and finished_at < now() - make_interval(days => $2) and state = any($3) order by delivery_id
    """
    return await _delete(connection, condition, limit, app_id, days, list(states))


async def delete_oldest(connection: Connection, app_id: UUID, limit: int) -> int:
    """Delete at most `limit` deliveries of an app, the oldest that have ended; return their number."""
    return await _delete(connection, "app_id = $1 and finished_at is not null order by delivery_id", limit, app_id)


async def _delete(connection: Connection, condition: str, limit: int, *arguments: Any) -> int:
    """Delete deliveries by a condition that ends with an order, with their attempts; return their number."""
    number: int = await connection.fetchval(
        f"""
        with old as (
            delete from pilotis.deliveries where (app_id, delivery_id) in (
                select app_id, delivery_id from pilotis.deliveries where {condition} limit {limit}
            )
            returning app_id, delivery_id
        ),
        attempts as (
            delete from pilotis.delivery_attempts a using old
            where a.app_id = old.app_id and a.delivery_id = old.delivery_id
        )
        select count(*) from old
        """,
        *arguments,
    )
    return number


async def with_payload(
    connection: Connection, hours: int, after: tuple[datetime, UUID], limit: int
) -> list[PayloadRecord]:
    """Return events with data that were stored so many hours ago, and whether they were delivered everywhere.

    Oldest first, later ones than `after`, which is a time and an id.
    """
    rows = await connection.fetch(
        """
        select e.app_id, e.event_id, e.created_at, not exists (
            select from pilotis.deliveries d
            where d.event_app_id = e.app_id and d.event_id = e.event_id and d.state <> 'succeeded'
        ) as is_delivered
        from pilotis.events e
        where e.dispatched_at is not null and e.has_payload and e.created_at < now() - make_interval(hours => $1)
            and (e.created_at, e.event_id) > ($2, $3)
        order by e.created_at, e.event_id limit $4
        """,
        hours,
        *after,
        limit,
    )
    return [PayloadRecord(*row) for row in rows]


async def delete_orphans(connection: Connection, limit: int) -> int:
    """Delete at most `limit` deliveries of purged apps, with their attempts; return their number."""
    number: int = await connection.fetchval(
        f"""
        with orphans as (
            delete from pilotis.deliveries where (app_id, delivery_id) in (
                {purged("pilotis.deliveries", "delivery_id")}
            )
            returning app_id, delivery_id
        ),
        attempts as (
            delete from pilotis.delivery_attempts a using orphans
            where a.app_id = orphans.app_id and a.delivery_id = orphans.delivery_id
        )
        select count(*) from orphans
        """,
        limit,
    )
    return number

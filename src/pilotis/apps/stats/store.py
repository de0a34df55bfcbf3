"""SQL statements for usage statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db import sharding
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND

KEPT_DAYS = 60
SHOWN_DAYS = 30


class RequestCounts(NamedTuple):
    """The requests of one app since the last flush."""

    app_id: UUID
    requests: int
    client_errors: int
    errors: int
    bytes: int


class Usage(msgspec.Struct, frozen=True):
    """How many members, guests, active members and tables an app has, and the bytes of all that it stores."""

    members: int
    guests: int
    active_1d: int
    active_7d: int
    active_30d: int
    tables: int
    bytes: int


class Day(msgspec.Struct, frozen=True):
    """The traffic of a day, UTC, and the part of it in the last 24 hours."""

    date: str
    requests: int
    client_errors: int
    errors: int
    requests_24h: int
    client_errors_24h: int
    errors_24h: int


async def add(database: Database, counts: Sequence[RequestCounts]) -> None:
    """Add requests to the current hour of their apps; apps that no longer exist are skipped."""
    await database.execute(
        """
        insert into pilotis.request_stats as s (app_id, hour, requests, client_errors, errors, bytes)
        select t.app_id, date_trunc('hour', now()), t.requests, t.client_errors, t.errors, t.bytes
        from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
            t (app_id, requests, client_errors, errors, bytes)
        join pilotis.apps using (app_id)
        order by app_id
        on conflict (app_id, hour) do update set
            requests = s.requests + excluded.requests,
            client_errors = s.client_errors + excluded.client_errors,
            errors = s.errors + excluded.errors,
            bytes = s.bytes + excluded.bytes
        """,
        *zip(*counts, strict=True),
        tenant=BACKGROUND,
    )


async def delete_old(connection: Connection) -> None:
    """Delete traffic that is older than all reported periods."""
    await connection.execute(
        f"delete from pilotis.request_stats where hour < now() - interval '{KEPT_DAYS} days'",
    )


async def members_tables_and_bytes(connection: TenantDatabase, app_id: UUID) -> Usage:
    """Return how much of everything an app has; tables exclude the trash.

    One statement, because the database may be far away.
    """
    row = await connection.fetchrow(
        f"""
        select
            m.*,
            (select count(*) from pilotis.tables where app_id = $1 and dropped_at is null) as tables,
            (select coalesce(sum(size), 0)::bigint from pilotis.files where app_id = $1)
                + ({sharding.schema_bytes(connection.database, f"app_{app_id.hex}")}) as bytes
        from (
            select
                count(*) as members,
                count(*) filter (where is_guest) as guests,
                count(*) filter (where last_active_at > now() - interval '1 day') as active_1d,
                count(*) filter (where last_active_at > now() - interval '7 days') as active_7d,
                count(*) filter (where last_active_at > now() - interval '30 days') as active_30d
            from pilotis.members where app_id = $1
        ) m
        """,
        app_id,
    )
    assert row is not None
    return Usage(**row)


async def rows(connection: TenantDatabase, app_id: UUID) -> int:
    """Return how many rows an app's tables have, without the trash."""
    number: int = await connection.fetchval(
        f"""
        with live as (select table_id from pilotis.tables where app_id = $1 and dropped_at is null)
        select coalesce(sum(rows), 0)::bigint from app_{app_id.hex}.__row_counts join live using (table_id)
        """,
        app_id,
    )
    return number


async def traffic(connection: TenantDatabase, app_id: UUID, days: int) -> list[Day]:
    """Return the traffic of each of the last `days` days, oldest first."""
    rows = await connection.fetch(
        f"""
        select
            to_char(day, 'YYYY-MM-DD') as date,
            {_sums()},
            {_sums("_24h", "s.hour > now() - interval '24 hours'")}
        from generate_series(0, $2::int - 1) ago
        cross join lateral (select date_trunc('day', now()) - make_interval(days => $2::int - 1 - ago)) d (day)
        left join pilotis.request_stats s on s.app_id = $1 and s.hour >= day and s.hour < day + interval '1 day'
        group by day order by day
        """,
        app_id,
        days,
    )
    return [Day(**row) for row in rows]


def _sums(suffix: str = "", condition: str = "true") -> str:
    columns = ("requests", "client_errors", "errors")
    return ", ".join(
        f"coalesce(sum(s.{column}) filter (where {condition}), 0)::bigint as {column}{suffix}" for column in columns
    )

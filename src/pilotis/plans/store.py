"""SQL statements for plans and for what apps have used of them."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db import sharding
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import CONSOLE

_FAMILY = "(a.app_id = $1 or a.parent_app_id = $1)"
_SINCE = "$2::date::timestamp at time zone 'UTC'"
_UNTIL = "($2::date + interval '1 month') at time zone 'UTC'"


class StoredPlan(msgspec.Struct, frozen=True):
    """A plan; `limits` and `quotas` are JSON objects."""

    name: str
    limits: str
    quotas: str
    apps: int


class AppOnPlan(NamedTuple):
    """An app, its quotas and what it has exceeded, both JSON."""

    app_id: UUID
    quotas: str
    exceeded: str | None


class Used(msgspec.Struct, frozen=True):
    """What apps have used; the bytes of rows are counted apart."""

    requests: int
    traffic_bytes: int
    file_bytes: int
    function_ms: int
    mails: int
    executions: int


_USED = f"""
    select
        (select coalesce(sum(s.requests), 0)::bigint from pilotis.request_stats s join pilotis.apps a using (app_id)
            where {{family}} and s.hour >= {_SINCE} and s.hour < {_UNTIL}) as requests,
        (select coalesce(sum(s.bytes), 0)::bigint from pilotis.request_stats s join pilotis.apps a using (app_id)
            where {{family}} and s.hour >= {_SINCE} and s.hour < {_UNTIL}) as traffic_bytes,
        (select coalesce(sum(f.size), 0)::bigint from pilotis.files f join pilotis.apps a using (app_id)
            where {{family}}) as file_bytes,
        coalesce(sum(m.function_ms), 0)::bigint as function_ms,
        coalesce(sum(m.mails), 0)::bigint as mails,
        coalesce(sum(m.executions), 0)::bigint as executions
    from pilotis.metered m join pilotis.apps a using (app_id) where {{family}} and m.month = $2
"""


async def put(connection: Connection, name: str, limits: str, quotas: str) -> None:
    """Insert or replace a plan."""
    await connection.execute(
        """
        insert into pilotis.plans (name, limits, quotas) values ($1, $2::jsonb, $3::jsonb)
        on conflict (name) do update set limits = excluded.limits, quotas = excluded.quotas, updated_at = now()
        """,
        name,
        limits,
        quotas,
    )


async def all_plans(database: Database) -> list[StoredPlan]:
    """Return all plans by name."""
    rows = await database.fetch(
        """
        select p.name, p.limits, p.quotas,
            (select count(*) from pilotis.apps a where a.plan = p.name and a.deleted_at is null) as apps
        from pilotis.plans p order by p.name
        """,
        tenant=CONSOLE,
    )
    return [StoredPlan(**row) for row in rows]


async def limits_of(connection: Connection, name: str) -> str | None:
    """Return the limits of a plan, a JSON object; None if there is no such plan."""
    found: str | None = await connection.fetchval("select limits from pilotis.plans where name = $1 for share", name)
    return found


async def apps_on_plans(connection: Connection, after: UUID, count: int) -> list[AppOnPlan]:
    """Return apps with quotas that had requests within two hours, or have exceeded one; in the order of their ids."""
    rows = await connection.fetch(
        """
        select a.app_id, p.quotas, a.exceeded from pilotis.apps a join pilotis.plans p on p.name = a.plan
        where a.app_id > $1 and a.deleted_at is null and p.quotas <> '{}' and (
            a.exceeded is not null or exists (
                select from pilotis.request_stats s join pilotis.apps b using (app_id)
                where (b.app_id = a.app_id or b.parent_app_id = a.app_id) and s.hour > now() - interval '2 hours'
            )
        )
        order by a.app_id limit $2
        """,
        after,
        count,
    )
    return [AppOnPlan(*row) for row in rows]


async def quotas_of(connection: TenantDatabase, app_id: UUID) -> str | None:
    """Return the quotas of an app's plan, a JSON object; those of its parent for a branch."""
    found: str | None = await connection.fetchval(
        """
        select p.quotas from pilotis.apps a join pilotis.apps o on o.app_id = coalesce(a.parent_app_id, a.app_id)
        join pilotis.plans p on p.name = o.plan where a.app_id = $1
        """,
        app_id,
    )
    return found


async def parent_of(connection: TenantDatabase, app_id: UUID) -> UUID | None:
    """Return the app whose quotas an app uses: its own, or its parent's."""
    found: UUID | None = await connection.fetchval(
        "select coalesce(parent_app_id, app_id) from pilotis.apps where app_id = $1", app_id
    )
    return found


async def used(connection: Connection | TenantDatabase, app_id: UUID, month: date) -> Used:
    """Return what an app and its branches have used in a month."""
    row = await connection.fetchrow(_USED.format(family=_FAMILY), app_id, month)
    assert row is not None
    return Used(**row)


async def used_alone(connection: Connection | TenantDatabase, app_id: UUID, month: date) -> Used:
    """Return what an app has used in a month, without its branches."""
    row = await connection.fetchrow(_USED.format(family="a.app_id = $1"), app_id, month)
    assert row is not None
    return Used(**row)


async def branches_of(connection: Connection | TenantDatabase, app_id: UUID) -> list[UUID]:
    """Return the branches of an app that are not deleted."""
    rows = await connection.fetch(
        "select app_id from pilotis.apps where parent_app_id = $1 and deleted_at is null order by app_id", app_id
    )
    return [found for (found,) in rows]


async def row_bytes(connection: TenantDatabase, app_id: UUID) -> int:
    """Return what the tables and indexes of an app take on the disk."""
    number: int = await connection.fetchval(sharding.schema_bytes(connection.database, f"app_{app_id.hex}"))
    return number


async def apps_with_plans(database: Database) -> list[tuple[UUID, str, str | None]]:
    """Return the id, name and plan of all apps that are not deleted."""
    rows = await database.fetch(
        "select app_id, name, plan from pilotis.apps where deleted_at is null order by app_id", tenant=CONSOLE
    )
    return [(row["app_id"], row["name"], row["plan"]) for row in rows]


async def add_notice(connection: Connection, app_id: UUID, month: date, quota: str, percent: int) -> bool:
    """Record that an app's owners are told of a share of a quota; False if they were told before."""
    tag = await connection.execute(
        """
        insert into pilotis.quota_notices (app_id, month, quota, percent) values ($1, $2, $3, $4)
        on conflict do nothing
        """,
        app_id,
        month,
        quota,
        percent,
    )
    return tag == "INSERT 0 1"


async def delete_old_notices(connection: Connection) -> None:
    """Delete notices of earlier months."""
    await connection.execute("delete from pilotis.quota_notices where month < now() - interval '3 months'")

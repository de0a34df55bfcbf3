"""SQL statements for plans and for what apps have used of them."""

from __future__ import annotations

from collections.abc import Sequence
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
    """An app, its quotas and what it has exceeded, both JSON.

    With the requests of two hours and the calls and mails of the month, of its branches too.
    """

    app_id: UUID
    quotas: str
    exceeded: str | None
    requests: int
    metered: int


class OwnerWithPlan(msgspec.Struct, frozen=True):
    """An app with the name of its plan and the quotas of that, a JSON object."""

    app_id: UUID
    plan: str
    quotas: str


class Used(msgspec.Struct, frozen=True):
    """What apps have used in a month; the bytes that they store are counted apart."""

    requests: int
    traffic_bytes: int
    function_ms: int
    mails: int
    executions: int


_USED = f"""
    select s.requests, s.traffic_bytes, m.function_ms, m.mails, m.executions
    from (
        select coalesce(sum(s.requests), 0)::bigint as requests, coalesce(sum(s.bytes), 0)::bigint as traffic_bytes
        from pilotis.request_stats s join pilotis.apps a using (app_id)
        where {{family}} and s.hour >= {_SINCE} and s.hour < {_UNTIL}
    ) s, (
        select coalesce(sum(m.function_ms), 0)::bigint as function_ms, coalesce(sum(m.mails), 0)::bigint as mails,
            coalesce(sum(m.executions), 0)::bigint as executions
        from pilotis.metered m join pilotis.apps a using (app_id) where {{family}} and m.month = $2
    ) m
"""
_FILE_BYTES = """
    select coalesce(sum(f.size), 0)::bigint from pilotis.files f join pilotis.apps a using (app_id) where {family}
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


async def apps_on_plans(connection: Connection) -> list[AppOnPlan]:
    """Return apps that had requests within two hours and have quotas, and those that have exceeded one."""
    rows = await connection.fetch(
        """
        with active as materialized (
            select coalesce(a.parent_app_id, a.app_id) as app_id, sum(s.requests)::bigint as number
            from pilotis.request_stats s join pilotis.apps a using (app_id)
            where s.hour > now() - interval '2 hours' group by 1
        ), metered as materialized (
            select coalesce(a.parent_app_id, a.app_id) as app_id, sum(m.executions + m.mails)::bigint as number
            from pilotis.metered m join pilotis.apps a using (app_id)
            where m.month = date_trunc('month', now() at time zone 'UTC')::date group by 1
        )
        select a.app_id, p.quotas, a.exceeded, coalesce(r.number, 0), coalesce(m.number, 0)
        from pilotis.apps a join pilotis.plans p on p.name = a.plan
        left join active r on r.app_id = a.app_id left join metered m on m.app_id = a.app_id
        where a.deleted_at is null and a.parent_app_id is null
            and (a.exceeded is not null or p.quotas <> '{}' and r.app_id is not null)
        order by a.app_id
        """
    )
    return [AppOnPlan(*row) for row in rows]


async def owner_with_plan(connection: TenantDatabase, app_id: UUID) -> OwnerWithPlan | None:
    """Return the app whose plan an app uses, its own or its parent's; None without a plan."""
    row = await connection.fetchrow(
        """
        select o.app_id, p.name as plan, p.quotas
        from pilotis.apps a join pilotis.apps o on o.app_id = coalesce(a.parent_app_id, a.app_id)
        join pilotis.plans p on p.name = o.plan where a.app_id = $1
        """,
        app_id,
    )
    return None if row is None else OwnerWithPlan(**row)


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


async def file_bytes(connection: TenantDatabase, app_id: UUID) -> int:
    """Return the bytes of the files of an app and its branches."""
    number: int = await connection.fetchval(_FILE_BYTES.format(family=_FAMILY), app_id)
    return number


async def file_bytes_alone(connection: TenantDatabase, app_id: UUID) -> int:
    """Return the bytes of the files of an app, without those of its branches."""
    number: int = await connection.fetchval(_FILE_BYTES.format(family="a.app_id = $1"), app_id)
    return number


async def families(connection: TenantDatabase, apps: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Return apps and their branches, each with the id of the app whose quotas it uses; no deleted ones."""
    rows = await connection.fetch(
        """
        select coalesce(parent_app_id, app_id), app_id from pilotis.apps
        where (app_id = any($1) or parent_app_id = any($1)) and deleted_at is null
        """,
        list(apps),
    )
    return [(owner, app_id) for owner, app_id in rows]


async def row_bytes(connection: TenantDatabase, apps: Sequence[UUID]) -> dict[UUID, int]:
    """Return what the tables and indexes of each app take on the disk, without those of its branches."""
    by_schema = {f"app_{app_id.hex}": app_id for app_id in apps}
    rows = await connection.fetch(sharding.schemas_bytes(connection.database), list(by_schema))
    return dict.fromkeys(apps, 0) | {by_schema[schema]: size for schema, size in rows}


async def apps_with_plans(database: Database) -> list[tuple[UUID, str, str | None]]:
    """Return the id, name and plan of all apps that are not deleted."""
    rows = await database.fetch(
        "select app_id, name, plan from pilotis.apps where deleted_at is null order by app_id", tenant=CONSOLE
    )
    return [(app_id, name, plan) for app_id, name, plan in rows]


async def notices(connection: TenantDatabase, app_id: UUID, month: date) -> set[tuple[str, int]]:
    """Return the quotas and percents of which an app's owners were told in a month."""
    rows = await connection.fetch(
        "select quota, percent from pilotis.quota_notices where app_id = $1 and month = $2", app_id, month
    )
    return {(quota, percent) for quota, percent in rows}


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

"""SQL statements for deployments and for promotions, the changes of a storage's pointers to them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns

PRESERVED_DAYS = 7
"""How long an asset is served after its deployment stopped being production."""


class DeploymentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment. `warnings` and `error` are JSON texts."""

    app_id: UUID
    deployment_id: UUID
    storage_id: UUID
    version: int | None
    status: str
    source: str
    target: str | None
    base_id: UUID | None
    manifest_hash: bytes | None
    file_count: int
    total_size: int
    uploaded_size: int
    added: int
    changed: int
    removed: int
    message: str | None
    warnings: str
    error: str | None
    actor_kind: str
    actor_id: str | None
    created_at: datetime
    ready_at: datetime | None
    branch: str | None


_COLUMNS = columns(DeploymentRecord)


async def deployment(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, deployment_id: UUID
) -> DeploymentRecord | None:
    """Return a deployment of a storage."""
    row = await connection.fetchrow(
        f"select {_COLUMNS} from pilotis.web_deployments where app_id = $1 and storage_id = $2 and deployment_id = $3",
        app_id,
        storage_id,
        deployment_id,
    )
    return DeploymentRecord(**row) if row else None


async def newest_ready(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, *, of_branches: bool = True
) -> DeploymentRecord | None:
    """Return the ready deployment with the highest version, with or without previews of branches."""
    row = await connection.fetchrow(
        f"""
        select {_COLUMNS} from pilotis.web_deployments
        where app_id = $1 and storage_id = $2 and status = 'ready' and ($3 or branch is null)
        order by version desc limit 1
        """,
        app_id,
        storage_id,
        of_branches,
    )
    return DeploymentRecord(**row) if row else None


async def deployments(
    database: Database, app_id: UUID, storage_id: UUID, status: str | None, limit: int, offset: int
) -> tuple[list[DeploymentRecord], int]:
    """Return a page of a storage's deployments, newest first, and their total number."""
    query = f"""
        select {_COLUMNS} from pilotis.web_deployments
        where app_id = $1 and storage_id = $2 and ($3::text is null or status = $3)
    """
    arguments = (app_id, storage_id, status)
    return await fetch_page(
        database,
        app_id,
        query,
        arguments,
        order_by="deployment_id desc",
        limit=limit,
        offset=offset,
        record=DeploymentRecord,
    )


DEPLOYMENTS_BY_DAY = """
    select date_trunc('day', created_at, 'UTC') as day, count(*) as total,
        count(*) filter (where status = 'failed') as failed
    from pilotis.web_deployments
    where app_id = $1 and created_at >= date_trunc('day', now(), 'UTC') - make_interval(days => $2 - 1)
    group by 1
"""
"""The deployments of an app, for `pilotis.db.daily`."""


async def count_zips(connection: Connection | TenantDatabase, app_id: UUID) -> int:
    """Return how many archives an app has deployed within the last hour."""
    count: int = await connection.fetchval(
        """
        select count(*) from pilotis.web_deployments
        where app_id = $1 and source <> 'incremental' and created_at > now() - interval '1 hour'
        """,
        app_id,
    )
    return count


async def insert_deployment(connection: Connection, values: Mapping[str, Any]) -> DeploymentRecord:
    """Insert a deployment and return it."""
    names = ", ".join(values)
    places = ", ".join(f"${at}" for at in range(1, 1 + len(values)))
    row = await connection.fetchrow(
        f"insert into pilotis.web_deployments ({names}) values ({places}) returning {_COLUMNS}", *values.values()
    )
    assert row is not None
    return DeploymentRecord(**row)


async def update_deployment(
    connection: Connection | TenantDatabase, app_id: UUID, deployment_id: UUID, values: Mapping[str, Any]
) -> DeploymentRecord | None:
    """Change a deployment that is being processed, and return it; None if it no longer is."""
    assignments = ", ".join(f"{name} = ${at}" for at, name in enumerate(values, 3))
    row = await connection.fetchrow(
        f"""
        update pilotis.web_deployments set {assignments}
        where app_id = $1 and deployment_id = $2 and status = 'processing' returning {_COLUMNS}
        """,
        app_id,
        deployment_id,
        *values.values(),
    )
    return DeploymentRecord(**row) if row else None


async def leave_production(connection: Connection, app_id: UUID, deployment_id: UUID) -> None:
    """Record that a deployment is no longer production."""
    await connection.execute(
        "update pilotis.web_deployments set production_until = now() where app_id = $1 and deployment_id = $2",
        app_id,
        deployment_id,
    )


async def insert_promotion(connection: Connection, values: Mapping[str, Any]) -> None:
    """Record a change of a pointer."""
    names = ", ".join(values)
    places = ", ".join(f"${at}" for at in range(1, 1 + len(values)))
    await connection.execute(f"insert into pilotis.web_promotions ({names}) values ({places})", *values.values())


async def expire_deployments(connection: Connection, app_id: UUID, storage_id: UUID, retain: int) -> list[UUID]:
    """Expire the ready deployments of a locked storage beyond the newest `retain`, and return their ids.

    Those that a pointer or the last promotion of a channel refers to are kept, and those that were production until
    recently: their assets are still served.
    """
    rows = await connection.fetch(
        """
        with kept as (
            select production_id as id from pilotis.web_storages where app_id = $1 and storage_id = $2
            union select qa_id from pilotis.web_storages where app_id = $1 and storage_id = $2
            union (select previous_id from pilotis.web_promotions
                   where app_id = $1 and storage_id = $2 and channel = 'production' order by promotion_id desc limit 1)
            union (select previous_id from pilotis.web_promotions
                   where app_id = $1 and storage_id = $2 and channel = 'qa' order by promotion_id desc limit 1)
            union (select deployment_id from pilotis.web_deployments
                   where app_id = $1 and storage_id = $2 and status = 'ready' order by version desc limit $3)
        )
        update pilotis.web_deployments d set status = 'expired'
        where app_id = $1 and storage_id = $2 and status = 'ready'
            and not exists (select from kept where id = d.deployment_id)
            and (production_until is null or production_until < now() - make_interval(days => $4))
        returning d.deployment_id
        """,
        app_id,
        storage_id,
        retain,
        PRESERVED_DAYS,
    )
    return [deployment_id for (deployment_id,) in rows]


async def delete_old(connection: Connection, kept: int) -> None:
    """Delete deployments without files, and promotions, that are not among the newest of a storage or a channel.

    Only deployments that have failed or expired have no files: nothing refers to them any more.
    """
    await connection.execute(
        """
        delete from pilotis.web_deployments where (app_id, deployment_id) in (
            select app_id, deployment_id from (
                select app_id, deployment_id, status,
                    row_number() over (partition by app_id, storage_id order by created_at desc, deployment_id) as place
                from pilotis.web_deployments
            ) d
            where place > $1 and status in ('expired', 'failed')
        )
        """,
        kept,
    )
    await connection.execute(
        """
        delete from pilotis.web_promotions where (app_id, promotion_id) in (
            select app_id, promotion_id from (
                select app_id, promotion_id,
                    row_number() over (partition by app_id, storage_id, channel order by promotion_id desc) as place
                from pilotis.web_promotions
            ) p
            where place > $1
        )
        """,
        kept,
    )


async def fail_abandoned(connection: Connection) -> None:
    """Fail deployments that are marked as being processed although no job processes them."""
    await connection.execute(
        """
        update pilotis.web_deployments d set status = 'failed',
            error = '{"code":"ABANDONED","message":"Processing did not come to an end. Deploy again.","details":[]}'
        where status = 'processing' and created_at < now() - interval '10 minutes' and not exists (
            select from pilotis.jobs j
            where j.app_id = d.app_id and j.key = d.deployment_id::text and j.kind = 'hosting.unpack'
                and j.state <> 'dead'
        )
        """
    )

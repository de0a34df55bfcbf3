"""SQL statements for webhooks themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.locks import lock_apps
from pilotis.db.pool import Database, TenantDatabase

_WITH_HEALTH = """
    select w.*, h.failing_since, h.failed_count as failures, h.last_success_at, h.last_failure_at
    from pilotis.webhooks w left join pilotis.webhook_health h using (app_id, webhook_id)
"""


COUNT = "select count(*) from pilotis.webhooks where app_id = $1"
"""The number of an app's webhooks."""


async def insert(connection: Connection, app_id: UUID, webhook_id: UUID, values: Mapping[str, Any]) -> None:
    """Insert a webhook; the names of `values` are columns."""
    names = list(values)
    places = ", ".join(f"${number}" for number in range(3, len(names) + 3))
    await connection.execute(
        f"insert into pilotis.webhooks (app_id, webhook_id, {', '.join(names)}) values ($1, $2, {places})",
        app_id,
        webhook_id,
        *values.values(),
    )


async def update(connection: Connection, app_id: UUID, webhook_id: UUID, values: Mapping[str, Any]) -> None:
    """Change a webhook; the names of `values` are columns."""
    changes = "".join(f"{name} = ${number}, " for number, name in enumerate(values, start=3))
    await connection.execute(
        f"update pilotis.webhooks set {changes}updated_at = clock_timestamp() where app_id = $1 and webhook_id = $2",
        app_id,
        webhook_id,
        *values.values(),
    )


async def count(connection: Connection, app_id: UUID, provider_app_id: UUID) -> int:
    """Return how many webhooks an app has.

    The app's row is locked against further ones until the transaction ends, and so is the provider's, in the order of
    their ids: two apps may consume each other's events.
    """
    await lock_apps(connection, [app_id, provider_app_id])
    number: int = await connection.fetchval(COUNT, app_id)
    return number


async def read(connection: TenantDatabase | Connection, app_id: UUID, webhook_id: UUID) -> Record | None:
    """Return a webhook with its health."""
    return await connection.fetchrow(f"{_WITH_HEALTH} where app_id = $1 and webhook_id = $2", app_id, webhook_id)


async def lock(connection: Connection, app_id: UUID, webhook_id: UUID) -> Record | None:
    """Return a webhook, locked against other changes and the fan-out until the transaction ends."""
    return await connection.fetchrow(
        "select * from pilotis.webhooks where app_id = $1 and webhook_id = $2 for no key update", app_id, webhook_id
    )


async def page(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of an app's webhooks, newest first, and their total number."""
    async with database.connection(app_id, read_only=True) as connection:
        total: int = await connection.fetchval(COUNT, app_id)
        rows = await connection.fetch(
            f"{_WITH_HEALTH} where app_id = $1 order by webhook_id desc limit $2 offset $3", app_id, limit, offset
        )
    return rows, total


async def failing(database: Database, app_id: UUID) -> int:
    """Return how many webhooks of an app fail, or were disabled because they did."""
    number: int = await database.fetchval(
        """
        select count(*) from pilotis.webhooks w left join pilotis.webhook_health h using (app_id, webhook_id)
        where app_id = $1 and (w.is_active and h.failing_since is not null or w.disabled_reason is not null)
        """,
        app_id,
        tenant=app_id,
    )
    return number


async def delete(connection: Connection, app_id: UUID, webhook_id: UUID) -> None:
    """Delete a webhook."""
    await connection.execute("delete from pilotis.webhooks where app_id = $1 and webhook_id = $2", app_id, webhook_id)


async def for_fan_out(connection: Connection, app_id: UUID, webhook_ids: Sequence[UUID]) -> list[Record]:
    """Return those of the listening webhooks that are active, locked against changes until the transaction ends."""
    return await connection.fetch(
        """
        select app_id, webhook_id, client_id, listening_until from pilotis.webhooks
        where webhook_id = any($2) and (app_id = $1 or provider_app_id = $1) and is_active
        order by webhook_id for share
        """,
        app_id,
        list(webhook_ids),
    )


async def for_sending(connection: TenantDatabase, app_id: UUID, webhook_id: UUID) -> Record | None:
    """Return a webhook's data for an attempt; None if it was deleted."""
    return await connection.fetchrow(
        """
        select w.*, a.deleted_at is null as app_is_live from pilotis.webhooks w join pilotis.apps a using (app_id)
        where w.app_id = $1 and w.webhook_id = $2
        """,
        app_id,
        webhook_id,
    )


async def hold_listener(connection: TenantDatabase, app_id: UUID, webhook_id: UUID, seconds: float) -> None:
    """Renew a temporary webhook whose program is still listening, for the given seconds."""
    await connection.execute(
        """
        update pilotis.webhooks set listening_until = now() + make_interval(secs => $3)
        where app_id = $1 and webhook_id = $2
        """,
        app_id,
        webhook_id,
        seconds,
    )


async def lost_listeners(connection: TenantDatabase) -> list[Record]:
    """Return temporary webhooks whose program ended without deleting them."""
    return await connection.fetch("select app_id, webhook_id from pilotis.webhooks where listening_until < now()")


async def forget_purged_tables(connection: Connection) -> None:
    """Remove the ids of deleted tables from webhooks' table sets; an empty set matches nothing."""
    await connection.execute(
        """
        update pilotis.webhooks w set table_ids = array(
            select id from unnest(w.table_ids) id
            where exists (select from pilotis.tables t where t.app_id = w.app_id and t.table_id = id)
        )
        where exists (
            select from unnest(w.table_ids) id
            where not exists (select from pilotis.tables t where t.app_id = w.app_id and t.table_id = id)
        )
        """
    )


async def orphaned_targets(connection: Connection, kind: str) -> list[Record]:
    """Return the targets of webhooks that no longer exist."""
    return await connection.fetch(
        """
        select t.app_id, t.target_id from pilotis.event_targets t
        where t.kind = $1 and not exists (select from pilotis.webhooks w where w.webhook_id = t.target_id)
        """,
        kind,
    )

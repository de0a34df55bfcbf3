"""SQL statements for webhooks themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.locks import lock_apps
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class WebhookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook; its secrets and headers are encrypted."""

    app_id: UUID
    webhook_id: UUID
    name: str
    description: str
    url: str
    event_types: list[str]
    table_ids: list[UUID] | None
    provider_app_id: UUID | None
    client_id: str | None
    headers: bytes | None
    header_names: list[str]
    secret: bytes
    secret_prefix: str
    previous_secret: bytes | None
    previous_secret_expires_at: datetime | None
    timeout_seconds: int
    max_in_flight: int
    is_active: bool
    disabled_reason: str | None
    listening_until: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def emitting_app_id(self) -> UUID:
        """The app whose events it receives."""
        return self.provider_app_id or self.app_id


class CheckedWebhook(WebhookRecord, frozen=True, kw_only=True):
    """A webhook with its health: since when all attempts fail, and when the last ones ended."""

    failing_since: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None


class SendingWebhook(WebhookRecord, frozen=True, kw_only=True):
    """A webhook for an attempt; `app_is_live` is false while its app is deleted."""

    app_is_live: bool


class ListeningWebhook(NamedTuple):
    """What the fan-out needs of a webhook; a program's temporary one has `listening_until`."""

    app_id: UUID
    webhook_id: UUID
    client_id: str | None
    listening_until: datetime | None


_COLUMNS = columns(WebhookRecord, "w")
_WITH_HEALTH = f"""
    select {_COLUMNS}, h.failing_since, h.last_success_at, h.last_failure_at
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


async def read(connection: TenantDatabase | Connection, app_id: UUID, webhook_id: UUID) -> CheckedWebhook | None:
    """Return a webhook with its health."""
    row = await connection.fetchrow(f"{_WITH_HEALTH} where app_id = $1 and webhook_id = $2", app_id, webhook_id)
    return CheckedWebhook(**row) if row else None


async def lock(connection: Connection, app_id: UUID, webhook_id: UUID) -> WebhookRecord | None:
    """Return a webhook, locked against other changes and the fan-out until the transaction ends."""
    row = await connection.fetchrow(
        f"select {_COLUMNS} from pilotis.webhooks w where app_id = $1 and webhook_id = $2 for no key update",
        app_id,
        webhook_id,
    )
    return WebhookRecord(**row) if row else None


async def page(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[CheckedWebhook], int]:
    """Return a page of an app's webhooks, newest first, and their total number."""
    async with database.connection(app_id, read_only=True) as connection:
        total: int = await connection.fetchval(COUNT, app_id)
        rows = await connection.fetch(
            f"{_WITH_HEALTH} where app_id = $1 order by webhook_id desc limit $2 offset $3", app_id, limit, offset
        )
    return [CheckedWebhook(**row) for row in rows], total


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


async def for_fan_out(connection: Connection, app_id: UUID, webhook_ids: Sequence[UUID]) -> list[ListeningWebhook]:
    """Return those of the listening webhooks that are active, locked against changes until the transaction ends."""
    rows = await connection.fetch(
        """
        select app_id, webhook_id, client_id, listening_until from pilotis.webhooks
        where webhook_id = any($2) and (app_id = $1 or provider_app_id = $1) and is_active
        order by webhook_id for share
        """,
        app_id,
        list(webhook_ids),
    )
    return [ListeningWebhook(*row) for row in rows]


async def for_sending(connection: TenantDatabase, app_id: UUID, webhook_id: UUID) -> SendingWebhook | None:
    """Return a webhook's data for an attempt; None if it was deleted."""
    row = await connection.fetchrow(
        f"""
        select {_COLUMNS}, a.deleted_at is null as app_is_live
        from pilotis.webhooks w join pilotis.apps a using (app_id)
        where w.app_id = $1 and w.webhook_id = $2
        """,
        app_id,
        webhook_id,
    )
    return SendingWebhook(**row) if row else None


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


async def lost_listeners(connection: TenantDatabase) -> list[tuple[UUID, UUID]]:
    """Return temporary webhooks whose program ended without deleting them, each with its app's id first."""
    rows = await connection.fetch("select app_id, webhook_id from pilotis.webhooks where listening_until < now()")
    return [(app_id, webhook_id) for app_id, webhook_id in rows]


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


async def orphaned_targets(connection: Connection, kind: str) -> list[tuple[UUID, UUID]]:
    """Return the targets of webhooks that no longer exist, each with its app's id first."""
    rows = await connection.fetch(
        """
        select t.app_id, t.target_id from pilotis.event_targets t
        where t.kind = $1 and not exists (select from pilotis.webhooks w where w.webhook_id = t.target_id)
        """,
        kind,
    )
    return [(app_id, target_id) for app_id, target_id in rows]

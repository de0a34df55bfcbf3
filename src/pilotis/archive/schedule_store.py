"""When archives of apps are made, in the database."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import TenantDatabase

_READ = """
    select a.cron, a.timezone, a.keep, a.passphrase, a.with_secrets, s.next_run_at, s.last_run_at
    from pilotis.archive_schedules a
    left join pilotis.schedules s on s.app_id = a.app_id and s.schedule_id = a.app_id
    where a.app_id = $1
"""


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """When archives of an app are made, with the encrypted passphrase, and when the next and the last one are due."""

    cron: str
    timezone: str | None
    keep: int
    passphrase: bytes | None
    with_secrets: bool
    next_run_at: datetime | None
    last_run_at: datetime | None


async def read(connection: Connection | TenantDatabase, app_id: UUID) -> ScheduleRow | None:
    """Return the schedule of an app."""
    row = await connection.fetchrow(_READ, app_id)
    return ScheduleRow(**row) if row is not None else None


async def due(connection: Connection, app_id: UUID) -> ScheduleRow | None:
    """Return the schedule of an app that was not deleted."""
    row = await connection.fetchrow(
        f"{_READ} and exists (select from pilotis.apps where app_id = $1 and deleted_at is null)", app_id
    )
    return ScheduleRow(**row) if row is not None else None


async def put(
    connection: Connection,
    app_id: UUID,
    cron: str,
    timezone: str | None,
    keep: int,
    passphrase: bytes | None,
    *,
    with_secrets: bool,
) -> None:
    """Set the schedule of an app."""
    await connection.execute(
        """
        insert into pilotis.archive_schedules (app_id, cron, timezone, keep, passphrase, with_secrets)
        values ($1, $2, $3, $4, $5, $6)
        on conflict (app_id) do update set cron = excluded.cron, timezone = excluded.timezone, keep = excluded.keep,
            passphrase = excluded.passphrase, with_secrets = excluded.with_secrets
        """,
        app_id,
        cron,
        timezone,
        keep,
        passphrase,
        with_secrets,
    )


async def delete(connection: Connection, app_id: UUID) -> bool:
    """Delete the schedule of an app; False if it has none."""
    gone = await connection.fetchval("delete from pilotis.archive_schedules where app_id = $1 returning true", app_id)
    return bool(gone)

"""Schedules: each slot fires once in the whole cluster, in the transaction that advances the schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from asyncpg import Connection
from cronsim import CronSim, CronSimError

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.jobs.kinds import SERVER, DueSchedule, Periodic, ScheduleKind
from pilotis.kit.errors import invalid

PERIODIC = "periodic"
"""The schedule kind of the features' periodic tasks."""
FIRED_BY = f"case kind when '{PERIODIC}' then target_id else kind end"
"""What a schedule asks of the process that fires it: its kind or, if it is a periodic task, which one.

While two versions run, each has tasks that the other does not know, which it would skip.
"""

_NAMESPACE = UUID("6b7e2f4e-7d0c-4d57-8a3e-2f5ea1c0a7d1")
_BATCH_SIZE = 100
# A slot that no process could fire for longer than this is skipped.
_MISSED = timedelta(hours=1)
_FORGOTTEN_DAYS = 1

_SHORTCUTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


def cron_of(text: str, timezone: str | None, after: datetime) -> str:
    """Return what a user gives as a schedule as an expression of five fields; it is due at most once a minute.

    Raises an error about `cron`, also for dates that never come, or about `timezone`.
    """
    cron = _SHORTCUTS.get(text.strip(), text)
    if (number := len(cron.split())) != 5:
        raise invalid(
            "cron",
            "Five fields are expected, minute, hour, day of the month, month and weekday, such as 30 2 * * *, "
            f"or one of {', '.join(_SHORTCUTS)}; there {'is' if number == 1 else 'are'} {number}.",
        )
    if next_run(cron, timezone, after) is None:
        raise invalid("cron", "These dates never come.")
    return cron


def next_run(cron: str, timezone: str | None, after: datetime) -> datetime | None:
    """Return the first time after `after` that matches a cron expression in a time zone, in UTC; None if there is none.

    As in Debian's cron, a time skipped when clocks go forward fires at the jump, and a time that occurs twice when
    clocks go back fires once. Raises an error about the invalid field.
    """
    try:
        zone = ZoneInfo(timezone or "UTC")
    except (KeyError, ValueError, OSError):
        raise invalid("timezone", f"{timezone} is not an IANA time zone, such as Europe/Vienna.") from None
    try:
        found = next(CronSim(cron, after.astimezone(zone)), None)
    except CronSimError as error:
        raise invalid("cron", f"The cron expression is invalid: {error}.") from None
    return None if found is None else found.astimezone(UTC)


async def put_periodic(database: Database, tasks: Sequence[Periodic]) -> None:
    """Store the schedules of periodic tasks; an existing schedule keeps its time unless the period has changed."""
    await database.execute(
        """
        insert into pilotis.schedules as s (app_id, schedule_id, kind, target_id, every_seconds, next_run_at)
        select $1, t.id, $2, t.name, t.every, now() + make_interval(secs => random() * least(t.every, 60))
        from unnest($3::uuid[], $4::text[], $5::float8[]) as t (id, name, every)
        on conflict (app_id, schedule_id) do update set
            every_seconds = excluded.every_seconds, next_run_at = least(s.next_run_at, excluded.next_run_at)
        where s.every_seconds is distinct from excluded.every_seconds
        """,
        SERVER,
        PERIODIC,
        [uuid5(_NAMESPACE, task.name) for task in tasks],
        [task.name for task in tasks],
        [task.every_seconds for task in tasks],
        tenant=BACKGROUND,
    )


async def put(
    connection: Connection, app_id: UUID, schedule_id: UUID, kind: str, target_id: str, cron: str, timezone: str | None
) -> datetime | None:
    """Create or replace the cron schedule of an id; return when it is first due."""
    now: datetime = await connection.fetchval("select clock_timestamp()")
    due = next_run(cron, timezone, now)
    await connection.execute(
        """
        insert into pilotis.schedules (app_id, schedule_id, kind, target_id, cron, timezone, next_run_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (app_id, schedule_id) do update set
            target_id = excluded.target_id, cron = excluded.cron, timezone = excluded.timezone,
            next_run_at = excluded.next_run_at
        """,
        app_id,
        schedule_id,
        kind,
        target_id,
        cron,
        timezone,
        due,
    )
    return due


async def lock(connection: Connection, app_id: UUID, schedule_ids: Sequence[UUID]) -> None:
    """Lock schedules until the transaction ends: before what they start, as when they fire."""
    await connection.execute(
        """
        select from pilotis.schedules where app_id = $1 and schedule_id = any($2) order by schedule_id for update
        """,
        app_id,
        list(schedule_ids),
    )


async def remove(connection: Connection, app_id: UUID, schedule_id: UUID) -> None:
    """Delete a schedule if it exists."""
    await connection.execute(
        "delete from pilotis.schedules where app_id = $1 and schedule_id = $2", app_id, schedule_id
    )


class _Due(NamedTuple):
    app_id: UUID
    schedule_id: UUID
    kind: str
    target_id: str
    next_run_at: datetime
    every_seconds: float | None
    cron: str | None
    timezone: str | None
    now: datetime


class Fired(NamedTuple):
    """The number of due schedules, the time of the next one (None for never), and the current time, in UTC."""

    number: int
    next_due: datetime | None
    now: datetime


async def delete_of_purged_apps(connection: Connection) -> None:
    """Delete the schedules of apps that are no more: the server's own have no app, so that no key refers to one."""
    await connection.execute(
        """
        delete from pilotis.schedules s
        where s.app_id <> $1 and not exists (select from pilotis.apps a where a.app_id = s.app_id)
        """,
        SERVER,
    )


async def delete_of_former_tasks(connection: Connection, names: Sequence[str]) -> list[str]:
    """Delete the schedules of periodic tasks that are not among `names` and nobody fired for a day; return which."""
    rows = await connection.fetch(
        """
        delete from pilotis.schedules
        where app_id = $1 and kind = $2 and target_id <> all($3::text[])
            and next_run_at < now() - make_interval(days => $4, secs => every_seconds)
        returning target_id
        """,
        SERVER,
        PERIODIC,
        list(names),
        _FORGOTTEN_DAYS,
    )
    return [name for (name,) in rows]


async def fire_due(database: Database, kinds: Mapping[str, ScheduleKind]) -> Fired:
    """Fire the due schedules of these kinds and periodic tasks, each for one slot."""
    async with database.transaction(BACKGROUND) as connection:
        rows = await connection.fetch(
            f"""
            select app_id, schedule_id, kind, target_id, next_run_at, every_seconds, cron, timezone,
                clock_timestamp() as now
            from pilotis.schedules
            where next_run_at <= clock_timestamp() and {FIRED_BY} = any($1::text[])
            order by next_run_at limit $2 for update skip locked
            """,
            list(kinds),
            _BATCH_SIZE,
        )
        for row in (_Due(*values) for values in rows):
            slot, following = slots(row.next_run_at, row.now, row.every_seconds, row.cron, row.timezone)
            if row.now - slot <= _MISSED:
                due = DueSchedule(
                    app_id=row.app_id, schedule_id=row.schedule_id, kind=row.kind, target_id=row.target_id
                )
                await kinds[row.target_id if row.kind == PERIODIC else row.kind].fire(connection, due, slot)
            await connection.execute(
                """
                update pilotis.schedules set next_run_at = $3, last_run_at = $4
                where app_id = $1 and schedule_id = $2
                """,
                row.app_id,
                row.schedule_id,
                following,
                slot,
            )
        upcoming = await connection.fetchrow(
            f"""
            select min(next_run_at) as next_due, clock_timestamp() as now from pilotis.schedules
            where {FIRED_BY} = any($1::text[])
            """,
            list(kinds),
        )
    assert upcoming is not None
    return Fired(len(rows), *upcoming)


def slots(
    due: datetime, now: datetime, every: float | None, cron: str | None, timezone: str | None
) -> tuple[datetime, datetime | None]:
    """Return the slot to fire of a schedule that is `due`, the latest past one, and the next slot.

    Slots between were missed. The schedule repeats after so many seconds, or by a cron expression.
    """
    if every is not None:
        passed = math.floor((now - due) / timedelta(seconds=every))
        slot = due + timedelta(seconds=every * passed)
        return slot, slot + timedelta(seconds=every)
    assert cron is not None
    slot = due
    # Start shortly before now, not at the slot: a one-minute schedule that was off for a week has 10,080 missed slots.
    start = max(due, now - _MISSED)
    following = next_run(cron, timezone, start - timedelta(seconds=1) if start > due else due)
    while following is not None and following <= now:
        slot, following = following, next_run(cron, timezone, following)
    return slot, following

"""SQL statements for events, their targets and the outboxes of apps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Connection, InvalidSchemaNameError, Record, UndefinedTableError

from pilotis.db.filters import Filters
from pilotis.db.log_sizes import purged
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND
from pilotis.events.statements import arrays, emission, keeping, selected, storing
from pilotis.events.types import Event, Target
from pilotis.kit.ids import earliest_uuid7

MAX_TRIES = 3
"""After how many failures an event that cannot be dispatched is skipped."""

_EMIT = emission("$1::uuid", "$2")
_KEEP = storing("dispatched_at", "now()")
_SET_ASIDE = storing("tries", "1", "on conflict (app_id, event_id) do update set tries = stored.tries + 1")


def outbox(app_id: UUID) -> str:
    """Return the name of the table into which statements on rows write their events."""
    return f"app_{app_id.hex}.__events"


async def emit(connection: Connection, app_id: UUID, events: str) -> bool:
    """Store those events, as JSON text of `NewEvent`s, that have a target in the app; return whether there were any."""
    return await connection.execute(_EMIT, app_id, events) != "INSERT 0 0"


async def targets(connection: Connection | TenantDatabase, app_id: UUID) -> list[Target]:
    """Return all targets of an app, including pending ones."""
    rows = await connection.fetch(
        """
        select app_id, kind, target_id, types, table_ids, storage_id from pilotis.event_targets where app_id = $1
        """,
        app_id,
    )
    return [Target(**row) for row in rows]


async def store_target(connection: Connection, target: Target, *, state: str) -> None:
    """Insert or replace a target."""
    await connection.execute(
        """
        insert into pilotis.event_targets (app_id, kind, target_id, types, table_ids, storage_id, state)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (app_id, kind, target_id) do update set types = excluded.types, table_ids = excluded.table_ids,
            storage_id = excluded.storage_id, state = excluded.state
        """,
        target.app_id,
        target.kind,
        target.target_id,
        list(target.types),
        None if target.table_ids is None else list(target.table_ids),
        target.storage_id,
        state,
    )


async def set_active(connection: Connection | TenantDatabase, app_id: UUID, kind: str, target_id: UUID) -> None:
    """Record that every table of the target emits events."""
    await connection.execute(
        """
        update pilotis.event_targets set state = 'active' where app_id = $1 and kind = $2 and target_id = $3
        """,
        app_id,
        kind,
        target_id,
    )


async def remove_target(connection: Connection, app_id: UUID, kind: str, target_id: UUID) -> None:
    """Delete a target."""
    await connection.execute(
        "delete from pilotis.event_targets where app_id = $1 and kind = $2 and target_id = $3", app_id, kind, target_id
    )


async def pending_targets(connection: TenantDatabase, app_id: UUID, kind: str) -> set[UUID]:
    """Return the ids of an app's targets of a kind whose tables do not emit all events yet."""
    rows = await connection.fetch(
        "select target_id from pilotis.event_targets where app_id = $1 and kind = $2 and state = 'arming'", app_id, kind
    )
    return {target_id for (target_id,) in rows}


async def keep(connection: Connection, app_id: UUID, events: str) -> None:
    """Store events, as JSON text of `NewEvent`s, as dispatched, whether they have targets or not."""
    await connection.execute(keeping("$1::uuid", "$2"), app_id, events)


async def event(connection: TenantDatabase | Connection, app_id: UUID, event_id: UUID) -> Event | None:
    """Return an event."""
    row = await connection.fetchrow(
        f"select {selected()} from pilotis.events where app_id = $1 and event_id = $2", app_id, event_id
    )
    return None if row is None else _event(app_id, row)


async def has_payload(connection: TenantDatabase | Connection, app_id: UUID, event_id: UUID) -> bool:
    """Return whether an event is stored with its data."""
    return bool(
        await connection.fetchval(
            "select has_payload from pilotis.events where app_id = $1 and event_id = $2", app_id, event_id
        )
    )


async def page(
    connection: TenantDatabase, app_id: UUID, type_: str | None, since: datetime | None, before: UUID | None, limit: int
) -> list[Event]:
    """Return a page of events, newest first."""
    asked = Filters({"app_id": app_id}).equal("type", type_).between("created_at", "event_id", since, None)
    asked.add("event_id < {}", before)
    size = asked.argument(limit)
    rows = await connection.fetch(
        f"select {selected()} from pilotis.events where {asked.text} order by event_id desc limit {size}",
        *asked.arguments,
    )
    return [_event(app_id, row) for row in rows]


async def since(
    connection: TenantDatabase, app_id: UUID, type_: str | None, after: UUID, without: Sequence[UUID], limit: int
) -> list[Event]:
    """Return events with later ids than `after`, oldest first, without some of them."""
    asked = Filters({"app_id": app_id}).equal("type", type_).add("event_id > {}", after)
    asked.add("event_id <> all({})", without)
    size = asked.argument(limit)
    rows = await connection.fetch(
        f"select {selected()} from pilotis.events where {asked.text} order by event_id limit {size}", *asked.arguments
    )
    return [_event(app_id, row) for row in rows]


async def ids_since(connection: TenantDatabase, app_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return the ids of at most `limit` events with later ids than `after`."""
    rows = await connection.fetch(
        "select event_id from pilotis.events where app_id = $1 and event_id > $2 limit $3", app_id, after, limit
    )
    return [event_id for (event_id,) in rows]


async def pending(database: Database) -> list[tuple[UUID, str, UUID]]:
    """Return app, kind and id of targets that a process has stored but not enabled yet: it died, for example."""
    rows = await database.fetch(
        "select app_id, kind, target_id from pilotis.event_targets where state = 'arming'", tenant=BACKGROUND
    )
    return [(app_id, kind, target_id) for app_id, kind, target_id in rows]


async def register_outbox(connection: Connection, app_id: UUID) -> None:
    """Record that the app has an outbox to check, and lock this record until the transaction ends."""
    # `create table if not exists` fails when two transactions create the table at once; the lock keeps them apart.
    await connection.execute(
        """
        insert into pilotis.outboxes as o (app_id) values ($1)
        on conflict (app_id) do update set due_at = o.due_at
        """,
        app_id,
    )


async def due_outboxes(database: Database, limit: int, seconds: float) -> list[UUID]:
    """Return apps whose outboxes have not been checked for long, and record that they are checked now."""
    rows = await database.fetch(
        """
        update pilotis.outboxes o set due_at = now() + make_interval(secs => $2)
        from (select app_id from pilotis.outboxes where due_at <= now() order by due_at limit $1
              for update skip locked) due
        where o.app_id = due.app_id returning o.app_id
        """,
        limit,
        seconds,
        tenant=BACKGROUND,
    )
    return [app_id for (app_id,) in rows]


async def has_outbox(connection: Connection, app_id: UUID) -> bool:
    """Return whether the app has a table for row events."""
    return bool(await connection.fetchval("select to_regclass($1) is not null", outbox(app_id)))


async def make_outbox_due(connection: Connection, app_id: UUID, seconds: float = 0.0) -> None:
    """Make an app's outbox due in at most `seconds` once this is committed, for any process that dispatches."""
    await connection.execute(
        """
        update pilotis.outboxes set due_at = now() + make_interval(secs => $2)
        where app_id = $1 and due_at > now() + make_interval(secs => $2)
        """,
        app_id,
        seconds,
    )


async def make_outboxes_due(connection: Connection) -> None:
    """Make every outbox due now: a process that may have written to any of them has died."""
    await connection.execute("update pilotis.outboxes set due_at = now() where due_at > now()")


ROW_BYTES = "pg_column_size(data) + 400"
"""The bytes of an event with its index entries, as SQL."""


async def own_limits(connection: Connection, name: str) -> dict[UUID, int]:
    """Return the values that apps have set for a limit."""
    rows = await connection.fetch(
        "select app_id, (limits ->> $1)::bigint as value from pilotis.apps where limits ? $1", name
    )
    return dict(map(tuple, rows))


async def delete_old_of(connection: Connection, app_id: UUID, days: int, limit: int) -> int:
    """Delete at most `limit` events of an app as `delete_old` does; return their number."""
    status = await connection.execute(
        f"""
        delete from pilotis.events where app_id = $1 and event_id = any(array(
            select event_id from pilotis.events
            where app_id = $1 and created_at < now() - make_interval(days => $2)
                and event_id < $4 and (dispatched_at is not null or tries >= {MAX_TRIES})
            order by event_id limit $3
        ))
        """,
        app_id,
        days,
        limit,
        earliest_uuid7(round(((await _now(connection)) - timedelta(days=days, minutes=-1)).timestamp() * 1000)),
    )
    return int(status.split()[1])


async def delete_oldest(connection: Connection, app_id: UUID, number: int) -> int:
    """Delete the oldest dispatched events of an app, whatever their age; return their number."""
    status = await connection.execute(
        f"""
        delete from pilotis.events where app_id = $1 and event_id = any(array(
            select event_id from pilotis.events
            where app_id = $1 and (dispatched_at is not null or tries >= {MAX_TRIES}) order by event_id limit $2
        ))
        """,
        app_id,
        number,
    )
    return int(status.split()[1])


async def delete_payloads(connection: Connection, app_ids: Sequence[UUID], event_ids: Sequence[UUID]) -> None:
    """Delete the data of events, which become JSON null."""
    await connection.execute(
        """
        update pilotis.events e set data = 'null', has_payload = false
        from unnest($1::uuid[], $2::uuid[]) as gone (app_id, event_id)
        where e.app_id = gone.app_id and e.event_id = gone.event_id
        """,
        list(app_ids),
        list(event_ids),
    )


async def _now(connection: Connection) -> datetime:
    moment: datetime = await connection.fetchval("select now()")
    return moment


async def delete_old(connection: Connection, days: int, limit: int) -> int:
    """Delete at most `limit` events that were dispatched or skipped, and stored `days` ago; return their number."""
    # One statement for each of the two partial indexes: with `or` PostgreSQL would read the whole table.
    ended = ("dispatched_at is not null", f"dispatched_at is null and tries >= {MAX_TRIES}")
    return sum([await _delete_old(connection, condition, days, limit) for condition in ended])


async def _delete_old(connection: Connection, condition: str, days: int, limit: int) -> int:
    status = await connection.execute(
        f"""
        delete from pilotis.events where (app_id, event_id) in (
            select app_id, event_id from pilotis.events
            where created_at < now() - make_interval(days => $1) and {condition} order by created_at limit $2
        )
        """,
        days,
        limit,
    )
    return int(status.split()[1])


async def delete_orphans(connection: Connection, limit: int) -> int:
    """Delete targets, outboxes and events of apps that were purged; return how many events, at most `limit`."""
    gone = "not exists (select from pilotis.apps a where a.app_id = e.app_id)"
    await connection.execute(f"delete from pilotis.event_targets e where {gone}")
    await connection.execute(f"delete from pilotis.outboxes e where {gone}")
    status = await connection.execute(
        f"delete from pilotis.events where (app_id, event_id) in ({purged('pilotis.events', 'event_id')})", limit
    )
    return int(status.split()[1])


async def oldest_waiting(connection: Connection) -> datetime | None:
    """Return when the oldest event that is still to be dispatched was stored, over all apps."""
    rows = await connection.fetch("select app_id from pilotis.outboxes")
    times = [
        await connection.fetchval(f"select min(created_at) from {outbox(app_id)}")
        for (app_id,) in rows
        if await has_outbox(connection, app_id)
    ]
    times.append(
        await connection.fetchval(
            f"select min(created_at) from pilotis.events where dispatched_at is null and tries < {MAX_TRIES}"
        )
    )
    return min((time for time in times if time is not None), default=None)


async def count_waiting(database: Database) -> int:
    """Return how many events are still to be dispatched, over all apps."""
    tenant = database.of(BACKGROUND)
    total: int = await tenant.fetchval(
        f"select count(*) from pilotis.events where dispatched_at is null and tries < {MAX_TRIES}"
    )
    for app_id in await listened_apps(database):
        # The app may have been purged, or its table may not exist yet.
        with suppress(UndefinedTableError, InvalidSchemaNameError):
            total += await tenant.fetchval(f"select count(*) from {outbox(app_id)}")
    return total


async def given_up(connection: Connection) -> int:
    """Return how many events could not be dispatched and were skipped."""
    number: int = await connection.fetchval(
        f"select count(*) from pilotis.events where dispatched_at is null and tries >= {MAX_TRIES}"
    )
    return number


async def listened_apps(database: Database) -> list[UUID]:
    """Return the apps that have an outbox to check."""
    rows = await database.fetch("select app_id from pilotis.outboxes order by app_id", tenant=BACKGROUND)
    return [app_id for (app_id,) in rows]


async def take_row_events(connection: Connection, app_id: UUID, limit: int) -> list[Event]:
    """Delete the oldest events from the app's outbox and return them; skips those that another process has locked."""
    rows = await connection.fetch(
        f"""
        delete from {outbox(app_id)} where event_id = any(array(
            select event_id from {outbox(app_id)} order by event_id limit $1 for update skip locked
        ))
        returning {selected(version="1::smallint", storage_id="null::uuid")}
        """,
        limit,
    )
    return sorted((_event(app_id, row) for row in rows), key=lambda event: event.event_id)


async def undispatched(connection: Connection, app_id: UUID, limit: int) -> list[Event]:
    """Return the app's oldest undispatched events, locked; skips those that another process has locked."""
    rows = await connection.fetch(
        f"""
        select {selected()} from pilotis.events
        where app_id = $1 and dispatched_at is null and tries < {MAX_TRIES}
        order by event_id limit $2 for update skip locked
        """,
        app_id,
        limit,
    )
    return [_event(app_id, row) for row in rows]


async def store_row_events(connection: Connection, events: Sequence[Event]) -> None:
    """Store row events that a target took, for later deliveries."""
    await connection.execute(_KEEP, *arrays(events))


async def mark_dispatched(connection: Connection, app_id: UUID, taken: Sequence[UUID], untaken: Sequence[UUID]) -> None:
    """Mark events as dispatched, and delete those that no target took."""
    await connection.execute(
        "update pilotis.events set dispatched_at = now() where app_id = $1 and event_id = any($2)", app_id, list(taken)
    )
    await connection.execute(
        "delete from pilotis.events where app_id = $1 and event_id = any($2)", app_id, list(untaken)
    )


async def record_failures(connection: Connection, events: Sequence[Event]) -> None:
    """Count a failure of events that could not be dispatched; this moves row events to the other events."""
    await connection.execute(_SET_ASIDE, *arrays(events))


def _event(app_id: UUID, row: Record) -> Event:
    return Event(app_id=app_id, **row)

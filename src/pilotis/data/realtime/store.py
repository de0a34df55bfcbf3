"""SQL statements for the logs of changes and the watched tables."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.data.rows.change_log import MAX_READ, log_of, read_log
from pilotis.db.pool import Database
from pilotis.kit import json

LEASE_SECONDS = 60
"""How long a process's wish to hear of a table lasts without being renewed."""
UNWATCHED_SECONDS = 3600
"""How long a table's statements go on writing the log after nobody listens to it any more."""


class Entry(NamedTuple):
    """An entry of the log: its number, the table, `c` `u` `d` or `b`, the row unless it is `b`, and milliseconds."""

    seq: int
    table_id: str
    op: str
    row_id: str | None
    moment: int


class Unseen(NamedTuple):
    """What a snapshot has not seen, and the snapshot that has. `entries` is None if they are too many."""

    epoch: str
    snapshot: str
    entries: list[Entry] | None


_entries = json.decoder(list[Entry])


async def read(database: Database, app_id: UUID, snapshot: str) -> Unseen:
    """Return what a snapshot has not seen of an app's log."""
    row = await database.fetchrow(read_log(app_id), snapshot, tenant=app_id)
    if row is None:
        # A crash has emptied the log.
        await database.execute(
            f"insert into {log_of(app_id)}_epoch default values on conflict do nothing", tenant=app_id
        )
        return await read(database, app_id, snapshot)
    entries = _entries.decode(row["changes"])
    return Unseen(row["epoch"], row["snapshot"], entries if len(entries) <= MAX_READ else None)


async def register(connection: Connection, app_id: UUID) -> None:
    """Record that an app has a log, and lock this record, so that only one transaction creates it."""
    await connection.execute(
        """
        insert into pilotis.change_logs as l (app_id) values ($1)
        on conflict (app_id) do update set app_id = l.app_id
        """,
        app_id,
    )


async def watch(database: Database, app_id: UUID, node_id: UUID, table_ids: list[UUID]) -> list[UUID]:
    """Record that a process listens to tables, and return those whose statements do not write the log yet."""
    rows = await database.fetch(
        """
        with watched as (
            insert into pilotis.watches as w (app_id, table_id, node_id, until)
            select t.app_id, t.table_id, $2, now() + make_interval(secs => $4)
            from pilotis.tables t where t.app_id = $1 and t.table_id = any($3::uuid[]) and t.dropped_at is null
            on conflict (app_id, table_id, node_id) do update set until = excluded.until
        )
        select table_id from pilotis.tables
        where app_id = $1 and table_id = any($3::uuid[]) and dropped_at is null and not watched
        """,
        app_id,
        node_id,
        table_ids,
        LEASE_SECONDS,
        tenant=app_id,
    )
    return [table_id for (table_id,) in rows]


async def is_watched(connection: Connection, app_id: UUID, table_id: UUID) -> bool:
    """Return whether a process listens to a table, or has listened to it within the last hour."""
    found: bool = await connection.fetchval(
        """
        select exists (
            select from pilotis.watches
            where app_id = $1 and table_id = $2 and until > now() - make_interval(secs => $3)
        )
        """,
        app_id,
        table_id,
        UNWATCHED_SECONDS,
    )
    return found


async def unwatched(connection: Connection) -> list[tuple[UUID, UUID]]:
    """Return the tables whose statements write the log though nobody has listened to them for an hour."""
    rows = await connection.fetch(
        """
        select t.app_id, t.table_id from pilotis.tables t
        where t.watched and t.dropped_at is null and not exists (
            select from pilotis.watches w where w.app_id = t.app_id and w.table_id = t.table_id
                and w.until > now() - make_interval(secs => $1)
        )
        """,
        UNWATCHED_SECONDS,
    )
    return [(app_id, table_id) for app_id, table_id in rows]


async def forget_watches(connection: Connection) -> None:
    """Delete the wishes to hear of tables that ended long ago."""
    await connection.execute(
        "delete from pilotis.watches where until < now() - make_interval(secs => $1)", UNWATCHED_SECONDS
    )


async def logs(connection: Connection) -> list[UUID]:
    """Return the apps that have a log; forget those whose schema is gone."""
    await connection.execute(
        """
        delete from pilotis.change_logs l
        where not exists (select from pilotis.apps a where a.app_id = l.app_id)
        """
    )
    rows = await connection.fetch("select app_id from pilotis.change_logs order by app_id")
    return [app_id for (app_id,) in rows]


async def trim(connection: Connection, app_id: UUID, seconds: int, most: int) -> None:
    """Delete the entries of a log that are older than some seconds, and the oldest beyond a number."""
    log = log_of(app_id)
    await connection.execute(
        f"""
        delete from {log} where at < now() - make_interval(secs => $1)
            or seq <= (select max(seq) from {log}) - $2
        """,
        seconds,
        most,
    )

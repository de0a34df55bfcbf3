"""SQL statements for channels: what apps declare, and what processes tell each other."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.kit import json

NODE_SECONDS = 11
"""How long a process that listens is remembered without saying so again, which it does every three to four seconds."""
_MESSAGE_SECONDS = 60


class Told(NamedTuple):
    """Messages of other processes, and the snapshot that has seen them."""

    snapshot: str
    bodies: list[str]


async def read(database: Database, app_id: UUID) -> str | None:
    """Return the stored channels of an app."""
    found: str | None = await database.fetchval(
        "select patterns::text from pilotis.channels where app_id = $1", app_id, tenant=app_id
    )
    return found


async def patterns(connection: Connection, app_id: UUID) -> str | None:
    """Return the stored channels of an app, in a transaction."""
    found: str | None = await connection.fetchval(
        "select patterns::text from pilotis.channels where app_id = $1", app_id
    )
    return found


async def save(connection: Connection, app_id: UUID, patterns: str) -> None:
    """Store the channels of an app."""
    await connection.execute(
        """
        insert into pilotis.channels as c (app_id, patterns) values ($1, $2)
        on conflict (app_id) do update set patterns = excluded.patterns, updated_at = now()
        """,
        app_id,
        patterns,
    )


async def names_table(connection: Connection | TenantDatabase, app_id: UUID, table_id: UUID) -> bool:
    """Return whether rules of channels name a table."""
    found: bool = await connection.fetchval(
        """
        select exists (
            select from pilotis.channels where app_id = $1 and position($2::uuid::text in patterns::text) > 0
        )
        """,
        app_id,
        table_id,
    )
    return found


async def listen(database: Database, app_id: UUID, node_id: UUID) -> list[UUID]:
    """Record that a process listens to an app's channels, and return the others that do."""
    rows = await database.fetch(
        """
        with me as (
            insert into pilotis.channel_nodes as n (app_id, node_id, until)
            values ($1, $2, now() + make_interval(secs => $3))
            on conflict (app_id, node_id) do update set until = excluded.until
        )
        select node_id from pilotis.channel_nodes where app_id = $1 and node_id <> $2 and until > now()
        """,
        app_id,
        node_id,
        NODE_SECONDS,
        tenant=app_id,
    )
    return [node_id for (node_id,) in rows]


async def others(database: Database, app_id: UUID, node_id: UUID) -> list[UUID]:
    """Return the other processes that listen to an app's channels."""
    rows = await database.fetch(
        "select node_id from pilotis.channel_nodes where app_id = $1 and node_id <> $2 and until > now()",
        app_id,
        node_id,
        tenant=app_id,
    )
    return [node_id for (node_id,) in rows]


async def tell(database: Database, app_id: UUID, node_id: UUID, bodies: list[str]) -> None:
    """Leave messages for the other processes."""
    await database.execute(
        "insert into pilotis.channel_messages (app_id, node_id, body) select $1, $2, unnest($3::text[])",
        app_id,
        node_id,
        bodies,
        tenant=app_id,
    )


async def heard(database: Database, app_id: UUID, node_id: UUID, snapshot: str | None) -> Told:
    """Return what other processes have told since a snapshot; without one nothing but a snapshot to begin with."""
    row = await database.fetchrow(
        """
        select pg_current_snapshot()::text as snapshot, coalesce((
            select json_agg(body order by seq) from pilotis.channel_messages
            where app_id = $1 and node_id <> $2 and xid >= pg_snapshot_xmin($3::text::pg_snapshot)
                and not pg_visible_in_snapshot(xid, $3::text::pg_snapshot)
        ), '[]')::text as bodies
        """,
        app_id,
        node_id,
        snapshot,
        tenant=app_id,
    )
    assert row is not None
    return Told(row["snapshot"], json.decode(row["bodies"].encode()))


async def forget_old(connection: Connection) -> None:
    """Delete messages and processes of the past."""
    await connection.execute(
        "delete from pilotis.channel_messages where at < now() - make_interval(secs => $1)", _MESSAGE_SECONDS
    )
    await connection.execute("delete from pilotis.channel_nodes where until < now()")
    await connection.execute(
        "delete from pilotis.channels c where not exists (select from pilotis.apps a where a.app_id = c.app_id)"
    )

"""SQL statements for which channels have listeners, and what their apps were told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

_ALIVE = """
    exists (
        select from unnest(c.nodes) as n(node_id) join pilotis.channel_nodes a using (node_id)
        where a.app_id = c.app_id and a.until > now()
    )
"""


class Changed(NamedTuple):
    """A channel of which the app was told otherwise than it is, and whether it may be told again."""

    name: str
    occupied: bool
    is_due: bool


async def apps(connection: Connection) -> list[UUID]:
    """Return the apps with such channels."""
    rows = await connection.fetch("select distinct app_id from pilotis.occupied_channels")
    return [app_id for (app_id,) in rows]


async def lock(connection: Connection, app_id: UUID) -> None:
    """Lock an app's channels until the transaction ends."""
    await connection.fetchval("select app_id from pilotis.channels where app_id = $1 for update", app_id)


async def say(
    connection: Connection, app_id: UUID, node_id: UUID, added: Sequence[str], removed: Sequence[str]
) -> None:
    """Record to which channels a process has listeners now, and to which no more."""
    if added:
        await connection.execute(
            """
            insert into pilotis.occupied_channels as c (app_id, name, nodes)
            select $1, name, array[$2::uuid] from unnest($3::text[]) as added(name)
            on conflict (app_id, name) do update set nodes = array_append(array_remove(c.nodes, $2), $2)
            """,
            app_id,
            node_id,
            list(added),
        )
    if removed:
        await connection.execute(
            """
            update pilotis.occupied_channels set nodes = array_remove(nodes, $2)
            where app_id = $1 and name = any($3::text[])
            """,
            app_id,
            node_id,
            list(removed),
        )


async def changed(connection: Connection, app_id: UUID, seconds: float) -> list[Changed]:
    """Return the channels of which an app was told otherwise; those due were told of before these seconds."""
    rows = await connection.fetch(
        f"""
        select name, {_ALIVE} as occupied, told_at < now() - make_interval(secs => $2) as is_due
        from pilotis.occupied_channels c where app_id = $1 and is_occupied <> {_ALIVE} order by told_at, name
        """,
        app_id,
        seconds,
    )
    return [Changed(*row) for row in rows]


async def recent(connection: Connection, app_id: UUID) -> int:
    """Return of how many channels an app was told within the last second."""
    found: int = await connection.fetchval(
        """
        select count(*)::integer from pilotis.occupied_channels
        where app_id = $1 and told_at >= now() - interval '1 second'
        """,
        app_id,
    )
    return found


async def note(connection: Connection, app_id: UUID, told: Sequence[Changed]) -> None:
    """Record what an app is told."""
    await connection.execute(
        """
        update pilotis.occupied_channels c set is_occupied = told.occupied, told_at = now()
        from unnest($2::text[], $3::boolean[]) as told(name, occupied) where c.app_id = $1 and c.name = told.name
        """,
        app_id,
        [one.name for one in told],
        [one.occupied for one in told],
    )


async def forget(connection: Connection, app_id: UUID, seconds: float) -> None:
    """Delete the channels without listeners, once they may be told of again."""
    await connection.execute(
        f"""
        delete from pilotis.occupied_channels c
        where app_id = $1 and not is_occupied and not {_ALIVE} and told_at < now() - make_interval(secs => $2)
        """,
        app_id,
        seconds,
    )

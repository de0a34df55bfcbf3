"""SQL statements for the kept messages of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database

CHANNEL_BYTES = 1024 * 1024
"""How many bytes of messages a channel keeps at most."""
APP_BYTES = 100 * 1024 * 1024


class Kept(NamedTuple):
    """A message to be kept: its channel and id, who sent it, the data of its event, and for how many seconds."""

    name: str
    message_id: UUID
    member_id: str | None
    body: str
    seconds: int


class History(NamedTuple):
    """Kept messages, the oldest first, and whether the one after which they were asked for is still there."""

    bodies: list[str]
    is_found: bool


async def keep(database: Database, app_id: UUID, messages: Sequence[Kept]) -> None:
    """Store messages."""
    await database.execute(
        """
        insert into pilotis.kept_messages (app_id, name, message_id, member_id, body, bytes, at, expires_at)
        select $1, m.name, m.message_id, m.member_id, m.body, octet_length(m.body), now(),
            now() + make_interval(secs => m.seconds)
        from unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::integer[])
            as m(name, message_id, member_id, body, seconds)
        """,
        app_id,
        [one.name for one in messages],
        [one.message_id for one in messages],
        [one.member_id for one in messages],
        [one.body for one in messages],
        [one.seconds for one in messages],
        tenant=app_id,
    )


async def prune(database: Database, app_id: UUID, names: Sequence[str], most: Sequence[int]) -> None:
    """Delete the oldest messages of channels that have more, or more bytes, than they keep."""
    await database.execute(
        """
        delete from pilotis.kept_messages k using (
            select m.seq, row_number() over newest as place, sum(m.bytes) over newest as size, asked.most
            from unnest($2::text[], $3::integer[]) as asked(name, most)
            join pilotis.kept_messages m on m.app_id = $1 and m.name = asked.name
            window newest as (partition by m.name order by m.seq desc)
        ) found
        where k.app_id = $1 and k.seq = found.seq and (found.place > found.most or found.size > $4)
        """,
        app_id,
        names,
        most,
        CHANNEL_BYTES,
        tenant=app_id,
    )


async def history(
    database: Database, app_id: UUID, name: str, most: int, seconds: int, after: UUID | None, since: float
) -> History:
    """Return the messages that a channel keeps, of members that there still are.

    With `after`, a message's id, only newer ones, and with `since`, seconds of an epoch, those of that time and later.
    """
    row = await database.fetchrow(
        """
        with last as (
            select seq from pilotis.kept_messages where app_id = $1 and name = $2 and message_id = $5
        ), kept as (
            select seq, body, sum(bytes) over (order by seq desc) as size from pilotis.kept_messages m
            where app_id = $1 and name = $2 and at > now() - make_interval(secs => $4) and expires_at > now()
                and at >= to_timestamp($6) and seq > coalesce((select seq from last), -1)
                and (member_id is null or exists (
                    select from pilotis.members u where u.app_id = $1 and u.member_id = m.member_id
                ))
            order by seq desc limit $3
        )
        select coalesce(array(select body from kept where size <= $7 order by seq), '{}') as bodies,
            exists (select from last) as is_found
        """,
        app_id,
        name,
        most,
        seconds,
        after,
        since,
        CHANNEL_BYTES,
        tenant=app_id,
    )
    assert row is not None
    return History(row["bodies"], row["is_found"])


async def forget(connection: Connection) -> None:
    """Delete messages that have expired, those of deleted members, and of an app with too many its oldest channels."""
    await connection.execute("delete from pilotis.kept_messages where expires_at < now()")
    await connection.execute(
        """
        delete from pilotis.kept_messages m where member_id is not null and not exists (
            select from pilotis.members u where u.app_id = m.app_id and u.member_id = m.member_id
        )
        """
    )
    await connection.execute(
        """
        delete from pilotis.kept_messages m using (
            select app_id, name, sum(size) over (partition by app_id order by newest desc, name) as total
            from (
                select app_id, name, sum(bytes) as size, max(seq) as newest from pilotis.kept_messages
                group by app_id, name
            ) channels
        ) found
        where m.app_id = found.app_id and m.name = found.name and found.total > $1
        """,
        APP_BYTES,
    )

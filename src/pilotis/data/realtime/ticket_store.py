"""SQL statements for the tickets of live streams."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.realtime.stream import KEY_SECONDS
from pilotis.db.pool import Database

_FIRST_SECONDS = 60
_AGAIN_SECONDS = 300


class TicketRecord(msgspec.Struct, frozen=True):
    """A used ticket; `body` and `capabilities` are JSON."""

    body: str
    session_id: UUID | None
    capabilities: str


async def insert(
    database: Database,
    app_id: UUID,
    hash_: bytes,
    body: str,
    member_id: str | None,
    session_id: UUID | None,
    capabilities: str,
) -> datetime:
    """Store a ticket, and return until when its stream is to be opened."""
    expires_at: datetime = await database.fetchval(
        """
        insert into pilotis.live_tickets (app_id, hash, body, member_id, session_id, capabilities, expires_at)
        values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7)) returning expires_at
        """,
        app_id,
        hash_,
        body,
        member_id,
        session_id,
        capabilities,
        _FIRST_SECONDS,
        tenant=app_id,
    )
    return expires_at


async def use(database: Database, app_id: UUID, hash_: bytes, *, has_seen: bool) -> TicketRecord | None:
    """Use a ticket and return it; None for one that is not good, and for a further use by who has not seen it."""
    row = await database.fetchrow(
        """
        update pilotis.live_tickets set uses = uses + 1, expires_at = now() + make_interval(secs => $4)
        where app_id = $1 and hash = $2 and expires_at > now() and (uses = 0 or $3)
        returning body::text as body, session_id, capabilities::text as capabilities
        """,
        app_id,
        hash_,
        has_seen,
        KEY_SECONDS * 1.1 + _AGAIN_SECONDS,
        tenant=app_id,
    )
    return None if row is None else TicketRecord(**row)


async def end_soon(database: Database, app_id: UUID, hash_: bytes) -> None:
    """Keep a ticket whose stream broke for as long as its client may come back."""
    await database.execute(
        """
        update pilotis.live_tickets set expires_at = least(expires_at, now() + make_interval(secs => $3))
        where app_id = $1 and hash = $2
        """,
        app_id,
        hash_,
        _AGAIN_SECONDS,
        tenant=app_id,
    )


async def delete_expired(connection: Connection) -> None:
    """Delete the tickets that are good no more."""
    await connection.execute("delete from pilotis.live_tickets where expires_at < now()")

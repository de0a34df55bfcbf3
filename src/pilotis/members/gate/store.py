"""The statements on tickets: sign-ins that wait for a second factor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.members.types import Method

MAX_TRIES = 5


class Ticket(msgspec.Struct, frozen=True):
    """A sign-in that waits for a second factor; `proven` are the methods of the first one."""

    ticket_hash: bytes
    member_id: str
    session_id: UUID
    proven: list[Method]
    password_version: bytes
    challenge: bytes | None


_TICKET = "ticket_hash, member_id, session_id, methods as proven, password_version, challenge"


async def insert(
    connection: Connection,
    app_id: UUID,
    ticket_hash: bytes,
    member_id: str,
    session_id: UUID,
    methods: Sequence[str],
    password_version: bytes,
    lifetime: timedelta,
) -> datetime:
    """Insert a ticket, and return when it expires."""
    expires_at: datetime = await connection.fetchval(
        """
        insert into pilotis.sign_in_tickets
            (app_id, ticket_hash, member_id, session_id, methods, password_version, expires_at)
        values ($1, $2, $3, $4, $5, $6, now() + $7::interval) returning expires_at
        """,
        app_id,
        ticket_hash,
        member_id,
        session_id,
        methods,
        password_version,
        lifetime,
    )
    return expires_at


async def count_try(database: Database, app_id: UUID, ticket_hash: bytes) -> Ticket | None:
    """Count a try and return the ticket; None without one, or after five tries."""
    row = await database.fetchrow(
        f"""
        update pilotis.sign_in_tickets set tries = tries + 1
        where app_id = $1 and ticket_hash = $2 and tries < {MAX_TRIES} and expires_at > now()
        returning {_TICKET}
        """,
        app_id,
        ticket_hash,
        tenant=app_id,
    )
    return None if row is None else Ticket(**row)


async def read(database: Database, app_id: UUID, ticket_hash: bytes) -> Ticket | None:
    """Return an open ticket."""
    row = await database.fetchrow(
        f"""
        select {_TICKET} from pilotis.sign_in_tickets
        where app_id = $1 and ticket_hash = $2 and tries < {MAX_TRIES} and expires_at > now()
        """,
        app_id,
        ticket_hash,
        tenant=app_id,
    )
    return None if row is None else Ticket(**row)


async def set_challenge(database: Database, app_id: UUID, ticket_hash: bytes, challenge: bytes) -> None:
    """Store what a passkey has to sign for a ticket."""
    await database.execute(
        "update pilotis.sign_in_tickets set challenge = $3 where app_id = $1 and ticket_hash = $2",
        app_id,
        ticket_hash,
        challenge,
        tenant=app_id,
    )


async def use(connection: Connection, app_id: UUID, ticket_hash: bytes) -> bool:
    """Use a ticket in the caller's transaction; of concurrent callers one gets True."""
    tag = await connection.execute(
        "delete from pilotis.sign_in_tickets where app_id = $1 and ticket_hash = $2 and expires_at > now()",
        app_id,
        ticket_hash,
    )
    return tag == "DELETE 1"


async def end_of_member(connection: Connection, app_id: UUID, member_id: str) -> None:
    """Delete all tickets of a member."""
    await connection.execute(
        "delete from pilotis.sign_in_tickets where app_id = $1 and member_id = $2", app_id, member_id
    )


async def delete_expired(connection: Connection) -> None:
    """Delete tickets that have expired."""
    await connection.execute("delete from pilotis.sign_in_tickets where expires_at < now()")

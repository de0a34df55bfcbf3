"""The statements on `pilotis.sessions`."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database

_INSERT = """
    insert into pilotis.sessions (app_id, session_id, subject, refresh_id, refreshed_at, expires_at)
    values ($1, $2, $3, $4, now(), now() + $5)
    returning *
"""
# One statement is one round trip and one commit, where each of the three would cost its own.
_SIGN_IN = f"""
    with forgiven as (delete from pilotis.rate_limits where key = $6),
    active as (
        update pilotis.members set last_active_at = now()
        where app_id = $1 and member_id = $3 and last_active_at < now() - interval '1 minute'
    )
    {_INSERT}
"""


async def insert(
    connection: Connection,
    app_id: UUID,
    session_id: UUID,
    subject: str,
    refresh_id: UUID,
    lifetime: timedelta,
) -> Record:
    """Insert a session and return its row."""
    row = await connection.fetchrow(_INSERT, app_id, session_id, subject, refresh_id, lifetime)
    assert row is not None
    return row


async def sign_in(
    database: Database,
    app_id: UUID,
    session_id: UUID,
    subject: str,
    refresh_id: UUID,
    lifetime: timedelta,
    attempts_key: str,
) -> Record:
    """Insert a session and return its row; forget the attempts under the key, note to the minute a member as active."""
    row = await database.fetchrow(_SIGN_IN, app_id, session_id, subject, refresh_id, lifetime, attempts_key)
    assert row is not None
    return row


async def rotate(database: Database, app_id: UUID, session_id: UUID, refresh_id: UUID, next_id: UUID) -> Record | None:
    """Put the next refresh id in place of the given one; None if that is not the current one of a living session."""
    return await database.fetchrow(
        """
        update pilotis.sessions
        set previous_refresh_id = refresh_id, refresh_id = $4, refreshed_at = now(),
            expires_at = now() + (expires_at - refreshed_at)
        where app_id = $1 and session_id = $2 and refresh_id = $3 and revoked_at is null and expires_at > now()
        returning *
        """,
        app_id,
        session_id,
        refresh_id,
        next_id,
    )


async def just_rotated(
    database: Database, app_id: UUID, session_id: UUID, refresh_id: UUID, window: timedelta
) -> Record | None:
    """Return the session whose refresh id was the given one until less than `window` ago."""
    return await database.fetchrow(
        """
        select * from pilotis.sessions
        where app_id = $1 and session_id = $2 and previous_refresh_id = $3 and refreshed_at > now() - $4::interval
            and revoked_at is null
        """,
        app_id,
        session_id,
        refresh_id,
        window,
    )


async def revoke(database: Database, app_id: UUID, session_id: UUID) -> bool:
    """End a session; False if there is none that lives."""
    tag = await database.execute(
        """
        update pilotis.sessions set revoked_at = now()
        where app_id = $1 and session_id = $2 and revoked_at is null and expires_at > now()
        """,
        app_id,
        session_id,
    )
    return tag == "UPDATE 1"


async def revoke_all(connection: Connection, app_id: UUID, subject: str) -> int:
    """End every living session of a subject and return how many there were."""
    tag = await connection.execute(
        """
        update pilotis.sessions set revoked_at = now()
        where app_id = $1 and subject = $2 and revoked_at is null and expires_at > now()
        """,
        app_id,
        subject,
    )
    return int(tag.rpartition(" ")[2])


async def delete_expired(connection: Connection) -> None:
    """Delete sessions that have been over for a day; until then a reused token can be told from an unknown one."""
    await connection.execute(
        """
        delete from pilotis.sessions
        where expires_at < now() - interval '1 day' or revoked_at < now() - interval '1 day'
        """
    )

"""Clearing away what nobody can use any more."""

from __future__ import annotations

from asyncpg import Connection


async def delete_expired_invitations(connection: Connection) -> None:
    """Delete invitations, accepted ones too, whose time has been over for a day."""
    await connection.execute("delete from pilotis.invitations where expires_at < now() - interval '1 day'")

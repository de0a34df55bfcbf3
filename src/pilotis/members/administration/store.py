"""SQL statements with which console users read members."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class StoredMember(msgspec.Struct, frozen=True):
    """A member as stored, without what lists do not show."""

    member_id: str
    login_id: str | None
    nickname: str | None
    is_guest: bool
    is_active: bool
    roles: list[str]
    created_at: datetime
    updated_at: datetime
    last_active_at: datetime


class WholeMember(StoredMember, frozen=True):
    """A member with its `custom_data` and its `claims`, JSON objects, and the number of its active `sessions`."""

    custom_data: str
    claims: str
    sessions: int
    email: str | None
    factors: list[str]
    banned_until: datetime | None
    ban_reason: str | None


_ITEM = columns(StoredMember)
_FOUND = """
    from pilotis.members
    where app_id = $1
        and ($2::text is null or login_id ilike $2 or nickname ilike $2 or member_id ilike $2)
        and ($3::boolean is null or is_guest = $3)
        and ($4::boolean is null or is_active = $4)
"""


async def page(
    database: Database,
    app_id: UUID,
    pattern: str | None,
    is_guest: bool | None,
    is_active: bool | None,
    limit: int,
    offset: int,
) -> tuple[int, list[StoredMember]]:
    """Return how many members match the conditions, and a page of them, newest first."""
    conditions = app_id, pattern, is_guest, is_active
    async with database.connection(app_id) as connection:
        total: int = await connection.fetchval(f"select count(*) {_FOUND}", *conditions)
        rows = await connection.fetch(
            f"select {_ITEM} {_FOUND} order by created_at desc, member_id desc limit $5 offset $6",
            *conditions,
            limit,
            offset,
        )
    return total, [StoredMember(**row) for row in rows]


async def read(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> WholeMember | None:
    """Return a member with all its fields."""
    row = await connection.fetchrow(
        f"""
        select {_ITEM}, custom_data, claims, (
            select count(*) from pilotis.sessions s
            where s.app_id = m.app_id and s.subject = m.member_id and s.revoked_at is null and s.expires_at > now()
        ) as sessions, email, factors, banned_until, ban_reason
        from pilotis.members m where app_id = $1 and member_id = $2
        """,
        app_id,
        member_id,
    )
    return None if row is None else WholeMember(**row)


async def lock(connection: Connection, app_id: UUID, member_id: str) -> StoredMember | None:
    """Return a member, locked against other changes until the transaction ends, or None."""
    row = await connection.fetchrow(
        f"select {_ITEM} from pilotis.members where app_id = $1 and member_id = $2 for update", app_id, member_id
    )
    return None if row is None else StoredMember(**row)

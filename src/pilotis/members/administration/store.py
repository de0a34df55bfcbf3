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
    deletes_at: datetime | None


_ITEM = columns(StoredMember)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which members a list has; `pattern` is one of LIKE, `email_folded` the folded form of a verified address."""

    pattern: str | None = None
    is_guest: bool | None = None
    is_active: bool | None = None
    email_folded: str | None = None
    role: str | None = None
    team_id: UUID | None = None
    provider: str | None = None
    factor: str | None = None
    created_after: datetime | None = None
    active_after: datetime | None = None


_CONDITIONS = {
    "pattern": "(login_id ilike {0} or nickname ilike {0} or member_id ilike {0} or email_folded ilike {0})",
    "is_guest": "is_guest = {0}",
    "is_active": "is_active = {0}",
    "email_folded": "email_folded = {0}",
    "role": "{0} = any(roles)",
    "team_id": """exists (
        select from pilotis.team_members t
        where t.app_id = m.app_id and t.member_id = m.member_id and t.team_id = {0}
    )""",
    "provider": """exists (
        select from pilotis.member_identities i
        where i.app_id = m.app_id and i.member_id = m.member_id and i.provider = {0}
    )""",
    "factor": "{0} = any(factors)",
    "created_after": "created_at > {0}",
    "active_after": "last_active_at > {0}",
}


async def page(
    database: Database, app_id: UUID, wanted: Wanted, limit: int, offset: int
) -> tuple[int, list[StoredMember]]:
    """Return how many members match the conditions, and a page of them, newest first."""
    conditions, arguments = ["app_id = $1"], list[object]([app_id])
    for name, value in msgspec.structs.asdict(wanted).items():
        if value is not None:
            arguments.append(value)
            conditions.append(_CONDITIONS[name].format(f"${len(arguments)}"))
    found = f"from pilotis.members m where {' and '.join(conditions)}"
    number = len(arguments)
    async with database.connection(app_id) as connection:
        total: int = await connection.fetchval(f"select count(*) {found}", *arguments)
        rows = await connection.fetch(
            f"select {_ITEM} {found} order by created_at desc, member_id desc limit ${number + 1} offset ${number + 2}",
            *arguments,
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
        ) as sessions, email, factors, banned_until, ban_reason, deletes_at
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

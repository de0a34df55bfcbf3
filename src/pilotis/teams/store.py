"""The statements on teams."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import MAX_COUNTED, fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class StoredTeam(msgspec.Struct, frozen=True):
    """A team; `data` is a JSON object."""

    team_id: UUID
    name: str
    slug: str | None
    data: str
    created_by: str | None
    created_at: datetime
    member_count: int


class StoredOwnTeam(StoredTeam, frozen=True):
    """A team of a member."""

    roles: list[str]
    joined_at: datetime


class StoredTeamMember(msgspec.Struct, frozen=True):
    """A member of a team."""

    member_id: str
    nickname: str | None
    roles: list[str]
    joined_at: datetime


class StoredInvitation(msgspec.Struct, frozen=True):
    """An open invitation."""

    team_invitation_id: UUID
    team_id: UUID
    email: str | None
    email_folded: str | None
    roles: list[str]
    max_uses: int
    uses: int
    created_at: datetime
    expires_at: datetime


class NewInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation to insert."""

    team_invitation_id: UUID
    team_id: UUID
    token_hash: bytes
    email: str | None
    email_folded: str | None
    roles: Sequence[str]
    max_uses: int
    lifetime: timedelta


_TEAM = """
    t.team_id, t.name, t.slug, t.data, t.created_by, t.created_at,
    (select count(*) from pilotis.team_members c where c.app_id = t.app_id and c.team_id = t.team_id) as member_count
"""
_INVITATION = columns(StoredInvitation)
_OPEN = "expires_at > now() and uses < max_uses"


async def members_create(connection: Connection | TenantDatabase, app_id: UUID) -> bool:
    """Return whether members of an app create teams."""
    found = await connection.fetchval("select members_create from pilotis.team_settings where app_id = $1", app_id)
    return bool(found)


async def set_members_create(connection: Connection, app_id: UUID, allowed: bool) -> None:
    """Set whether members of an app create teams."""
    await connection.execute(
        """
        insert into pilotis.team_settings (app_id, members_create) values ($1, $2)
        on conflict (app_id) do update set members_create = excluded.members_create
        """,
        app_id,
        allowed,
    )


async def insert(
    connection: Connection,
    app_id: UUID,
    team_id: UUID,
    name: str,
    slug: str | None,
    data: str,
    created_by: str | None,
) -> None:
    """Insert a team without members."""
    await connection.execute(
        """
        insert into pilotis.teams (app_id, team_id, name, slug, data, created_by)
        values ($1, $2, $3, $4, $5::jsonb, $6)
        """,
        app_id,
        team_id,
        name,
        slug,
        data,
        created_by,
    )


async def lock(connection: Connection, app_id: UUID, team_id: UUID) -> bool:
    """Lock a team, so that changes of its members run one at a time; False if there is none."""
    found = await connection.fetchval(
        "select true from pilotis.teams where app_id = $1 and team_id = $2 for no key update", app_id, team_id
    )
    return bool(found)


async def read(connection: Connection | TenantDatabase, app_id: UUID, team_id: UUID) -> StoredTeam | None:
    """Return a team."""
    row = await connection.fetchrow(
        f"select {_TEAM} from pilotis.teams t where t.app_id = $1 and t.team_id = $2", app_id, team_id
    )
    return None if row is None else StoredTeam(**row)


async def page(
    database: Database, app_id: UUID, search: str | None, limit: int, offset: int
) -> tuple[list[StoredTeam], int]:
    """Return a page of an app's teams, by name, and how many there are."""
    query = f"""
        select {_TEAM} from pilotis.teams t
        where t.app_id = $1
            and ($2::text is null or position(lower($2) in lower(t.name)) > 0 or position(lower($2) in t.slug) > 0)
    """
    return await fetch_page(
        database,
        app_id,
        query,
        (app_id, search),
        order_by="name, team_id",
        limit=limit,
        offset=offset,
        max_total=MAX_COUNTED,
        record=StoredTeam,
    )


async def of_member(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> list[StoredOwnTeam]:
    """Return the teams of a member, by name."""
    rows = await connection.fetch(
        f"""
        select {_TEAM}, m.roles, m.joined_at
        from pilotis.team_members m join pilotis.teams t on t.app_id = m.app_id and t.team_id = m.team_id
        where m.app_id = $1 and m.member_id = $2 order by t.name, t.team_id
        """,
        app_id,
        member_id,
    )
    return [StoredOwnTeam(**row) for row in rows]


async def is_member(connection: Connection | TenantDatabase, app_id: UUID, member_id: str) -> bool:
    """Return whether an app has a member."""
    found = await connection.fetchval(
        "select true from pilotis.members where app_id = $1 and member_id = $2", app_id, member_id
    )
    return bool(found)


async def own(
    connection: Connection | TenantDatabase, app_id: UUID, team_id: UUID, member_id: str
) -> StoredOwnTeam | None:
    """Return a team if the member is in it."""
    row = await connection.fetchrow(
        f"""
        select {_TEAM}, m.roles, m.joined_at
        from pilotis.team_members m join pilotis.teams t on t.app_id = m.app_id and t.team_id = m.team_id
        where m.app_id = $1 and m.team_id = $2 and m.member_id = $3
        """,
        app_id,
        team_id,
        member_id,
    )
    return None if row is None else StoredOwnTeam(**row)


async def update(connection: Connection, app_id: UUID, team_id: UUID, name: str, slug: str | None, data: str) -> None:
    """Replace what a team is called, and its data."""
    await connection.execute(
        "update pilotis.teams set name = $3, slug = $4, data = $5::jsonb where app_id = $1 and team_id = $2",
        app_id,
        team_id,
        name,
        slug,
        data,
    )


async def delete(connection: Connection, app_id: UUID, team_id: UUID) -> list[str]:
    """Delete a team, and return who was in it."""
    rows = await connection.fetch(
        "delete from pilotis.team_members where app_id = $1 and team_id = $2 returning member_id", app_id, team_id
    )
    await connection.execute("delete from pilotis.teams where app_id = $1 and team_id = $2", app_id, team_id)
    return [member_id for (member_id,) in rows]


async def members(
    database: Database, app_id: UUID, team_id: UUID, limit: int, offset: int
) -> tuple[list[StoredTeamMember], int]:
    """Return a page of a team's members, those who joined first first, and how many there are."""
    query = """
        select t.member_id, m.nickname, t.roles, t.joined_at
        from pilotis.team_members t join pilotis.members m on m.app_id = t.app_id and m.member_id = t.member_id
        where t.app_id = $1 and t.team_id = $2
    """
    return await fetch_page(
        database,
        app_id,
        query,
        (app_id, team_id),
        order_by="joined_at, member_id",
        limit=limit,
        offset=offset,
        record=StoredTeamMember,
    )


async def member(
    connection: Connection | TenantDatabase, app_id: UUID, team_id: UUID, member_id: str
) -> StoredTeamMember | None:
    """Return a member of a team."""
    row = await connection.fetchrow(
        """
        select t.member_id, m.nickname, t.roles, t.joined_at
        from pilotis.team_members t join pilotis.members m on m.app_id = t.app_id and m.member_id = t.member_id
        where t.app_id = $1 and t.team_id = $2 and t.member_id = $3
        """,
        app_id,
        team_id,
        member_id,
    )
    return None if row is None else StoredTeamMember(**row)


async def counts(connection: Connection, app_id: UUID, team_id: UUID, member_id: str) -> tuple[int, int]:
    """Return how many members a team has, and how many teams a member."""
    row = await connection.fetchrow(
        """
        select (select count(*) from pilotis.team_members where app_id = $1 and team_id = $2) as members,
            (select count(*) from pilotis.team_members where app_id = $1 and member_id = $3) as teams
        """,
        app_id,
        team_id,
        member_id,
    )
    assert row is not None
    return row["members"], row["teams"]


async def put_member(connection: Connection, app_id: UUID, team_id: UUID, member_id: str, roles: Sequence[str]) -> None:
    """Insert a member of a team, or replace its roles."""
    await connection.execute(
        """
        insert into pilotis.team_members (app_id, team_id, member_id, roles) values ($1, $2, $3, $4)
        on conflict (app_id, team_id, member_id) do update set roles = excluded.roles
        """,
        app_id,
        team_id,
        member_id,
        roles,
    )


async def delete_member(connection: Connection, app_id: UUID, team_id: UUID, member_id: str) -> None:
    """Delete a member of a team."""
    await connection.execute(
        "delete from pilotis.team_members where app_id = $1 and team_id = $2 and member_id = $3",
        app_id,
        team_id,
        member_id,
    )


async def has_other_owner(connection: Connection, app_id: UUID, team_id: UUID, member_id: str) -> bool:
    """Return whether another member than this one is an owner of a team."""
    found = await connection.fetchval(
        """
        select exists (
            select from pilotis.team_members
            where app_id = $1 and team_id = $2 and member_id <> $3 and 'owner' = any(roles)
        )
        """,
        app_id,
        team_id,
        member_id,
    )
    return bool(found)


async def insert_invitation(connection: Connection, app_id: UUID, new: NewInvitation) -> StoredInvitation:
    """Insert an invitation."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.team_invitations
            (app_id, team_invitation_id, team_id, token_hash, email, email_folded, roles, max_uses, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, now() + $9::interval)
        returning {_INVITATION}
        """,
        app_id,
        new.team_invitation_id,
        new.team_id,
        new.token_hash,
        new.email,
        new.email_folded,
        new.roles,
        new.max_uses,
        new.lifetime,
    )
    assert row is not None
    return StoredInvitation(**row)


async def invitations(connection: Connection | TenantDatabase, app_id: UUID, team_id: UUID) -> list[StoredInvitation]:
    """Return the open invitations to a team, the newest first."""
    rows = await connection.fetch(
        f"""
        select {_INVITATION} from pilotis.team_invitations
        where app_id = $1 and team_id = $2 and {_OPEN} order by created_at desc, team_invitation_id desc
        """,
        app_id,
        team_id,
    )
    return [StoredInvitation(**row) for row in rows]


async def invitation(
    connection: Connection | TenantDatabase, app_id: UUID, token_hash: bytes
) -> StoredInvitation | None:
    """Return an open invitation by the hash of its token."""
    row = await connection.fetchrow(
        f"select {_INVITATION} from pilotis.team_invitations where app_id = $1 and token_hash = $2 and {_OPEN}",
        app_id,
        token_hash,
    )
    return None if row is None else StoredInvitation(**row)


async def use_invitation(connection: Connection, app_id: UUID, team_invitation_id: UUID) -> bool:
    """Count a use of an invitation; of concurrent callers as many get True as it has uses left."""
    tag = await connection.execute(
        f"""
        update pilotis.team_invitations set uses = uses + 1
        where app_id = $1 and team_invitation_id = $2 and {_OPEN}
        """,
        app_id,
        team_invitation_id,
    )
    return tag == "UPDATE 1"


async def delete_invitation(connection: Connection, app_id: UUID, team_id: UUID, team_invitation_id: UUID) -> bool:
    """Delete an invitation; False if there is none."""
    tag = await connection.execute(
        "delete from pilotis.team_invitations where app_id = $1 and team_id = $2 and team_invitation_id = $3",
        app_id,
        team_id,
        team_invitation_id,
    )
    return tag == "DELETE 1"


async def delete_expired(connection: Connection, limit: int) -> int:
    """Delete at most `limit` invitations that have expired, and return how many."""
    deleted: int = await connection.fetchval(
        """
        with gone as (
            delete from pilotis.team_invitations where (app_id, team_invitation_id) in (
                select app_id, team_invitation_id from pilotis.team_invitations where expires_at < now() limit $1
            ) returning 1
        ) select count(*) from gone
        """,
        limit,
    )
    return deleted

"""SQL statements for console users' roles on apps and for invitations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.users.types import RoleName

_BRANCHES = "select app_id from pilotis.apps where parent_app_id = $1"


class UserOnApp(msgspec.Struct, frozen=True):
    """A console user with its role on an app, and when it got one."""

    user_id: UUID
    email: str
    role: RoleName
    created_at: datetime


class OpenInvitation(msgspec.Struct, frozen=True):
    """An invitation that can still be accepted, with the e-mail address of the user that sent it."""

    invitation_id: UUID
    email: str
    role: RoleName
    created_at: datetime
    expires_at: datetime
    inviter: str | None


class UsedInvitation(msgspec.Struct, frozen=True):
    """An invitation that has just been accepted."""

    invitation_id: UUID
    app_id: UUID
    role: RoleName


async def users_of_app(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[UserOnApp], int]:
    """Return a page of the console users with a role on the app, and the total count."""
    query = """
        select u.user_id, u.email, r.role, r.created_at
        from pilotis.app_users r join pilotis.users u using (user_id) where r.app_id = $1
    """
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="created_at, user_id", limit=limit, offset=offset, record=UserOnApp
    )


async def lock_owners(connection: Connection, app_ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    """Return the active owners of each app, locked until the transaction ends."""
    await connection.execute(
        """
        select from pilotis.app_users where app_id = any($1) and role = 'owner'
        order by app_id, user_id for update
        """,
        app_ids,
    )
    # A separate statement, which sees the commits of the transactions for which the lock waited.
    rows = await connection.fetch(
        """
        select r.app_id, r.user_id from pilotis.app_users r join pilotis.users u using (user_id)
        where r.app_id = any($1) and r.role = 'owner' and u.is_active order by r.app_id, r.user_id
        """,
        app_ids,
    )
    owners: dict[UUID, list[UUID]] = {app_id: [] for app_id in app_ids}
    for app_id, user_id in rows:
        owners[app_id].append(user_id)
    return owners


async def roles_of(connection: Connection, user_id: UUID) -> dict[UUID, str]:
    """Return the user's role on each of its apps."""
    rows = await connection.fetch("select app_id, role from pilotis.app_users where user_id = $1", user_id)
    return dict(map(tuple, rows))


async def update_role(connection: Connection, app_id: UUID, user_id: UUID, role: str) -> UserOnApp | None:
    """Change a user's role on an app and its branches, and return the user with it; None if the user has no role."""
    await connection.execute(
        f"update pilotis.app_users set role = $3 where user_id = $2 and app_id in ({_BRANCHES})", app_id, user_id, role
    )
    row = await connection.fetchrow(
        """
        update pilotis.app_users r set role = $3 from pilotis.users u
        where r.app_id = $1 and r.user_id = $2 and u.user_id = r.user_id
        returning u.user_id, u.email, r.role, r.created_at
        """,
        app_id,
        user_id,
        role,
    )
    return None if row is None else UserOnApp(**row)


async def delete_role(connection: Connection, app_id: UUID, user_id: UUID) -> bool:
    """Remove a user's role on an app and its branches, and revoke its secret keys there; False if it has no role."""
    await connection.execute(
        f"delete from pilotis.app_users where user_id = $2 and app_id in ({_BRANCHES})", app_id, user_id
    )
    tag = await connection.execute("delete from pilotis.app_users where app_id = $1 and user_id = $2", app_id, user_id)
    # Otherwise they would work again if the user got a role later.
    await connection.execute(
        f"""
        update pilotis.secret_keys set revoked_at = now()
        where (app_id = $1 or app_id in ({_BRANCHES})) and user_id = $2 and revoked_at is null
        """,
        app_id,
        user_id,
    )
    return tag == "DELETE 1"


async def insert_role(connection: Connection, app_id: UUID, user_id: UUID, role: str) -> bool:
    """Grant a user a role on an app and its branches; False, without a change, if it already has one on the app."""
    await connection.execute(
        f"""
        insert into pilotis.app_users (app_id, user_id, role)
        select b.app_id, $2, $3 from ({_BRANCHES}) b where not exists (
            select from pilotis.app_users r where r.app_id = $1 and r.user_id = $2
        )
        on conflict (app_id, user_id) do nothing
        """,
        app_id,
        user_id,
        role,
    )
    tag = await connection.execute(
        """
        insert into pilotis.app_users (app_id, user_id, role) values ($1, $2, $3)
        on conflict (app_id, user_id) do nothing
        """,
        app_id,
        user_id,
        role,
    )
    return tag == "INSERT 0 1"


async def lock_users(connection: Connection, app_id: UUID) -> None:
    """Keep an app's console users from being locked, as one who is deactivated is before its apps' owners are."""
    await connection.execute(
        """
        select from pilotis.users where user_id in (select user_id from pilotis.app_users where app_id = $1)
        order by user_id for key share
        """,
        app_id,
    )


async def copy_roles(connection: Connection, app_id: UUID, branch_id: UUID) -> None:
    """Make the roles on a branch those on its parent."""
    await connection.execute(
        """
        delete from pilotis.app_users b where b.app_id = $2 and not exists (
            select from pilotis.app_users r where r.app_id = $1 and r.user_id = b.user_id
        )
        """,
        app_id,
        branch_id,
    )
    await connection.execute(
        """
        insert into pilotis.app_users (app_id, user_id, role)
        select $2, user_id, role from pilotis.app_users where app_id = $1 order by user_id
        on conflict (app_id, user_id) do update set role = excluded.role
        """,
        app_id,
        branch_id,
    )


async def claim_ownerless_apps(connection: Connection, user_id: UUID) -> list[UUID]:
    """Make a user the owner of every app without one, and return these apps."""
    rows = await connection.fetch(
        """
        insert into pilotis.app_users (app_id, user_id, role)
        select a.app_id, $1, 'owner' from pilotis.apps a
        where not exists (select from pilotis.app_users r where r.app_id = a.app_id and r.role = 'owner')
        on conflict (app_id, user_id) do update set role = 'owner'
        returning app_id
        """,
        user_id,
    )
    return [app_id for (app_id,) in rows]


async def has_role_by_email(connection: Connection, app_id: UUID, email: str) -> bool:
    """Return whether the console user with the e-mail address has a role on the app."""
    found = await connection.fetchval(
        """
        select true from pilotis.app_users r join pilotis.users u using (user_id)
        where r.app_id = $1 and u.email = $2
        """,
        app_id,
        email,
    )
    return bool(found)


async def put_invitation(
    connection: Connection,
    app_id: UUID,
    invitation_id: UUID,
    email: str,
    role: str,
    token_hash: bytes,
    invited_by: UUID,
    lifetime: timedelta,
) -> datetime:
    """Insert an invitation, which replaces an open one of the same e-mail address; return when it expires."""
    expires_at: datetime = await connection.fetchval(
        """
        insert into pilotis.invitations
            (app_id, invitation_id, email, role, token_hash, invited_by, expires_at)
        values ($1, $2, $3, $4, $5, $6, now() + $7::interval)
        on conflict (app_id, email) where accepted_at is null do update set
            invitation_id = excluded.invitation_id, role = excluded.role, token_hash = excluded.token_hash,
            invited_by = excluded.invited_by, created_at = now(), expires_at = excluded.expires_at
        returning expires_at
        """,
        app_id,
        invitation_id,
        email,
        role,
        token_hash,
        invited_by,
        lifetime,
    )
    return expires_at


async def open_invitations(
    database: Database, app_id: UUID, limit: int, offset: int
) -> tuple[list[OpenInvitation], int]:
    """Return a page of the app's invitations that can still be accepted, and the total count."""
    query = """
        select i.invitation_id, i.email, i.role, i.created_at, i.expires_at, u.email as inviter
        from pilotis.invitations i
        left join pilotis.users u on u.user_id = i.invited_by
        where i.app_id = $1 and i.accepted_at is null and i.expires_at > now()
    """
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="invitation_id", limit=limit, offset=offset, record=OpenInvitation
    )


async def delete_invitation(connection: Connection, app_id: UUID, invitation_id: UUID) -> str | None:
    """Delete an invitation that has not been accepted and return its e-mail address, or None if it does not exist."""
    email: str | None = await connection.fetchval(
        """
        delete from pilotis.invitations where app_id = $1 and invitation_id = $2 and accepted_at is null
        returning email
        """,
        app_id,
        invitation_id,
    )
    return email


async def take_invitation(connection: Connection, token_hash: bytes, email: str) -> UsedInvitation | None:
    """Consume an invitation of the e-mail address to an existing app, and return its id, app and role."""
    row = await connection.fetchrow(
        """
        update pilotis.invitations i set accepted_at = now()
        from pilotis.apps a
        where i.token_hash = $1 and i.email = $2 and i.accepted_at is null and i.expires_at > now()
            and a.app_id = i.app_id and a.deleted_at is null
        returning i.invitation_id, i.app_id, i.role
        """,
        token_hash,
        email,
    )
    return None if row is None else UsedInvitation(**row)


async def delete_expired_invitations(connection: Connection) -> None:
    """Delete invitations, including accepted ones, that expired more than a day ago."""
    await connection.execute("delete from pilotis.invitations where expires_at < now() - interval '1 day'")

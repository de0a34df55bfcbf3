"""The statements on console users' roles on apps and on invitations."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database


async def users_of_app(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the console users with a role on the app, and their number."""
    query = """
        select u.user_id, u.email, r.role, r.created_at
        from pilotis.app_users r join pilotis.users u using (user_id) where r.app_id = $1
    """
    return await fetch_page(database, query, (app_id,), order_by="created_at, user_id", limit=limit, offset=offset)


async def lock_owners(connection: Connection, app_id: UUID) -> list[UUID]:
    """Return the app's active owners, who all stay what they are until the transaction ends."""
    rows = await connection.fetch(
        """
        select r.user_id from pilotis.app_users r join pilotis.users u using (user_id)
        where r.app_id = $1 and r.role = 'owner' and u.is_active order by r.user_id for update of r
        """,
        app_id,
    )
    return [row["user_id"] for row in rows]


async def update_role(connection: Connection, app_id: UUID, user_id: UUID, role: str) -> Record | None:
    """Change a user's role on an app and return the user with it; None if it has none."""
    return await connection.fetchrow(
        """
        update pilotis.app_users r set role = $3 from pilotis.users u
        where r.app_id = $1 and r.user_id = $2 and u.user_id = r.user_id
        returning u.user_id, u.email, r.role, r.created_at
        """,
        app_id,
        user_id,
        role,
    )


async def delete_role(connection: Connection, app_id: UUID, user_id: UUID) -> bool:
    """Take a user's role on an app away, and revoke its secret keys for it; False if it has no role."""
    tag = await connection.execute("delete from pilotis.app_users where app_id = $1 and user_id = $2", app_id, user_id)
    # Or they would work again for whoever kept them, should the user come back.
    await connection.execute(
        """
        update pilotis.secret_keys set revoked_at = now()
        where app_id = $1 and user_id = $2 and revoked_at is null
        """,
        app_id,
        user_id,
    )
    return tag == "DELETE 1"


async def insert_role(connection: Connection, app_id: UUID, user_id: UUID, role: str) -> bool:
    """Give a user a role on an app; False, and nothing is changed, if it has one."""
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


async def has_role_by_email(connection: Connection, app_id: UUID, email: str) -> bool:
    """Tell whether the console user with the e-mail address has a role on the app."""
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
) -> Record:
    """Insert an invitation, in place of an open one of the same e-mail address, and return it."""
    row = await connection.fetchrow(
        """
        insert into pilotis.invitations
            (app_id, invitation_id, email, role, token_hash, invited_by, expires_at)
        values ($1, $2, $3, $4, $5, $6, now() + $7::interval)
        on conflict (app_id, email) where accepted_at is null do update set
            invitation_id = excluded.invitation_id, role = excluded.role, token_hash = excluded.token_hash,
            invited_by = excluded.invited_by, created_at = now(), expires_at = excluded.expires_at
        returning *
        """,
        app_id,
        invitation_id,
        email,
        role,
        token_hash,
        invited_by,
        lifetime,
    )
    assert row is not None
    return row


async def open_invitations(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the app's invitations that can still be accepted, and their number."""
    query = """
        select i.*, u.email as inviter from pilotis.invitations i
        left join pilotis.users u on u.user_id = i.invited_by
        where i.app_id = $1 and i.accepted_at is null and i.expires_at > now()
    """
    return await fetch_page(database, query, (app_id,), order_by="invitation_id", limit=limit, offset=offset)


async def delete_invitation(connection: Connection, app_id: UUID, invitation_id: UUID) -> Record | None:
    """Delete an invitation that nobody has accepted and return it; None if there is none."""
    return await connection.fetchrow(
        """
        delete from pilotis.invitations where app_id = $1 and invitation_id = $2 and accepted_at is null
        returning email, role
        """,
        app_id,
        invitation_id,
    )


async def take_invitation(connection: Connection, token_hash: bytes, email: str) -> Record | None:
    """Use up an invitation of the e-mail address to an app that is there and return its id, app and role."""
    return await connection.fetchrow(
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

"""The statements on console users and the first-run link."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database

# The console user with the e-mail address $7: an account of `RateLimits.attempt_sign_in`.
BY_EMAIL = "select * from pilotis.users where email = $7"


async def insert(connection: Connection, user_id: UUID, email: str, password_hash: str) -> None:
    """Insert a console user."""
    await connection.execute(
        "insert into pilotis.users (user_id, email, password_hash) values ($1, $2, $3)",
        user_id,
        email,
        password_hash,
    )


async def adopt_apps(connection: Connection, user_id: UUID) -> list[UUID]:
    """Make a user the owner of every app that has none, and return these apps."""
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
    return [row["app_id"] for row in rows]


async def any_user(connection: Connection) -> bool:
    """Tell whether there is a console user."""
    return bool(await connection.fetchval("select exists (select from pilotis.users)"))


async def set_setup_hash(connection: Connection, token_hash: str) -> None:
    """Put the hash of a new first-run token in place of the last one."""
    await connection.execute(
        """
        insert into pilotis.installation (key, value) values ('setup', jsonb_build_object('hash', $1::text))
        on conflict (key) do update set value = excluded.value, updated_at = now()
        """,
        token_hash,
    )


async def take_setup(connection: Connection, token_hash: str) -> bool:
    """Use up the first-run token; False if it is not the one."""
    tag = await connection.execute(
        "delete from pilotis.installation where key = 'setup' and value ->> 'hash' = $1", token_hash
    )
    return tag == "DELETE 1"


async def clear_setup(connection: Connection) -> None:
    """Make the first-run token useless."""
    await connection.execute("delete from pilotis.installation where key = 'setup'")


async def by_id(database: Database, user_id: UUID) -> Record | None:
    """Return a console user."""
    return await database.fetchrow("select * from pilotis.users where user_id = $1", user_id)


async def of_session(database: Database, nil_app: UUID, session_id: UUID, user_id: UUID) -> Record | None:
    """Return the console user of a living session."""
    return await database.fetchrow(
        """
        select u.email, u.is_active from pilotis.sessions s join pilotis.users u on u.user_id = $3
        where s.app_id = $1 and s.session_id = $2 and s.subject = $4
            and s.revoked_at is null and s.expires_at > now()
        """,
        nil_app,
        session_id,
        user_id,
        str(user_id),
    )


async def role_on(database: Database, app_id: UUID, user_id: UUID) -> str | None:
    """Return a user's role on an app."""
    role: str | None = await database.fetchval(
        "select role from pilotis.app_users where app_id = $1 and user_id = $2", app_id, user_id
    )
    return role

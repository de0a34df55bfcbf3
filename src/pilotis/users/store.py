"""SQL statements for console users and the first-run link."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.db.waiters import CONSOLE
from pilotis.security.sessions.service import unused_successor


class StoredUser(msgspec.Struct, frozen=True):
    """A console user."""

    user_id: UUID
    email: str
    password_hash: str
    is_active: bool
    created_at: datetime
    factors: list[str]


class SessionUser(msgspec.Struct, frozen=True):
    """The console user of a session, and its role on an app, if it has one."""

    email: str
    is_active: bool
    role: str | None
    unused_successor: UUID | None
    proved_at: datetime
    factors: list[str]
    level: int


class Ticket(msgspec.Struct, frozen=True):
    """A sign-in of a console user that waits for its second factor."""

    ticket_hash: bytes
    user_id: UUID
    password_version: bytes


_MAX_TRIES = 5
_USER = columns(StoredUser)

# The console user with the e-mail address $8: an account of `RateLimits.attempt_sign_in`.
BY_EMAIL = f"select {_USER} from pilotis.users where email = $8"


async def insert(
    connection: Connection, user_id: UUID, email: str, password_hash: str, *, may_create_apps: bool
) -> None:
    """Insert a console user."""
    await connection.execute(
        "insert into pilotis.users (user_id, email, password_hash, may_create_apps) values ($1, $2, $3, $4)",
        user_id,
        email,
        password_hash,
        may_create_apps,
    )


async def may_create_apps(connection: Connection | TenantDatabase, user_id: UUID) -> bool:
    """Return whether a console user may create apps: by its own right, or because it may change an app."""
    found = await connection.fetchval(
        """
        select u.may_create_apps or exists (
            select from pilotis.app_users r where r.user_id = u.user_id and r.role <> 'viewer'
        ) from pilotis.users u where u.user_id = $1
        """,
        user_id,
    )
    return bool(found)


async def lock_owned_apps(connection: Connection, user_id: UUID) -> int:
    """Return how many apps a user owns, without branches; others of its requests that ask wait for the transaction."""
    await connection.execute("select from pilotis.users where user_id = $1 for no key update", user_id)
    number: int = await connection.fetchval(
        """
        select count(*) from pilotis.app_users r join pilotis.apps a using (app_id)
        where r.user_id = $1 and r.role = 'owner' and a.deleted_at is null and a.parent_app_id is null
        """,
        user_id,
    )
    return number


async def allow_apps(connection: Connection, email: str) -> UUID | None:
    """Let a console user create apps and return its id; None if it does not exist."""
    found: UUID | None = await connection.fetchval(
        "update pilotis.users set may_create_apps = true, updated_at = now() where email = $1 returning user_id", email
    )
    return found


async def any_user(connection: Connection) -> bool:
    """Return whether a console user exists."""
    return bool(await connection.fetchval("select exists (select from pilotis.users)"))


async def by_id(connection: Connection | TenantDatabase, user_id: UUID) -> StoredUser | None:
    """Return a console user."""
    row = await connection.fetchrow(f"select {_USER} from pilotis.users where user_id = $1", user_id)
    return None if row is None else StoredUser(**row)


async def preferences(connection: TenantDatabase, user_id: UUID) -> str:
    """Return a user's preferences as JSON."""
    return await connection.fetchval("select preferences from pilotis.users where user_id = $1", user_id) or "{}"


async def set_preferences(connection: TenantDatabase, user_id: UUID, preferences: str) -> None:
    """Replace a user's preferences, JSON."""
    await connection.execute("update pilotis.users set preferences = $2 where user_id = $1", user_id, preferences)


async def lock(connection: Connection, user_id: UUID) -> None:
    """Lock a console user until the transaction ends, so that it gets no further roles."""
    await connection.execute("select from pilotis.users where user_id = $1 for update", user_id)


async def set_active(connection: Connection, user_id: UUID, is_active: bool) -> StoredUser | None:
    """Activate or deactivate a console user and return it; None if it does not exist."""
    row = await connection.fetchrow(
        f"update pilotis.users set is_active = $2, updated_at = now() where user_id = $1 returning {_USER}",
        user_id,
        is_active,
    )
    return None if row is None else StoredUser(**row)


async def by_email(connection: Connection, email: str) -> StoredUser | None:
    """Return a console user, locked until the transaction ends."""
    row = await connection.fetchrow(f"select {_USER} from pilotis.users where email = $1 for update", email)
    return None if row is None else StoredUser(**row)


async def replace_password(connection: Connection, user_id: UUID, old_hash: str | None, new_hash: str) -> bool:
    """Replace a password hash; False if it is no longer the old one.

    Without an old hash, any hash is replaced.
    """
    tag = await connection.execute(
        """
        update pilotis.users set password_hash = $3, updated_at = now()
        where user_id = $1 and password_hash = coalesce($2, password_hash)
        """,
        user_id,
        old_hash,
        new_hash,
    )
    return tag == "UPDATE 1"


async def of_session(
    database: Database, nil_app: UUID, session_id: UUID, user_id: UUID, app_id: UUID | None
) -> SessionUser | None:
    """Return the console user of an active session, and its role on an app."""
    row = await database.fetchrow(
        f"""
        select u.email, u.is_active, (select role from pilotis.app_users where app_id = $5 and user_id = $3) as role,
            {unused_successor} as unused_successor, coalesce(s.auth_time, s.created_at) as proved_at, u.factors, s.level
        from pilotis.sessions s join pilotis.users u on u.user_id = $3
        where s.app_id = $1 and s.session_id = $2 and s.subject = $4
            and s.revoked_at is null and s.expires_at > now()
        """,
        nil_app,
        session_id,
        user_id,
        str(user_id),
        app_id,
        tenant=CONSOLE,
    )
    return None if row is None else SessionUser(*row)


async def role_on(database: Database, app_id: UUID, user_id: UUID) -> str | None:
    """Return a user's role on an app."""
    role: str | None = await database.fetchval(
        "select role from pilotis.app_users where app_id = $1 and user_id = $2",
        app_id,
        user_id,
        tenant=CONSOLE,
    )
    return role


async def set_factors(connection: Connection, user_id: UUID, factors: Sequence[str]) -> None:
    """Record which kinds of second factors a console user has."""
    await connection.execute(
        "update pilotis.users set factors = $2, updated_at = now() where user_id = $1", user_id, factors
    )


async def insert_ticket(
    connection: Connection, ticket_hash: bytes, user_id: UUID, password_version: bytes, lifetime: timedelta
) -> datetime:
    """Insert the ticket of a sign-in that waits for a second factor, and return when it expires."""
    expires_at: datetime = await connection.fetchval(
        """
        insert into pilotis.user_tickets (ticket_hash, user_id, password_version, expires_at)
        values ($1, $2, $3, now() + $4::interval) returning expires_at
        """,
        ticket_hash,
        user_id,
        password_version,
        lifetime,
    )
    return expires_at


async def count_try(connection: TenantDatabase, ticket_hash: bytes) -> Ticket | None:
    """Count a try of a ticket and return it; None without one, or after five tries."""
    row = await connection.fetchrow(
        f"""
        update pilotis.user_tickets set tries = tries + 1
        where ticket_hash = $1 and tries < {_MAX_TRIES} and expires_at > now()
        returning {columns(Ticket)}
        """,
        ticket_hash,
    )
    return None if row is None else Ticket(**row)


async def use_ticket(connection: Connection, ticket_hash: bytes) -> bool:
    """Use a ticket in the caller's transaction; of concurrent callers one gets True."""
    tag = await connection.execute(
        "delete from pilotis.user_tickets where ticket_hash = $1 and expires_at > now()", ticket_hash
    )
    return tag == "DELETE 1"


async def end_tickets(connection: Connection, user_id: UUID) -> None:
    """Delete all tickets of a console user."""
    await connection.execute("delete from pilotis.user_tickets where user_id = $1", user_id)


async def delete_expired_tickets(connection: Connection) -> None:
    """Delete tickets that have expired."""
    await connection.execute("delete from pilotis.user_tickets where expires_at < now()")

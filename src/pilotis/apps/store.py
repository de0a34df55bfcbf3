"""The statements on apps and their keys."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database

_APP_COLUMNS = """
    a.app_id, a.name, a.version, a.schema_locked, a.allow_id_password_login, a.allow_guest_login,
    a.enabled_oauth_providers, a.limits
"""


async def live_app(database: Database, app_id: UUID) -> Record | None:
    """Return an app that is not deleted."""
    return await database.fetchrow(
        f"select {_APP_COLUMNS} from pilotis.apps a where a.app_id = $1 and a.deleted_at is null",
        app_id,
    )


async def app_of_public_key(database: Database, app_id: UUID, key: str) -> Record | None:
    """Return the live app and the key's `allowed_origins`, if the key is the app's and not revoked."""
    return await database.fetchrow(
        f"""
        select {_APP_COLUMNS}, k.allowed_origins
        from pilotis.public_keys k join pilotis.apps a using (app_id)
        where k.app_id = $1 and k.key = $2 and k.revoked_at is null and a.deleted_at is null
        """,
        app_id,
        key,
    )


async def secret_key(database: Database, app_id: UUID, key_hash: bytes) -> Record | None:
    """Return an unrevoked secret key with its user's e-mail and role on the app; no `user_id` is the operator's."""
    return await database.fetchrow(
        """
        select k.key_id, k.user_id, u.email, r.role, k.last_used_at > now() - interval '1 minute' as used_lately
        from pilotis.secret_keys k
        left join pilotis.users u on u.user_id = k.user_id and u.is_active
        left join pilotis.app_users r on r.app_id = k.app_id and r.user_id = k.user_id
        where k.app_id = $1 and k.key_hash = $2 and k.revoked_at is null
        """,
        app_id,
        key_hash,
    )


async def touch_secret_key(database: Database, app_id: UUID, key_id: UUID) -> None:
    """Note that a secret key is in use."""
    await database.execute(
        "update pilotis.secret_keys set last_used_at = now() where app_id = $1 and key_id = $2",
        app_id,
        key_id,
    )


async def insert_app(connection: Connection, app_id: UUID, name: str) -> None:
    """Insert an app."""
    await connection.execute("insert into pilotis.apps (app_id, name) values ($1, $2)", app_id, name)


async def insert_public_key(
    connection: Connection, app_id: UUID, key_id: UUID, key: str, name: str, allowed_origins: list[str]
) -> None:
    """Insert a public key."""
    await connection.execute(
        """
        insert into pilotis.public_keys (app_id, key_id, key, name, allowed_origins) values ($1, $2, $3, $4, $5)
        """,
        app_id,
        key_id,
        key,
        name,
        allowed_origins,
    )


async def insert_secret_key(
    connection: Connection,
    app_id: UUID,
    key_id: UUID,
    user_id: UUID | None,
    name: str,
    prefix: str,
    key_hash: bytes,
) -> None:
    """Insert a secret key's hash."""
    await connection.execute(
        """
        insert into pilotis.secret_keys (app_id, key_id, user_id, name, prefix, key_hash)
        values ($1, $2, $3, $4, $5, $6)
        """,
        app_id,
        key_id,
        user_id,
        name,
        prefix,
        key_hash,
    )


async def create_schema(connection: Connection, schema: str) -> None:
    """Create the PostgreSQL schema that holds an app's rows, with the tally its row counts are kept in.

    `schema` is `app_` and hexadecimal digits. Each writing connection has its own slot in the tally, so that no
    writer waits for another; see `pilotis.rows.counts`.
    """
    await connection.execute(
        f"""
        create schema {schema};
        create table {schema}.__row_counts (
            table_id uuid not null,
            slot integer not null,
            rows bigint not null,
            primary key (table_id, slot)
        ) with (fillfactor = 50);
        """
    )

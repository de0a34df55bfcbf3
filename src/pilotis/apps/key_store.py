"""SQL statements for public and secret keys."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND, UNAUTHENTICATED


async def secret_key(database: Database, app_id: UUID, key_hash: bytes) -> Record | None:
    """Return an unrevoked secret key with its user's e-mail and role on the app.

    The operator's key has no `user_id`.
    """
    return await database.fetchrow(
        """
        select k.key_id, k.user_id, u.email, r.role, k.role as key_role,
            k.last_used_at > now() - interval '1 minute' as used_lately
        from pilotis.secret_keys k
        left join pilotis.users u on u.user_id = k.user_id and u.is_active
        left join pilotis.app_users r on r.app_id = k.app_id and r.user_id = k.user_id
        where k.app_id = $1 and k.key_hash = $2 and k.revoked_at is null
        """,
        app_id,
        key_hash,
        tenant=UNAUTHENTICATED,
    )


async def touch_secret_key(database: Database, app_id: UUID, key_id: UUID) -> None:
    """Record that a secret key was used."""
    await database.execute(
        "update pilotis.secret_keys set last_used_at = now() where app_id = $1 and key_id = $2",
        app_id,
        key_id,
        tenant=app_id,
    )


async def touch_public_keys(database: Database, used: Collection[tuple[UUID, str]]) -> None:
    """Record that public keys were used, except those recorded within the last minute."""
    await database.execute(
        """
        update pilotis.public_keys k set last_used_at = now()
        from unnest($1::uuid[], $2::text[]) as used (app_id, key)
        where k.app_id = used.app_id and k.key = used.key
            and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
        """,
        [app_id for app_id, _ in used],
        [key for _, key in used],
        tenant=BACKGROUND,
    )


async def insert_public_key(
    connection: Connection, app_id: UUID, key_id: UUID, key: str, name: str, allowed_origins: list[str]
) -> Record:
    """Insert a public key and return its row."""
    row = await connection.fetchrow(
        """
        insert into pilotis.public_keys (app_id, key_id, key, name, allowed_origins) values ($1, $2, $3, $4, $5)
        returning *
        """,
        app_id,
        key_id,
        key,
        name,
        allowed_origins,
    )
    assert row is not None
    return row


async def insert_secret_key(
    connection: Connection,
    app_id: UUID,
    key_id: UUID,
    user_id: UUID | None,
    name: str,
    prefix: str,
    key_hash: bytes,
    role: str,
) -> Record:
    """Insert a secret key's hash and return its row."""
    row = await connection.fetchrow(
        """
        insert into pilotis.secret_keys (app_id, key_id, user_id, name, prefix, key_hash, role)
        values ($1, $2, $3, $4, $5, $6, $7)
        returning *
        """,
        app_id,
        key_id,
        user_id,
        name,
        prefix,
        key_hash,
        role,
    )
    assert row is not None
    return row


async def public_key(database: Database, app_id: UUID, key_id: UUID) -> Record | None:
    """Return a public key of the app, revoked or not."""
    return await database.fetchrow(
        "select * from pilotis.public_keys where app_id = $1 and key_id = $2",
        app_id,
        key_id,
        tenant=app_id,
    )


async def public_keys(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the app's unrevoked public keys, and the total count."""
    query = "select * from pilotis.public_keys where app_id = $1 and revoked_at is null"
    return await fetch_page(database, app_id, query, (app_id,), order_by="key_id", limit=limit, offset=offset)


async def secret_keys(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the app's unrevoked secret keys with their users' e-mail, and the total count."""
    query = """
        select k.*, u.email from pilotis.secret_keys k left join pilotis.users u using (user_id)
        where k.app_id = $1 and k.revoked_at is null
    """
    return await fetch_page(database, app_id, query, (app_id,), order_by="key_id", limit=limit, offset=offset)


async def in_force(database: Database, app_id: UUID, secret: bool | None) -> list[Record]:
    """Return the app's unrevoked keys by kind and age: secret ones, public ones, or both if `secret` is None."""
    return await database.fetch(
        """
        select 'public' as kind, key_id, name, key as prefix, allowed_origins, created_at, last_used_at
        from pilotis.public_keys where app_id = $1 and revoked_at is null and $2 is not true
        union all
        select 'secret', key_id, name, prefix, null, created_at, last_used_at
        from pilotis.secret_keys where app_id = $1 and revoked_at is null and $2 is not false
        order by kind, key_id
        """,
        app_id,
        secret,
        tenant=app_id,
    )


async def update_public_key(
    connection: Connection, app_id: UUID, key_id: UUID, name: str | None, allowed_origins: list[str] | None
) -> Record | None:
    """Update the given fields of an unrevoked public key and return it, or None if it does not exist."""
    return await connection.fetchrow(
        """
        update pilotis.public_keys
        set name = coalesce($3, name), allowed_origins = coalesce($4, allowed_origins)
        where app_id = $1 and key_id = $2 and revoked_at is null
        returning *
        """,
        app_id,
        key_id,
        name,
        allowed_origins,
    )


async def revoke_public_key(connection: Connection, app_id: UUID, key_id: UUID) -> str | None:
    """Revoke a public key and return its name, or None if it does not exist."""
    name: str | None = await connection.fetchval(
        """
        update pilotis.public_keys set revoked_at = now()
        where app_id = $1 and key_id = $2 and revoked_at is null returning name
        """,
        app_id,
        key_id,
    )
    return name


async def revoke_secret_key(connection: Connection, app_id: UUID, key_id: UUID) -> str | None:
    """Revoke a secret key and return its name, or None if it does not exist."""
    name: str | None = await connection.fetchval(
        """
        update pilotis.secret_keys set revoked_at = now()
        where app_id = $1 and key_id = $2 and revoked_at is null returning name
        """,
        app_id,
        key_id,
    )
    return name

"""The statements on public and secret keys."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database


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


async def touch_public_keys(database: Database, used: Collection[tuple[UUID, str]]) -> None:
    """Note that public keys are in use, those apart that were within the last minute."""
    await database.execute(
        """
        update pilotis.public_keys k set last_used_at = now()
        from unnest($1::uuid[], $2::text[]) as used (app_id, key)
        where k.app_id = used.app_id and k.key = used.key
            and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
        """,
        [app_id for app_id, _ in used],
        [key for _, key in used],
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
) -> Record:
    """Insert a secret key's hash and return its row."""
    row = await connection.fetchrow(
        """
        insert into pilotis.secret_keys (app_id, key_id, user_id, name, prefix, key_hash)
        values ($1, $2, $3, $4, $5, $6)
        returning *
        """,
        app_id,
        key_id,
        user_id,
        name,
        prefix,
        key_hash,
    )
    assert row is not None
    return row


async def public_keys(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the app's unrevoked public keys, and their number."""
    query = "select * from pilotis.public_keys where app_id = $1 and revoked_at is null"
    return await fetch_page(database, query, (app_id,), order_by="key_id", limit=limit, offset=offset)


async def secret_keys(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return a page of the app's unrevoked secret keys with their users' e-mail, and their number."""
    query = """
        select k.*, u.email from pilotis.secret_keys k left join pilotis.users u using (user_id)
        where k.app_id = $1 and k.revoked_at is null
    """
    return await fetch_page(database, query, (app_id,), order_by="key_id", limit=limit, offset=offset)


async def update_public_key(
    connection: Connection, app_id: UUID, key_id: UUID, name: str | None, allowed_origins: list[str] | None
) -> Record | None:
    """Change what is given of an unrevoked public key and return it, or None if there is none."""
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
    """Revoke a public key and return its name, or None if there is none to revoke."""
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
    """Revoke a secret key and return its name, or None if there is none to revoke."""
    name: str | None = await connection.fetchval(
        """
        update pilotis.secret_keys set revoked_at = now()
        where app_id = $1 and key_id = $2 and revoked_at is null returning name
        """,
        app_id,
        key_id,
    )
    return name

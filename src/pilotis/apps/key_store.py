"""SQL statements for public and secret keys."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.apps.types import KeyRole
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.db.records import columns
from pilotis.db.waiters import BACKGROUND, UNAUTHENTICATED


class KeyUser(msgspec.Struct, frozen=True):
    """A secret key with its active user's e-mail address and role on the app. The operator's key has no `user_id`."""

    key_id: UUID
    user_id: UUID | None
    email: str | None
    role: str | None
    key_role: KeyRole
    used_lately: bool | None


class StoredPublicKey(msgspec.Struct, frozen=True):
    """A public key."""

    key_id: UUID
    key: str
    name: str
    allowed_origins: list[str]
    created_at: datetime
    last_used_at: datetime | None


class StoredSecretKey(msgspec.Struct, frozen=True):
    """A secret key, of which only the prefix is known, with its user's e-mail address."""

    key_id: UUID
    prefix: str
    name: str
    role: KeyRole
    user_id: UUID | None
    created_at: datetime
    last_used_at: datetime | None
    email: str | None
    may_sign_in_members: bool


class UnrevokedKey(msgspec.Struct, frozen=True):
    """A key of either kind; `prefix` is the whole public key, and a secret key has no origins."""

    kind: Literal["public", "secret"]
    key_id: UUID
    name: str
    prefix: str
    allowed_origins: list[str] | None
    created_at: datetime
    last_used_at: datetime | None


_PUBLIC = columns(StoredPublicKey)


async def secret_key(database: Database, app_id: UUID, key_hash: bytes) -> KeyUser | None:
    """Return an unrevoked secret key with its user's e-mail and role on the app."""
    row = await database.fetchrow(
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
    # By position: each request with a secret key passes here.
    return None if row is None else KeyUser(*row)


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
) -> StoredPublicKey:
    """Insert a public key and return it."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.public_keys (app_id, key_id, key, name, allowed_origins) values ($1, $2, $3, $4, $5)
        returning {_PUBLIC}
        """,
        app_id,
        key_id,
        key,
        name,
        allowed_origins,
    )
    assert row is not None
    return StoredPublicKey(**row)


async def insert_secret_key(
    connection: Connection,
    app_id: UUID,
    key_id: UUID,
    user_id: UUID | None,
    name: str,
    prefix: str,
    key_hash: bytes,
    role: str,
    *,
    may_sign_in_members: bool,
) -> datetime:
    """Insert a secret key's hash and return when the key was created."""
    created_at: datetime = await connection.fetchval(
        """
        insert into pilotis.secret_keys (app_id, key_id, user_id, name, prefix, key_hash, role, may_sign_in_members)
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        returning created_at
        """,
        app_id,
        key_id,
        user_id,
        name,
        prefix,
        key_hash,
        role,
        may_sign_in_members,
    )
    return created_at


async def may_sign_in_members(database: Database, app_id: UUID, key_id: UUID) -> bool:
    """Return whether a secret key in force may sign members in."""
    found = await database.fetchval(
        """
        select may_sign_in_members from pilotis.secret_keys
        where app_id = $1 and key_id = $2 and revoked_at is null
        """,
        app_id,
        key_id,
        tenant=app_id,
    )
    return bool(found)


async def public_key(database: Database, app_id: UUID, key_id: UUID) -> StoredPublicKey | None:
    """Return a public key of the app, revoked or not."""
    row = await database.fetchrow(
        f"select {_PUBLIC} from pilotis.public_keys where app_id = $1 and key_id = $2",
        app_id,
        key_id,
        tenant=app_id,
    )
    return None if row is None else StoredPublicKey(**row)


async def public_keys(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[StoredPublicKey], int]:
    """Return a page of the app's unrevoked public keys, and the total count."""
    query = f"select {_PUBLIC} from pilotis.public_keys where app_id = $1 and revoked_at is null"
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="key_id", limit=limit, offset=offset, record=StoredPublicKey
    )


async def page_key(database: Database, app_id: UUID, origin: str) -> str | None:
    """Return the app's oldest unrevoked public key that pages of an origin may use."""
    key: str | None = await database.fetchval(
        """
        select key from pilotis.public_keys
        where app_id = $1 and revoked_at is null and (allowed_origins = '{}' or $2 = any(allowed_origins))
        order by key_id limit 1
        """,
        app_id,
        origin,
        tenant=app_id,
    )
    return key


async def secret_keys(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[StoredSecretKey], int]:
    """Return a page of the app's unrevoked secret keys with their users' e-mail, and the total count."""
    query = """
        select k.key_id, k.prefix, k.name, k.role, k.user_id, k.created_at, k.last_used_at, u.email,
            k.may_sign_in_members
        from pilotis.secret_keys k left join pilotis.users u using (user_id)
        where k.app_id = $1 and k.revoked_at is null
    """
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="key_id", limit=limit, offset=offset, record=StoredSecretKey
    )


async def in_force(database: Database, app_id: UUID, secret: bool | None) -> list[UnrevokedKey]:
    """Return the app's unrevoked keys by kind and age: secret ones, public ones, or both if `secret` is None."""
    rows = await database.fetch(
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
    return [UnrevokedKey(**row) for row in rows]


async def update_public_key(
    connection: Connection, app_id: UUID, key_id: UUID, name: str | None, allowed_origins: list[str] | None
) -> StoredPublicKey | None:
    """Update the given fields of an unrevoked public key and return it, or None if it does not exist."""
    row = await connection.fetchrow(
        f"""
        update pilotis.public_keys
        set name = coalesce($3, name), allowed_origins = coalesce($4, allowed_origins)
        where app_id = $1 and key_id = $2 and revoked_at is null
        returning {_PUBLIC}
        """,
        app_id,
        key_id,
        name,
        allowed_origins,
    )
    return None if row is None else StoredPublicKey(**row)


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

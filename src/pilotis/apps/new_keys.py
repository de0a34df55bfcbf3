"""Creates keys inside a transaction, for new apps and for the key routes."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.apps import key_store, keys
from pilotis.apps.types import KeyRole, PublicKey, ShownSecretKey
from pilotis.http.api.principals import Actor
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record


async def add_public_key(
    connection: Connection,
    app_id: UUID,
    actor: Actor,
    name: str,
    allowed_origins: list[str],
    key_id: UUID | None = None,
) -> PublicKey:
    """Create a public key."""
    key, key_id = keys.new_public_key(app_id), key_id or uuid7()
    row = await key_store.insert_public_key(connection, app_id, key_id, key, name, allowed_origins)
    await record(
        connection, app_id, actor, "public_key.create", key_id, name=name, key=key, allowed_origins=allowed_origins
    )
    return shown_public_key(row)


async def add_secret_key(
    connection: Connection,
    app_id: UUID,
    actor: Actor,
    user_id: UUID | None,
    name: str,
    key_id: UUID | None = None,
    role: KeyRole = "editor",
    *,
    may_sign_in_members: bool = False,
) -> ShownSecretKey:
    """Create a secret key that acts for a console user, or for the operator if there is none."""
    key, key_id = keys.new_secret_key(app_id), key_id or uuid7()
    prefix = key[: keys.SHOWN_CHARACTERS]
    created_at = await key_store.insert_secret_key(
        connection,
        app_id,
        key_id,
        user_id,
        name,
        prefix,
        secret_hash(key),
        role,
        may_sign_in_members=may_sign_in_members,
    )
    more = {"may_sign_in_members": True} if may_sign_in_members else {}
    await record(connection, app_id, actor, "secret_key.create", key_id, name=name, prefix=prefix, role=role, **more)
    return ShownSecretKey(
        key_id=key_id,
        key=key,
        prefix=prefix,
        name=name,
        role=role,
        may_sign_in_members=may_sign_in_members,
        created_at=rfc3339(created_at),
    )


def shown_public_key(row: key_store.StoredPublicKey) -> PublicKey:
    """Convert a stored public key to the response type."""
    return PublicKey(
        key_id=row.key_id,
        key=row.key,
        name=row.name,
        allowed_origins=row.allowed_origins,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )

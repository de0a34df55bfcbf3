"""Making keys inside a transaction, as an app's creation and the routes of keys both do."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection, Record

from pilotis.apps import key_store, keys
from pilotis.apps.types import PublicKey, ShownSecretKey
from pilotis.audit.service import record
from pilotis.http.principals import Actor
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.ids import uuid7


async def add_public_key(
    connection: Connection,
    app_id: UUID,
    actor: Actor,
    name: str,
    allowed_origins: list[str],
    key_id: UUID | None = None,
) -> PublicKey:
    """Make a public key."""
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
) -> ShownSecretKey:
    """Make a secret key that acts for a console user; without one, for whoever runs the server."""
    key, key_id = keys.new_secret_key(app_id), key_id or uuid7()
    prefix = key[: keys.SHOWN_CHARACTERS]
    row = await key_store.insert_secret_key(connection, app_id, key_id, user_id, name, prefix, secret_hash(key))
    await record(connection, app_id, actor, "secret_key.create", key_id, name=name, prefix=prefix)
    return ShownSecretKey(key_id, key, prefix, name, rfc3339(row["created_at"]))


def shown_public_key(row: Record) -> PublicKey:
    """Return a public key's row as answers show it."""
    last_used_at = row["last_used_at"]
    return PublicKey(
        row["key_id"],
        row["key"],
        row["name"],
        list(row["allowed_origins"]),
        rfc3339(row["created_at"]),
        rfc3339(last_used_at) if last_used_at else None,
    )

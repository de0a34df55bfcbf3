"""An app's public and secret keys: making, listing, changing and revoking them."""

from __future__ import annotations

from uuid import UUID

import msgspec
from asyncpg import Record

from pilotis.apps import key_store
from pilotis.apps.new_keys import add_public_key, add_secret_key, shown_public_key
from pilotis.apps.origins import canonical_origins
from pilotis.apps.service import Apps
from pilotis.apps.types import NewPublicKey, PublicKey, PublicKeyChange, SecretKey, ShownSecretKey
from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo
from pilotis.http.shapes import ItemPage, Paging
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError


class KeyNotFoundError(NotFoundError):
    """404: the app has no such key, or it is revoked."""

    code = "KEY_NOT_FOUND"
    message = "The app has no such key, or it is revoked."


class Keyring:
    """The keys of apps. A revoked key is refused from the answer on."""

    def __init__(self, database: Database, apps: Apps) -> None:
        self._database = database
        self._apps = apps

    async def create_public(self, app_id: UUID, actor: Actor, new: NewPublicKey) -> PublicKey:
        """Make a public key."""
        origins = canonical_origins(new.allowed_origins, "allowed_origins")
        async with self._apps.change(app_id) as connection:
            return await add_public_key(connection, app_id, actor, new.name, origins)

    async def public(self, app: AppInfo, paging: Paging) -> ItemPage[PublicKey]:
        """Return a page of the app's public keys, those revoked left out."""
        limit = min(paging.limit, app.limits.page_rows)
        rows, total = await key_store.public_keys(self._database, app.app_id, limit, paging.offset)
        return ItemPage([shown_public_key(row) for row in rows], total, limit, paging.offset)

    async def change_public(self, app_id: UUID, actor: Actor, key_id: UUID, change: PublicKeyChange) -> PublicKey:
        """Change a public key's name or the origins it may be used from."""
        given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
        if "allowed_origins" in given:
            given["allowed_origins"] = canonical_origins(given["allowed_origins"], "allowed_origins")
        async with self._apps.change(app_id) as connection:
            row = await key_store.update_public_key(
                connection, app_id, key_id, given.get("name"), given.get("allowed_origins")
            )
            if row is None:
                raise KeyNotFoundError
            await record(connection, app_id, actor, "public_key.update", key_id, **given)
        return shown_public_key(row)

    async def revoke_public(self, app_id: UUID, actor: Actor, key_id: UUID) -> None:
        """Revoke a public key."""
        async with self._apps.change(app_id) as connection:
            name = await key_store.revoke_public_key(connection, app_id, key_id)
            if name is None:
                raise KeyNotFoundError
            await record(connection, app_id, actor, "public_key.revoke", key_id, name=name)

    async def create_secret(self, app_id: UUID, actor: Actor, user_id: UUID | None, name: str) -> ShownSecretKey:
        """Make a secret key that acts for a console user; without one, for whoever runs the server."""
        async with self._apps.change(app_id) as connection:
            return await add_secret_key(connection, app_id, actor, user_id, name)

    async def secret(self, app: AppInfo, paging: Paging) -> ItemPage[SecretKey]:
        """Return a page of the app's secret keys, those revoked left out."""
        limit = min(paging.limit, app.limits.page_rows)
        rows, total = await key_store.secret_keys(self._database, app.app_id, limit, paging.offset)
        return ItemPage([_secret_key(row) for row in rows], total, limit, paging.offset)

    async def revoke_secret(self, app_id: UUID, actor: Actor, key_id: UUID) -> None:
        """Revoke a secret key."""
        async with self._apps.change(app_id) as connection:
            name = await key_store.revoke_secret_key(connection, app_id, key_id)
            if name is None:
                raise KeyNotFoundError
            await record(connection, app_id, actor, "secret_key.revoke", key_id, name=name)


def _secret_key(row: Record) -> SecretKey:
    last_used_at = row["last_used_at"]
    return SecretKey(
        row["key_id"],
        row["prefix"],
        row["name"],
        row["user_id"],
        row["email"],
        rfc3339(row["created_at"]),
        rfc3339(last_used_at) if last_used_at else None,
    )

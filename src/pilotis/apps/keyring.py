"""An app's public and secret keys: create, list, update and revoke."""

from __future__ import annotations

from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from pilotis.apps import key_store
from pilotis.apps.key_store import StoredSecretKey
from pilotis.apps.new_keys import add_public_key, add_secret_key, shown_public_key
from pilotis.apps.origins import canonical_origins
from pilotis.apps.service import Apps
from pilotis.apps.types import KeyRole, NewPublicKey, PublicKey, PublicKeyChange, SecretKey, ShownSecretKey
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.security.audit.service import record


class KeyNotFoundError(NotFoundError):
    """404: the app has no such key, or it is revoked."""

    code = "KEY_NOT_FOUND"
    message = "The app has no such key, or it is revoked."


class KeyInForce(NamedTuple):
    """A key that is not revoked. `prefix` is the whole public key, or the beginning of a secret one."""

    kind: Literal["public", "secret"]
    key_id: UUID
    name: str
    prefix: str
    allowed_origins: list[str] | None
    created_at: str
    last_used_at: str | None


class Keyring:
    """The keys of apps. After the response to a revocation, the key is rejected."""

    def __init__(self, database: Database, apps: Apps) -> None:
        self._database = database
        self._apps = apps

    async def create_public(
        self, app_id: UUID, actor: Actor, new: NewPublicKey, key_id: UUID | None = None
    ) -> PublicKey:
        """Create a public key."""
        origins = canonical_origins(new.allowed_origins, "allowed_origins")
        async with self._apps.change(app_id) as connection:
            return await add_public_key(connection, app_id, actor, new.name, origins, key_id)

    async def public_key(self, app_id: UUID, key_id: UUID) -> PublicKey:
        """Return a public key of the app, revoked or not; raises `KeyNotFoundError`."""
        row = await key_store.public_key(self._database, app_id, key_id)
        if row is None:
            raise KeyNotFoundError
        return shown_public_key(row)

    async def public(self, app: AppInfo, paging: Paging) -> ItemPage[PublicKey]:
        """Return a page of the app's unrevoked public keys."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await key_store.public_keys(self._database, app.app_id, limit, paging.offset)
        return ItemPage(
            data=[shown_public_key(row) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

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

    async def create_secret(
        self,
        app_id: UUID,
        actor: Actor,
        user_id: UUID | None,
        name: str,
        role: KeyRole = "editor",
        *,
        may_sign_in_members: bool = False,
    ) -> ShownSecretKey:
        """Create a secret key that acts for a console user, or for the operator if there is none."""
        async with self._apps.change(app_id) as connection:
            return await add_secret_key(
                connection, app_id, actor, user_id, name, role=role, may_sign_in_members=may_sign_in_members
            )

    async def may_sign_in_members(self, app_id: UUID, key_id: UUID) -> bool:
        """Return whether a secret key of the app may sign members in."""
        return await key_store.may_sign_in_members(self._database, app_id, key_id)

    async def secret(self, app: AppInfo, paging: Paging) -> ItemPage[SecretKey]:
        """Return a page of the app's unrevoked secret keys."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await key_store.secret_keys(self._database, app.app_id, limit, paging.offset)
        return ItemPage(data=[_secret_key(row) for row in rows], total_count=total, limit=limit, offset=paging.offset)

    async def revoke_secret(self, app_id: UUID, actor: Actor, key_id: UUID) -> None:
        """Revoke a secret key."""
        async with self._apps.change(app_id) as connection:
            name = await key_store.revoke_secret_key(connection, app_id, key_id)
            if name is None:
                raise KeyNotFoundError
            await record(connection, app_id, actor, "secret_key.revoke", key_id, name=name)

    async def in_force(self, app_id: UUID, *, secret: bool | None = None) -> list[KeyInForce]:
        """Return the app's unrevoked keys: secret ones, public ones, or both."""
        return [
            KeyInForce(
                row.kind,
                row.key_id,
                row.name,
                row.prefix,
                row.allowed_origins,
                rfc3339(row.created_at),
                optional_rfc3339(row.last_used_at),
            )
            for row in await key_store.in_force(self._database, app_id, secret)
        ]

    async def revoke(self, app_id: UUID, actor: Actor, key_id: UUID) -> Literal["public", "secret"]:
        """Revoke a key of either kind and return its kind; raises `KeyNotFoundError`."""
        try:
            await self.revoke_public(app_id, actor, key_id)
        except KeyNotFoundError:
            await self.revoke_secret(app_id, actor, key_id)
            return "secret"
        return "public"


def _secret_key(row: StoredSecretKey) -> SecretKey:
    return SecretKey(
        key_id=row.key_id,
        prefix=row.prefix,
        name=row.name,
        role=row.role,
        user_id=row.user_id,
        email=row.email,
        may_sign_in_members=row.may_sign_in_members,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )

"""Apps and their keys: making them, and finding the app that a key names."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, TypeVar
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.apps import keys, store
from pilotis.apps.types import NewApp
from pilotis.db.notifications import Notifications, notify
from pilotis.db.pool import Database
from pilotis.http.principals import (
    AppInfo,
    InvalidPublicKeyError,
    InvalidSecretKeyError,
    OriginNotAllowedError,
    Principal,
    Role,
    UserInfo,
)
from pilotis.kit import json
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import NotFoundError
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits, for_app
from pilotis.users.service import grant_role

_KEYS_KEPT = 10_000
TOPIC = "app"

Key = TypeVar("Key")
Value = TypeVar("Value")


class AppNotFoundError(NotFoundError):
    """404: no such app, or the caller has no role on it."""

    code = "APP_NOT_FOUND"
    message = "There is no such app."


class _KnownKey(NamedTuple):
    app: AppInfo
    allowed_origins: frozenset[str]


class Apps:
    """Finds apps by id and by key; what it remembers is dropped when an app or one of its keys changes."""

    def __init__(self, database: Database, notifications: Notifications, limits: Limits) -> None:
        self._database = database
        self._limits = limits
        self._known_keys: OrderedDict[str, _KnownKey] = OrderedDict()
        self._known_apps: OrderedDict[UUID, AppInfo] = OrderedDict()
        self._changes = 0
        notifications.subscribe(TOPIC, self._changed, self._forget)

    async def by_public_key(self, key: str, origin: str | None) -> AppInfo:
        """Return the app of a public key; raises `InvalidPublicKeyError` or `OriginNotAllowedError`."""
        known = self._known_keys.get(key) or await self._look_up(key)
        if origin is not None and known.allowed_origins and origin not in known.allowed_origins:
            raise OriginNotAllowedError
        return known.app

    async def by_id(self, app_id: UUID) -> AppInfo:
        """Return a live app; raises `AppNotFoundError`."""
        if app := self._known_apps.get(app_id):
            return app
        changes = self._changes
        row = await store.live_app(self._database, app_id)
        if row is None:
            raise AppNotFoundError
        app = app_info(row, self._limits)
        if changes == self._changes:
            _keep(self._known_apps, app_id, app)
        return app

    async def by_secret_key(self, app: AppInfo, key: str) -> Principal:
        """Return the principal of a secret key on the app; raises `InvalidSecretKeyError`.

        The key acts with the role that its console user has on the app, at most as an editor.
        """
        if keys.app_of(key, keys.SECRET_PREFIX) != app.app_id:
            raise InvalidSecretKeyError
        row = await store.secret_key(self._database, app.app_id, secret_hash(key))
        if row is None:
            raise InvalidSecretKeyError
        user, role = None, Role.EDITOR
        if row["user_id"]:
            if row["email"] is None or row["role"] is None:
                raise InvalidSecretKeyError
            user = UserInfo(row["user_id"], row["email"], None)
            role = min(Role[row["role"].upper()], Role.EDITOR)
        if not row["used_lately"]:
            await store.touch_secret_key(self._database, app.app_id, row["key_id"])
        return Principal(app, user=user, role=role, secret_key_id=row["key_id"])

    async def create(self, name: str, owner_id: UUID | None) -> NewApp:
        """Create an app with its schema, a public and a secret key.

        `owner_id` is the console user that owns it; without one it belongs to whoever runs the server.
        """
        app_id = uuid7()
        async with self._database.transaction() as connection:
            await store.insert_app(connection, app_id, name)
            await store.create_schema(connection, f"app_{app_id.hex}")
            if owner_id is not None:
                await grant_role(connection, app_id, owner_id, "owner")
            public_key = await self.create_public_key(connection, app_id, "first", [])
            secret_key = await self.create_secret_key(connection, app_id, owner_id, "first")
        return NewApp(app_id, name, public_key, secret_key)

    async def create_public_key(
        self,
        connection: Connection,
        app_id: UUID,
        name: str,
        allowed_origins: list[str],
        key_id: UUID | None = None,
    ) -> str:
        """Make a public key in the caller's transaction and return it."""
        key = keys.new_public_key(app_id)
        await store.insert_public_key(connection, app_id, key_id or uuid7(), key, name, allowed_origins)
        return key

    async def create_secret_key(
        self,
        connection: Connection,
        app_id: UUID,
        user_id: UUID | None,
        name: str,
        key_id: UUID | None = None,
    ) -> str:
        """Make a secret key in the caller's transaction and return it: it is stored as a hash only."""
        key = keys.new_secret_key(app_id)
        shown = key[: keys.SHOWN_CHARACTERS]
        await store.insert_secret_key(connection, app_id, key_id or uuid7(), user_id, name, shown, secret_hash(key))
        return key

    async def announce(self, connection: Connection, app_id: UUID) -> None:
        """Tell every node, when the transaction commits, that an app or one of its keys has changed."""
        await notify(connection, TOPIC, app_id)

    async def _look_up(self, key: str) -> _KnownKey:
        app_id = keys.app_of(key, keys.PUBLIC_PREFIX)
        if app_id is None:
            raise InvalidPublicKeyError
        changes = self._changes
        row = await store.app_of_public_key(self._database, app_id, key)
        if row is None:
            raise InvalidPublicKeyError
        known = _KnownKey(app_info(row, self._limits), frozenset(row["allowed_origins"]))
        # A change that arrives while the answer is on its way makes the answer too old to keep.
        if changes == self._changes:
            _keep(self._known_keys, key, known)
        return known

    def _changed(self, key: str) -> None:
        self._changes += 1
        app_id = UUID(key)
        self._known_apps.pop(app_id, None)
        for public_key in [text for text, known in self._known_keys.items() if known.app.app_id == app_id]:
            del self._known_keys[public_key]

    def _forget(self) -> None:
        self._changes += 1
        self._known_apps.clear()
        self._known_keys.clear()


def app_info(row: Record, server_limits: Limits) -> AppInfo:
    """Return an app's row as the endpoint layer knows it."""
    return AppInfo(
        row["app_id"],
        row["name"],
        row["version"],
        row["schema_locked"],
        row["allow_id_password_login"],
        row["allow_guest_login"],
        list(row["enabled_oauth_providers"]),
        for_app(server_limits, json.decode(row["limits"].encode())),
    )


def _keep(cache: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    cache[key] = value
    while len(cache) > _KEYS_KEPT:
        cache.popitem(last=False)

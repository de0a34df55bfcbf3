"""Apps: find the app of a key, and manage its lifecycle from creation to purge."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.apps import key_store, keys, store
from pilotis.apps.last_use import LastUse
from pilotis.apps.new_keys import add_public_key, add_secret_key
from pilotis.apps.store import LiveApp, StoredApp
from pilotis.apps.types import App, AppChange, BranchOf, CopiedSettings, CreatedApp
from pilotis.db.control import Control
from pilotis.db.locks import lock_apps
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.db.waiters import CONSOLE
from pilotis.http.api.principals import (
    OPERATOR,
    Actor,
    AppInfo,
    Exceeded,
    InvalidPublicKeyError,
    InvalidSecretKeyError,
    OriginNotAllowedError,
    Principal,
    Role,
    RoleRequiredError,
    SecretKey,
    UserInfo,
)
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.kit.account_settings import AccountSettings
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import ConflictError, NotFoundError
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits, limits_in_force
from pilotis.security.audit.service import record
from pilotis.users.service import (
    ANYBODY,
    AppPolicy,
    copy_roles,
    grant_role,
    renew_roles,
    require_app_creator,
    require_room_for_app,
)

_KEYS_KEPT = 10_000
_NOTE_SECONDS = 60.0
_TABLES_BATCH_SIZE = 50

Key = TypeVar("Key")
Value = TypeVar("Value")


class AppNotFoundError(NotFoundError):
    """404: the app does not exist, or the caller has no role on it."""

    code = "APP_NOT_FOUND"
    message = "The app does not exist."


class AppNotDeletedError(ConflictError):
    """409: only a deleted app can be restored."""

    code = "APP_NOT_DELETED"
    message = "The app is not deleted."


class _KnownKey:
    __slots__ = ("allowed_origins", "app", "note_at")

    def __init__(self, app: AppInfo, allowed_origins: frozenset[str]) -> None:
        self.app = app
        self.allowed_origins = allowed_origins
        self.note_at = 0.0


class ListedApp(NamedTuple):
    """An app as the operator lists it, with its unrevoked public keys."""

    app_id: UUID
    name: str
    created_at: str
    deleted_at: str | None
    public_keys: list[str]


class CopiedApp(NamedTuple):
    """An app that was made as a copy, with its keys."""

    app: AppInfo
    public_key: str
    secret_key: str | None


class Apps:
    """Finds apps by id and by key, with a cache that is invalidated when an app or one of its keys changes."""

    def __init__(self, database: Database, control: Control, limits: Limits, policy: AppPolicy = ANYBODY) -> None:
        self._database = database
        self._policy = policy
        self._limits = limits
        self._known_keys: OrderedDict[str, _KnownKey] = OrderedDict()
        self._known_apps: OrderedDict[UUID, AppInfo] = OrderedDict()
        self._changes = 0
        self._last_use = LastUse(database)
        control.subscribe(Topic.APP, self._changed, self._forget)

    async def stop(self) -> None:
        """Write the last uses of keys that are still in memory."""
        await self._last_use.stop()

    async def by_public_key(self, key: str, origin: str | None) -> AppInfo:
        """Return the app of a public key; raises `InvalidPublicKeyError` or `OriginNotAllowedError`."""
        known = self._known_keys.get(key) or await self._look_up(key)
        if origin is not None and known.allowed_origins and origin not in known.allowed_origins:
            raise OriginNotAllowedError
        return self._used(key, known)

    def known_by_public_key(self, key: str, origin: str | None) -> AppInfo | None:
        """Return what `by_public_key` would, if the key is in the cache and valid for every origin; else None."""
        known = self._known_keys.get(key)
        if known is None or (origin is not None and known.allowed_origins):
            return None
        return self._used(key, known)

    def _used(self, key: str, known: _KnownKey) -> AppInfo:
        if (now := time.monotonic()) >= known.note_at:
            known.note_at = now + _NOTE_SECONDS
            self._last_use.record(known.app.app_id, key)
        return known.app

    async def page_key(self, app_id: UUID, origin: str) -> str | None:
        """Return a public key of the app for pages of an origin, None if no unrevoked one permits it."""
        return await key_store.page_key(self._database, app_id, origin)

    async def by_id(self, app_id: UUID) -> AppInfo:
        """Return an existing app; raises `AppNotFoundError`."""
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

    async def has_branch(self, app_id: UUID, name: str) -> bool:
        """Tell whether an app has a branch of this name."""
        return await store.has_branch(self._database.of(app_id), app_id, name)

    async def by_secret_key(self, app: AppInfo, key: str) -> SecretKey:
        """Return the principal of a secret key on the app; raises `InvalidSecretKeyError`.

        The key acts with its own role, or with the one that its console user has on the app if that is lower.
        """
        if keys.app_of(key, keys.SECRET_PREFIX) != app.app_id:
            raise InvalidSecretKeyError
        row = await key_store.secret_key(self._database, app.app_id, secret_hash(key))
        if row is None:
            raise InvalidSecretKeyError
        user, role = None, Role[row.key_role.upper()]
        if row.user_id is not None:
            if row.email is None or row.role is None:
                raise InvalidSecretKeyError
            user = UserInfo(row.user_id, row.email, None)
            role = min(Role[row.role.upper()], role)
        if not row.used_lately:
            await key_store.touch_secret_key(self._database, app.app_id, row.key_id)
        return SecretKey(app, user, role, row.key_id)

    async def require_creator(self, connection: Connection, user_id: UUID) -> None:
        """Raise `AppCreationNotAllowedError` for a console user that may not create another app."""
        await require_app_creator(connection, user_id, self._policy)

    async def create(self, name: str, owner_id: UUID | None, actor: Actor = OPERATOR) -> CreatedApp:
        """Create an app with its schema, a public and a secret key.

        `owner_id` is the console user that owns it; without one it belongs to the server's operator. Raises
        `AppCreationNotAllowedError`.
        """
        async with self._database.transaction(CONSOLE) as connection:
            if owner_id is not None and actor.kind == "console_user":
                await self.require_creator(connection, owner_id)
            app_id, public_key = await _insert(connection, name, owner_id, actor)
            if self._policy.default_plan is not None:
                await store.assign_plan(connection, app_id, self._policy.default_plan)
            secret_key = await add_secret_key(connection, app_id, actor, owner_id, "first")
        return CreatedApp(app_id=app_id, name=name, public_key=public_key, secret_key=secret_key.key)

    async def create_copy(
        self,
        connection: Connection,
        settings: CopiedSettings,
        owner_id: UUID | None,
        actor: Actor,
        app_id: UUID,
        *,
        with_secret_key: bool,
        branch: BranchOf | None = None,
    ) -> CopiedApp:
        """Create an app with the settings of another in the caller's transaction; it has keys of its own.

        A branch has no secret key, which nobody would read, and the console users of its parent.
        """
        _, public_key = await _insert(connection, settings.name, owner_id, actor, app_id)
        if branch is not None:
            await store.set_branch(connection, branch)
        elif self._policy.default_plan is not None:
            await store.assign_plan(connection, app_id, self._policy.default_plan)
        row = await store.set_copied_settings(connection, app_id, settings)
        secret_key = None
        if branch is not None:
            await copy_roles(connection, branch.parent_id, app_id)
        elif with_secret_key:
            secret_key = (await add_secret_key(connection, app_id, actor, owner_id, "first")).key
        return CopiedApp(app_info(row, self._limits), public_key, secret_key)

    async def renew_branch(self, connection: Connection, app_id: UUID, branch_id: UUID) -> None:
        """Give a committed branch the console users of its parent, which is locked, its plan and what it exceeds."""
        await store.copy_plan(connection, app_id, branch_id)
        await renew_roles(connection, app_id, branch_id)
        await self.announce(connection, branch_id)

    async def create_sample(self, name: str) -> tuple[UUID, str]:
        """Create an app for the operator and return its id and public key.

        It has no secret key: it is made without anybody asking, so nobody would read the key.
        """
        async with self._database.transaction(CONSOLE) as connection:
            return await _insert(connection, name, None, OPERATOR)

    async def all(self) -> list[ListedApp]:
        """Return every app of the server, including deleted ones, for the operator."""
        return [
            ListedApp(
                row.app_id,
                row.name,
                rfc3339(row.created_at),
                optional_rfc3339(row.deleted_at),
                list(row.public_keys),
            )
            for row in await store.all_apps(self._database)
        ]

    async def page(self, user: UserInfo, paging: Paging) -> ItemPage[App]:
        """Return the apps on which a console user has a role, including deleted ones that it owns and can restore."""
        limit = self._limits.page_size(paging.limit)
        rows, total = await store.apps_of_user(
            self._database, user.user_id, limit, paging.offset, self._limits.deleted_app_days
        )
        return ItemPage(
            data=[_app(row, row.role) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

    async def read(self, principal: Principal) -> App:
        """Return the principal's app."""
        assert principal.app is not None
        row = await store.read_app(self._database.of(principal.app.app_id), principal.app.app_id)
        if row is None:
            raise AppNotFoundError
        return _app(row, role_name(principal))

    async def update(self, principal: Principal, actor: Actor, change: AppChange) -> App:
        """Change an app's name; an owner can also lock or unlock its schema."""
        assert principal.app is not None
        given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
        if "schema_locked" in given and not principal.may(Role.OWNER):
            raise RoleRequiredError("Only an owner may lock or unlock the schema.")
        async with self.change(principal.app.app_id) as connection:
            row = await store.update_app(
                connection, principal.app.app_id, given.get("name"), given.get("schema_locked")
            )
            await record(connection, principal.app.app_id, actor, "app.update", principal.app.app_id, **given)
        return _app(row, role_name(principal))

    async def delete(self, app_id: UUID, actor: Actor) -> None:
        """Delete an app. It is inaccessible at once, and can be restored for `deleted_app_days`."""
        async with self.change(app_id) as connection:
            await store.mark_deleted(connection, app_id)
            await record(connection, app_id, actor, "app.delete", app_id)

    async def restore(self, app_id: UUID, user: UserInfo, actor: Actor) -> App:
        """Restore a deleted app, for an owner; raises `AppCreationNotAllowedError` for one who owns enough others.

        The role is looked up here because the routes' own check does not find a deleted app.
        """
        async with self._database.transaction(CONSOLE) as connection:
            found = await store.lock_deleted_app(connection, app_id, user.user_id, self._limits.deleted_app_days)
            if found is None or (found.is_deleted and not found.is_in_grace):
                raise AppNotFoundError
            if found.role != "owner":
                raise RoleRequiredError
            if not found.is_deleted:
                raise AppNotDeletedError
            if not found.is_branch:
                await require_room_for_app(connection, user.user_id, self._policy)
            row = await store.mark_restored(connection, app_id)
            await record(connection, app_id, actor, "app.restore", app_id)
            await self.announce(connection, app_id)
        return _app(row, found.role)

    async def purge_deleted(self, connection: Connection) -> int:
        """Permanently delete the apps whose grace period is over, and return how many.

        For a periodic task, on a connection whose statements may take minutes. Nodes that run it concurrently
        divide the apps between them.
        """
        days = self._limits.deleted_app_days
        return sum([await _purge(connection, app_id, days) for app_id in await store.apps_to_purge(connection, days)])

    async def set_plan(self, connection: Connection, app_id: UUID, name: str | None, limits: str) -> None:
        """Set an app's plan and the limits of it, a JSON object, in a transaction of `change`."""
        for found in await store.set_plan(connection, app_id, name, limits):
            await self.announce(connection, found)

    async def set_plan_limits(self, connection: Connection, name: str, limits: str) -> int:
        """Set the limits of a plan, a JSON object, for the apps that have it; return how many they are."""
        await lock_apps(connection, await store.apps_of_plan(connection, name))
        # An app may have got another plan before it was locked.
        changed = await store.set_plan_limits(connection, name, limits)
        for app_id in changed:
            await self.announce(connection, app_id)
        return sum(changed.values())

    async def set_exceeded(self, connection: Connection, app_id: UUID, exceeded: str | None) -> None:
        """Set which quota an app has used up, a JSON object, in a transaction of `change`."""
        for found in await store.set_exceeded(connection, app_id, exceeded):
            await self.announce(connection, found)

    async def owners_of(self, connection: Connection, app_id: UUID) -> tuple[str, list[str]]:
        """Return an app's name, and the addresses of its active owners."""
        return await store.owners_of(connection, app_id)

    async def delete_ended_branches(self, connection: Connection) -> None:
        """Delete the branches that have expired, or whose parent is deleted; for a periodic task."""
        for app_id in await store.ended_branches(connection):
            with suppress(AppNotFoundError):
                await self.delete(app_id, OPERATOR)

    async def branches_of(self, connection: Connection, app_id: UUID) -> list[App]:
        """Return the branches of an app that are not deleted, without a role."""
        return [_app(row, "") for row in await store.branches_of(connection, app_id)]

    async def create_public_key(
        self, connection: Connection, app_id: UUID, name: str, allowed_origins: list[str], key_id: UUID | None = None
    ) -> str:
        """Create a public key for the operator, in the caller's transaction, and return it."""
        return (await add_public_key(connection, app_id, OPERATOR, name, allowed_origins, key_id)).key

    async def create_secret_key(
        self, connection: Connection, app_id: UUID, user_id: UUID | None, name: str, key_id: UUID | None = None
    ) -> str:
        """Create a secret key for the operator, in the caller's transaction, and return it."""
        return (await add_secret_key(connection, app_id, OPERATOR, user_id, name, key_id)).key

    async def set_oauth_providers(self, connection: Connection, app_id: UUID, names: list[str]) -> None:
        """Record which providers of social login are enabled, in a transaction of `change`."""
        await store.update_oauth_providers(connection, app_id, names)

    @asynccontextmanager
    async def change(self, app_id: UUID) -> AsyncGenerator[Connection]:
        """Open a transaction that changes an existing app or something that belongs to it, and notify every node.

        Changes to one app are serialized. This node sees the change as soon as it is committed, other nodes a moment
        later. Raises `AppNotFoundError`.
        """
        async with self._database.transaction(app_id) as connection:
            if not await store.lock_live_app(connection, app_id):
                raise AppNotFoundError
            yield connection
            await self.announce(connection, app_id)
        self._changed(str(app_id))

    async def announce(self, connection: Connection, app_id: UUID) -> None:
        """Notify every node, when the transaction commits, that an app or one of its keys has changed."""
        await publish(connection, Topic.APP, app_id)

    async def _look_up(self, key: str) -> _KnownKey:
        app_id = keys.app_of(key, keys.PUBLIC_PREFIX)
        if app_id is None and key.startswith(keys.SECRET_PREFIX):
            raise InvalidPublicKeyError(
                "X-Public-Key holds a secret key. Send that as Authorization: Bearer, and only from a server of yours; "
                "one that was in a page is known to others, so revoke it."
            )
        if app_id is None:
            raise InvalidPublicKeyError
        changes = self._changes
        row = await store.app_of_public_key(self._database, app_id, key)
        if row is None:
            raise InvalidPublicKeyError
        known = _KnownKey(app_info(row, self._limits), frozenset(row.allowed_origins))
        # A change that arrives while the query runs makes its result too old to cache.
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


def app_info(row: LiveApp, server_limits: Limits) -> AppInfo:
    """Convert a stored app to the type that the endpoint layer uses."""
    return AppInfo(
        row.app_id,
        row.name,
        row.version,
        row.schema_locked,
        row.allow_id_password_login,
        row.allow_guest_login,
        list(row.enabled_oauth_providers),
        limits_in_force(server_limits, row.plan_limits, row.limits),
        msgspec.json.decode(row.account_settings, type=AccountSettings),
        None if row.exceeded is None else msgspec.json.decode(row.exceeded, type=Exceeded),
    )


def role_name(principal: Principal) -> str:
    """Return the principal's role on its app as it is written in responses: `owner`, `editor` or `viewer`."""
    assert principal.role is not None
    return principal.role.name.lower()


def _app(row: StoredApp, role: str) -> App:
    return App(
        app_id=row.app_id,
        name=row.name,
        schema_locked=row.schema_locked,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        deleted_at=optional_rfc3339(row.deleted_at),
        role=role,
        parent_app_id=row.parent_app_id,
        branch=row.branch,
        expires_at=optional_rfc3339(row.expires_at),
    )


async def _purge(connection: Connection, app_id: UUID, grace_days: int) -> bool:
    dropped = _TABLES_BATCH_SIZE
    while dropped:
        async with connection.transaction():
            if not await store.lock_app_to_purge(connection, app_id, grace_days):
                return False
            dropped = await store.drop_some_tables(connection, app_id, _TABLES_BATCH_SIZE)
            if not dropped:
                await store.delete_app(connection, app_id)
    return True


def _keep(cache: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    cache[key] = value
    while len(cache) > _KEYS_KEPT:
        cache.popitem(last=False)


async def _insert(
    connection: Connection, name: str, owner_id: UUID | None, actor: Actor, app_id: UUID | None = None
) -> tuple[UUID, str]:
    """Insert an app with its schema and its first public key; return its id and that key."""
    app_id = app_id or uuid7()
    await store.insert_app(connection, app_id, name)
    await store.create_schema(connection, app_id)
    if owner_id is not None:
        await grant_role(connection, app_id, owner_id, "owner")
    await record(connection, app_id, actor, "app.create", app_id, name=name)
    public_key = await add_public_key(connection, app_id, actor, "first", [])
    return app_id, public_key.key

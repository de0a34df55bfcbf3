"""Web storages: created, changed and deleted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from pilotis.db.blocks import after_commit
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.hosting import names, storage_store, views
from pilotis.hosting.errors import SlugTakenError, WebStorageNotFoundError
from pilotis.hosting.names import Addresses
from pilotis.hosting.types import (
    NewWebStorage,
    NotFoundMode,
    PromoteMode,
    WebStorage,
    WebStorageChange,
    WebStorageList,
)
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7
from pilotis.kit.passwords import Passwords
from pilotis.security.audit.service import record

SLUG_BLOCKED_DAYS = 30
_SLUG_ATTEMPTS = 5


class WebStorages:
    """An app's web storages. `changed` is called with a storage whose site this process has changed."""

    total = storage_store.COUNT
    """Counts storages; see `pilotis.db.daily`."""

    def __init__(
        self, database: Database, passwords: Passwords, addresses: Addresses, changed: Callable[[UUID], None]
    ) -> None:
        self._database = database
        self._passwords = passwords
        self._addresses = addresses
        self._changed = changed

    async def page(self, app: AppInfo, paging: Paging) -> WebStorageList:
        """Return a page of the app's web storages."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await storage_store.storages(self._database, app.app_id, limit, paging.offset)
        return WebStorageList(
            storages=[views.storage_view(row, self._addresses) for row in rows],
            total_count=total,
            limit=limit,
            offset=paging.offset,
        )

    async def read(self, app_id: UUID, storage_id: UUID) -> WebStorage:
        """Return a web storage; raises `WebStorageNotFoundError`."""
        row = await storage_store.storage(self._database.of(app_id), app_id, storage_id)
        if row is None:
            raise WebStorageNotFoundError
        return views.storage_view(row, self._addresses)

    async def exists(self, app_id: UUID, storage_id: UUID) -> bool:
        """Return whether the app has the storage."""
        return await storage_store.storage(self._database.of(app_id), app_id, storage_id) is not None

    async def create(
        self, app: AppInfo, actor: Actor, new: NewWebStorage, storage_id: UUID | None = None
    ) -> WebStorage:
        """Create a web storage; raises `SlugTakenError`, or a `ValidationError` if there are too many."""
        for attempt in range(_SLUG_ATTEMPTS):
            slug = new.slug or names.slug_of(new.name)
            try:
                return await self._create(app, actor, new, slug, storage_id or uuid7())
            except SlugTakenError:
                if new.slug is not None or attempt == _SLUG_ATTEMPTS - 1:
                    raise
        raise SlugTakenError

    async def _create(self, app: AppInfo, actor: Actor, new: NewWebStorage, slug: str, storage_id: UUID) -> WebStorage:
        columns = _columns(msgspec.structs.asdict(new)) | {"slug": slug}
        _check_slug(slug)
        try:
            async with self._database.transaction(app.app_id) as connection:
                if await storage_store.count_storages(connection, app.app_id) >= app.limits.web_storages:
                    limit = app.limits.web_storages
                    raise invalid("name", f"An app has at most {limit} web storages.", "TOO_MANY_STORAGES")
                if await storage_store.is_slug_blocked(connection, app.app_id, slug):
                    raise SlugTakenError
                await storage_store.insert_storage(connection, app.app_id, storage_id, columns)
                await record(connection, app.app_id, actor, "web_storage.create", storage_id, **columns)
                await publish(connection, Topic.SITE, storage_id)
                row = await storage_store.storage(connection, app.app_id, storage_id)
                after_commit(connection, functools.partial(self._changed, storage_id))
        except asyncpg.UniqueViolationError:
            raise SlugTakenError from None
        assert row is not None
        return views.storage_view(row, self._addresses)

    async def update(self, app_id: UUID, actor: Actor, storage_id: UUID, change: WebStorageChange) -> WebStorage:
        """Change the given fields of a web storage and return it; raises `SlugTakenError`."""
        given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
        columns = _columns(given)
        if "qa_password" in columns:
            password = columns.pop("qa_password")
            columns["qa_password_hash"] = password and await self._passwords.hash(password)
        try:
            async with self._database.transaction(app_id) as connection:
                row = await storage_store.lock_storage(connection, app_id, storage_id)
                if row is None:
                    raise WebStorageNotFoundError
                slug = columns.get("slug", row.slug)
                if slug != row.slug:
                    _check_slug(slug)
                    if await storage_store.is_slug_blocked(connection, app_id, slug):
                        raise SlugTakenError
                    await storage_store.free_slug(connection, app_id, row.slug, SLUG_BLOCKED_DAYS)
                await storage_store.update_storage(connection, app_id, storage_id, columns)
                # A password's hash must not appear anywhere, not even in the log.
                shown = {name: value for name, value in columns.items() if name != "qa_password_hash"}
                if "qa_password_hash" in columns:
                    shown["has_qa_password"] = columns["qa_password_hash"] is not None
                await record(connection, app_id, actor, "web_storage.update", storage_id, **shown)
                await publish(connection, Topic.SITE, storage_id)
                row = await storage_store.storage(connection, app_id, storage_id)
                after_commit(connection, functools.partial(self._changed, storage_id))
        except asyncpg.UniqueViolationError:
            raise SlugTakenError from None
        assert row is not None
        return views.storage_view(row, self._addresses)

    async def delete(self, app_id: UUID, actor: Actor, storage_id: UUID) -> None:
        """Delete a web storage with its deployments, pages and domains."""
        async with self._database.transaction(app_id) as connection:
            row = await storage_store.lock_storage(connection, app_id, storage_id)
            if row is None:
                raise WebStorageNotFoundError
            await storage_store.free_slug(connection, app_id, row.slug, SLUG_BLOCKED_DAYS)
            await storage_store.delete_storage(connection, app_id, storage_id)
            await record(connection, app_id, actor, "web_storage.delete", storage_id, name=row.name)
            await publish(connection, Topic.SITE, storage_id)
            await publish(connection, Topic.SITE, "domains")
            after_commit(connection, functools.partial(self._changed, storage_id))


def _columns(given: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.value if isinstance(value, PromoteMode | NotFoundMode) else value for name, value in given.items()
    }


def _check_slug(slug: str) -> None:
    if slug in names.RESERVED:
        raise SlugTakenError(f"{slug} is reserved. Choose another slug.")

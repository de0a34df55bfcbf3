"""Storages: created, changed and deleted by console users."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.rules.files.service import PRESETS, FileRules
from pilotis.data.rules.service import RulesChangedError
from pilotis.data.rules.types import FileRuleSet, NewFileRules, StorageRules
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database, TenantDatabase
from pilotis.files import media, store
from pilotis.files.errors import StorageNameTakenError, StorageNotEmptyError, StorageNotFoundError
from pilotis.files.records import StorageRecord, UsedStorage
from pilotis.files.ruling import ruled
from pilotis.files.types import NewStorage, Storage, StorageAccess, StorageChange, StorageList
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record

LEVELS = ("upload_access", "delete_access", "read_access")
_WIDTH = ("Public", "AppMember", "Creator", "Secret")
"""The access settings, the widest first."""
_RULE_OF: dict[str, dict[str, Any] | bool | None] = {
    "Public": True,
    "AppMember": {"$member": {}},
    "Creator": {"$creator": {"$member": "id"}},
    "Secret": None,
}
"""The rule that each access setting stands for."""


class Storages:
    """An app's file storages."""

    def __init__(self, database: Database, rules: FileRules) -> None:
        self._database = database
        self._rules = rules

    async def all(self, app_id: UUID) -> list[Storage]:
        """Return the app's storages with their usage."""
        rows, _ = await store.storages(self._database, app_id, None, 0)
        return [_storage(row) for row in rows]

    async def page(self, app: AppInfo, paging: Paging) -> StorageList:
        """Return a page of the app's storages with their usage."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.storages(self._database, app.app_id, limit, paging.offset)
        return StorageList(
            storages=[_storage(row) for row in rows], total_count=total, limit=limit, offset=paging.offset
        )

    async def read(self, app_id: UUID, storage_id: UUID) -> Storage:
        """Return a storage; raises `StorageNotFoundError`."""
        return await _read(self._database.of(app_id), app_id, storage_id)

    async def id_of(self, app_id: UUID, name: str) -> UUID | None:
        """Return the id of the storage with a name; None if there is none."""
        return await store.storage_id_of(self._database.of(app_id), app_id, name)

    async def exists(self, app_id: UUID, storage_id: UUID) -> bool:
        """Return whether the app has the storage."""
        return await store.storage(self._database.of(app_id), app_id, storage_id) is not None

    async def create(self, app: AppInfo, actor: Actor, new: NewStorage, storage_id: UUID | None = None) -> Storage:
        """Create a storage, with the default quota if `new` has none.

        Raises `StorageNameTakenError`, or a `ValidationError` if there are too many.
        """
        storage_id = storage_id or uuid7()
        given = msgspec.structs.asdict(new)
        rules = given.pop("rules")
        columns = _columns(given)
        _check_list_access(columns)
        if new.quota_bytes is msgspec.UNSET:
            columns["quota_bytes"] = app.limits.storage_quota_bytes or None
        async with self._database.transaction(app.app_id) as connection:
            if await store.count_storages(connection, app.app_id) >= app.limits.storages:
                limit = app.limits.storages
                raise invalid("name", f"An app has at most {limit} file storages.", "TOO_MANY_STORAGES")
            try:
                await store.insert_storage(connection, app.app_id, storage_id, columns)
            except asyncpg.UniqueViolationError:
                raise StorageNameTakenError from None
            if rules is not None:
                await self._set_rules(connection, app, storage_id, new.name, columns, rules)
                columns["rules"] = msgspec.to_builtins(rules)
            await record(connection, app.app_id, actor, "file_storage.create", storage_id, **columns)
            return await _read(connection, app.app_id, storage_id)

    async def update(self, app: AppInfo, actor: Actor, storage_id: UUID, change: StorageChange) -> Storage:
        """Change the given settings of a storage and return it."""
        app_id = app.app_id
        given = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}
        rules = given.pop("rules", msgspec.UNSET)
        columns = _columns(given)
        async with self._database.transaction(app_id) as connection:
            if rules is not msgspec.UNSET:
                await lock_app(connection, app_id)
            row = await store.lock_storage(connection, app_id, storage_id)
            if row is None:
                raise StorageNotFoundError
            levels = _levels(row) | {name: value for name, value in columns.items() if name in LEVELS}
            _check_list_access(levels | {"list_access": columns.get("list_access", row.list_access)})
            plain = {name: value for name, value in columns.items() if name not in LEVELS}
            try:
                await store.update_storage(connection, app_id, storage_id, columns if row.rules is None else plain)
            except asyncpg.UniqueViolationError:
                raise StorageNameTakenError from None
            if "quota_bytes" in columns:
                await store.recount(connection, app_id, storage_id)
            if rules is not msgspec.UNSET:
                await self._set_rules(connection, app, storage_id, columns.get("name", row.name), levels, rules)
                columns["rules"] = msgspec.to_builtins(rules)
            elif row.rules is not None:
                await store.set_levels(connection, app_id, storage_id, json.encode(levels).decode())
            await record(connection, app_id, actor, "file_storage.update", storage_id, **columns)
            return await _read(connection, app_id, storage_id)

    async def rules(self, app: AppInfo, storage_id: UUID) -> StorageRules:
        """Return a storage's rules with today's names, and what to begin with; raises `StorageNotFoundError`."""
        row = await store.storage(self._database.of(app.app_id), app.app_id, storage_id)
        if row is None:
            raise StorageNotFoundError
        rules, warnings = (None, []) if row.rules is None else await self._rules.shown(ruled(row))
        return StorageRules(
            rules=rules,
            level_rules=level_rules(row),
            presets=PRESETS,
            warnings=warnings,
            updated_at=optional_rfc3339(row.rules_updated_at),
        )

    async def save_rules(self, app: AppInfo, actor: Actor, storage_id: UUID, new: NewFileRules) -> None:
        """Replace a storage's rules, which then hold on every node; raises a 400 error that names the place."""
        async with self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            row = await store.lock_storage(connection, app.app_id, storage_id)
            if row is None:
                raise StorageNotFoundError
            expected = new.expected_updated_at
            if expected is not msgspec.UNSET and _moment(expected) != _moment(row.rules_updated_at):
                raise RulesChangedError
            await self._set_rules(connection, app, storage_id, row.name, _levels(row), new.rules)
            rules = msgspec.to_builtins(new.rules)
            await record(connection, app.app_id, actor, "file_storage.rules", storage_id, rules=rules)

    async def _set_rules(
        self,
        connection: Connection,
        app: AppInfo,
        storage_id: UUID,
        name: str,
        levels: Mapping[str, str],
        rules: FileRuleSet | None,
    ) -> None:
        """Set the rules of a locked storage, or remove them, while the app is locked."""
        if rules is None:
            await store.remove_rules(connection, app.app_id, storage_id, {name: levels[name] for name in LEVELS})
            return
        text = await self._rules.stored(connection, app, storage_id, name, msgspec.to_builtins(rules))
        kept = json.encode({name: levels[name] for name in LEVELS}).decode()
        await store.set_rules(connection, app.app_id, storage_id, text, kept)

    async def delete(self, app_id: UUID, actor: Actor, storage_id: UUID, *, force: bool) -> None:
        """Delete a storage, with its files if `force`; otherwise raises `StorageNotEmptyError` if it has any."""
        async with self._database.transaction(app_id) as connection:
            row = await store.lock_storage(connection, app_id, storage_id)
            if row is None:
                raise StorageNotFoundError
            if not force and not await store.is_empty(connection, app_id, storage_id):
                raise StorageNotEmptyError
            await store.delete_storage(connection, app_id, storage_id)
            await record(connection, app_id, actor, "file_storage.delete", storage_id, name=row.name)


async def _read(connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID) -> Storage:
    row = await store.read_storage(connection, app_id, storage_id)
    if row is None:
        raise StorageNotFoundError
    return _storage(row)


def _columns(given: dict[str, Any]) -> dict[str, Any]:
    if patterns := given.get("allowed_mime_types"):
        given["allowed_mime_types"] = media.checked_patterns(patterns)
    return {name: value.value if isinstance(value, StorageAccess) else value for name, value in given.items()}


def _levels(row: StorageRecord) -> dict[str, str]:
    """Return a storage's access settings, also those that its rules take the place of."""
    kept = {} if row.levels is None else json.decode(row.levels.encode())
    return {name: kept.get(name, getattr(row, name)) for name in LEVELS}


def _check_list_access(columns: Mapping[str, Any]) -> None:
    """Raise a `ValidationError` for a `list_access` that is wider than `read_access`."""
    narrower = columns.get("list_access")
    if narrower is not None and _WIDTH.index(narrower) < _WIDTH.index(columns["read_access"]):
        raise invalid(
            "list_access", "list_access: what may be listed may be read, so it is not wider than read_access."
        )


def level_rules(row: StorageRecord) -> FileRuleSet:
    """Return the rules that a storage's access settings stand for."""
    levels, list_access = _levels(row), row.list_access
    read, upload, remove = (_RULE_OF[levels[name]] for name in ("read_access", "upload_access", "delete_access"))
    is_own = levels["upload_access"] == StorageAccess.CREATOR.value
    return FileRuleSet(
        list=read if list_access is None else _RULE_OF[list_access],
        read=read,
        create={"$member": {}} if is_own else upload,
        update=upload,
        delete=remove,
    )


def _moment(value: datetime | None) -> str | None:
    return None if value is None else rfc3339(value)


def _storage(row: UsedStorage) -> Storage:
    levels = _levels(row)
    return Storage(
        id=row.storage_id,
        app_id=row.app_id,
        name=row.name,
        upload_access=StorageAccess(levels["upload_access"]),
        delete_access=StorageAccess(levels["delete_access"]),
        read_access=StorageAccess(levels["read_access"]),
        list_access=None if row.list_access is None else StorageAccess(row.list_access),
        allowed_mime_types=list(row.allowed_mime_types),
        max_file_size=row.max_file_size,
        quota_bytes=row.quota_bytes,
        file_count=row.file_count,
        used_bytes=row.used,
        reserved_bytes=row.reserved,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        has_rules=msgspec.UNSET if row.rules is None else True,
    )

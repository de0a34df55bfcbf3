"""Who may do what in a storage with rules. Where it has none its access settings decide: `pilotis.files.access`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from asyncpg import Connection

from pilotis.data.rules.files.service import FileRules, Listed, RuledStorage, ruled_storage
from pilotis.data.rules.types import FileFacts
from pilotis.db.pool import TenantDatabase
from pilotis.files.access import creator_limit
from pilotis.files.errors import FileNotFoundInStorageError, PathTakenError
from pilotis.files.records import ItemRecord, StorageRecord
from pilotis.files.types import StorageAccess
from pilotis.http.api.principals import Principal, Role

On = Connection | TenantDatabase


def access(storage: StorageRecord, name: str) -> StorageAccess:
    """Return an access setting of a storage; one with rules is for those alone who pass them."""
    return StorageAccess.SECRET if storage.rules is not None else StorageAccess(getattr(storage, name))


def ruled(storage: StorageRecord) -> RuledStorage:
    """Return a storage that has rules, with them."""
    assert storage.rules is not None
    return ruled_storage(storage.app_id, storage.storage_id, storage.name, storage.rules)


def rules_of(storage: StorageRecord, principal: Principal, role: Role) -> RuledStorage | None:
    """Return a storage with its rules, if they decide about a caller; who has the role passes them."""
    return None if storage.rules is None or principal.may(role) else ruled(storage)


def is_read_by_all(storage: StorageRecord) -> bool:
    """Return whether everybody may read every file by the storage's rules, so that caches may share them."""
    return storage.rules is not None and ruled(storage).rules.get("read") is True


def facts_of(row: ItemRecord) -> FileFacts:
    """Return the facts of an item."""
    return FileFacts(
        row.file_id, row.path, row.name, row.mime_type, row.size, row.creator, row.created_at, row.updated_at
    )


def facts_of_new(
    file_id: UUID, path: str, name: str, mime_type: str | None, size: int, creator: str | None
) -> FileFacts:
    """Return the facts of an item that does not exist yet."""
    now = datetime.now(UTC)
    return FileFacts(file_id, path, name, mime_type, size, creator, now, now)


class Ruling:
    """Judges callers by the rules of storages, and by their access settings where they have none."""

    def __init__(self, rules: FileRules) -> None:
        self.rules = rules

    async def listed(self, on: On, storage: StorageRecord, principal: Principal) -> Listed | str | None:
        """Return the files that the caller may list: those of rules, those of one member, or None for all."""
        if (found := rules_of(storage, principal, Role.VIEWER)) is not None:
            return await self.rules.listed(on, found, principal)
        limit = creator_limit(principal, access(storage, "read_access"), Role.VIEWER)
        narrower = storage.list_access
        return limit if narrower is None else creator_limit(principal, StorageAccess(narrower), Role.VIEWER)

    async def may_read(self, on: On, storage: StorageRecord, principal: Principal, row: ItemRecord | None) -> bool:
        """Return whether there is the item and the caller may read it; raises an error if it may read none."""
        if (found := rules_of(storage, principal, Role.VIEWER)) is not None:
            item = None if row is None else facts_of(row)
            return await self.rules.judge_reading(on, found, principal, item)
        limit = creator_limit(principal, access(storage, "read_access"), Role.VIEWER)
        return row is not None and (limit is None or row.is_folder or row.creator == limit)

    async def require_readable(
        self, on: On, storage: StorageRecord, principal: Principal, row: ItemRecord | None
    ) -> ItemRecord:
        """Return the item; raises `FileNotFoundInStorageError` unless the caller may read it."""
        if not await self.may_read(on, storage, principal, row) or row is None:
            raise FileNotFoundInStorageError
        return row

    async def require_creatable(self, on: On, storage: StorageRecord, principal: Principal, new: FileFacts) -> None:
        """Raise an error unless the caller may create the item."""
        if (found := rules_of(storage, principal, Role.EDITOR)) is not None:
            await self.rules.judge_creation(on, found, principal, new)
        else:
            creator_limit(principal, access(storage, "upload_access"), Role.EDITOR)

    async def require_uploadable(
        self,
        on: On,
        storage: RuledStorage,
        principal: Principal,
        existing: ItemRecord | None,
        new: FileFacts,
        *,
        may_replace: bool,
    ) -> None:
        """Raise an error unless the rules allow an upload to where there is an item, or nothing.

        Who may not create it there does not learn whether the path is taken, by a hidden file for example.
        """
        if existing is not None and may_replace and not existing.is_folder:
            before = facts_of(existing)
            after = new._replace(file_id=before.file_id, creator=before.creator, created_at=before.created_at)
            if await self.rules.judge_replacement(on, storage, principal, before, after):
                return
        await self.rules.judge_creation(on, storage, principal, new)
        if existing is not None:
            raise PathTakenError

    async def require_deletable(
        self, on: On, storage: RuledStorage, principal: Principal, rows: Sequence[ItemRecord], top: UUID
    ) -> None:
        """Raise an error unless the rules allow the deletion of all items, of which `top` contains the others."""
        if not await self.rules.judge_deletion(on, storage, principal, [facts_of(row) for row in rows], top):
            raise FileNotFoundInStorageError

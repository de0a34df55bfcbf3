"""Trying the rules of a storage, those that hold or a draft: what a caller would be answered. Nothing is changed."""

from __future__ import annotations

import time
from uuid import UUID

import msgspec

from pilotis.data.rules.files.service import RuledStorage
from pilotis.data.rules.trying.service import FileTrials
from pilotis.data.rules.types import FileFacts, FileRuleTest, FileRuleTestResult
from pilotis.db.pool import Database, TenantDatabase
from pilotis.files import store
from pilotis.files.errors import FileNotFoundInStorageError, StorageNotFoundError
from pilotis.files.paths import checked_path, name_of
from pilotis.files.ruling import facts_of, facts_of_new, ruled
from pilotis.files.storages import level_rules
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit.errors import PilotisError, invalid
from pilotis.kit.ids import uuid7


class FileRuleTests:
    """Tries rules of storages."""

    def __init__(self, database: Database, trials: FileTrials) -> None:
        self._database = database
        self._trials = trials

    async def run(self, app: AppInfo, storage_id: UUID, test: FileRuleTest) -> FileRuleTestResult:
        """Return what a caller would be answered; raises a 400 error for a draft that is none, 404 for the rest."""
        on = self._database.of(app.app_id)
        row = await store.storage(on, app.app_id, storage_id)
        if row is None:
            raise StorageNotFoundError
        caller = await self._trials.caller(app, test)
        levels = None if row.rules is not None else level_rules(row)
        draft = levels if test.rules is msgspec.UNSET else test.rules
        storage = RuledStorage(app.app_id, storage_id, row.name, {})
        if row.rules is not None:
            storage = ruled(row)
        storage = await self._trials.storage(app, storage, None if draft is None else msgspec.to_builtins(draft))
        item, after = await self._items(app, on, storage_id, caller, test)
        began = time.perf_counter()
        error, count = await self._outcome(on, storage, caller, test, item, after)
        milliseconds = round((time.perf_counter() - began) * 1000, 1)
        return FileRuleTestResult(
            allowed=error is None,
            status=(201 if test.action == "create" else 200) if error is None else error.status,
            code=None if error is None else error.code,
            message=None if error is None else error.text,
            parts=await self._trials.parts(on, storage, caller, test.action, item, after),
            visible_count=count,
            milliseconds=milliseconds,
        )

    async def _outcome(
        self,
        on: TenantDatabase,
        storage: RuledStorage,
        caller: Principal,
        test: FileRuleTest,
        item: FileFacts | None,
        after: FileFacts | None,
    ) -> tuple[PilotisError | None, int | None]:
        """Return the error that the caller would be answered, and how many files it could list."""
        if test.action in {"update", "delete"} and item is None:
            return FileNotFoundInStorageError(), None
        try:
            listed = await self._trials.outcome(on, storage, caller, test.action, item, after)
        except PilotisError as error:
            if error.status >= 500:
                raise
            return error, None
        if listed is False:
            return FileNotFoundInStorageError(), None
        if listed is True:
            return None, None
        _, count = await store.page(self._database, storage.app_id, storage.storage_id, listed=listed, limit=0)
        return None, count

    async def _items(
        self, app: AppInfo, on: TenantDatabase, storage_id: UUID, caller: Principal, test: FileRuleTest
    ) -> tuple[FileFacts | None, FileFacts | None]:
        """Return the file that is judged, and what it is replaced with."""
        if test.action == "create":
            return _new(caller, test), None
        if test.action == "list":
            return None, None
        if test.path is msgspec.UNSET:
            if test.action == "read":
                return None, None
            raise invalid("path", "Give the path of the file that is to be replaced or deleted.", "REQUIRED")
        row = await store.item_at(on, app.app_id, storage_id, checked_path(test.path))
        item = None if row is None else facts_of(row)
        if test.action != "update" or item is None:
            return item, None
        new = _new(caller, test, item)
        return item, new._replace(file_id=item.file_id, creator=item.creator, created_at=item.created_at)


def _new(caller: Principal, test: FileRuleTest, item: FileFacts | None = None) -> FileFacts:
    """Return the facts of what is uploaded; without one it is like the file that it replaces."""
    creator = None if caller.member is None else caller.member.member_id
    if test.file is msgspec.UNSET:
        if item is None:
            raise invalid("file", "Give the file that is to be uploaded.", "REQUIRED")
        return item
    path = checked_path(test.file.path) if item is None else item.path
    return facts_of_new(uuid7(), path, name_of(path), test.file.mime_type, test.file.size, creator)

"""The events of files and folders. Deleting a storage emits no events for its items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType, NewEvent
from pilotis.files.items import Links
from pilotis.files.items import folder as folder_item
from pilotis.files.records import ItemRecord
from pilotis.files.types import FileItem, FolderItem
from pilotis.http.api.principals import Actor, Principal
from pilotis.kit import origin

SCOPE = "files:read"
MAX_DELETED = 1000
"""If more items are deleted together, a single event is emitted: that of their folder."""


class FileEvent(msgspec.Struct, frozen=True):
    """Data of an event about a file: its state after the change, or before a deletion."""

    storage_id: UUID
    file: FileItem


class FolderEvent(msgspec.Struct, frozen=True):
    """Data of an event about a folder."""

    storage_id: UUID
    file: FolderItem


_STORAGE = UUID("0199c0de-0000-7000-8000-0000000f11e5")
_FILE = FileItem(
    id=UUID("0199c0de-0000-7000-8000-0000000f11e1"),
    name="report.pdf",
    path="reports/report.pdf",
    mime_type="application/pdf",
    size=48213,
    url=f"https://example.com/v1/files/{_STORAGE}/0199c0de-0000-7000-8000-0000000f11e1/report.pdf",
    parent_id=UUID("0199c0de-0000-7000-8000-0000000f01de"),
    version=1,
    sha256="2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    created_at="2026-11-22T07:30:00.123Z",
    updated_at="2026-11-22T07:30:00.123Z",
)
_FOLDER = FolderItem(
    id=UUID("0199c0de-0000-7000-8000-0000000f01de"),
    name="reports",
    path="reports",
    parent_id=None,
    created_at=_FILE.created_at,
    updated_at=_FILE.updated_at,
)


def _file(name: str, description: str, version: int = 1) -> EventType[FileEvent]:
    example = FileEvent(_STORAGE, msgspec.structs.replace(_FILE, version=version))
    return EventType(name=name, data=FileEvent, description=description, example=example, scope=SCOPE)


def _folder(name: str, description: str) -> EventType[FolderEvent]:
    example = FolderEvent(_STORAGE, _FOLDER)
    return EventType(name=name, data=FolderEvent, description=description, example=example, scope=SCOPE)


FILE_CREATED = _file("file.created", "An upload was completed, and its file is listed.")
FILE_REPLACED = _file("file.replaced", "An upload replaced a file's content.", version=2)
FILE_DELETED = _file("file.deleted", "A file was deleted, on its own or with its folder.")
FILE_MOVED = _file("file.moved", "A file was renamed or moved to another folder.", version=2)
FOLDER_CREATED = _folder("folder.created", "A folder was created, on its own or for the path of a file.")
FOLDER_DELETED = _folder(
    "folder.deleted", "A folder was deleted; each item in it has its own event, up to 1,000 items."
)
FOLDER_MOVED = _folder(
    "folder.moved", "A folder was renamed or moved. Its content moves with it, without events of its own."
)
EVENT_TYPES: tuple[EventType[Any], ...] = (
    FILE_CREATED,
    FILE_REPLACED,
    FILE_MOVED,
    FILE_DELETED,
    FOLDER_CREATED,
    FOLDER_MOVED,
    FOLDER_DELETED,
)


class CallerEvents:
    """Creates the events of one caller's changes in storages."""

    def __init__(self, links: Links, principal: Principal) -> None:
        self._links = links
        self._actor = Actor(principal.kind, principal.actor_id, origin.current(), principal.depth)

    def file(self, type_: EventType[FileEvent], row: ItemRecord) -> NewEvent:
        """Return an event about a file."""
        return self._event(type_, row, FileEvent(row.storage_id, self._links.file(row)))

    def folder(self, type_: EventType[FolderEvent], row: ItemRecord) -> NewEvent:
        """Return an event about a folder."""
        return self._event(type_, row, FolderEvent(row.storage_id, folder_item(row)))

    def deleted(self, rows: Sequence[ItemRecord], top: UUID) -> list[NewEvent]:
        """Return the events of items that are deleted together; `top` is the one that contains the others."""
        announced = rows if len(rows) <= MAX_DELETED else [row for row in rows if row.file_id == top]
        return [
            self.folder(FOLDER_DELETED, row) if row.is_folder else self.file(FILE_DELETED, row) for row in announced
        ]

    def _event(self, type_: EventType[Any], row: ItemRecord, data: FileEvent | FolderEvent) -> NewEvent:
        storage_id = row.storage_id
        subject = f"storages/{storage_id}/items/{row.file_id}"
        return type_.event(data, self._actor, subject=subject, storage_id=storage_id)

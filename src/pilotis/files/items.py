"""Files and folders as callers see them. Pure."""

from __future__ import annotations

from uuid import UUID

import msgspec

from pilotis.files import paths
from pilotis.files.records import ItemRecord
from pilotis.files.types import FileItem, FolderContents, FolderItem
from pilotis.kit.clock import rfc3339


class Links:
    """Builds the links to files; `base_url` is the address that serves them."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def to(self, storage_id: UUID, file_id: UUID, name: str, path: str, *, is_fixed: bool) -> str:
        """Return the public URL of a file or of a future file."""
        link = paths.fixed_link(storage_id, path) if is_fixed else paths.file_link(storage_id, file_id, name)
        return self.base_url + link

    def of(self, row: ItemRecord) -> str:
        """Return the public URL of a file."""
        return self.to(row.storage_id, row.file_id, row.name, row.path, is_fixed=row.is_fixed)

    def item(self, row: ItemRecord, *, creators: bool = False) -> FileItem | FolderItem:
        """Return a file, with the member that uploaded it if asked, or a folder."""
        return folder(row) if row.is_folder else self.file(row, creators=creators)

    def file(self, row: ItemRecord, *, creators: bool = False) -> FileItem:
        """Return a file, with the member that uploaded it if asked."""
        assert row.mime_type is not None
        return FileItem(
            id=row.file_id,
            name=row.name,
            path=row.path,
            mime_type=row.mime_type,
            size=row.size,
            url=self.of(row),
            parent_id=row.parent_id,
            version=row.version,
            sha256=row.sha256.hex() if row.sha256 else None,
            created_at=rfc3339(row.created_at),
            created_by=row.creator if creators else msgspec.UNSET,
            updated_at=rfc3339(row.updated_at),
        )


def folder(row: ItemRecord) -> FolderItem:
    """Return a folder."""
    return FolderItem(
        id=row.file_id,
        name=row.name,
        path=row.path,
        parent_id=row.parent_id,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def contents(row: ItemRecord, files: list[FileItem | FolderItem], total_count: int) -> FolderContents:
    """Return a folder with its items."""
    plain = folder(row)
    return FolderContents(
        id=plain.id,
        name=plain.name,
        path=plain.path,
        parent_id=plain.parent_id,
        created_at=plain.created_at,
        updated_at=plain.updated_at,
        files=files,
        total_count=total_count,
    )

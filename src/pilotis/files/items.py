"""From rows to what a caller sees of files and folders. Pure."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Record

from pilotis.files import paths
from pilotis.files.types import FileItem, FolderContents, FolderItem
from pilotis.kit.clock import rfc3339


class Links:
    """Makes the links to files; `base_url` is the address they are served under."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def to(self, storage_id: UUID, file_id: UUID, name: str, path: str, *, is_fixed: bool) -> str:
        """Return the public URL of a file, or of one that is to come."""
        link = paths.fixed_link(storage_id, path) if is_fixed else paths.file_link(storage_id, file_id, name)
        return self.base_url + link

    def of(self, row: Record) -> str:
        """Return the public URL of a file."""
        return self.to(row["storage_id"], row["file_id"], row["name"], row["path"], is_fixed=row["is_fixed"])

    def item(self, row: Record) -> FileItem | FolderItem:
        """Return a file or a folder."""
        return folder(row) if row["is_folder"] else self.file(row)

    def file(self, row: Record) -> FileItem:
        """Return a file."""
        return FileItem(
            row["file_id"],
            row["name"],
            row["path"],
            row["mime_type"],
            row["size"],
            self.of(row),
            row["parent_id"],
            row["version"],
            row["sha256"].hex() if row["sha256"] else None,
            rfc3339(row["created_at"]),
            rfc3339(row["updated_at"]),
        )


def folder(row: Record) -> FolderItem:
    """Return a folder."""
    return FolderItem(
        row["file_id"],
        row["name"],
        row["path"],
        row["parent_id"],
        rfc3339(row["created_at"]),
        rfc3339(row["updated_at"]),
    )


def contents(row: Record, files: list[FileItem | FolderItem], total_count: int) -> FolderContents:
    """Return a folder with what is in it."""
    plain = folder(row)
    return FolderContents(
        plain.id,
        plain.name,
        plain.path,
        plain.parent_id,
        plain.created_at,
        plain.updated_at,
        files,
        total_count,
    )

"""Deduplication of files by content: equal blobs in one folder, such as those of one app, share their bytes.

Each file has a second hard link in the directory of contents, named after its SHA-256 and content type. If that name
exists when a blob arrives, the blob becomes another link to the existing file, and the new bytes are deleted. The file
system counts the links, so no blob depends on another. A lost or leftover name of contents only costs space.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from pilotis.blobs.writing import (
    NO_LINK,
    Attributes,
    link,
    make_folder,
    read_attributes,
    set_attributes,
    sync_folder,
)
from pilotis.kit.disk import sync_file


class Contents:
    """The contents of the blobs below `objects`; every method blocks. `temporary` is where links are prepared."""

    def __init__(self, folder: Path, objects: Path, temporary: Path) -> None:
        self._folder = folder
        self._objects = objects
        self._temporary = temporary

    def place(self, file: int, path: Path, target: Path, attributes: Attributes) -> os.stat_result:
        """Move the complete, open file at `path` to the blob `target`, durably; return a status with size and time.

        If the bytes already exist, `target` becomes a link to them. The name `path` does not exist afterwards.
        """
        name = self._name(target, attributes)
        former = self._name_of(target)
        if _is(target, os.fstat(file)):
            # Placed by a process that died before it could report it.
            sync_folder(target.parent)
        elif not self._link_existing(name, target):
            set_attributes(file, attributes)
            sync_file(file)
            make_folder(target.parent)
            path.replace(target)
            # Its lock prevented a sweep from deleting it. Other processes that link to it now must not wait until it is
            # closed.
            fcntl.flock(file, fcntl.LOCK_UN)
            sync_folder(target.parent)
            # Without the attribute on the file, the name could not be found again to be deleted.
            if read_attributes(file) == attributes:
                self._add_content_name(file, name, target)
        if former is not None and former != name:
            self._release(former)
        # A new hard link updates the time of the existing file. Its name of contents never refers to other bytes.
        with suppress(FileNotFoundError):
            if _is(target, status := name.stat()):
                return status
        return os.fstat(file)

    def remove(self, path: Path) -> None:
        """Delete a blob; raises `OSError` if it does not exist."""
        name = self._name_of(path)
        status = path.lstat()
        if name is not None and status.st_nlink == 2 and _is(name, status):
            # Before the blob's own name: if the process ends in between, no bytes are left without a blob.
            name.unlink(missing_ok=True)
        path.unlink()
        if name is not None:
            self._release(name)

    def _link_existing(self, name: Path, target: Path) -> bool:
        try:
            return link(name, target, self._temporary, waits=False)
        except (FileNotFoundError, BlockingIOError):
            return False

    def _add_content_name(self, file: int, name: Path, target: Path) -> None:
        """Give the open file at `target` its name of contents."""
        make_folder(name.parent)
        # Another process may put another file here at any time. A file keeps the name of contents that it has.
        own = self._temporary / secrets.token_hex(16)
        with suppress(FileNotFoundError, FileExistsError):
            try:
                os.link(target, own)
                if _is(own, os.fstat(file)):
                    os.link(own, name)
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
            finally:
                own.unlink(missing_ok=True)

    def _release(self, name: Path) -> None:
        """Delete a name of contents that is the last name of its file."""
        with suppress(FileNotFoundError):
            if name.stat().st_nlink == 1:
                name.unlink()

    def _name_of(self, path: Path) -> Path | None:
        attributes = read_attributes(path)
        return None if attributes.sha256 is None else self._name(path, attributes)

    def _name(self, path: Path, attributes: Attributes) -> Path:
        kind = hashlib.sha256((attributes.content_type or "").encode()).hexdigest()[:16]
        return self._folder / path.parent.relative_to(self._objects) / f"{attributes.sha256}.{kind}"


def _is(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.lstat(), status)
    except (FileNotFoundError, NotADirectoryError):
        return False

"""Files by their content: of equal blobs in one folder, such as those of one app, the bytes are there once.

Below the directory of contents each file has a second name, which follows from its SHA-256 and its content type. A
blob that has come in and finds its name taken is that file: it gets one more name, and the bytes that came go. The
file system counts the names. So a blob never depends on another one, whatever happens to that, and a name of contents
that is lost or left over costs room and nothing else.
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


class Contents:
    """The contents of the blobs below `objects`; every method blocks. `temporary` is where names are prepared."""

    def __init__(self, folder: Path, objects: Path, temporary: Path) -> None:
        self._folder = folder
        self._objects = objects
        self._temporary = temporary

    def place(self, file: int, path: Path, target: Path, attributes: Attributes) -> os.stat_result:
        """Make the whole and open file at `path` the blob at `target`, durably; returns a status with size and time.

        The name `path` is gone afterwards, unless the bytes were there already.
        """
        name = self._name(target, attributes)
        former = self._name_of(target)
        if _is(target, os.fstat(file)):
            # Placed by somebody who died before saying so.
            sync_folder(target.parent)
        elif not self._share(name, target):
            set_attributes(file, attributes)
            os.fsync(file)
            make_folder(target.parent)
            path.replace(target)
            # Its lock kept others from taking it for a left-over. Whoever shares it now must not wait for its close.
            fcntl.flock(file, fcntl.LOCK_UN)
            sync_folder(target.parent)
            # A name that the file does not tell could not be found again to be taken away.
            if read_attributes(file) == attributes:
                self._note(file, name, target)
        if former is not None and former != name:
            self._release(former)
        return os.fstat(file)

    def remove(self, path: Path) -> None:
        """Delete a blob; raises `OSError` where there is none."""
        name = self._name_of(path)
        status = path.lstat()
        if name is not None and status.st_nlink == 2 and _is(name, status):
            # Before the blob's own name: should the process end in between, no bytes are left that no blob has.
            name.unlink(missing_ok=True)
        path.unlink()
        if name is not None:
            self._release(name)

    def _share(self, name: Path, target: Path) -> bool:
        try:
            return link(name, target, self._temporary, waits=False)
        except (FileNotFoundError, BlockingIOError):
            return False

    def _note(self, file: int, name: Path, target: Path) -> None:
        """Give the open file at `target` its name of contents."""
        make_folder(name.parent)
        # Somebody may put another file there at any time. What has a name of our own stays what it is.
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
        """Delete a name of contents that is the last one of its file."""
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

"""Files of drafts: one process at a time appends to them in place, and renames them when they are complete."""

from __future__ import annotations

import fcntl
import io
import os
from pathlib import Path

from pilotis.blobs.errors import BlobNotFoundError, DraftLockedError
from pilotis.blobs.streams import Digest
from pilotis.blobs.writing import make_folder, sync_folder
from pilotis.kit.disk import sync_file

_READ_BYTES = 4 << 20


class DraftFile:
    """A draft's file, locked from its opening until it is closed or garbage-collected. Every method blocks."""

    def __init__(self, path: Path, size: int) -> None:
        """Open the file, creating it if `size` is 0, and truncate it to its acknowledged `size`.

        Raises `DraftLockedError` while another request holds the lock, and `BlobNotFoundError` if the file has fewer
        bytes than were acknowledged.
        """
        self.path = path
        self._is_new = size == 0
        if self._is_new:
            make_folder(path.parent)
        self._file = _locked(path, is_new=self._is_new)
        self._read = 0
        if self._file.seek(0, os.SEEK_END) < size:
            self._file.close()
            raise BlobNotFoundError
        self.truncate(size)

    def write(self, data: bytes | memoryview) -> None:
        """Append the bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    def sync(self) -> None:
        """Flush what was written to the disk."""
        sync_file(self._file.fileno())
        if self._is_new:
            sync_folder(self.path.parent)
            self._is_new = False

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._file.truncate(size)
        self._file.seek(size)

    def hash_next(self, digest: Digest) -> bool:
        """Add the next 4 MiB to the digest; return False at the end."""
        data = os.pread(self._file.fileno(), _READ_BYTES, self._read)
        digest.update(data)
        self._read += len(data)
        return bool(data)

    @property
    def descriptor(self) -> int:
        """The open file."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _locked(path: Path, *, is_new: bool) -> io.FileIO:
    try:
        number = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if is_new else 0), 0o600)
    except FileNotFoundError:
        raise BlobNotFoundError from None
    # A file object, so that garbage collection releases the lock.
    file = io.FileIO(number, "r+b")
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = _is_at(path, number)
    except BlockingIOError:
        is_ours = False
    if not is_ours:
        file.close()
        raise DraftLockedError
    return file


def _is_at(path: Path, file: int) -> bool:
    """Return whether the file still has that name: the previous lock holder may have renamed it to a blob's."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False

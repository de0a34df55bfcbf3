"""Files that grow: appended to in place, one process at a time, until they are whole and get their final name."""

from __future__ import annotations

import fcntl
import io
import os
from pathlib import Path

from pilotis.blobs.errors import BlobNotFoundError, DraftLockedError
from pilotis.blobs.streams import Digest
from pilotis.blobs.writing import make_folder, sync_folder

_READ_BYTES = 4 << 20


class GrowingFile:
    """A draft's file, locked from here on until it is closed or forgotten. Every method blocks."""

    def __init__(self, path: Path, size: int) -> None:
        """Open the file, made if `size` is 0, and cut it to its acknowledged `size`.

        Raises `DraftLockedError` while another process, or another request of this one, has it, and
        `BlobNotFoundError` if it has fewer bytes than were acknowledged.
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
        self.cut(size)

    def write(self, data: bytes) -> None:
        """Append the bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    def sync(self) -> None:
        """Make durable what was written."""
        os.fsync(self._file.fileno())
        if self._is_new:
            sync_folder(self.path.parent)
            self._is_new = False

    def cut(self, size: int) -> None:
        """Drop the bytes from `size` on."""
        self._file.truncate(size)
        self._file.seek(size)

    def hash_some(self, digest: Digest) -> bool:
        """Take the next 4 MiB into the digest; False at the end."""
        data = os.pread(self._file.fileno(), _READ_BYTES, self._read)
        digest.update(data)
        self._read += len(data)
        return bool(data)

    @property
    def descriptor(self) -> int:
        """The open file."""
        return self._file.fileno()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def _locked(path: Path, *, is_new: bool) -> io.FileIO:
    try:
        number = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if is_new else 0), 0o600)
    except FileNotFoundError:
        raise BlobNotFoundError from None
    # A file object, so that the lock goes with it should nobody be left to close it.
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
    """Tell whether the file still has that name: whoever had the lock before may have renamed it to a blob's."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False

"""Durable writes, and a reserve of free disk space."""

import ctypes
import errno
import fcntl
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from pilotis.kit.errors import StorageFullError

# No disk writes more than some megabytes in this time, and the reserve is far larger.
_REMEMBERED_SECONDS = 0.02

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""The numbers of `OSError` for a disk, a quota or a file that can take no more."""


class DiskReserve:
    """Free space that writes to a directory's file system must leave, in bytes and in percent of its size.

    The smaller of the two applies, but no less than `least` bytes. A directory that does not exist, such as that of a
    remote database, has no reserve.
    """

    def __init__(self, directory: Path, bytes_: int, percent: float = 100, least: int = 0) -> None:
        self._directory = directory
        self._bytes = bytes_
        self._percent = percent
        self._least = least
        self._enough_until = 0.0

    def require(self, size: int = 0) -> None:
        """Raise `StorageFullError` unless the reserve stays free after `size` more bytes.

        Without a `size`, what was found is true for some milliseconds: each request that writes a row asks.
        """
        if size == 0 and time.monotonic() < self._enough_until:
            return
        if not self.has_room(size):
            raise StorageFullError
        self._enough_until = time.monotonic() + _REMEMBERED_SECONDS

    def has_room(self, size: int = 0) -> bool:
        """Return whether the reserve stays free after writing `size` more bytes. Costs one statvfs(2)."""
        try:
            system = os.statvfs(self._directory)
        except FileNotFoundError:
            return True
        total = system.f_blocks * system.f_frsize
        # Blocks reserved for root count as used: PostgreSQL does not run as root.
        free = system.f_bavail * system.f_frsize
        return free - size >= max(self._least, min(self._bytes, int(total * self._percent / 100)))


def size_of(directory: Path) -> int:
    """Return the bytes of the files below a directory, of which some may go meanwhile."""
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
    return size


def sync_filesystem(path: Path) -> None:
    """Flush everything below `path` to the disk with one syncfs(2), instead of an fsync(2) for each file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if sys.platform == "linux":
            library = ctypes.CDLL(None, use_errno=True)
            if library.syncfs(descriptor):
                raise OSError(ctypes.get_errno(), "syncfs failed", str(path))
        else:
            os.sync()
            sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_file(descriptor: int) -> None:
    """Flush a file to the disk. On macOS fsync(2) leaves it in the cache of the drive, and F_FULLFSYNC does not."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # Some file systems, such as network shares, do not support it.
            os.fsync(descriptor)
    else:
        os.fsync(descriptor)


def sync_directory(path: Path) -> None:
    """Make a rename within the directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)

"""Files that appear complete or not at all: written under a temporary name, flushed to disk, then renamed."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from pilotis.blobs.hashing import BackgroundDigest
from pilotis.blobs.streams import Digest
from pilotis.kit.disk import sync_file

_FLUSH_BYTES = 16 << 20
_WORTH_FLUSHING_BYTES = 1 << 20
_ATTRIBUTE = "user.pilotis"
_UNSUPPORTED = {errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.E2BIG}
NO_LINK = {errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
"""Error numbers which say that a file or a file system supports no further link."""


class Attributes(msgspec.Struct, frozen=True):
    """What is stored with a file besides its bytes."""

    sha256: str | None = None
    content_type: str | None = None


class FileWriter:
    """A file being written, at `path` below a temporary directory, until it is closed.

    Every method blocks, and waits for one that is still running.

    Hashing takes longer than writing, and `fsync` of a large file as long as writing it. So the threads of `helpers`
    hash while this one writes, and flush written data while more arrives.
    """

    def __init__(self, temporary: Path, helpers: ThreadPoolExecutor) -> None:
        self.path, self._file = _create(temporary)
        self._helpers = helpers
        self._lock = threading.Lock()
        self._unflushed = 0
        self._flush: Future[None] | None = None
        self.size = 0
        self.digest = Digest()
        self._hashing = BackgroundDigest(self._file, self.digest, helpers)

    def write(self, data: bytes | memoryview) -> None:
        """Append the bytes."""
        with self._lock:
            self._append(data)
            self.size += len(data)
            self._hashing.appended(data)
            self._flush_early(len(data))

    def finish(self, sha256: bytes | None) -> int:
        """Return the file descriptor after everything is written and hashed, and most of it flushed.

        Raises `DigestMismatchError` if the digest differs from the given one.
        """
        with self._lock:
            if self._unflushed >= _WORTH_FLUSHING_BYTES:
                self._start_flush()
            self._hashing.finish()
            self.digest.verify(sha256)
            self._finish_flush()
            return self._file

    def close(self) -> None:
        """Close the file, and delete it unless it has been renamed or linked."""
        with self._lock:
            if self._file >= 0:
                self.path.unlink(missing_ok=True)
                self._hashing.stop()
                with suppress(OSError):
                    self._finish_flush()
                os.close(self._file)
                self._file = -1

    def _append(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def _flush_early(self, count: int) -> None:
        self._unflushed += count
        if self._unflushed >= _FLUSH_BYTES:
            self._start_flush()

    def _start_flush(self) -> None:
        self._finish_flush()
        self._flush = self._helpers.submit(sync_file, self._file)
        self._unflushed = 0

    def _finish_flush(self) -> None:
        # The kernel reports a failed write once, so the error must be raised here.
        if self._flush is not None:
            self._flush.result()


def link(source: Path, target: Path, temporary: Path, *, waits: bool = True) -> bool:
    """Link a file to a second name, durably replacing its holder; False if no further link is possible.

    Waits for the holder of the file's lock; without `waits` raises `BlockingIOError`. Sets the file's time to now, so
    that a new copy is not taken for an old leftover.
    """
    file = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    name = temporary / secrets.token_hex(16)
    try:
        fcntl.flock(file, fcntl.LOCK_SH if waits else fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.utime(file)
        make_folder(target.parent)
        os.link(source, name)
        name.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno in NO_LINK:
            return False
        raise
    finally:
        # A rename between two names of one file keeps both.
        name.unlink(missing_ok=True)
        os.close(file)
    return True


def sweep(temporary: Path) -> None:
    """Delete the files that a killed process left behind, which are those that no process has locked."""
    for path in temporary.iterdir():
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            pass
        finally:
            os.close(file)


def read_attributes(file: int | Path) -> Attributes:
    """Return the attributes stored on the file; none if the file system does not support them."""
    if sys.platform == "linux":
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(os.getxattr(file, _ATTRIBUTE), type=Attributes)
    return Attributes()


def make_folder(folder: Path) -> None:
    """Create a folder and its parents durably."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Flush the folder's entries to disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(file)
    finally:
        os.close(file)


def set_attributes(file: int, attributes: Attributes) -> None:
    """Store attributes on the file, if the file system supports them."""
    if sys.platform == "linux":
        try:
            os.setxattr(file, _ATTRIBUTE, msgspec.json.encode(attributes))
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise


def _create(temporary: Path) -> tuple[Path, int]:
    while True:
        path = temporary / secrets.token_hex(16)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:
            return path, file
        # A sweep by another process happened between the two calls.
        os.close(file)

"""Hashes a file in another thread while it is being written."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from pilotis.blobs.streams import Digest

_INLINE_BYTES = 64 << 10
_STEP_BYTES = 4 << 20
_STEPS_IN_A_TURN = 16


class BackgroundDigest:
    """Reads the bytes that are appended to a file, shortly afterwards, and adds them to a digest.

    Hashing is the slowest part of an upload. So this thread does not receive chunks, each of which would wait for the
    previous one: it reads the file up to its end, in steps of up to 4 MiB, which release the GIL.
    """

    def __init__(self, file: int, digest: Digest, helpers: ThreadPoolExecutor) -> None:
        self._file = file
        self._digest = digest
        self._helpers = helpers
        self._changed = threading.Condition()
        self._written = 0
        self._hashed = 0
        self._runs = False
        self._error: Exception | None = None

    def appended(self, data: bytes | memoryview) -> None:
        """Report appended bytes."""
        with self._changed:
            is_behind = self._hashed < self._written
            self._written += len(data)
            if len(data) <= _INLINE_BYTES and not is_behind:
                self._digest.update(data)
                self._hashed = self._written
            elif not self._runs:
                self._helpers.submit(self._follow)
                self._runs = True

    def stop(self) -> None:
        """Wait until the file is no longer in use."""
        with self._changed:
            self._changed.wait_for(lambda: not self._runs)

    def finish(self) -> None:
        """Wait until the digest includes all bytes; raises the error that prevented it, usually an `OSError`."""
        self.stop()
        if self._error is not None:
            raise self._error
        assert self._hashed == self._written

    def _follow(self) -> None:
        buffer = memoryview(bytearray(_STEP_BYTES))
        try:
            for _ in range(_STEPS_IN_A_TURN):
                if not self._step(buffer):
                    return
            # Other tasks run in between.
            self._helpers.submit(self._follow)
        except Exception as error:  # `finish` raises it.
            self._end(error)

    def _step(self, buffer: memoryview) -> bool:
        with self._changed:
            wanted = self._written - self._hashed
            if not wanted:
                self._runs = False
                self._changed.notify_all()
                return False
        count = os.preadv(self._file, [buffer[:wanted]], self._hashed)
        if not count:
            raise OSError(errno.EIO, "The file is shorter than what was written to it.")
        self._digest.update(buffer[:count])
        self._hashed += count
        return True

    def _end(self, error: Exception) -> None:
        with self._changed:
            self._error = error
            self._runs = False
            self._changed.notify_all()

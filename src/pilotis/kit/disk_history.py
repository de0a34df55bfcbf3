"""How the free space of a disk has changed in the last week, in a small file that the server itself writes."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

FILE = "disk.json"
WEEK = 7 * 86400.0
_PERIOD = 3600.0
_LEAST = 86400.0
"""The shortest history that says something about days to come, in seconds."""


class Space(NamedTuple):
    """The free bytes of a disk at a time, in seconds since 1970."""

    at: float
    free: int


class DiskHistory:
    """The history in a directory; of one that is not there, or whose file is damaged, it is empty."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def read(self) -> list[Space]:
        """Return what was recorded, oldest first."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=list[Space])
        except (OSError, msgspec.MsgspecError):
            return []
        return sorted(found)

    def record(self, space: Space) -> bool:
        """Add a measurement if the last one is an hour old, drop those older than a week; return whether it was added.

        A full or missing disk loses the measurement, and nothing else.
        """
        known = [one for one in self.read() if space.at - WEEK <= one.at <= space.at]
        if known and space.at - known[-1].at < _PERIOD:
            return False
        new = self._path.with_suffix(".new")
        with suppress(OSError):
            new.write_bytes(msgspec.json.encode([*known, space]))
            new.replace(self._path)
            return True
        return False


def days_left(history: list[Space], free: int) -> float | None:
    """Return in how many days a disk with `free` bytes is full, if it goes on as in a history of a day or more.

    None if the history is shorter, or the free space does not shrink. The slope is that of the least squares.
    """
    if not history or history[-1].at - history[0].at < _LEAST:
        return None
    mean_at = sum(one.at for one in history) / len(history)
    mean_free = sum(one.free for one in history) / len(history)
    spread = sum((one.at - mean_at) ** 2 for one in history)
    slope = sum((one.at - mean_at) * (one.free - mean_free) for one in history) / spread
    return free / -slope / 86400 if slope < 0 else None


def now(free: int) -> Space:
    """Return a measurement of this moment."""
    return Space(time.time(), free)

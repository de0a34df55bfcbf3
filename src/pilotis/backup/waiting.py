"""What waits for the backup store, on this server: the log and new files. It is known also while the store is away."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pilotis.backup import copies, wal
from pilotis.backup.copies import Copies
from pilotis.backup.wal import Spool
from pilotis.kit.clock import now


class Waiting(NamedTuple):
    """The log in the spool, and the blobs in the queue when the server looked last."""

    log: Spool
    copies: Copies

    @property
    def bytes(self) -> int:
        """The bytes on the disk that are there for the store alone: the log, and deleted files that it lacks."""
        return self.log.bytes + self.copies.held_bytes

    @property
    def seconds(self) -> float:
        """For how long the oldest of them has waited."""
        since = self.copies.since
        return max(self.log.seconds, (now() - since).total_seconds() if since else 0.0)


def waiting(data_dir: Path) -> Waiting:
    """Return what waits."""
    return Waiting(wal.waiting(data_dir / "postgres"), copies.noted(data_dir))

"""The periodic task of imports."""

from __future__ import annotations

from pilotis.data.transfer.service import Transfer
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, transfer: Transfer) -> list[Periodic]:
    """Return the task, which deletes the positions of old imports."""
    return [on_connection(database, "imports.expire", 6 * 3600, transfer.delete_old)]

"""The periodic task of the trash."""

from __future__ import annotations

from pilotis.data.trash.service import TrashService
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, trash: TrashService) -> list[Periodic]:
    """Return the task, which permanently deletes tables and columns whose time in the trash is over."""
    return [on_connection(database, "trash.purge", 3600, lambda _: trash.purge_expired())]

"""The periodic task of indexes, which may take hours and needs disk space."""

from __future__ import annotations

from collections.abc import Callable

from pilotis.data.indexes.recorder import MAINTAIN
from pilotis.data.indexes.service import RUN_SECONDS, Indexes
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, indexes: Indexes, has_room: Callable[[], bool]) -> list[Periodic]:
    """Return the task, which builds the indexes that slow queries need and drops unused ones."""
    return [
        on_connection(
            database,
            MAINTAIN,
            RUN_SECONDS,
            indexes.run_once,
            queue="long",
            seconds=24 * 3600,
            when=has_room,
        )
    ]

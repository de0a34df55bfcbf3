"""The periodic task of rows."""

from __future__ import annotations

from pilotis.data.rows import counts
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database) -> list[Periodic]:
    """Return the task, which folds the row counts."""
    return [on_connection(database, "row_counts.fold", 300, counts.fold_all)]

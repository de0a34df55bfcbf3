"""The periodic tasks of tables, each of which may take hours and need disk space."""

from __future__ import annotations

from collections.abc import Callable

from pilotis.data.tables.column_migrator import RUN_SECONDS, ColumnMigrator
from pilotis.data.tables.service import MIGRATE, Tables
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

_DAY = 24 * 3600.0


def periodic(
    database: Database, tables: Tables, migrator: ColumnMigrator, has_room: Callable[[], bool]
) -> list[Periodic]:
    """Return the tasks, which reclaim the space of dropped columns and migrate changed columns."""
    return [
        on_connection(database, "tables.reclaim", 60, tables.reclaim_all, queue="columns", seconds=_DAY, when=has_room),
        on_connection(
            database,
            MIGRATE,
            RUN_SECONDS,
            migrator.run_once,
            queue="columns",
            seconds=_DAY,
            when=has_room,
        ),
    ]

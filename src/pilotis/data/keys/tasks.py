"""The periodic task of unique keys, which may take hours and needs disk space."""

from __future__ import annotations

from collections.abc import Callable

from pilotis.data.keys.builder import BUILD, RUN_SECONDS, KeyBuilder
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

_DAY = 24 * 3600.0


def periodic(database: Database, builder: KeyBuilder, has_room: Callable[[], bool]) -> list[Periodic]:
    """Return the task, which builds the keys of large tables."""
    return [on_connection(database, BUILD, RUN_SECONDS, builder.run_once, queue="columns", seconds=_DAY, when=has_room)]

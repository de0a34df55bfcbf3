"""The task that takes away what no process uses any more."""

from __future__ import annotations

import structlog
from asyncpg import Connection

from pilotis.db import migrations
from pilotis.db.migrations import MigrationError
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

EVERY_SECONDS = 60.0
_WAIT_SECONDS = 2.0
_log = structlog.get_logger("pilotis.migrations")


def apply_contracts(database: Database) -> Periodic:
    """Return the task that applies migrations of the phase contract once every process knows what they need."""
    return on_connection(database, "migrations.contract", EVERY_SECONDS, _apply)


async def _apply(connection: Connection) -> None:
    if not await migrations.contracts(connection):
        return
    try:
        applied = await migrations.contract(connection, wait_seconds=_WAIT_SECONDS)
    except MigrationError as error:
        # The next run tries again.
        _log.info("migration of the phase contract waits", reason=str(error))
    else:
        _log.info("database migrated", applied=applied)

"""The periodic task of published events."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.integrations import store
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

_BATCH_SIZE = 5_000


def periodic(database: Database) -> list[Periodic]:
    """Return the task that deletes expired keys."""

    async def expire(connection: Connection) -> None:
        while await store.delete_old_keys(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass

    return [on_connection(database, "integrations.expire", 6 * 3600, expire)]

"""The periodic task of teams: invitations expire."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.teams import store

_BATCH_SIZE = 2_000


def periodic(database: Database) -> list[Periodic]:
    """Return the task."""

    async def expire(connection: Connection) -> None:
        while await store.delete_expired(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass

    return [on_connection(database, "teams.expire", 3600, expire)]

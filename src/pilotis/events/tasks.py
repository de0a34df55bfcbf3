"""The periodic tasks of events: enable interrupted targets, disable unused events, delete old ones."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.events import store
from pilotis.events.service import Events
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

KEPT_DAYS = 30
_BATCH_SIZE = 5_000


def periodic(database: Database, events: Events) -> list[Periodic]:
    """Return the periodic tasks of events."""

    async def enable(_: Connection) -> None:
        await events.finish_enabling()

    async def disable_unused(_: Connection) -> None:
        await events.disable_unused()

    async def expire(connection: Connection) -> None:
        while await store.delete_old(connection, KEPT_DAYS, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        while await store.delete_orphans(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass

    return [
        on_connection(database, "events.arm", 300, enable),
        on_connection(database, "events.disarm", 3600, disable_unused),
        on_connection(database, "events.expire", 6 * 3600, expire),
    ]

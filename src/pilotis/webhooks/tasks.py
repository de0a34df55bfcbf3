"""The periodic tasks of webhooks: retention, and cleaning up lost listeners and orphans."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.jobs import lanes
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.webhooks import log_store, store
from pilotis.webhooks.service import Webhooks
from pilotis.webhooks.target import KIND

_BATCH_SIZE = 2_000


def periodic(database: Database, webhooks: Webhooks) -> list[Periodic]:
    """Return the tasks."""

    async def expire(connection: Connection) -> None:
        while await log_store.delete_old(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        while await log_store.delete_orphans(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        await lanes.delete_orphans(connection, KIND)
        await store.forget_purged_tables(connection)
        await webhooks.remove_orphaned_targets(connection)

    async def delete_lost_listeners(_: Connection) -> None:
        await webhooks.delete_lost_listeners()

    return [
        on_connection(database, "webhooks.expire", 3600, expire),
        on_connection(database, "webhooks.listeners", 300, delete_lost_listeners),
    ]

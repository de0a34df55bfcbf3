"""The periodic tasks of functions: retention."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.functions import build_store, execution_store, store
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

_BATCH_SIZE = 5_000
_VERSIONS = 200
_STATS_DAYS = 90


def periodic(database: Database, record_days: int, versions_kept: int) -> list[Periodic]:
    """Return the tasks; records of calls are stored for this many days, and this many versions of each function."""

    async def expire(connection: Connection) -> None:
        while await execution_store.delete_old(connection, record_days, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        await execution_store.delete_old_stats(connection, _STATS_DAYS)
        while await store.delete_old_versions(connection, versions_kept, _VERSIONS) == _VERSIONS:
            pass
        await store.delete_old_drafts(connection)
        await store.fail_lost_builds(connection)
        await build_store.delete_unused(connection)

    return [on_connection(database, "functions.expire", 3600, expire)]

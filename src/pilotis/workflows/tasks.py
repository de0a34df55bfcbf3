"""The periodic tasks of workflows: retention, and the remaining work of dead processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.workflows import claim_store, execution_store, store, trigger_store

_BATCH_SIZE = 1_000
_DELETED_DAYS = 7
_EVENT_HOURS = 24
_MARGIN = timedelta(hours=1)
_ADMIT_SECONDS = 15.0


def periodic(
    database: Database, days: int, kept: int, versions_kept: int, admit: Callable[[UUID, UUID], Awaitable[None]]
) -> list[Periodic]:
    """Return the tasks; executions are kept for `days`, and of each workflow `kept`, and `versions_kept` versions."""
    # Executions that ended before this have no events any more.
    without_events: datetime | None = None

    async def expire(connection: Connection) -> None:
        nonlocal without_events
        while await execution_store.delete_old(connection, days, kept, _BATCH_SIZE):
            pass
        until, has_more = without_events, True
        while has_more:
            until, has_more = await execution_store.delete_old_events(connection, _EVENT_HOURS, _BATCH_SIZE, until)
        # A transaction may have ended an execution a little before its commit.
        without_events = until and until - _MARGIN
        while await trigger_store.delete_old(connection, _BATCH_SIZE):
            pass
        while await store.delete_old_versions(connection, versions_kept, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        while await store.delete_old(connection, _DELETED_DAYS):
            pass

    async def let_run(connection: Connection) -> None:
        for app_id, workflow_id in await claim_store.gated_workflows(connection):
            await admit(app_id, workflow_id)

    return [
        on_connection(database, "workflows.expire", 3600, expire),
        on_connection(database, "workflows.admit", _ADMIT_SECONDS, let_run),
    ]

"""The periodic tasks of live subscriptions: trim the logs, and stop those that nobody reads."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.data.realtime import channel_store, kept_store, report_store, store, ticket_store
from pilotis.data.realtime.cursor import KEPT_SECONDS
from pilotis.data.realtime.occupancy import Occupancy
from pilotis.data.tables.service import TableBusyError, TableNotFoundError, Tables
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.limits import Limits

_TRIM_SECONDS = 60
_DISARM_SECONDS = 600


def periodic(database: Database, tables: Tables, limits: Limits, occupancy: Occupancy) -> list[Periodic]:
    """Return the periodic tasks."""

    async def trim(connection: Connection) -> None:
        for app_id in await store.logs(connection):
            # The app has just been deleted, or its schema is locked by a change.
            with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                await store.trim(connection, app_id, KEPT_SECONDS, limits.live_log_rows)

    async def disarm(connection: Connection) -> None:
        for app_id, table_id in await store.unwatched(connection):

            async def is_wanted(connection: Connection, app_id: UUID = app_id, table_id: UUID = table_id) -> bool:
                return not await store.is_watched(connection, app_id, table_id)

            with suppress(TableNotFoundError, TableBusyError):
                await tables.set_watched(app_id, table_id, is_wanted, watched=False)
        await store.forget_watches(connection)

    async def forget(connection: Connection) -> None:
        await occupancy.settle_all(connection)
        await channel_store.forget_old(connection)
        await kept_store.forget(connection)
        await report_store.forget(connection)
        await ticket_store.delete_expired(connection)

    return [
        on_connection(database, "realtime.trim", _TRIM_SECONDS, trim),
        on_connection(database, "realtime.channels", _TRIM_SECONDS, forget),
        on_connection(database, "realtime.disarm", _DISARM_SECONDS, disarm),
    ]

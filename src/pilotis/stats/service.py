"""Usage statistics of an app: members, tables, rows, bytes, requests and errors."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.http.principals import AppInfo, InvalidPublicKeyError
from pilotis.stats import store
from pilotis.stats.recorder import RequestRecorder
from pilotis.stats.types import Day, MemberStats, Stats, Traffic, TrafficStats


class Statistics:
    """Reads an app's statistics; `requests` counts those that this node answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.requests = RequestRecorder(database)

    async def of(self, app: AppInfo) -> Stats:
        """Return an app's statistics. Requests of the last 5 seconds may not be in them yet."""
        try:
            async with self._database.connection() as connection:
                members = await store.members(connection, app.app_id)
                tables = await store.tables(connection, app.app_id)
                traffic = await store.traffic(connection, app.app_id)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            # What this node remembers of the app may be a moment old: it has been deleted.
            raise InvalidPublicKeyError from None
        return Stats(
            MemberStats(**members), tables["tables"], tables["rows"], tables["storage_bytes"], _traffic(traffic)
        )

    async def delete_old(self, connection: Connection) -> None:
        """Delete the traffic of more than 60 days ago."""
        await store.delete_old(connection)


def _traffic(days: Sequence[Record]) -> TrafficStats:
    return TrafficStats(
        _total(days, "_24h"),
        _total(days, ""),
        [Day(day["requests"], day["client_errors"], day["errors"], day["date"]) for day in days],
    )


def _total(days: Sequence[Record], suffix: str) -> Traffic:
    return Traffic(*(sum(day[name + suffix] for day in days) for name in ("requests", "client_errors", "errors")))

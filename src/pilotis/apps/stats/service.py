"""Usage statistics of an app: members, tables, rows, bytes, requests and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
from asyncpg import Connection

from pilotis.apps.stats import store
from pilotis.apps.stats.recorder import RequestRecorder
from pilotis.apps.stats.store import SHOWN_DAYS, Day
from pilotis.apps.stats.types import DailyTraffic, MemberStats, Stats, Traffic, TrafficStats
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, InvalidPublicKeyError


class Statistics:
    """Reads an app's statistics; `requests` counts the requests that this node serves."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.requests = RequestRecorder(database)

    async def of(self, app: AppInfo, days: int = SHOWN_DAYS) -> Stats:
        """Return an app's statistics with the traffic of each of the last `days` days.

        They may not include requests of the last 5 seconds.
        """
        database = self._database.of(app.app_id)
        try:
            # At once: one after another, each would wait for a database that may be far away.
            found, rows, traffic = await asyncio.gather(
                store.members_tables_and_bytes(database, app.app_id),
                store.rows(database, app.app_id),
                store.traffic(database, app.app_id, max(days, SHOWN_DAYS)),
            )
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            # The cached app was stale: it has been deleted.
            raise InvalidPublicKeyError from None
        return Stats(
            members=MemberStats(
                total=found.members,
                guests=found.guests,
                active_1d=found.active_1d,
                active_7d=found.active_7d,
                active_30d=found.active_30d,
            ),
            tables=found.tables,
            rows=rows,
            storage_bytes=found.bytes,
            traffic=_traffic(traffic, days),
        )

    async def delete_old(self, connection: Connection) -> None:
        """Delete traffic older than 60 days."""
        await store.delete_old(connection)


def _traffic(days: Sequence[Day], shown: int) -> TrafficStats:
    return TrafficStats(
        _total(days, "_24h"),
        _total(days[-SHOWN_DAYS:], ""),
        [
            DailyTraffic(requests=day.requests, client_errors=day.client_errors, errors=day.errors, date=day.date)
            for day in days[-shown:]
        ],
    )


def _total(days: Sequence[Day], suffix: str) -> Traffic:
    names = ("requests", "client_errors", "errors")
    return Traffic(**{name: sum(getattr(day, name + suffix) for day in days) for name in names})

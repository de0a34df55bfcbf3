"""The route of usage statistics (interface: App settings)."""

from __future__ import annotations

from uuid import UUID

from pilotis.apps.stats.service import Statistics
from pilotis.apps.stats.types import Stats, StatsQuery
from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call


class AppStatsEndpoints(Endpoints, tag="Apps"):
    """Usage statistics in the console."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    @get("/v1/apps/:app_id/stats", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID, query: StatsQuery) -> Stats:
        """Read the app's usage statistics, with the traffic of each of the last `days` days."""
        return await self._statistics.of(call.app, query.days)


class StatsEndpoints(Endpoints, tag="App settings"):
    """Usage statistics."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    @get("/v1/public/stats", access=Access.PUBLIC_KEY)
    async def read(self, call: Call) -> Stats:
        """Read the app's usage statistics.

        Members, tables, rows and bytes are exact. Traffic is counted by the hour in UTC with a delay of a few seconds,
        and covers requests with the app's keys and tokens, but not those of the console.
        """
        return await self._statistics.of(call.app)

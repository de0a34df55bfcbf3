"""The route of usage statistics (interface: App settings)."""

from __future__ import annotations

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, get
from pilotis.http.principals import Access
from pilotis.stats.service import Statistics
from pilotis.stats.types import Stats


class StatsEndpoints(Endpoints, tag="App settings"):
    """Usage statistics."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    @get("/v1/public/stats", access=Access.PUBLIC_KEY)
    async def read(self, call: Call) -> Stats:
        """Read the app's usage statistics.

        Members, tables, rows and bytes are exact at this moment. Traffic is counted by the hour in UTC, a few seconds
        late, and covers requests with the app's keys and tokens; the console's are left out.
        """
        return await self._statistics.of(call.app)

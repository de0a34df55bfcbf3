"""The routes of the request log and of metrics."""

from __future__ import annotations

from uuid import UUID

from pilotis.apps.requests.service import Requests
from pilotis.apps.requests.types import MetricsQuery, RequestEntry, RequestMetrics, RequestQuery
from pilotis.apps.stats.service import Statistics
from pilotis.http.api.application import Finished
from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access, AppUser
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage


def recording(statistics: Statistics, requests: Requests) -> Finished:
    """Return what counts a request that has ended among those of its app, and logs it there.

    Requests of the console are left out, as are those that belong to no app.
    """
    counted, log = statistics.requests, requests.logger

    def record(call: Call, status: int, seconds: float) -> None:
        principal, endpoint = call.principal, call.endpoint
        # Not `isinstance`, which asks the class of the class.
        if principal.app is None or endpoint is None or endpoint.access.is_console or type(principal) is AppUser:
            return
        counted.count(principal.app.app_id, status, call.sent)
        log.record(principal, call.client, endpoint, status, call.error_code, seconds, call.function_id)

    return record


class RequestEndpoints(Endpoints, tag="Apps"):
    """The requests of an app."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    @get("/v1/apps/:app_id/requests", access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: RequestQuery) -> ItemPage[RequestEntry]:
        """List the requests that failed or were slow, and one in a hundred of the others, newest first.

        They are kept for 7 days, at most 100,000 of an app, and appear a few seconds late. Requests of the console are
        left out, as are those with an invalid key or token, which belong to no app.
        """
        return await self._requests.page(call.app, query)

    @get("/v1/apps/:app_id/metrics", access=Access.APP_VIEWER)
    async def metrics(self, call: Call, app_id: UUID, query: MetricsQuery) -> RequestMetrics:
        """Read requests, errors and durations by minute, hour or day, all together or by route or status class.

        Minutes are kept for two days, hours for 60. Without `from` these are the last 60 minutes, 24 hours or 30 days.
        """
        return await self._requests.metrics(call.app, query)

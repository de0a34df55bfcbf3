"""The routes of live subscriptions."""

from __future__ import annotations

from pilotis.data.realtime.examples import EXAMPLES
from pilotis.data.realtime.hub import TooManyLiveStreamsError
from pilotis.data.realtime.service import Realtime
from pilotis.data.realtime.subscriptions import NotSupportedInSubscriptionError
from pilotis.data.realtime.types import OpenStream
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.service import TableBusyError, TableNotFoundError
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.compiler import InvalidOperatorError, WhereTooComplexError
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import public
from pilotis.http.api.request import Call
from pilotis.http.replies.events import LAST_EVENT_ID, Pushed
from pilotis.kit.errors import RateLimitedError


class RealtimeEndpoints(Endpoints, tag="Live rows", examples=EXAMPLES):
    """Live rows: a page is told when the rows that it shows change, under the same rules as its queries."""

    def __init__(self, realtime: Realtime) -> None:
        self._realtime = realtime

    @post(
        "/v1/public/realtime",
        access=public(scope="rows:read"),
        only_reads=True,
        request_headers=LAST_EVENT_ID,
        errors=[
            TableNotFoundError,
            MemberTokenRequiredError,
            UnknownColumnError,
            InvalidOperatorError,
            WhereTooComplexError,
            NotSupportedInSubscriptionError,
            TableBusyError,
            TooManyLiveStreamsError,
            RateLimitedError,
        ],
    )
    async def open(self, call: Call, body: OpenStream) -> Pushed:
        """Be told of changes of rows, as server-sent events.

        The first event is `ready`: every change that commits from then on is told. Read the rows after it, then apply
        each `change`: insert or replace the row by its id unless yours has a later `updated_at`, and remove it on
        `leave` and `delete`. At `reset` read the rows again. `bye` ends the stream. Every event has an id; after a lost
        connection send the last one as `Last-Event-ID`, or as `after`, and nothing is missed: what cannot be told any
        more becomes a `reset`.
        """
        return await self._realtime.open(call.principal, call.client, body, call.header(b"last-event-id"))

"""Opens live streams: checks what is asked for, and prepares the tables."""

from __future__ import annotations

import time

import msgspec

from pilotis.data.realtime.cursor import Cursor, parse
from pilotis.data.realtime.hub import Hub
from pilotis.data.realtime.stream import LiveStream, Subscription, bye
from pilotis.data.realtime.types import NewSubscription, OpenStream
from pilotis.data.rows.table import PreparedTables
from pilotis.http.api.principals import AppMember, Client, Principal, app_of
from pilotis.http.replies.events import Outlet, Pushed
from pilotis.kit.errors import PilotisError, invalid
from pilotis.security.rate_limits import RateLimits

RATE = "live"


class Realtime:
    """Live streams."""

    def __init__(self, hub: Hub, prepared: PreparedTables, rate_limits: RateLimits) -> None:
        self._hub = hub
        self._prepared = prepared
        self._rate_limits = rate_limits

    async def open(self, principal: Principal, client: Client, asked: OpenStream, last_event_id: str | None) -> Pushed:
        """Return the answer that tells of changes; raises the errors of a query on each table.

        A stream that goes on after an earlier one is not counted by the rate.
        """
        app = app_of(principal)
        token = last_event_id if last_event_id is not None else asked.after
        after = None if token is None else parse(token, int(time.time() * 1000))
        if after is None:
            await self._rate_limits.count(client, app, RATE)
        member = principal.member
        self._hub.require_room(app, client.address, None if member is None else member.member_id)
        _require_distinct(asked.subscriptions, app.limits.live_subscriptions)
        if isinstance(principal, AppMember):
            principal = msgspec.structs.replace(principal, member=await principal.member.confirmed())
        stream = LiveStream(app, principal, client.address, was_asked_to_resume=token is not None)
        for number, given in enumerate(asked.subscriptions):
            place = f"subscriptions[{number}]"
            if given.where is not None and given.row_id is not None:
                raise invalid(f"{place}.row_id", "Give where or row_id, not both.")
            try:
                table_id = await self._prepared.id_of(app, given.table_id)
                one = stream.subscriptions[given.id] = Subscription(stream, given, table_id)
                one.compiled = await self._hub.compiled(stream, one)
            except PilotisError as error:
                raise error.within(place) from None
        return self._answer(stream, after)

    def _answer(self, stream: LiveStream, after: Cursor | None) -> Pushed:
        async def opened(outlet: Outlet) -> None:
            stream.open(outlet)
            await self._hub.join(stream, after)

        def closed() -> None:
            self._hub.leave(stream)

        def ending(error: PilotisError | None) -> bytes:
            if error is None:
                return bye("going_away")
            return bye("token_expired" if error.code == "TOKEN_EXPIRED" else "session_ended")

        return Pushed(opened=opened, closed=closed, ending=ending)


def _require_distinct(asked: list[NewSubscription], most: int) -> None:
    if not asked:
        raise invalid("subscriptions", "subscriptions: name at least one table to listen to.")
    if len(asked) > most:
        raise invalid("subscriptions", f"subscriptions: a stream has at most {most}.")
    ids = set[str]()
    for number, one in enumerate(asked):
        if one.id in ids:
            raise invalid(f"subscriptions[{number}].id", f"The id {one.id} is there twice.")
        ids.add(one.id)

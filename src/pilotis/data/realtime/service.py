"""Opens live streams: checks what is asked for, and prepares the tables."""

from __future__ import annotations

import time

import msgspec

from pilotis.data.realtime.channels import checked_state
from pilotis.data.realtime.cursor import Cursor, parse
from pilotis.data.realtime.hub import Hub
from pilotis.data.realtime.stream import Listening, LiveStream, Subscription, bye
from pilotis.data.realtime.types import OpenStream
from pilotis.data.rows.table import PreparedTables
from pilotis.http.api.principals import AppMember, Client, Principal, TokenFault, app_of
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

    async def open(
        self,
        principal: Principal,
        client: Client,
        asked: OpenStream,
        last_event_id: str | None,
    ) -> Pushed:
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
        stream = await self.prepared(principal, client.address, asked, was_asked_to_resume=token is not None)
        return self._answer(stream, after)

    async def prepared(
        self, principal: Principal, address: str, asked: OpenStream, *, was_asked_to_resume: bool
    ) -> LiveStream:
        """Return a stream that is to be opened; raises the errors of a query on each table."""
        app = app_of(principal)
        _require_some(asked)
        _require_distinct("subscriptions", "id", [one.id for one in asked.subscriptions], app.limits.live_subscriptions)
        _require_distinct("channels", "name", [one.name for one in asked.channels], app.limits.live_channels)
        if isinstance(principal, AppMember):
            principal = msgspec.structs.replace(principal, member=await principal.member.confirmed())
        stream = LiveStream(app, principal, address, was_asked_to_resume=was_asked_to_resume, follows=asked.stream)
        for number, given in enumerate(asked.subscriptions):
            place = f"subscriptions[{number}]"
            if given.where is not None and given.row_id is not None:
                raise invalid(f"{place}.row_id", "Give where or row_id, not both.")
            try:
                table_id = await self._prepared.id_of(app, given.table_id)
                one = stream.subscriptions[given.id] = Subscription(stream, given, table_id)
                one.compiled = await self._hub.compiled(stream, one)
            except PilotisError as error:
                raise _placed(error, place) from None
        for number, asking in enumerate(asked.channels):
            place = f"channels[{number}]"
            state = None
            if asking.presence is not None:
                state = checked_state(asking.presence.state, f"{place}.presence.state")
            try:
                listening = stream.channels[asking.name] = Listening(stream, asking.name, state, asking.after)
                listening.compiled = await self._hub.compiled(stream, listening)
            except PilotisError as error:
                raise _placed(error, place) from None
        return stream

    def _answer(self, stream: LiveStream, after: Cursor | None) -> Pushed:
        async def opened(outlet: Outlet) -> None:
            stream.open(outlet)
            await self._hub.join(stream, after)

        def closed() -> None:
            self._hub.leave(stream)

        def ending(error: PilotisError | None) -> bytes:
            if error is None:
                return bye("going_away")
            has_expired = any(detail.code == TokenFault.EXPIRED for detail in error.details)
            return bye("token_expired" if has_expired else "session_ended")

        return Pushed(opened=opened, closed=closed, ending=ending)


def _placed(error: PilotisError, place: str) -> PilotisError:
    """Return an error that names its subscription or channel, so that a client can go on without that one."""
    return error.within(place) if error.details else error.at(place)


def _require_some(asked: OpenStream) -> None:
    if not asked.subscriptions and not asked.channels:
        raise invalid("subscriptions", "subscriptions: name at least one table, or in channels one channel.")


def _require_distinct(place: str, field: str, names: list[str], most: int) -> None:
    if len(names) > most:
        raise invalid(place, f"{place}: a stream has at most {most}.")
    for number, name in enumerate(names):
        if name in names[:number]:
            raise invalid(f"{place}[{number}].{field}", f"The {field} {name} is there twice.")

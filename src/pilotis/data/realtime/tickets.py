"""Tickets: live streams for a browser's `EventSource`, which sends no headers.

A token never goes into an address. A ticket does, and so it is only good for the stream that was asked for, for a
minute and then for five minutes after each break, and from its second use on for a client that has seen the stream.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import NamedTuple
from uuid import UUID

import msgspec

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.data.realtime import ticket_store
from pilotis.data.realtime.cursor import parse
from pilotis.data.realtime.service import Realtime
from pilotis.data.realtime.stream import bye
from pilotis.data.realtime.types import LiveTicket, OpenStream
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.http.api.principals import AppInfo, AppMember, Client, PublicClient, app_of
from pilotis.http.api.principals import Principal as AnyPrincipal
from pilotis.http.replies.events import Outlet, Pushed
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import ForbiddenError, NotFoundError, PilotisError
from pilotis.members.service import NO_SESSION, Members
from pilotis.security import single_use

_PREFIX = "lt_"
# What `EventSource` would take for the end, where it is only to wait.
_LATER = frozenset({401, 429, 503})


class LiveTicketInvalidError(NotFoundError):
    """404 `LIVE_TICKET_INVALID`: the ticket is unknown or has expired, or another client has opened its stream."""

    code = "LIVE_TICKET_INVALID"
    message = "The ticket is unknown or has expired. Ask for another one."


class TicketCallerError(ForbiddenError):
    """403 `TICKET_CALLER`: tickets are for the public key and signed-in members."""

    code = "TICKET_CALLER"
    message = "Tickets are for the public key and signed-in members. Others send their token as a header."


class _Used(NamedTuple):
    """A ticket that was just used: whose it is, and what was asked for."""

    app: AppInfo
    principal: PublicClient | AppMember | None
    asked: OpenStream


class Tickets:
    """Gives tickets, and opens their streams."""

    def __init__(
        self, database: Database, apps: Apps, members: Members, realtime: Realtime, control: Control, base_url: str
    ) -> None:
        self._database = database
        self._apps = apps
        self._members = members
        self._realtime = realtime
        self._control = control
        self._base_url = base_url
        self._open: dict[str, tuple[str, Outlet]] = {}
        """The streams of tickets here, each with the name of its opening."""
        self._ending: set[asyncio.Task[None]] = set()

    async def create(self, principal: AnyPrincipal, asked: OpenStream) -> LiveTicket:
        """Return a ticket for a stream; raises the errors of opening it."""
        app = app_of(principal)
        await self._realtime.prepared(principal, "", asked, was_asked_to_resume=False)
        if not isinstance(principal, PublicClient | AppMember):
            raise TicketCallerError
        if isinstance(principal, AppMember) and principal.member.session_id == NO_SESSION:
            raise TicketCallerError
        minted = single_use.mint(_PREFIX, app.app_id)
        member = principal.member
        expires_at = await ticket_store.insert(
            self._database,
            app.app_id,
            minted.hash,
            json.encode(asked).decode(),
            None if member is None else member.member_id,
            None if member is None else member.session_id,
            json.encode(principal.capabilities).decode(),
        )
        url = f"{self._base_url}/v1/public/realtime/streams/{minted.text}"
        return LiveTicket(ticket=minted.text, url=url, expires_at=rfc3339(expires_at))

    async def open(self, ticket: str, client: Client, last_event_id: str | None) -> Pushed:
        """Return the stream of a ticket; raises `LiveTicketInvalidError`.

        Where it is only to be tried again the answer is a stream too, which says so and ends.
        """
        has_seen = last_event_id is not None and parse(last_event_id, int(time.time() * 1000)) is not None
        app_id, hash_ = single_use.app_of(_PREFIX, ticket), secret_hash(ticket)
        used = None if app_id is None else await self._use(app_id, hash_, has_seen=has_seen)
        if used is None or app_id is None:
            raise LiveTicketInvalidError
        if used.principal is None:
            return _farewell("session_ended")
        try:
            pushed = await self._realtime.open(used.principal, client, used.asked, last_event_id)
        except PilotisError as error:
            if error.status not in _LATER:
                raise
            return _farewell("session_ended" if error.status == 401 else "going_away")

        # The newest opening takes the stream over, wherever the one before is.
        ticket_key, opening = hash_.hex(), secrets.token_urlsafe(9)

        async def opened(outlet: Outlet) -> None:
            self._end(ticket_key, "")
            self._open[ticket_key] = opening, outlet
            self._control.publish_soon(Topic.LIVE_TICKETS, f"{ticket_key}/{opening}", at_once=True)
            await pushed.opened(outlet)

        def closed() -> None:
            pushed.closed()
            if self._open.get(ticket_key, ("",))[0] != opening:
                # Another one has taken it over, whose ticket does not end.
                return
            del self._open[ticket_key]
            task = asyncio.create_task(ticket_store.end_soon(self._database, app_id, hash_))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

        return msgspec.structs.replace(pushed, opened=opened, closed=closed)

    def taken_over(self, key: str) -> None:
        """End the stream of a ticket that has been opened again, on this process or another."""
        ticket_key, _, opening = key.partition("/")
        self._end(ticket_key, opening)

    def _end(self, ticket_key: str, opening: str) -> None:
        """End the stream of a ticket unless it is that of an opening."""
        found = self._open.get(ticket_key)
        if found is not None and found[0] != opening:
            del self._open[ticket_key]
            found[1].write(bye("going_away"))
            found[1].close()

    async def _use(self, app_id: UUID, hash_: bytes, *, has_seen: bool) -> _Used | None:
        row = await ticket_store.use(self._database, app_id, hash_, has_seen=has_seen)
        if row is None:
            return None
        try:
            app = await self._apps.by_id(app_id)
        except AppNotFoundError:
            return None
        asked = json.decoder(OpenStream).decode(row.body)
        capabilities = json.decode(row.capabilities.encode())
        if row.session_id is None:
            return _Used(app, PublicClient(app, capabilities), asked)
        member = (await self._members.alive(app_id, [row.session_id])).get(row.session_id)
        return _Used(app, None if member is None else AppMember(app, member, capabilities), asked)


def _farewell(reason: str) -> Pushed:
    async def opened(outlet: Outlet) -> None:
        outlet.write(bye(reason))
        outlet.close()

    return Pushed(opened=opened, closed=lambda: None, ending=lambda _: bye("going_away"))

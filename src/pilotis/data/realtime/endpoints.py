"""The routes of live subscriptions."""

from __future__ import annotations

from uuid import UUID

from pilotis.data.realtime.channel_rules import NAME, ChannelDeniedError, ChannelRules
from pilotis.data.realtime.channels import Channels, StreamNotFoundError, TooFastError
from pilotis.data.realtime.hub import TooManyLiveStreamsError
from pilotis.data.realtime.inspection import Inspection
from pilotis.data.realtime.live_settings import LiveAccess, LiveOffError
from pilotis.data.realtime.service import Realtime
from pilotis.data.realtime.subscriptions import NotSupportedInSubscriptionError
from pilotis.data.realtime.tickets import LiveTicketInvalidError, TicketCallerError, Tickets
from pilotis.data.realtime.types import (
    ChannelPatterns,
    EndedPresence,
    LiveSettings,
    LiveStreams,
    LiveTicket,
    NewMessages,
    OpenStream,
    PresenceChange,
    PresenceResult,
    SentMessages,
    StreamQuery,
)
from pilotis.data.rules.document import RULE_ERRORS
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.service import TableBusyError, TableNotFoundError
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.compiler import InvalidOperatorError, WhereTooComplexError
from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.principals import Access, Role, console, public
from pilotis.http.api.request import Call
from pilotis.http.replies.events import LAST_EVENT_ID, Pushed
from pilotis.kit.errors import PayloadTooLargeError, RateLimitedError

_CHANNEL = "/v1/public/realtime/channels/:name"
_PATTERNS = "/v1/apps/:app_id/channels"
_SETTINGS = "/v1/apps/:app_id/live-settings"
_LISTEN = public()
_SEND = public(scope="channels:send")
_OPENED = [
    TableNotFoundError,
    MemberTokenRequiredError,
    UnknownColumnError,
    InvalidOperatorError,
    WhereTooComplexError,
    NotSupportedInSubscriptionError,
    ChannelDeniedError,
    LiveOffError,
    TableBusyError,
]
_CHANNEL_ERRORS = [ChannelDeniedError, MemberTokenRequiredError, TooFastError]


class RealtimeEndpoints(Endpoints, tag="Live rows"):
    """Live rows: a page is told when the rows that it shows change, under the same rules as its queries."""

    def __init__(self, realtime: Realtime, tickets: Tickets, channels: Channels) -> None:
        self._realtime = realtime
        self._tickets = tickets
        self._channels = channels

    @post(
        "/v1/public/realtime",
        access=public(scope="rows:read"),
        only_reads=True,
        request_headers=LAST_EVENT_ID,
        errors=[*_OPENED, TooManyLiveStreamsError, RateLimitedError],
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

    @post("/v1/public/realtime/tickets", access=public(), status=201, rate="live", errors=[*_OPENED, TicketCallerError])
    async def create_ticket(self, call: Call, body: OpenStream) -> LiveTicket:
        """Get an address for `new EventSource(url)`, which sends no headers.

        It is good for a minute, and after the stream broke for five minutes, for the client that has seen it. The
        stream ends after about an hour: then ask for another ticket.
        """
        return await self._tickets.create(call.principal, body)

    @get(
        "/v1/public/realtime/streams/:ticket",
        access=Access.OPEN,
        request_headers=LAST_EVENT_ID,
        errors=[LiveTicketInvalidError],
    )
    async def open_ticket(self, call: Call, ticket: str) -> Pushed:
        """Open the stream of a ticket. What is only to be tried again is a stream with the event `bye`, too."""
        return await self._tickets.open(ticket, call.client, call.header(b"last-event-id"))

    # Payloads are as large as rows.
    @post(f"{_CHANNEL}/messages", access=_SEND, status=202, rows=True, errors=[*_CHANNEL_ERRORS, PayloadTooLargeError])
    async def send(self, call: Call, name: str, body: NewMessages) -> SentMessages:
        """Send a message, or several, to those who listen to a channel.

        They are told at most once: who needs every message writes rows.
        """
        return SentMessages(await self._channels.send(call.principal, call.client, _name(name), body))

    @put(f"{_CHANNEL}/presence", access=_LISTEN, errors=[*_CHANNEL_ERRORS, StreamNotFoundError])
    async def set_presence(self, call: Call, name: str, body: PresenceChange) -> PresenceResult:
        """Set what the others in a channel see of a stream."""
        await self._channels.set_presence(call.principal, _name(name), body.stream, body.state)
        return PresenceResult(name)

    @delete(f"{_CHANNEL}/presence", access=_LISTEN, errors=[*_CHANNEL_ERRORS, StreamNotFoundError])
    async def end_presence(self, call: Call, name: str, query: StreamQuery) -> EndedPresence:
        """Make a stream invisible to the others in a channel; it goes on listening."""
        await self._channels.end_presence(call.principal, _name(name), query.stream)
        return EndedPresence("The stream is not visible in the channel any more.", name)


class ChannelEndpoints(Endpoints, tag="Live rows"):
    """The channels that an app declares, who may listen to its rows, and who does."""

    def __init__(self, rules: ChannelRules, live: LiveAccess, inspection: Inspection) -> None:
        self._rules = rules
        self._live = live
        self._inspection = inspection

    @get("/v1/apps/:app_id/live-streams", access=console(Role.VIEWER, secret_key=True))
    async def inspect(self, call: Call, app_id: UUID) -> LiveStreams:
        """List the live streams that are open now, on all processes: their subscriptions, and what they were told."""
        return await self._inspection.shown(call.app.app_id)

    @get(_PATTERNS, access=console(Role.VIEWER, secret_key=True))
    async def list(self, call: Call, app_id: UUID) -> ChannelPatterns:
        """Read the channels that the app has declared."""
        return await self._rules.shown(call.app)

    @put(_PATTERNS, access=console(Role.EDITOR, secret_key=True), errors=[*RULE_ERRORS])
    async def save(self, call: Call, app_id: UUID, body: ChannelPatterns) -> ChannelPatterns:
        """Declare the app's channels, in place of those there were. Who may not listen any more is told at once."""
        return await self._rules.save(call.app, call.actor, body)

    @get(_SETTINGS, access=console(Role.VIEWER, secret_key=True))
    async def read_settings(self, call: Call, app_id: UUID) -> LiveSettings:
        """Read who may listen to the app's rows."""
        return await self._live.shown(call.app)

    @put(_SETTINGS, access=console(Role.EDITOR, secret_key=True))
    async def save_settings(self, call: Call, app_id: UUID, body: LiveSettings) -> LiveSettings:
        """Set who may listen to the app's rows, of those who may list them. Open streams are told at once."""
        return await self._live.save(call.app, call.actor, body)


def _name(name: str) -> str:
    """Return a channel's name; raises an error for what can be none."""
    if not NAME.fullmatch(name):
        raise ChannelDeniedError
    return name

"""The types of live subscriptions."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.data.rows.schemas import WhereObject
from pilotis.data.rows.types import OrderBy, TableName
from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import UuidText

SubscriptionId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
ChangeType = Literal["create", "update", "enter", "leave", "delete"]
ResetReason = Literal["gap", "overflow", "bulk", "schema", "access"]


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """Rows of a table to be told of: those of a condition, one row, or all.

    `id` is the client's name for it, which its events carry. `types` are the changes to be told of, `fields` the
    columns to send; by default all. `expand` shows the rows to which columns refer, one step away; a change of
    these alone is not told. With `order_by` a row has `sort`, as in a query with `with_sort`. `limit` is how many rows
    of that order the client keeps: it is told of all that match, and reads again when rows are missing at the end.
    """

    id: SubscriptionId
    table_id: TableName
    where: WhereObject | None = None
    row_id: UUID | None = None
    types: Annotated[list[ChangeType], msgspec.Meta(min_length=1)] | None = None
    fields: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    order_by: OrderBy = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    expand: Annotated[list[str], msgspec.Meta(max_length=3)] | None = None


ChannelName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9:_.-]{1,200}$")]


class NewPresence(msgspec.Struct, forbid_unknown_fields=True):
    """What others in the channel learn of this stream: any object of up to 1 kB."""

    state: dict[str, Any] = {}


class NewListening(msgspec.Struct, forbid_unknown_fields=True):
    """A channel to listen to. With `presence` the others see that this stream is there.

    Where the channel keeps messages, they are told first. `after` is the id of the last message that the client has
    seen: then only newer ones are told, and a `reset` if some may be missing.
    """

    name: ChannelName
    presence: NewPresence | None = None
    after: UUID | None = None


class OpenStream(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream tells. `after` is the id of the last event that the client has seen of an earlier stream.

    `stream` is that of the earlier one's `ready`: where it was present in a channel, this one is in its place, so that
    others see no change.
    """

    subscriptions: list[NewSubscription] = []
    channels: list[NewListening] = []
    after: str | None = None
    stream: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class LiveTicket(msgspec.Struct):
    """A ticket, and the address of its stream, which is to be opened before it expires."""

    ticket: str
    url: str
    expires_at: str


class LiveRow(msgspec.Struct, kw_only=True):
    """A row in an event. Without `data` it has left the subscription, was deleted, or is too large to be sent."""

    id: UuidText
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    created_at: str | msgspec.UnsetType = msgspec.UNSET
    created_by: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str
    expanded: JsonObject | msgspec.UnsetType = msgspec.UNSET
    sort: str | msgspec.UnsetType = msgspec.UNSET


class Change(msgspec.Struct, kw_only=True):
    """Data of the event `change`.

    `create`: a new row matches. `update`: a row that matched changed and still does. `enter`: it did not match or was
    not visible, and does now. `leave`: it matched and does not any more. `delete`: it matched and is gone. With
    `truncated` the row is larger than 64 kB; read it by its id.
    """

    subscription: str
    type: ChangeType
    row: LiveRow
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


class Ready(msgspec.Struct, kw_only=True):
    """Data of the event `ready`: every change that commits from now on will be told, or a `reset`.

    `resumed` says whether the stream goes on after an earlier one; `started` names the subscriptions that begin now.
    `stream` is a secret of this stream, with which its client sets its presence.
    """

    stream: str
    subscriptions: list[str]
    started: list[str]
    channels: list[str]
    resumed: bool


class Reset(msgspec.Struct, kw_only=True):
    """Data of the event `reset`: read the rows of this subscription again.

    `gap`: the stream could not go on where it was. `overflow`: the client reads too slowly. `bulk`: too many rows
    changed at once. `schema`: the table changed. `access`: the caller may see other rows than before. With `code` the
    subscription has ended, with the error of that code.
    """

    subscription: str | msgspec.UnsetType = msgspec.UNSET
    channel: str | msgspec.UnsetType = msgspec.UNSET
    reason: ResetReason
    code: str | msgspec.UnsetType = msgspec.UNSET


class Bye(msgspec.Struct, kw_only=True):
    """Data of the event `bye`, the last one: the stream ends. Connect again after `retry_ms`, with a new token."""

    reason: Literal["token_expired", "session_ended", "going_away", "too_slow"]
    retry_ms: int


class Sender(msgspec.Struct):
    """Who sent a message."""

    member_id: str


class Message(msgspec.Struct, kw_only=True, rename={"from_": "from"}):
    """Data of the event `message`. `from` is the signed-in member that sent it; null for all others.

    With `replay` it was sent before the stream began, and the channel has kept it.
    """

    channel: str
    id: str
    event: str
    payload: Any
    from_: Sender | None
    at: str
    replay: bool | msgspec.UnsetType = msgspec.UNSET


class Present(msgspec.Struct, kw_only=True):
    """A stream in a channel. `key` tells it from others of the same member."""

    key: str
    member_id: str | None
    state: dict[str, Any]


class Presence(msgspec.Struct, kw_only=True):
    """Data of the event `presence`: first `all` who are in the channel, then who `joined` and which keys have `left`.

    One who is there already has joined again with another state. Above 200 only the `count` is told.
    """

    channel: str
    count: int
    all: list[Present] | msgspec.UnsetType = msgspec.UNSET
    joined: list[Present] | msgspec.UnsetType = msgspec.UNSET
    left: list[str] | msgspec.UnsetType = msgspec.UNSET


EventName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class NewMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message: the name of an event, and any JSON of up to 256 kB.

    A `volatile` one, such as the place of a cursor, is not told to who reads too slowly, and never kept.
    """

    event: EventName
    payload: Any = None
    volatile: bool = False


class NewMessages(msgspec.Struct, forbid_unknown_fields=True):
    """A message, or `messages`, up to 100 of them. `stream` is that of `ready`; it gets none of its own back.

    Where the pattern of the channel has `echo`, it does.
    """

    event: EventName | None = None
    payload: Any = None
    volatile: bool = False
    messages: Annotated[list[NewMessage], msgspec.Meta(max_length=100)] | None = None
    stream: str | None = None


class SentMessages(msgspec.Struct):
    """The ids of messages, in their order."""

    ids: list[str]


class PresenceChange(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a stream in a channel: any object of up to 1 kB. `stream` is that of its event `ready`."""

    stream: str
    state: dict[str, Any] = {}


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A stream, by the secret of its event `ready`."""

    stream: str


class PresenceResult(msgspec.Struct):
    """The channel in which a stream is present now."""

    channel: str


class EndedPresence(msgspec.Struct):
    """The channel in which a stream is not present any more, by its name."""

    message: str
    name: str


class ChannelKeep(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many messages a channel keeps for who joins, up to 1 MB, and for how many seconds."""

    messages: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    seconds: Annotated[int, msgspec.Meta(ge=1, le=604_800)]


class ChannelPattern(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Channels whose names match a pattern such as `room:{room}`, and the rules about them.

    `listen` and `send` are null (nobody but the app itself), true (everybody), or a rule as those of tables, about no
    row: `$member`, `$exists`, and `{"$channel": "room"}` for a part of the name. `send` may be `{"$use": "listen"}`.
    Who listens may be present where `presence` is true. With `echo` a sender's own stream gets its messages, too.
    `keep` says which messages are kept for who joins. With `events`, `channel.occupied` and `channel.vacated` tell
    functions, webhooks and workflows whether somebody listens.
    """

    pattern: str
    listen: Any = None
    send: Any = None
    presence: bool = False
    echo: bool = False
    keep: ChannelKeep | None = None
    events: bool = False


class ChannelPatterns(msgspec.Struct, forbid_unknown_fields=True):
    """The channels of an app; the first pattern that matches a name decides."""

    channels: list[ChannelPattern]


Openness = Literal["off", "members", "public"]


class LiveSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Who may listen to rows that it may list: nobody, signed-in members, or everybody.

    `tables` has those where it is something else than `live`, by id; a request may use titles, too. The app's own side
    may always listen.
    """

    live: Openness = "public"
    tables: dict[str, Openness] = {}


class InspectedSubscription(msgspec.Struct, kw_only=True):
    """A subscription of an open stream: what it asks for, how many changes and resets it was told, and the last why."""

    id: SubscriptionId
    table_id: UuidText
    where: dict[str, Any] | None
    row_id: UuidText | None
    told: int
    resets: int
    reset_reason: str | None


class InspectedChannel(msgspec.Struct, kw_only=True):
    """A channel that a stream listens to, and whether the others there see it."""

    name: str
    is_present: bool


class InspectedStream(msgspec.Struct, kw_only=True):
    """An open stream. `id` tells it from others, and is not the secret that the client has.

    `told` is how many events it was sent. With `is_slow` its client reads too slowly: `unsent_bytes` wait for it.
    """

    id: str
    node_id: UuidText
    caller: str
    member_id: str | None
    address: str
    opened_at: str
    told: int
    told_at: str | None
    unsent_bytes: int
    is_slow: bool
    subscriptions: list[InspectedSubscription]
    channels: list[InspectedChannel]


class LiveNode(msgspec.Struct, kw_only=True):
    """A process that tells an app's streams of changes.

    `told` is how many events since the process told the app's first stream. `delay_ms` is the median, `slowest_ms` the
    longest time from a change to its event, of the last rounds; null if there were none.
    """

    node_id: UuidText
    name: str
    streams: int
    subscriptions: int
    channels: int
    told: int
    delay_ms: int | None
    slowest_ms: int | None


class LiveStreams(msgspec.Struct, kw_only=True):
    """The open streams of an app, up to 200 of `total_count`, and the processes that have them.

    Those that read slowly come first, then the newest. `silent` names processes that did not answer in time.
    """

    nodes: list[LiveNode]
    silent: list[str]
    total_count: int
    streams: list[InspectedStream]

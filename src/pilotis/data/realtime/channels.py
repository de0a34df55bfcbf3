"""Channels of a process: who listens, the messages, and who is present.

A message goes to the listeners of this process at once, and to other processes only if some of them have listeners in
the app: those leave messages for each other in a table, and wake each other. Messages are told at most once; who needs
every message writes rows.
"""

from __future__ import annotations

import asyncio
import time
from collections import ChainMap, Counter
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import structlog

from pilotis.data.realtime import channel_store
from pilotis.data.realtime.channel_rules import ChannelDeniedError, ChannelRules
from pilotis.data.realtime.cursor import Cursor
from pilotis.data.realtime.history import ChannelHistory
from pilotis.data.realtime.kept_store import Kept
from pilotis.data.realtime.occupancy import LINGER_SECONDS, Occupancy
from pilotis.data.realtime.stream import Listening, LiveStream
from pilotis.data.realtime.types import NewMessage, NewMessages
from pilotis.data.rules.actions import Action
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.http.api.principals import AppInfo, Client, Principal, app_of
from pilotis.http.replies.streams import MAX_UNSENT_BYTES
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, PayloadTooLargeError, PilotisError, RateLimitedError, invalid
from pilotis.kit.ids import uuid7_text

MAX_PAYLOAD_BYTES = 256 * 1024
MAX_MESSAGES_BYTES = 10 * 1024 * 1024
MAX_STATE_BYTES = 1024
MAX_TOLD = 200
"""In a channel with more streams than this, only their number is told."""
STREAM_PER_SECOND, CHANNEL_PER_SECOND, APP_PER_SECOND, ADDRESS_PER_SECOND = 40, 500, 5000, 400
STREAM_BYTES, CHANNEL_BYTES = 1024 * 1024, 4 * 1024 * 1024
"""How many bytes of payloads a sender, and all senders of a channel, may send in a second."""
_PRESENCE_SECONDS, _PRESENCE_CHANGES = 30, 300
_GATHER_SECONDS = 0.1
_LINGER_SECONDS = 5.0
_REPLAYED_BYTES = MAX_UNSENT_BYTES * 3 // 4
"""How much of what its channels keep a stream is told, of all together."""
_OTHERS_SECONDS = 5.0

_log = structlog.get_logger("pilotis.realtime")


class StreamNotFoundError(NotFoundError):
    """404 `STREAM_NOT_FOUND`: the caller has no such stream open that listens to the channel."""

    code = "STREAM_NOT_FOUND"
    message = "You have no such stream that listens to this channel."


class TooFastError(RateLimitedError):
    """429 `RATE_LIMITED`: too many messages, or bytes of them, in a second. The streams stay open."""

    message = "Too many messages, or bytes, in a second. Send fewer."


class _Budget(NamedTuple):
    """How many messages, and bytes of them, whatever `key` stands for may send in a second."""

    key: Hashable
    messages: int
    bytes: int | None = None


class _Entry(NamedTuple):
    """A stream that is present in a channel: the process that holds it, its member and its state, JSON."""

    node_id: UUID
    member_id: str | None
    state: bytes

    def shown(self, key: str) -> bytes:
        member = json.encode(self.member_id)
        return b'{"key":%b,"member_id":%b,"state":%b}' % (json.encode(key), member, self.state)


class _Channel:
    """One channel in this process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: dict[LiveStream, Listening] = {}
        self.entries: dict[str, _Entry] = {}
        self.joined: set[str] = set()
        self.left: set[str] = set()
        self.timer: asyncio.TimerHandle | None = None

    def push(self, event: bytes, without: str | None = None, *, volatile: bool = False) -> None:
        for stream in list(self.listeners):
            if stream.stream_id != without:
                stream.push(event, volatile=volatile)

    def everybody(self) -> bytes:
        """Return the event that tells who is present."""
        told = {"channel": self.name, "count": len(self.entries)}
        if len(self.entries) > MAX_TOLD:
            return _event("presence", json.encode(told))
        everybody = b",".join(entry.shown(key) for key, entry in self.entries.items())
        return _event("presence", b'%b,"all":[%b]}' % (json.encode(told)[:-1], everybody))

    def differences(self) -> bytes:
        """Return the event that tells who has come and gone since the last one."""
        told = json.encode({"channel": self.name, "count": len(self.entries)})
        joined, self.joined = self.joined, set()
        left, self.left = self.left, set()
        if len(self.entries) > MAX_TOLD:
            return _event("presence", told)
        came = b",".join(self.entries[key].shown(key) for key in joined if key in self.entries)
        return _event("presence", b'%b,"joined":[%b],"left":%b}' % (told[:-1], came, json.encode(sorted(left))))


class _App:
    """The channels of one app in this process."""

    def __init__(self, app_id: UUID, history: ChannelHistory) -> None:
        self.app_id = app_id
        self.channels: dict[str, _Channel] = {}
        self.others: list[UUID] = []
        self.others_at = 0.0
        self.snapshot: str | None = None
        self.unsent: list[bytes] = []
        self.lock = asyncio.Lock()
        self.history = history
        self.occupied: set[str] = set()
        """The channels with events of which this process has said that it has listeners."""
        self.settling: asyncio.Task[None] | None = None
        self.left_at: dict[str, float] = {}

    @property
    def is_over(self) -> bool:
        return not (self.channels or self.occupied)


class Channels:
    """The channels of a process."""

    def __init__(
        self,
        database: Database,
        rules: ChannelRules,
        control: Control,
        node_id: Callable[[], UUID],
        occupancy: Occupancy,
    ) -> None:
        self._database = database
        self._occupancy = occupancy
        self.rules = rules
        self._control = control
        self._node_id = node_id
        self._apps: dict[UUID, _App] = {}
        self._streams: dict[str, LiveStream] = {}
        self._left: dict[str, LiveStream] = {}
        """The streams that have just ended, in whose place another may come."""
        self._counts: Counter[Hashable] = Counter()
        self._bytes: Counter[Hashable] = Counter()
        self._second = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.Task[None] | None = None
        self.sent = 0

    # Streams

    async def join(self, stream: LiveStream, after: Cursor | None) -> None:
        """Begin to tell a stream what happens in its channels, first who is present, and what they keep.

        Of that only what is newer than its cursor, or than the last message that the client has seen.
        """
        if not stream.channels:
            return
        app = self._app(stream.app.app_id)
        await self._hear(app)
        await self._look_around(app)
        # A tick may have dropped the app meanwhile, as it had no channels yet.
        app = self._apps.setdefault(stream.app.app_id, app)
        self._streams[stream.stream_id] = stream
        for one in stream.channels.values():
            channel = app.channels.get(one.name)
            if channel is None:
                channel = app.channels[one.name] = _Channel(one.name)
                self._tell(app, {"kind": "who", "channel": one.name})
            # The others are told of what the newcomer sees at once, so that it is not told twice.
            self._tell_presence(channel)
            channel.listeners[stream] = one
            self._take_place(app, channel, one)
            if one.presence is not None:
                self._enter(app, channel, one, one.presence)
            stream.push(channel.everybody())
            await self._replay(app, stream, one, after)
            if one.has_events:
                self._settle(app)

    def _take_place(self, app: _App, channel: _Channel, one: Listening) -> None:
        """Let a stream be present in the place of the one that it follows; what it was elsewhere ends."""
        stream = one.stream
        if stream.follows is None:
            return
        before = self._own(app.app_id, stream.follows, stream.member_id, ChainMap(self._streams, self._left))
        if before is None:
            body = {"kind": "end", "channel": channel.name, "stream": stream.follows, "member": stream.member_id}
            self._tell(app, body)
            return
        old = before.channels.get(one.name)
        if old is None or old.key not in channel.entries:
            return
        if old.leaving is not None:
            old.leaving.cancel()
        old.presence = None
        if one.presence is None:
            self._exit(app, channel, old.key)
        else:
            one.key, old.key = old.key, one.key

    def _app(self, app_id: UUID) -> _App:
        found = self._apps.get(app_id)
        if found is None:
            found = self._apps[app_id] = _App(app_id, ChannelHistory(self._database, app_id))
        return found

    async def _replay(self, app: _App, stream: LiveStream, one: Listening, after: Cursor | None) -> None:
        """Tell what a channel keeps, before what has been told in it since the stream listens."""
        place, is_whole = stream.waiting, False
        if one.keep is not None:
            since = 0.0 if after is None or one.after is not None else after.moment / 1000
            found = await app.history.read(one.name, one.keep, one.after, since)
            is_whole = one.after is not None and found.is_found
            bodies, left = [body.encode() for body in found.bodies], _REPLAYED_BYTES - stream.waiting_bytes
            while bodies and sum(map(len, bodies)) > left:
                del bodies[0]
                is_whole = False
            stream.put_before(place, [_replayed(body) for body in bodies])
        if (stream.was_asked_to_resume or one.after is not None) and not is_whole:
            stream.reset_channel(one.name, "gap")

    def _settle(self, app: _App, seconds: float = 0.0) -> None:
        """Say soon which channels with events have listeners here."""
        if app.settling is None or app.settling.done():
            app.settling = self._start(self._settle_soon(app, seconds))

    async def _settle_soon(self, app: _App, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            now = time.monotonic()
            wanted = {
                name
                for name, channel in app.channels.items()
                if any(one.has_events for one in channel.listeners.values())
            }
            for name in app.occupied - wanted:
                app.left_at.setdefault(name, now)
            app.left_at = {name: at for name, at in app.left_at.items() if name not in wanted}
            gone = {name for name, at in app.left_at.items() if now - at >= LINGER_SECONDS}
            added = wanted - app.occupied
            is_unfinished = await self._occupancy.settle(app.app_id, sorted(added), sorted(gone))
            app.occupied = (app.occupied | added) - gone
            app.left_at = {name: at for name, at in app.left_at.items() if name not in gone}
            if not is_unfinished and not app.left_at:
                return
            seconds = 1.0 if is_unfinished else LINGER_SECONDS / 4

    def leave(self, stream: LiveStream) -> None:
        """End a stream's places in its channels. A moment later the others learn that it is gone."""
        if self._streams.pop(stream.stream_id, None) is not None:
            self._left[stream.stream_id] = stream
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._left.pop, stream.stream_id, None)
        for one in list(stream.channels.values()):
            self.stop_listening(stream, one, _LINGER_SECONDS)

    def stop_listening(self, stream: LiveStream, one: Listening, linger: float = 0.0) -> None:
        """End a stream's place in one channel."""
        app = self._apps.get(stream.app.app_id)
        channel = None if app is None else app.channels.get(one.name)
        if app is None or channel is None:
            return
        channel.listeners.pop(stream, None)
        if one.has_events and not channel.listeners:
            self._settle(app)
        if one.key in channel.entries:
            one.leaving = asyncio.get_running_loop().call_later(linger, self._exit, app, channel, one.key)
        elif not channel.listeners:
            del app.channels[one.name]

    def _enter(self, app: _App, channel: _Channel, one: Listening, state: bytes) -> None:
        one.presence = state
        entry = _Entry(self._node_id(), one.stream.member_id, state)
        if channel.entries.get(one.key) == entry:
            return
        channel.entries[one.key] = entry
        self._note(channel, joined=one.key)
        self._tell(app, _announcement(channel, [one.key]))

    def _exit(self, app: _App, channel: _Channel, key: str) -> None:
        if channel.entries.pop(key, None) is not None:
            self._note(channel, left=key)
            self._tell(app, {"kind": "left", "channel": channel.name, "keys": [key]})
        if not channel.listeners and app.channels.get(channel.name) is channel:
            del app.channels[channel.name]

    def _note(self, channel: _Channel, joined: str | None = None, left: str | None = None) -> None:
        """Tell the listeners soon who has come or gone."""
        if joined is not None:
            channel.joined.add(joined)
            channel.left.discard(joined)
        if left is not None:
            channel.joined.discard(left)
            channel.left.add(left)
        if channel.timer is None:
            channel.timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._tell_presence, channel)

    def _tell_presence(self, channel: _Channel) -> None:
        if channel.timer is not None:
            channel.timer.cancel()
            channel.timer = None
        if channel.joined or channel.left:
            channel.push(channel.differences())

    # Requests

    async def send(self, principal: Principal, client: Client, name: str, asked: NewMessages) -> list[str]:
        """Send messages to a channel; returns their ids. Raises `ChannelDeniedError` and `TooFastError`."""
        app = app_of(principal)
        messages = _messages(asked)
        allowed = await self.rules.allowed(principal, name, Action.CREATE)
        size = sum(len(payload) for _, payload in messages)
        self._count(len(messages), size, self._sender(principal, client, app, asked.stream, name))
        here = self._apps.get(app.app_id)
        channel = None if here is None else here.channels.get(name)
        without = None if allowed.declared.echo else asked.stream
        member = principal.member
        sender = None if member is None else {"member_id": member.member_id}
        at, ids, others, is_kept = rfc3339(datetime.now(UTC)), list[str](), list[dict[str, Any]](), False
        for message, payload in messages:
            message_id = uuid7_text()
            ids.append(message_id)
            head = json.encode({"channel": name, "id": message_id, "event": message.event})
            tail = json.encode({"from": sender, "at": at})
            data = b'%b,"payload":%b,%b' % (head[:-1], payload, tail[1:])
            event = _event("message", data)
            if allowed.declared.keep is not None and not message.volatile:
                sent_by = None if member is None else member.member_id
                kept = Kept(name, UUID(message_id), sent_by, data.decode(), allowed.declared.keep.seconds)
                self._app(app.app_id).history.keep(kept, allowed.declared.keep)
                is_kept = True
            if channel is not None:
                channel.push(event, without, volatile=message.volatile)
            others.append({"kind": "event", "channel": name, "event": event.decode(), "volatile": message.volatile})
        if is_kept:
            # Who joins elsewhere is told by what is stored, or by what is told afterwards.
            await self._app(app.app_id).history.stored()
        for told in others:
            await self._tell_others(app.app_id, told)
        self.sent += len(ids)
        return ids

    def _sender(
        self, principal: Principal, client: Client, app: AppInfo, stream: str | None, name: str
    ) -> list[_Budget]:
        """Return what counts the messages of a sender, and how many it may send in a second."""
        mine = self._streams.get(stream or "")
        if mine is not None and mine.app.app_id == app.app_id:
            own = _Budget((app.app_id, mine.stream_id), STREAM_PER_SECOND, STREAM_BYTES)
        elif principal.member is not None:
            own = _Budget((app.app_id, principal.member.member_id), STREAM_PER_SECOND, STREAM_BYTES)
        else:
            # An address may be an office.
            own = _Budget((app.app_id, client.address), ADDRESS_PER_SECOND, CHANNEL_BYTES)
        counts = [
            _Budget((app.app_id, "channel", name), CHANNEL_PER_SECOND, CHANNEL_BYTES),
            _Budget((app.app_id, "app"), APP_PER_SECOND),
        ]
        # The app's own side is bound by its channels alone.
        return counts if principal.role is not None else [own, *counts]

    def _count(self, number: int, size: int, budgets: Sequence[_Budget]) -> None:
        if (second := int(time.monotonic())) != self._second:
            self._second, self._counts, self._bytes = second, Counter(), Counter()
        for one in budgets:
            is_over = self._counts[one.key] + number > one.messages
            if is_over or (one.bytes is not None and self._bytes[one.key] + size > one.bytes):
                raise TooFastError(headers={"Retry-After": "1"})
        for one in budgets:
            self._counts[one.key] += number
            self._bytes[one.key] += size

    async def set_presence(self, principal: Principal, name: str, stream_id: str, state: dict[str, Any]) -> None:
        """Set what others see of a stream in a channel; raises `StreamNotFoundError` unless it is the caller's."""
        encoded = checked_state(state, "state")
        allowed = await self.rules.allowed(principal, name, Action.READ)
        if not allowed.declared.presence:
            raise ChannelDeniedError
        app = app_of(principal)
        if not self._set_presence(app.app_id, name, stream_id, _member_id(principal), encoded):
            body = {"kind": "state", "channel": name, "stream": stream_id, "state": encoded.decode()}
            if not await self._tell_others(app.app_id, body | {"member": _member_id(principal)}):
                raise StreamNotFoundError

    def _set_presence(self, app_id: UUID, name: str, stream_id: str, member_id: str | None, state: bytes) -> bool:
        stream, app = self._own(app_id, stream_id, member_id, self._streams), self._apps.get(app_id)
        if stream is None or app is None:
            return False
        one, channel = stream.channels.get(name), app.channels.get(name)
        if one is None or channel is None:
            return False
        if not stream.may_change_presence(_PRESENCE_CHANGES, _PRESENCE_SECONDS):
            raise TooFastError(headers={"Retry-After": "1"})
        self._enter(app, channel, one, state)
        return True

    async def end_presence(self, principal: Principal, name: str, stream_id: str) -> None:
        """Make a stream invisible to others in a channel; raises `StreamNotFoundError`."""
        app_id = app_of(principal).app_id
        if not self._end_presence(app_id, name, stream_id, _member_id(principal)):
            body = {"kind": "end", "channel": name, "stream": stream_id, "member": _member_id(principal)}
            if not await self._tell_others(app_id, body):
                raise StreamNotFoundError

    def _end_presence(self, app_id: UUID, name: str, stream_id: str, member_id: str | None) -> bool:
        found, app = (
            self._own(app_id, stream_id, member_id, ChainMap(self._streams, self._left)),
            self._apps.get(app_id),
        )
        if found is None or app is None:
            return False
        one, channel = found.channels.get(name), app.channels.get(name)
        if one is None or channel is None:
            return False
        one.presence = None
        self._exit(app, channel, one.key)
        return True

    def _own(
        self, app_id: UUID, stream_id: str, member_id: str | None, streams: Mapping[str, LiveStream]
    ) -> LiveStream | None:
        """Return the stream with a secret, if it is one of the app and the member."""
        found = streams.get(stream_id)
        return None if found is None or found.app.app_id != app_id or found.member_id != member_id else found

    # Other processes

    def wake(self, key: str) -> None:
        """Read what other processes have told an app's channels."""
        app = self._apps.get(UUID(key)) if self._apps else None
        if app is not None:
            self._start(self._hear(app))

    def wake_all(self) -> None:
        """Read what other processes have told: messages may have been lost."""
        for app in self._apps.values():
            self._start(self._hear(app))

    def tick_soon(self) -> None:
        """Do what is due every few seconds, unless it is still being done."""
        if self._ticking is None or self._ticking.done():
            self._ticking = self._start(self._tick())

    async def _tick(self) -> None:
        """Say that this process listens, repeat who is present, and drop who was elsewhere."""
        for app_id, app in list(self._apps.items()):
            if app.is_over:
                del self._apps[app_id]
                continue
            await self._look_around(app)
            await self._hear(app)
            if app.occupied or any(one.has_events for c in app.channels.values() for one in c.listeners.values()):
                self._settle(app)
            alive = {*app.others, self._node_id()}
            for channel in list(app.channels.values()):
                for key in [key for key, entry in channel.entries.items() if entry.node_id not in alive]:
                    self._exit(app, channel, key)
                self._announce(app, channel)

    def _announce(self, app: _App, channel: _Channel) -> None:
        own = [key for key, entry in channel.entries.items() if entry.node_id == self._node_id()]
        if own:
            self._tell(app, _announcement(channel, own[:MAX_TOLD]))

    async def _look_around(self, app: _App) -> None:
        app.others = await channel_store.listen(self._database, app.app_id, self._node_id())
        app.others_at = time.monotonic()

    async def _hear(self, app: _App) -> None:
        async with app.lock:
            told = await channel_store.heard(self._database, app.app_id, self._node_id(), app.snapshot)
            app.snapshot = told.snapshot
        for body in told.bodies:
            try:
                self._apply(app, json.decode(body.encode()))
            except (KeyError, ValueError, TypeError):
                _log.warning("message of another version", app_id=str(app.app_id))

    def _apply(self, app: _App, told: dict[str, Any]) -> None:
        channel = app.channels.get(told["channel"])
        if channel is None:
            return
        kind = told["kind"]
        if kind == "event":
            channel.push(told["event"].encode(), volatile=told.get("volatile", False))
        elif kind == "who":
            self._announce(app, channel)
        elif kind == "here":
            for key, (member_id, state) in told["entries"].items():
                entry = _Entry(UUID(told["node"]), member_id, state.encode())
                if channel.entries.get(key) != entry:
                    channel.entries[key] = entry
                    self._note(channel, joined=key)
        elif kind == "left":
            for key in told["keys"]:
                if channel.entries.pop(key, None) is not None:
                    self._note(channel, left=key)
        elif kind == "state":
            self._set_presence(app.app_id, channel.name, told["stream"], told["member"], told["state"].encode())
        elif kind == "end":
            self._end_presence(app.app_id, channel.name, told["stream"], told["member"])

    def _tell(self, app: _App, body: dict[str, Any]) -> None:
        if app.others:
            self._leave(app, body)

    async def _tell_others(self, app_id: UUID, body: dict[str, Any]) -> bool:
        """Tell other processes, if some have listeners in the app; return whether some have."""
        app = self._app(app_id)
        if time.monotonic() - app.others_at > _OTHERS_SECONDS:
            app.others = await channel_store.others(self._database, app_id, self._node_id())
            app.others_at = time.monotonic()
        if app.others:
            self._leave(app, body)
        return bool(app.others)

    def _leave(self, app: _App, body: dict[str, Any]) -> None:
        app.unsent.append(json.encode(body | {"node": str(self._node_id())}))
        if len(app.unsent) == 1:
            self._start(self._send_unsent(app))

    async def _send_unsent(self, app: _App) -> None:
        await asyncio.sleep(0)
        bodies, app.unsent = app.unsent, []
        await channel_store.tell(self._database, app.app_id, self._node_id(), [body.decode() for body in bodies])
        self._control.publish_soon(Topic.CHANNELS, str(app.app_id), at_once=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work
            except (PilotisError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                _log.warning("channels not reached")

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End what is still being sent."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def checked_state(state: dict[str, Any], place: str) -> bytes:
    """Return a state as JSON; raises an error if it is too large."""
    encoded = json.encode(state)
    if len(encoded) > MAX_STATE_BYTES:
        raise invalid(place, f"{place}: a state has at most {MAX_STATE_BYTES} bytes.")
    return encoded


def _messages(asked: NewMessages) -> list[tuple[NewMessage, bytes]]:
    """Return the messages with their payloads as JSON."""
    if (asked.event is None) == (asked.messages is None):
        raise invalid("event", "Send an event with its payload, or a list of messages.")
    messages = (
        asked.messages if asked.messages is not None else [NewMessage(asked.event or "", asked.payload, asked.volatile)]
    )
    encoded = [(message, json.encode(message.payload)) for message in messages]
    sizes = [len(payload) for _, payload in encoded]
    if max(sizes, default=0) > MAX_PAYLOAD_BYTES or sum(sizes) > MAX_MESSAGES_BYTES:
        raise PayloadTooLargeError(f"A payload has at most {MAX_PAYLOAD_BYTES} bytes, all of a request 10 MB.")
    return encoded


def _announcement(channel: _Channel, keys: Sequence[str]) -> dict[str, Any]:
    entries = {key: [channel.entries[key].member_id, channel.entries[key].state.decode()] for key in keys}
    return {"kind": "here", "channel": channel.name, "entries": entries}


def _member_id(principal: Principal) -> str | None:
    return None if principal.member is None else principal.member.member_id


def _replayed(data: bytes) -> tuple[bytes, bytes]:
    """Return a kept message's event, and what stands in the event of the same message while it was told."""
    event = _event("message", b'%b,"replay":true}' % data[:-1])
    return event, b'"id":"%b"' % json.decode(data)["id"].encode()


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n" % (name.encode(), data)

"""One live stream: its subscriptions, and the events that wait to be sent.

Events wait until the end of a round. All but the last carry the token of the round before, the last one that of the
round: a connection that breaks between them resumes where nothing is lost.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from pilotis.data.realtime.channel_rules import Keeping
from pilotis.data.realtime.cursor import unresumable
from pilotis.data.realtime.subscriptions import Key, Shown, Watched
from pilotis.data.realtime.types import NewSubscription
from pilotis.http.api.principals import AppInfo, AppMember, MemberInfo, Principal
from pilotis.http.replies.events import Outlet
from pilotis.http.replies.streams import MAX_UNSENT_BYTES, PING_SECONDS
from pilotis.kit import json
from pilotis.members.service import NO_SESSION

RESET_SECONDS = 5.0
"""A subscription gets at most one `reset` in this time; a further one follows at its end."""
SLOW_SECONDS = 60.0
"""A client that takes nothing for so long is cut off."""
KEY_SECONDS = 3600.0
"""How long a stream without a token of a member lives, about; another one lives as long as the token."""
_RETRY_MS = (1000, 5000)
_VOLATILE_BYTES = MAX_UNSENT_BYTES // 16


class Place:
    """What a feed's streams have in common: where it is in the log, and which of them have something to be done.

    So a round costs what has changed, and not what is open.
    """

    def __init__(self) -> None:
        self.token = b""
        self.before = b""
        """The token of the round before."""
        self.waiting: dict[LiveStream, None] = {}
        """The streams with events that are not sent."""
        self.doubtful: dict[Subscription | Listening, str | None] = {}
        """What may be told of other rows, or listen to other channels, than before, and the reason that its client is
        told; None if it need not read its rows again."""

    def move(self, token: str) -> None:
        """Note where the feed is now."""
        self.before, self.token = self.token, token.encode()


class Subscription:
    """A subscription of a stream, with its places in the groups of its feed."""

    def __init__(self, stream: LiveStream, given: NewSubscription, table_id: UUID) -> None:
        self.stream = stream
        self.table_id = table_id
        self.where: Mapping[str, Any] | None = given.where
        self.row_id = given.row_id
        self.shown = Shown(given.fields, given.order_by, given.expand)
        self.name = given.id
        self._types = None if given.types is None else frozenset(given.types)
        self._start = b'event: change\ndata: {"subscription":%b,"type":"' % json.encode(given.id)
        self.places: list[tuple[Hashable, Key]] = []
        self.compiled: Sequence[Watched] = ()
        self.compiled_at = 0.0
        self.reset_at = 0.0
        self.due: tuple[float, str] | None = None
        self.told = 0
        """How many changes it was told."""
        self.resets = 0
        self.reset_reason: str | None = None

    def facts_changed(self) -> None:
        """Note that the caller may see other rows than before."""
        self.stream.place.doubtful[self] = "access"

    @property
    def is_over(self) -> bool:
        """Whether its stream does not have it any more."""
        return self.stream.subscriptions.get(self.name) is not self

    def wants(self, kind: str) -> bool:
        """Return whether it asks for changes of this kind."""
        return self._types is None or kind in self._types

    def event(self, kind: str, row: bytes) -> bytes:
        """Return an event without its end."""
        return b'%b%b","row":%b}\n' % (self._start, kind.encode(), row)


class Listening:
    """A stream's place in a channel, with its places in the groups of its feed."""

    def __init__(self, stream: LiveStream, name: str, presence: bytes | None, after: UUID | None = None) -> None:
        self.stream = stream
        self.name = name
        self.after = after
        """The last message that the client has seen."""
        self.keep: Keeping | None = None
        """What the channel keeps; set when it is judged whether the stream may listen, as is `has_events`."""
        self.has_events = False
        self.presence = presence
        """The state that others see, as JSON; None if they do not see the stream."""
        self.key = secrets.token_urlsafe(9)
        self.places: list[tuple[Hashable, Key]] = []
        self.compiled: Sequence[Watched] = ()
        self.compiled_at = 0.0
        self.leaving: asyncio.TimerHandle | None = None
        """Ends its presence some seconds after its stream."""

    def facts_changed(self) -> None:
        """Note that it is to be judged again whether the stream may listen."""
        self.stream.place.doubtful[self] = "access"

    @property
    def is_over(self) -> bool:
        """Whether its stream does not have it any more."""
        return self.stream.channels.get(self.name) is not self


class LiveStream:
    """One client's stream."""

    def __init__(
        self,
        app: AppInfo,
        principal: Principal,
        address: str,
        *,
        was_asked_to_resume: bool,
        follows: str | None = None,
    ) -> None:
        self.app = app
        self.principal = principal
        self.address = address
        self.was_asked_to_resume = was_asked_to_resume
        self.follows = follows
        """The secret of the stream in whose place it is."""
        self.stream_id = secrets.token_urlsafe(16)
        self.shown_id = secrets.token_hex(4)
        """What tells it from other streams, where its secret is not to be shown."""
        self.opened_at = datetime.now(UTC)
        self.told = 0
        """How many events it was sent."""
        self._told_at = 0.0
        self.subscriptions: dict[str, Subscription] = {}
        self.channels: dict[str, Listening] = {}
        self.joined = False
        self._outlet: Outlet | None = None
        self._waiting: list[bytes] = []
        self.place = Place()
        """That of its feed, once it has joined it."""
        self._begun_at = b""
        self._has_due = False
        self._ping_at = 0.0
        self._full_since: float | None = None
        self._has_begun = False
        self._presence_since = 0.0
        self._presence_changes = 0
        self._ends_at = time.monotonic() + _seconds_of(principal.member)

    @property
    def member_id(self) -> str | None:
        """The signed-in member."""
        return None if self.principal.member is None else self.principal.member.member_id

    @property
    def session_id(self) -> UUID | None:
        """The member's session."""
        member = self.principal.member
        return None if member is None or member.session_id == NO_SESSION else member.session_id

    @property
    def told_at(self) -> datetime | None:
        """When it was last sent an event."""
        return None if not self._told_at else datetime.fromtimestamp(self._told_at, UTC)

    @property
    def unsent(self) -> int:
        """How many bytes wait for its client."""
        return 0 if self._outlet is None else self._outlet.unsent

    @property
    def is_slow(self) -> bool:
        """Whether its client reads so slowly that it is not told anything."""
        return self._full_since is not None

    def everything(self) -> list[Subscription | Listening]:
        """Return its subscriptions, and its places in channels."""
        return [*self.subscriptions.values(), *self.channels.values()]

    def learn(self, member: MemberInfo) -> bool:
        """Note what is known of the member now; return whether that is something else than before."""
        assert isinstance(self.principal, AppMember)
        was = self.principal.member
        known = msgspec.structs.replace(member, nickname=was.nickname, until=was.until)
        if msgspec.structs.replace(was, confirm=None) == known:
            return False
        self.principal = msgspec.structs.replace(self.principal, member=known)
        return True

    def open(self, outlet: Outlet) -> None:
        """Set where its events go."""
        self._outlet = outlet
        self._ping_at = time.monotonic() + PING_SECONDS

    def begin(self, after: str | None) -> None:
        """Say that it is ready, from where its feed is, or after the token of an earlier stream."""
        resumed = after is not None
        names = list(self.subscriptions)
        told = {
            "stream": self.stream_id,
            "subscriptions": names,
            "started": [] if resumed else names,
            "channels": list(self.channels),
            "resumed": resumed,
        }
        # One that breaks before it has caught up catches up again.
        self._begun_at = self.place.token if after is None else after.encode()
        # What its channels have told already comes after it.
        self._waiting.insert(0, b"event: ready\ndata: %b\n" % json.encode(told))

    def change(self, one: Subscription, kind: str, row: bytes) -> None:
        """Tell of a changed row."""
        if one.wants(kind):
            one.told += 1
            self._put(one.event(kind, row))

    def _put(self, event: bytes) -> None:
        if not self._waiting:
            self.place.waiting[self] = None
        self._waiting.append(event)

    def reset(self, one: Subscription, reason: str) -> None:
        """Tell that the rows of a subscription are to be read again, now or as soon as it may be told that again."""
        now = time.monotonic()
        if now - one.reset_at < RESET_SECONDS:
            one.due = one.due or (one.reset_at + RESET_SECONDS, reason)
            self._has_due = True
            return
        one.reset_at, one.due = now, None
        self._put(_reset(one, reason))

    def end(self, one: Subscription, reason: str, code: str) -> None:
        """Tell that a subscription has ended."""
        self.subscriptions.pop(one.name, None)
        self._put(_reset(one, reason, code))

    def reset_channel(self, name: str, reason: str) -> None:
        """Tell that messages of a channel may have been missed."""
        self.push(_reset_channel(name, reason))

    def end_channel(self, one: Listening, code: str) -> None:
        """Tell that it may not listen to a channel any more."""
        self.channels.pop(one.name, None)
        self.push(_reset_channel(one.name, "access", code))

    def push(self, event: bytes, *, volatile: bool = False) -> bool:
        """Send an event that does not wait for a round; return whether it was sent.

        A volatile one is left out where the client reads too slowly, which is nothing that it is told.
        """
        if self._outlet is None or self._full_since is not None:
            return False
        if volatile and self._outlet.unsent > _VOLATILE_BYTES:
            return False
        if not self._has_begun:
            self._waiting.append(event)
            return True
        data = self._ended(event)
        if self._outlet.unsent + len(data) > MAX_UNSENT_BYTES:
            self._full_since = time.monotonic()
            return False
        self.told += 1
        self._told_at = time.time()
        return self._outlet.write(data)

    @property
    def waiting(self) -> int:
        """How many events wait for the stream's beginning."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes these have."""
        return sum(map(len, self._waiting))

    def put_before(self, place: int, events: Sequence[tuple[bytes, bytes]]) -> None:
        """Put events in front of those that have come since `place` of them waited, before the stream begins.

        With each stands a part of it by which the same one is known, if it has come meanwhile; then it is left out.
        """
        since = b"".join(self._waiting[place:])
        self._waiting[place:place] = [event for event, mark in events if mark not in since]

    def may_change_presence(self, most: int, seconds: float) -> bool:
        """Count a change of its presence; return whether there were not too many of them."""
        now = time.monotonic()
        if now - self._presence_since > seconds:
            self._presence_since, self._presence_changes = now, 0
        self._presence_changes += 1
        return self._presence_changes <= most

    @property
    def _token(self) -> bytes:
        """The token of what it was told: with a reset that has to wait nobody may go on where its feed is."""
        token = self.place.token
        return unresumable(token) if token and self._has_due else token

    def _ended(self, event: bytes) -> bytes:
        token = self._token
        return event + (b"id: %b\n\n" % token if token else b"\n")

    def flush(self) -> int:
        """Send what waits, with the token of its feed, which has seen it; return how many events that were."""
        before = self.place.before if self._has_begun else self._begun_at
        before = self._token if self._has_due else before
        self._has_begun = True
        waiting, self._waiting = self._waiting, []
        if not waiting or self._outlet is None:
            return 0
        if self._full_since is not None:
            return 0
        line = b"id: %b\n\n" % before if before else b"\n"
        data = line.join(waiting[:-1]) + (line if len(waiting) > 1 else b"") + self._ended(waiting[-1])
        if self._outlet.unsent + len(data) > MAX_UNSENT_BYTES:
            # What it does not get now it would get too late: it will be told to read everything again.
            self._full_since = time.monotonic()
            return 0
        self._outlet.write(data)
        self.told += len(waiting)
        self._told_at = time.time()
        self._ping_at = time.monotonic() + PING_SECONDS
        return len(waiting)

    def check_soon(self) -> None:
        """Check the credentials that it was opened with."""
        if self._outlet is not None:
            self._outlet.check_soon()

    def tick(self, now: float) -> None:
        """Do what is due: heartbeats, resets that had to wait, and the end."""
        if self._outlet is None:
            return
        if self._full_since is not None:
            self._drain(now)
            return
        if self._has_due:
            self._tell_due(self._outlet, now)
        if now >= self._ends_at:
            self.say_bye("token_expired")
        elif now >= self._ping_at:
            self._ping_at = now + PING_SECONDS
            # Without data it is no event, but it moves the place from which the client resumes.
            self._outlet.write(self._ended(b": ping\n"))

    def _tell_due(self, outlet: Outlet, now: float) -> None:
        for one in self.subscriptions.values():
            if one.due is not None and one.due[0] <= now:
                one.reset_at, reason, one.due = now, one.due[1], None
                self._has_due = any(other.due is not None for other in self.subscriptions.values())
                outlet.write(self._ended(_reset(one, reason)))
        # The one that had to wait may have ended.
        self._has_due = any(one.due is not None for one in self.subscriptions.values())

    def _drain(self, now: float) -> None:
        assert self._outlet is not None
        assert self._full_since is not None
        if self._outlet.unsent <= MAX_UNSENT_BYTES // 4:
            self._full_since = None
            for one in self.subscriptions.values():
                one.due = now, "overflow"
                self._has_due = True
            for name in self.channels:
                self._outlet.write(self._ended(_reset_channel(name, "overflow")))
            self._tell_due(self._outlet, now)
        elif now - self._full_since > SLOW_SECONDS:
            self.say_bye("too_slow")

    def say_bye(self, reason: str) -> None:
        """End the stream."""
        if self._outlet is not None:
            self._outlet.write(bye(reason))
            self._outlet.close()
            self._outlet = None


def _seconds_of(member: MemberInfo | None) -> float:
    """Return how long a stream lives."""
    if member is None or member.until is None:
        return KEY_SECONDS * random.uniform(0.9, 1.1)  # noqa: S311 - only spreads them
    return member.until - time.time()


def bye(reason: str) -> bytes:
    """Return the last event of a stream: why it ends, and when to connect again."""
    told = {"reason": reason, "retry_ms": random.randint(*_RETRY_MS)}  # noqa: S311 - only spreads the clients
    return b"event: bye\ndata: %b\n\n" % json.encode(told)


def _reset(one: Subscription, reason: str, code: str | None = None) -> bytes:
    one.resets, one.reset_reason = one.resets + 1, reason
    told = {"subscription": one.name, "reason": reason} | ({} if code is None else {"code": code})
    return b"event: reset\ndata: %b\n" % json.encode(told)


def _reset_channel(channel: str, reason: str, code: str | None = None) -> bytes:
    told = {"channel": channel, "reason": reason} | ({} if code is None else {"code": code})
    return b"event: reset\ndata: %b\n" % json.encode(told)

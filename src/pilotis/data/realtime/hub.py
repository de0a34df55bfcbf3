"""The live streams of a process: for each app a feed, which reads the app's log and tells the streams what changed.

A feed works in rounds: it reads what its cursor has not seen, judges the changed rows for each shape of subscriptions
by one statement, and hands each stream its events with the token of the new cursor. A stream begins between two rounds,
with the feed's cursor as its first token, so that nothing which commits afterwards is missed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

import asyncpg
import structlog

from pilotis.data.realtime import store
from pilotis.data.realtime.channel_rules import ChannelDeniedError, bound
from pilotis.data.realtime.channels import Channels
from pilotis.data.realtime.cursor import Cursor, cursor_of
from pilotis.data.realtime.live_settings import LiveAccess
from pilotis.data.realtime.stream import Listening, LiveStream, Place, Subscription
from pilotis.data.realtime.subscriptions import (
    MAX_SCOPE,
    Key,
    Scope,
    Shape,
    Watched,
    compile_facts,
    compile_rows,
    listed,
    lookups,
    scope_question,
)
from pilotis.data.rows.related import plan
from pilotis.data.rows.table import TOO_OLD, PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableBusyError, TableNotFoundError, Tables
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.http.api.principals import AppInfo
from pilotis.kit import json
from pilotis.kit.errors import PilotisError, RateLimitedError, UnavailableError
from pilotis.kit.metrics import Histogram
from pilotis.limits import Limits
from pilotis.members.service import Members

MAX_ROW_BYTES = 64 * 1024
"""A larger row comes without its data."""
_POLL_SECONDS = 1.0
_GATHER_SECONDS = 0.005
_IDLE_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_RENEW_SECONDS = store.LEASE_SECONDS / 3
_MAX_POLLS = 50
"""How many logs a process reads a second at most when nothing wakes it."""
_SESSIONS_A_SECOND = 500
_COMPILE_TRIES = 5
_CHECKS, _CHECK_SECONDS = 100, 0.01
"""So many streams are checked together, and then others."""
_MAX_SHAPES = 500
_MAX_NOTED = 1000
"""Of so many tables a feed remembers when they were edited, and when they were written."""
_OF_LARGE = ("id", "updated_at", "sort")
_CHANNELS_SECONDS = 3.0
_DELAYS = 200
"""Of so many rounds is remembered how late they were."""

_log = structlog.get_logger("pilotis.data.realtime")


_OF_ALL = (UnavailableError, OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError)
"""Without the database nothing is judged: the round is repeated."""


class TooManyLiveStreamsError(RateLimitedError):
    """429 `TOO_MANY_STREAMS`: the app, the address or the member has the maximum number of live streams open."""

    code = "TOO_MANY_STREAMS"
    message = "Too many live streams are open. Close some of them."


class _Changed(NamedTuple):
    """What happened to a row in a round: the first and the last entry, and the numbers of all that have a row before.

    The row is read as it is, which may be ahead of the entries that a round has. So a client may know it as it was
    before any of the next round's entries, and not only before the first.
    """

    first: store.Entry
    last: store.Entry
    numbers: list[int]


class _Judged(NamedTuple):
    """A row of a shape: its JSON as it is now, or the entry's number; the key; what the log does not have of it before.

    It has no key if it is none of the shape; then it is there for what the log does not have of it.
    """

    item: str | None
    key: Key | None
    left_out: str | None


class Hub:
    """The feeds of a process, and the numbers of its streams."""

    def __init__(
        self,
        database: Database,
        tables: Tables,
        prepared: PreparedTables,
        members: Members,
        control: Control,
        node_id: Callable[[], UUID],
        limits: Limits,
        channels: Channels,
        live: LiveAccess,
    ) -> None:
        self._live = live
        self.database = database
        self.tables = tables
        self.prepared = prepared
        self.members = members
        self._control = control
        self._node_id = node_id
        self._limits = limits
        self.channels = channels
        self._feeds: dict[UUID, Feed] = {}
        self._by_app: Counter[UUID] = Counter()
        self._by_address: Counter[tuple[UUID, str]] = Counter()
        self._by_member: Counter[tuple[UUID, str]] = Counter()
        self._arming: dict[tuple[UUID, UUID], asyncio.Task[None]] = {}
        self._ticking: asyncio.Task[None] | None = None
        self.delivered = 0
        self.delays = Histogram("pilotis_live_delay_seconds", "Time from a change of a row to its event.")

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._by_app.total()

    @property
    def subscriptions(self) -> int:
        """How many subscriptions the open streams have."""
        return sum(feed.subscriptions for feed in self._feeds.values())

    def feed(self, app_id: UUID) -> Feed | None:
        """Return what tells an app's streams; None if it has none here."""
        return self._feeds.get(app_id)

    def committed(self, app_id: UUID) -> None:
        """Wake the readers of an app's log, of this process at once: it has committed changes to it."""
        self.wake(str(app_id))
        self._control.publish_soon(Topic.CHANGES, str(app_id))

    def wake(self, app_id: str) -> None:
        """Read an app's log."""
        if self._feeds and (feed := self._feeds.get(UUID(app_id))) is not None:
            feed.wake()

    def wake_all(self) -> None:
        """Read all logs: messages may have been lost."""
        for feed in self._feeds.values():
            feed.wake()

    def channels_changed(self, app_id: str) -> None:
        """Judge again who may listen to an app's channels."""
        if self._feeds and (feed := self._feeds.get(UUID(app_id))) is not None:
            feed.channels_changed()

    def app_changed(self, app_id: str) -> None:
        """Check the credentials of an app's streams, as one of its keys may have been revoked."""
        if self._feeds and (feed := self._feeds.get(UUID(app_id))) is not None:
            feed.check_streams()

    def table_changed(self, key: str) -> None:
        """Compile the subscriptions to a table again, whose schema or rules have changed."""
        app_id, _, table_id = key.partition("/")
        if self._feeds and (feed := self._feeds.get(UUID(app_id))) is not None:
            feed.table_changed(UUID(table_id))

    def tables_changed(self) -> None:
        """Look at all tables again: messages about them may have been lost."""
        for feed in self._feeds.values():
            feed.tables_changed()

    def require_room(self, app: AppInfo, address: str, member_id: str | None) -> None:
        """Raise `TooManyLiveStreamsError` if another stream would be one too many."""
        limits, app_id = app.limits, app.app_id
        if (
            self.streams >= self._limits.live_streams
            or self._by_app[app_id] >= limits.app_live_streams
            or self._by_address[app_id, address] >= limits.client_live_streams
            or (member_id is not None and self._by_member[app_id, member_id] >= limits.member_live_streams)
        ):
            raise TooManyLiveStreamsError(headers={"Retry-After": "10"})

    async def watch(self, app_id: UUID, table_ids: Iterable[UUID]) -> bool:
        """Make the statements on tables write the app's log; return whether some did not.

        Raises `TableBusyError` and `TableNotFoundError`.
        """
        unwatched = await store.watch(self.database, app_id, self._node_id(), list(table_ids))
        for table_id in unwatched:
            await self._arm_once(app_id, table_id)
        return bool(unwatched)

    async def _arm_once(self, app_id: UUID, table_id: UUID) -> None:
        """Make a table's statements write the log: once for all streams that begin at the same time."""
        key = app_id, table_id
        arming = self._arming.get(key)
        if arming is None:
            self._live.count_arming(app_id)
            arming = self._arming[key] = asyncio.create_task(self._arm(app_id, table_id))
            arming.add_done_callback(lambda task: self._armed(key, task))
        # Its other callers still wait for it if this one does not.
        await asyncio.shield(arming)

    def _armed(self, key: tuple[UUID, UUID], task: asyncio.Task[None]) -> None:
        del self._arming[key]
        if not task.cancelled():
            # Whoever waits raises it.
            task.exception()

    async def _arm(self, app_id: UUID, table_id: UUID) -> None:
        async def is_wanted(connection: asyncpg.Connection) -> bool:
            await store.register(connection, app_id)
            return True

        await self.tables.set_watched(app_id, table_id, is_wanted, watched=True)

    async def compiled(self, stream: LiveStream, one: Subscription | Listening) -> list[Watched]:
        """Compile a subscription, and what tells of the rows that its rule looks up, and watch the tables.

        Of a channel only the latter. Raises the errors of a query, `TableBusyError`, and `ChannelDeniedError`.
        """
        app_id = stream.app.app_id
        for _ in range(_COMPILE_TRIES):
            one.compiled_at = time.monotonic()
            if isinstance(one, Listening):
                compiled = await self._compiled_channel(stream, one)
            else:
                compiled = await self._compiled(stream, one)
            feed = self._feeds.get(app_id)
            tables = [watched.shape.table.schema for watched in compiled]
            fresh = {table.table_id for table in tables if not table.watched or feed is None or not feed.has(table)}
            if feed is not None and any(feed.is_crowded(watched.shape) for watched in compiled):
                raise TooManyLiveStreamsError(headers={"Retry-After": "10"})
            # What makes a table watched changes its version; what was looked up in it before may have changed unseen.
            if not fresh or (not await self.watch(app_id, fresh) and all(table.watched for table in tables)):
                return compiled
            for table in tables:
                if not table.watched:
                    self.tables.forget(table)
        raise TableBusyError

    async def _compiled_channel(self, stream: LiveStream, one: Listening) -> list[Watched]:
        allowed = await self.channels.rules.allowed(stream.principal, one.name, Action.READ)
        if one.presence is not None and not allowed.declared.presence:
            raise ChannelDeniedError
        one.keep, one.has_events = allowed.declared.keep, allowed.declared.events
        compiled = []
        for table_id, where in lookups(allowed.rule):
            with suppress(TableNotFoundError):
                table = await self.prepared.current(stream.app, table_id)
                compiled.append(compile_facts(table, bound(where, allowed.parts, allowed.declared.table)))
        return compiled

    async def _compiled(self, stream: LiveStream, one: Subscription) -> list[Watched]:
        app, principal = stream.app, stream.principal
        own = None if principal.member is None else principal.member.member_id

        async def compiled(table: PreparedTable) -> list[Watched]:
            visible = await table.visible(principal, Action.LIST if one.row_id is None else Action.READ)
            await self._live.require(principal, app, one.table_id)
            scope = await self._scope(table, visible)
            related = await plan(self.prepared, principal, table, visible, one.shown.steps, None)
            shown = one.shown, own, app.limits, scope, related
            found = [compile_rows(table, visible, one.where, one.row_id, *shown)]
            for table_id, where in lookups(visible.rule):
                with suppress(TableNotFoundError):
                    found.append(compile_facts(await self.prepared.current(app, table_id), where))
            return found

        return await self.prepared.use(app, one.table_id, compiled)

    async def _scope(self, table: PreparedTable, visible: Visibility) -> Scope | None:
        """Return what a part of the rule allows as values of a column: so one statement serves all members."""
        if (scope := listed(visible.rule)) is not None:
            return scope
        asked = scope_question(visible.rule, visible.tables)
        if asked is None:
            return None
        exists, found = asked
        rows = await table.fetch_plain(found.sql, *found.values)
        if found.key is None or len(rows) > MAX_SCOPE or not all(isinstance(row["value"], str) for row in rows):
            return None
        return Scope({"$exists": exists}, found.key, [row["value"] for row in rows])

    async def join(self, stream: LiveStream, after: Cursor | None) -> None:
        """Begin to tell a stream what changes, first what has since its cursor."""
        app_id = stream.app.app_id
        self._count(stream, 1)
        stream.joined = True
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick())
        await self.channels.join(stream, after)
        feed = self._feeds.get(app_id)
        if feed is None:
            feed = self._feeds[app_id] = Feed(self, stream.app)
        await feed.join(stream, after)

    def leave(self, stream: LiveStream) -> None:
        """End a stream."""
        if stream.joined:
            stream.joined = False
            self._count(stream, -1)
            self.channels.leave(stream)
            if (feed := self._feeds.get(stream.app.app_id)) is not None:
                feed.leave(stream)

    def _count(self, stream: LiveStream, change: int) -> None:
        app_id = stream.app.app_id
        counted: list[tuple[Counter[Hashable], Hashable]] = [
            (self._by_app, app_id),  # type: ignore[list-item]
            (self._by_address, (app_id, stream.address)),  # type: ignore[list-item]
        ]
        if stream.member_id is not None:
            counted.append((self._by_member, (app_id, stream.member_id)))  # type: ignore[arg-type]
        for counter, key in counted:
            counter[key] += change
            if not counter[key]:
                del counter[key]

    async def close(self) -> None:
        """End all feeds."""
        tasks = [*self._arming.values(), *(feed.task for feed in self._feeds.values())]
        tasks += [self._ticking] if self._ticking else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._feeds.clear()

    async def _tick(self) -> None:
        """Once a second: heartbeats, streams that read too slowly, leases, and feeds that nobody needs."""
        channels_at = 0.0
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            try:
                self._tick_feeds(now)
            except Exception:
                _log.exception("tick failed")
            if now >= channels_at:
                channels_at = now + _CHANNELS_SECONDS
                self.channels.tick_soon()

    def _tick_feeds(self, now: float) -> None:
        seconds = max(_POLL_SECONDS, len(self._feeds) / _MAX_POLLS)
        for app_id, feed in list(self._feeds.items()):
            for stream in list(feed.streams):
                stream.tick(now)
            feed.poll(now, seconds)
            if feed.is_idle(now):
                feed.task.cancel()
                del self._feeds[app_id]


class Feed:
    """The live streams of one app, and its place in the log."""

    def __init__(self, hub: Hub, app: AppInfo) -> None:
        self._hub = hub
        self._app = app
        self.streams: set[LiveStream] = set()
        self._shapes: dict[Hashable, _Group] = {}
        self._by_table: dict[UUID, set[Hashable]] = {}
        self._changed_tables: set[UUID] = set()
        self._cursor: Cursor | None = None
        self._place = Place()
        self._unknown_until = 0.0
        """What was compiled before this moment may be out of date; so may what is about tables that were edited, or
        looks up rows of tables that were written, since it was compiled."""
        self._edited_at: dict[UUID, float] = {}
        self._written_at: dict[UUID, float] = {}
        self._lock = asyncio.Lock()
        self._joining = 0
        self._awake = asyncio.Event()
        self._read_at = self._left_at = time.monotonic()
        self._renew_at = self._members_at = 0.0
        self.told = 0
        """How many events its streams were sent."""
        self._delays: deque[int] = deque(maxlen=_DELAYS)
        self.task = asyncio.create_task(self._run())

    @property
    def subscriptions(self) -> int:
        """How many subscriptions its streams have."""
        return sum(len(stream.subscriptions) for stream in self.streams)

    def delay_ms(self, share: float) -> int | None:
        """Return the time from a change to its event that this share of the last rounds kept; None without any."""
        delays = sorted(self._delays)
        return delays[round(share * (len(delays) - 1))] if delays else None

    def has(self, table: TableSchema) -> bool:
        """Return whether it keeps a table watched."""
        return table.table_id in self._by_table

    def is_crowded(self, shape: Shape) -> bool:
        """Return whether another shape would be one too many for its table: each costs a statement for each round."""
        shapes = self._by_table.get(shape.table.schema.table_id, ())
        return len(shapes) >= _MAX_SHAPES and shape.identity not in shapes

    def wake(self) -> None:
        """Read the log soon."""
        self._awake.set()

    def table_changed(self, table_id: UUID) -> None:
        """Compile the subscriptions to a table again."""
        self._note(self._edited_at, [table_id])
        if table_id in self._by_table:
            self._changed_tables.add(table_id)
            self._awake.set()

    def _note(self, moments: dict[UUID, float], table_ids: Iterable[UUID]) -> None:
        """Note that something has just happened to tables."""
        now = time.monotonic()
        if len(moments) >= _MAX_NOTED:
            self._unknown_until = now
            moments.clear()
        moments.update(dict.fromkeys(table_ids, now))

    def tables_changed(self) -> None:
        """Compile again what is about tables of which a change may not have been heard."""
        self._unknown_until = time.monotonic()
        self._changed_tables.update(self._by_table)
        self._awake.set()

    def check_streams(self) -> None:
        """Check the credentials of the streams, of many one after the other."""
        loop = asyncio.get_running_loop()
        for number, stream in enumerate(self.streams):
            loop.call_later(number // _CHECKS * _CHECK_SECONDS, stream.check_soon)

    def poll(self, now: float, seconds: float) -> None:
        """Wake the feed if it has not read for so long."""
        if self.streams and now - self._read_at >= seconds:
            self._awake.set()

    def is_idle(self, now: float) -> bool:
        """Return whether nobody has listened for a while."""
        return not (self.streams or self._joining) and now - self._left_at > _IDLE_SECONDS

    async def join(self, stream: LiveStream, after: Cursor | None) -> None:
        """Add a stream between two rounds; see `Hub.join`."""
        self._joining += 1
        try:
            await self._join(stream, after)
        finally:
            self._joining -= 1

    async def _join(self, stream: LiveStream, after: Cursor | None) -> None:
        async with self._lock:
            # Where no table is watched there may be no log.
            if self._cursor is None and (self._by_table or any(one.compiled for one in stream.everything())):
                await self._begin()
            resumed = after is not None and self._cursor is not None and after.epoch == self._cursor.epoch
            stream.place = self._place
            self.streams.add(stream)
            for one in stream.everything():
                self._add(one, one.compiled)
                if self._is_behind(one):
                    self._doubt(one, None)
            stream.begin(after.token if resumed and after is not None else None)
            await self._judge_again()
            if resumed and after is not None:
                await self._catch_up(stream, after)
            elif stream.was_asked_to_resume:
                for subscription in stream.subscriptions.values():
                    stream.reset(subscription, "gap")
            stream.flush()

    def leave(self, stream: LiveStream) -> None:
        """Remove a stream."""
        self.streams.discard(stream)
        self._place.waiting.pop(stream, None)
        for one in stream.everything():
            self._remove(one)
        self._left_at = time.monotonic()

    async def _begin(self) -> None:
        """Begin where the log is now."""
        # Nothing is behind the end of all transactions.
        found = await store.read(self._hub.database, self._app.app_id, f"{2**62 - 1}:{2**62 - 1}:")
        self._unknown_until = time.monotonic()
        self._move(self._cursor_of(found))

    def _cursor_of(self, found: store.Unseen) -> Cursor:
        return cursor_of(found.epoch, found.snapshot, int(time.time() * 1000))

    # Subscriptions

    def _add(self, one: Subscription | Listening, compiled: Sequence[Watched]) -> None:
        for shape, keys in compiled:
            table_id = shape.table.schema.table_id
            group = self._shapes.get(shape.identity)
            if group is None:
                group = self._shapes[shape.identity] = _Group(shape)
                self._by_table.setdefault(table_id, set()).add(shape.identity)
            for key in keys:
                group.add(key, one)
                one.places.append((shape.identity, key))

    def _remove(self, one: Subscription | Listening) -> None:
        for identity, key in one.places:
            group = self._shapes.get(identity)
            if group is not None and group.remove(key, one):
                del self._shapes[identity]
                table_id = group.shape.table.schema.table_id
                self._by_table[table_id].discard(identity)
                if not self._by_table[table_id]:
                    del self._by_table[table_id]
        one.places.clear()

    def _is_behind(self, one: Subscription | Listening) -> bool:
        """Return whether what it was compiled by has changed before the feed's cursor, which tells of it no more."""
        ages = [self._unknown_until]
        for shape, _ in one.compiled:
            table_id = shape.table.schema.table_id
            ages.append(self._edited_at.get(table_id, 0.0))
            if shape.tells_facts:
                ages.append(self._written_at.get(table_id, 0.0))
        return max(ages) >= one.compiled_at

    def _looks_up(self, one: Subscription) -> bool:
        """Return whether rows of other tables decide what it is told."""
        return any(self._shapes[identity].tells_facts for identity, _ in one.places)

    def _doubt(self, one: Subscription | Listening, reason: str | None) -> None:
        """Let something be compiled again, by `_judge_again`, and its client be told of it, unless nothing is new."""
        self._place.doubtful[one] = self._place.doubtful.get(one) or reason

    async def _compile_again(self, one: Subscription, reason: str | None) -> None:
        """Compile a subscription again, and tell of it; one that is not possible any more ends."""
        self._remove(one)
        try:
            compiled = await self._hub.compiled(one.stream, one)
        except TableNotFoundError as error:
            one.stream.end(one, "schema", error.code)
        except PilotisError as error:
            if error.status >= 500:
                raise
            one.stream.end(one, "access" if error.status in {401, 403} else "schema", error.code)
        else:
            if one.stream in self.streams:
                self._add(one, compiled)
            if reason is not None:
                one.stream.reset(one, reason)

    def channels_changed(self) -> None:
        """Judge again who may listen to channels, and to rows."""
        self._unknown_until = time.monotonic()
        for stream in self.streams:
            for one in stream.everything():
                one.facts_changed()
        self._awake.set()

    async def _judge_again(self) -> None:
        """Compile again what may be told of other rows than before, and end what may not listen any more.

        Until that succeeds a subscription is told of nothing; then it is told to read again what the rounds went past.
        """
        for one in list(self._place.doubtful):
            reason = self._place.doubtful.pop(one, None)
            if one.stream not in self.streams or one.is_over:
                continue
            try:
                if isinstance(one, Listening):
                    await self._judge_listening(one)
                else:
                    await self._compile_again(one, reason)
            except (*_OF_ALL, asyncio.CancelledError):
                # The round is repeated; where a stream opens, its client may have gone.
                self._doubt(one, reason)
                raise
            except Exception as error:
                self._doubt(one, reason or "gap")
                if not isinstance(error, PilotisError):
                    _log.exception("subscription failed", app_id=str(self._app.app_id))

    async def _judge_listening(self, one: Listening) -> None:
        self._remove(one)
        try:
            one.compiled = await self._hub.compiled(one.stream, one)
        except PilotisError as error:
            if error.status >= 500:
                raise
            self._hub.channels.stop_listening(one.stream, one)
            one.stream.end_channel(one, ChannelDeniedError.code)
        else:
            self._add(one, one.compiled)

    # Rounds

    async def _run(self) -> None:
        while True:
            await self._awake.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._awake.clear()
            try:
                async with self._lock:
                    await self._round()
            except Exception as error:
                # What was not told stays unseen by the cursor.
                if not isinstance(error, PilotisError | OSError | asyncpg.PostgresError | asyncpg.InterfaceError):
                    _log.exception("round failed", app_id=str(self._app.app_id))
                await asyncio.sleep(_RETRY_SECONDS)
                self._awake.set()

    async def _round(self) -> None:
        self._read_at = now = time.monotonic()
        if not self.streams:
            self._move(None)
            return
        if now >= self._renew_at:
            self._renew_at = now + _RENEW_SECONDS
            await self._hub.watch(self._app.app_id, self._by_table)
        if now >= self._members_at:
            await self._look_at_members(now)
        await self._look_at_tables()
        await self._judge_again()
        if not self._by_table:
            # Where no table is watched there may be no log.
            self._move(None)
            self._flush()
            return
        if self._cursor is None:
            await self._begin()
        assert self._cursor is not None
        found = await store.read(self._hub.database, self._app.app_id, self._cursor.snapshot)
        if found.epoch != self._cursor.epoch:
            await self._reset_all("gap")
        elif found.entries is None:
            await self._reset_all("bulk")
        elif found.entries:
            await self._tell(found.entries, None)
        self._move(self._cursor_of(found))
        self._flush()
        if found.entries:
            self._note_delay(found.entries[-1])

    def _note_delay(self, last: store.Entry) -> None:
        # Clocks may differ.
        delay = max(0, int(time.time() * 1000) - last.moment)
        self._delays.append(delay)
        self._hub.delays.add(delay / 1000)

    def _move(self, cursor: Cursor | None) -> None:
        self._cursor = cursor
        self._place.move("" if cursor is None else cursor.token)

    def _flush(self) -> None:
        waiting = list(self._place.waiting)
        self._place.waiting.clear()
        told = sum(stream.flush() for stream in waiting)
        self.told += told
        self._hub.delivered += told

    async def _catch_up(self, stream: LiveStream, after: Cursor) -> None:
        """Tell a stream what has changed since its cursor; the rounds repeat what has changed since the feed's."""
        found = await store.read(self._hub.database, self._app.app_id, after.snapshot)
        if found.entries is None:
            for one in stream.subscriptions.values():
                stream.reset(one, "gap")
        elif found.entries:
            await self._tell(found.entries, stream)

    async def _reset_all(self, reason: str) -> None:
        """Tell everybody to read again; what rules look up may have changed as well."""
        self._unknown_until = time.monotonic()
        for stream in self.streams:
            for one in stream.everything():
                if isinstance(one, Listening) or self._looks_up(one):
                    self._doubt(one, reason)
                else:
                    stream.reset(one, reason)
        await self._judge_again()

    async def _look_at_tables(self) -> None:
        """Compile again what is about tables that have changed, where that makes a difference."""
        while self._changed_tables:
            table_id = self._changed_tables.pop()
            try:
                now: Hashable = (await self._hub.prepared.current(self._app, table_id)).schema.version
            except TableNotFoundError:
                now = None
            except BaseException:
                self._changed_tables.add(table_id)
                raise
            for identity in self._by_table.get(table_id, ()):
                group = self._shapes[identity]
                if group.shape.table.schema.version != now:
                    for one in group.all():
                        self._doubt(one, "schema")

    async def _look_at_members(self, now: float) -> None:
        """End the streams of sessions that have ended, and compile again for members of whom other facts are known."""
        streams = [stream for stream in self.streams if stream.session_id is not None]
        self._members_at = now + min(max(len(streams) / _SESSIONS_A_SECOND, 1.0), 5.0)
        if not streams:
            return
        ids = {stream.session_id for stream in streams if stream.session_id is not None}
        known = await self._hub.members.alive(self._app.app_id, list(ids))
        for stream in streams:
            member = known.get(stream.session_id) if stream.session_id is not None else None
            if member is None:
                stream.say_bye("session_ended")
            elif stream.learn(member):
                for one in stream.everything():
                    one.facts_changed()

    async def _tell(self, entries: Sequence[store.Entry], only: LiveStream | None) -> None:
        """Put the events of entries of the log into the streams, or into one of them."""
        by_table: dict[UUID, list[store.Entry]] = {}
        for entry in entries:
            by_table.setdefault(UUID(entry.table_id), []).append(entry)
        self._note(self._written_at, by_table)
        # First the tables that rules look up, so that nobody is told of a row whose access has just changed.
        for table_id, of_table in by_table.items():
            for identity in list(self._by_table.get(table_id, ())):
                if (group := self._shapes.get(identity)) is not None and group.tells_facts:
                    await self._judge_alone(group, of_table, only)
        for table_id in by_table:
            self._renew_times(table_id)
        await self._judge_again()
        for table_id, of_table in by_table.items():
            for identity in list(self._by_table.get(table_id, ())):
                if (group := self._shapes.get(identity)) is not None and not group.tells_facts:
                    await self._judge_alone(group, of_table, only)

    async def _judge(self, group: _Group, entries: Sequence[store.Entry], only: LiveStream | None) -> None:
        if any(entry.op == "b" for entry in entries):
            for one in group.all():
                if group.tells_facts:
                    one.facts_changed()
                elif isinstance(one, Subscription) and (only is None or one.stream is only):
                    one.stream.reset(one, "bulk")
            return
        changed: dict[str, _Changed] = {}
        for entry in entries:
            assert entry.row_id is not None
            was = changed.get(entry.row_id)
            first, numbers = (entry, []) if was is None else (was.first, was.numbers)
            # Also of a row that is new: who has read the rows since then knows it.
            if entry.op != "c":
                numbers.append(entry.seq)
            changed[entry.row_id] = _Changed(first, entry, numbers)
        try:
            now, before = await self._judged(group.shape, changed)
        except TOO_OLD:
            # The table, or one whose rows are shown beside, has changed since it was compiled.
            self._hub.prepared.forget(group.shape.table)
            for beside in () if group.shape.related is None else group.shape.related.tables:
                self._hub.tables.forget(beside)
            for one in group.all():
                self._doubt(one, "schema")
            await self._judge_again()
            return
        for row_id, change in changed.items():
            group.tell(row_id, change, now.get(row_id), before.get(row_id, ()), only)

    async def _judge_alone(self, group: _Group, entries: Sequence[store.Entry], only: LiveStream | None) -> None:
        """Judge for the subscriptions of one shape; what fails for these alone costs the others nothing."""
        try:
            await self._judge(group, entries, only)
        except _OF_ALL:
            raise
        except Exception:
            table_id = str(group.shape.table.schema.table_id)
            _log.exception("subscription failed", app_id=str(self._app.app_id), table_id=table_id)
            group.fail(only, "gap")

    def _renew_times(self, table_id: UUID) -> None:
        """Let what compares rows of a table with the time be compiled again."""
        for identity in self._by_table.get(table_id, ()):
            group = self._shapes[identity]
            if group.shape.is_timed:
                for one in group.all():
                    if time.monotonic() - one.compiled_at > 1.0:
                        self._doubt(one, None)

    async def _judged(
        self, shape: Shape, changed: Mapping[str, _Changed]
    ) -> tuple[dict[str, _Judged], dict[str, list[_Judged]]]:
        ids = [row_id for row_id, change in changed.items() if change.last.op != "d"]
        numbers = [number for change in changed.values() for number in change.numbers]
        rows = await shape.table.fetch_plain(shape.sql, ids, numbers, *shape.values)
        now: dict[str, _Judged] = {}
        before: dict[str, list[_Judged]] = {}
        for is_now, row_id, item, key, left_out in rows:
            judged = _Judged(item, None if key is None else tuple(key), left_out)
            if is_now:
                now[row_id] = judged
            else:
                before.setdefault(row_id, []).append(judged)
        return now, before


_NONE: set[Subscription | Listening] = set()


class _Group:
    """The subscriptions of one shape, by their keys."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.tells_facts = shape.tells_facts
        self._by_key: dict[Key, set[Subscription | Listening]] = {}

    def add(self, key: Key, one: Subscription | Listening) -> None:
        """Add a subscription."""
        self._by_key.setdefault(key, set()).add(one)

    def remove(self, key: Key, one: Subscription | Listening) -> bool:
        """Remove a subscription; return whether none is left."""
        found = self._by_key.get(key)
        if found is not None:
            found.discard(one)
            if not found:
                del self._by_key[key]
        return not self._by_key

    def all(self) -> list[Subscription | Listening]:
        """Return all subscriptions."""
        return [one for found in self._by_key.values() for one in found]

    def _with(self, judged: _Judged | None) -> set[Subscription | Listening]:
        return _NONE if judged is None or judged.key is None else self._by_key.get(judged.key, _NONE)

    def fail(self, only: LiveStream | None, reason: str) -> None:
        """Tell the subscriptions that something may have been missed."""
        for one in self.all():
            if self.tells_facts:
                one.facts_changed()
            elif isinstance(one, Subscription) and (only is None or one.stream is only):
                one.stream.reset(one, reason)

    def tell(
        self,
        row_id: str,
        change: _Changed,
        now: _Judged | None,
        before: Sequence[_Judged],
        only: LiveStream | None,
    ) -> None:
        """Put the event of a changed row into the streams of the subscriptions that it is about."""
        is_gone = change.last.op == "d"
        for judged in before:
            if judged.left_out is not None and self.shape.needs(json.decode(judged.left_out.encode())):
                self.fail(only, "overflow")
                return
        first = str(change.first.seq)
        matches = self._with(now)
        had = self._with(next((judged for judged in before if judged.item == first), None))
        matched = had.union(*map(self._with, before))
        if self.tells_facts:
            for fact in matches | matched:
                fact.facts_changed()
            return
        if not matches and not matched:
            return
        row = b"" if now is None or now.item is None else self._row(now.item)
        for one in matches:
            if isinstance(one, Subscription) and (only is None or one.stream is only):
                kind = "update" if one in had else "create" if change.first.op == "c" else "enter"
                one.stream.change(one, kind, row)
        gone = b'{"id":"%b","updated_at":"%b"}' % (row_id.encode(), _moment(change.last.moment))
        for one in matched:
            if one not in matches and isinstance(one, Subscription) and (only is None or one.stream is only):
                one.stream.change(one, "delete" if is_gone else "leave", gone)

    def _row(self, item: str) -> bytes:
        row = self.shape.row(item)
        if len(row) <= MAX_ROW_BYTES:
            return row
        whole = json.decode(row)
        return json.encode({name: whole[name] for name in _OF_LARGE if name in whole}) + b',"truncated":true'


def _moment(milliseconds: int) -> bytes:
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%03dZ" % rest

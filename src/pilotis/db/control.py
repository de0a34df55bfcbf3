"""The control connection: one per node, outside the pool, so that a busy pool never delays it.

It listens for messages of other nodes, publishes wake-ups and runs the node's own short statements. A node that loses
it may miss messages, so it clears its caches periodically until it listens again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg
import structlog
from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.db.topics import CHANNEL, Topic, WakeUpTopic
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import UnavailableError

STATEMENT_SECONDS = 4.0
"""Time limit of a statement on the control connection, including its wait for earlier ones."""
GATHER_SECONDS = 0.02
"""How long wake-ups are collected before one statement publishes them all."""
_MAX_GATHERED = 10_000
# Longer than the interval of an idle process's heartbeats, which serve as probes.
_PROBE_SECONDS = 12.0
_RETRY_SECONDS = 0.5
_log = structlog.get_logger("pilotis.control")

Callback = Callable[[], None]


class Control:
    """A node's control connection, reopened whenever it is lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscribers: defaultdict[str, list[Callable[[str], None]]] = defaultdict(list)
        self._resets: list[Callback] = []
        self._watchers: list[tuple[Callback, Callback]] = []
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._answered = asyncio.Event()
        self._gathered: dict[str, None] = {}
        self._publishing: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._flushes: set[asyncio.Task[None]] = set()

    def subscribe(self, topic: Topic, changed: Callable[[str], None], reset: Callback) -> None:
        """Call `changed(key)` for each message of the topic, and `reset()` if messages may have been lost."""
        self._subscribers[topic].append(changed)
        self._resets.append(reset)

    def watch(self, *, lost: Callback, regained: Callback) -> None:
        """Call `lost()` when contact with the database is lost, and `regained()` on contact, also the first."""
        self._watchers.append((lost, regained))

    @property
    def connected(self) -> bool:
        """Whether the connection is open and has answered within its deadline."""
        return self._connection is not None and not self._connection.is_closed()

    async def start(self) -> None:
        """Open the connection and keep it open; returns once it listens."""
        listening = asyncio.Event()
        self._tasks = [asyncio.create_task(self._keep_open(listening)), asyncio.create_task(self._clear_while_lost())]
        await listening.wait()

    async def stop(self) -> None:
        """Publish the collected messages and close the connection."""
        if self._publishing:
            self._publishing.cancel()
        if self.connected:
            await self._publish()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def run(self, statement: str, *arguments: Any, seconds: float = STATEMENT_SECONDS) -> list[Record]:
        """Run one statement, after those before it, and return its rows. Its commit does not wait for the disk.

        Raises `UnavailableError` without contact or after `seconds`; the connection is then closed.
        """
        connection: Connection | None = None
        took_effect()
        try:
            async with asyncio.timeout(seconds), self._lock:
                connection = self._connection
                if connection is None:
                    raise UnavailableError("The database is not reachable. Try again shortly.")
                rows = await connection.fetch(statement, *arguments)
        except (TimeoutError, OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError) as error:
            if connection:
                connection.terminate()
            raise UnavailableError("The database is not reachable. Try again shortly.") from error
        self._answered.set()
        return rows

    def publish_soon(self, topic: WakeUpTopic, key: str, *, at_once: bool = False) -> None:
        """Notify every node, including this one, shortly; equal messages are sent once.

        Without contact the message is lost: every receiver also polls periodically.
        """
        if len(self._gathered) < _MAX_GATHERED:
            self._gathered[f"{topic}:{key}"] = None
        if at_once and self._publishing:
            self._publishing.cancel()
            self._publishing = None
        if self._publishing is None:
            loop = asyncio.get_running_loop()
            self._publishing = loop.call_later(0 if at_once else GATHER_SECONDS, self._start_publishing)

    def _start_publishing(self) -> None:
        self._publishing = None
        task = asyncio.create_task(self._publish())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _publish(self) -> None:
        messages, self._gathered = list(self._gathered), {}
        if messages:
            with suppress(UnavailableError):
                await self.run("select pg_notify($1, message) from unnest($2::text[]) message", CHANNEL, messages)

    async def _keep_open(self, listening: asyncio.Event) -> None:
        while True:
            # Reconnect after any error.
            with suppress(Exception):
                await self._serve(listening)
            if self._connection:
                self._connection = None
                _log.warning("control connection lost")
                self._reset()
                for lost, _ in self._watchers:
                    lost()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _serve(self, listening: asyncio.Event) -> None:
        connection = await self._database.dedicated(name="control", statement_seconds=STATEMENT_SECONDS)
        try:
            closed = asyncio.Event()
            connection.add_termination_listener(lambda _: closed.set())
            await connection.execute("set synchronous_commit = off")
            await connection.add_listener(CHANNEL, self._received)
            self._connection = connection
            self._reset()
            for _, regained in self._watchers:
                regained()
            listening.set()
            await self._probe_until(closed)
        finally:
            connection.terminate()

    async def _probe_until(self, closed: asyncio.Event) -> None:
        """Send a probe after some time without another statement.

        A connection whose peer is gone stays silent; a probe on it fails.
        """
        while not closed.is_set():
            self._answered.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(closed.wait(), _PROBE_SECONDS)
            if not self._answered.is_set():
                await self.run("select 1")

    async def _clear_while_lost(self) -> None:
        """Clear caches periodically while this node cannot be notified of changes."""
        while True:
            if self._connection is None:
                self._reset()
            await asyncio.sleep(_RETRY_SECONDS)

    def _received(self, _connection: Any, _pid: int, _channel: str, message: object) -> None:
        topic, _, key = str(message).partition(":")
        for changed in self._subscribers[topic]:
            changed(key)

    def _reset(self) -> None:
        for reset in self._resets:
            reset()

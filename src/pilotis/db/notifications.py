"""Telling every node that something cached has changed, over PostgreSQL's NOTIFY.

A message is `topic:key`. A node that loses its listening connection cannot know what it missed, so it forgets all it
has cached before it listens again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asyncpg import Connection

from pilotis.db.pool import Database

_CHANNEL = "pilotis"
_RETRY_SECONDS = 0.5
_PROBE_SECONDS = 5.0
_ANSWER_SECONDS = 5.0


async def notify(connection: Connection, topic: str, key: object) -> None:
    """Send `topic:key` to every node when the connection's transaction commits."""
    await connection.execute("select pg_notify($1, $2)", _CHANNEL, f"{topic}:{key}")


class Notifications:
    """Listens on one connection and calls what subscribed to a topic."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscribers: defaultdict[str, list[Callable[[str], None]]] = defaultdict(list)
        self._resets: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, topic: str, changed: Callable[[str], None], reset: Callable[[], None]) -> None:
        """Call `changed(key)` for each message of the topic, and `reset()` when messages may have been lost."""
        self._subscribers[topic].append(changed)
        self._resets.append(reset)

    async def start(self) -> None:
        """Listen; returns once the first connection does."""
        listening = asyncio.Event()
        self._task = asyncio.create_task(self._run(listening))
        await listening.wait()

    async def stop(self) -> None:
        """Stop listening."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, listening: asyncio.Event) -> None:
        while True:
            async with asyncio.TaskGroup() as tasks:
                deaf = tasks.create_task(self._forget_again_and_again())
                # Whatever ended the connection, the answer is to connect again.
                with suppress(Exception):
                    connection = await self._database.open_connection(statement_seconds=0)
                    await self._listen(connection, listening, deaf)
                deaf.cancel()
            self._reset()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _forget_again_and_again(self) -> None:
        """Keep what others change from being remembered for long while nobody tells of it."""
        while True:
            self._reset()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self, connection: Connection, listening: asyncio.Event, deaf: asyncio.Task[None]) -> None:
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _: closed.set())
        try:
            await connection.add_listener(_CHANNEL, self._received)
            deaf.cancel()
            self._reset()
            listening.set()
            while not closed.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(closed.wait(), _PROBE_SECONDS)
                # A connection whose other end is gone stays silent for ever; a question does not.
                await connection.fetchval("select 1", timeout=_ANSWER_SECONDS)
        finally:
            connection.terminate()

    def _received(self, _connection: Any, _pid: int, _channel: str, message: object) -> None:
        topic, _, key = str(message).partition(":")
        for changed in self._subscribers[topic]:
            changed(key)

    def _reset(self) -> None:
        for reset in self._resets:
            reset()

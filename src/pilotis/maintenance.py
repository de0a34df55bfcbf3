"""Tidying up by itself: each task runs every so often, on one node at a time.

A task runs on a connection of its own that holds an advisory lock of PostgreSQL; if the node dies, the connection and
with it the lock are gone. A node that finds a task running elsewhere leaves it at that. A task that fails is logged
and tried again at its next turn.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog
from asyncpg import Connection

from pilotis.db.pool import Database

_STATEMENT_SECONDS = 600
_FIRST_SECONDS = 60.0
_log = structlog.get_logger("pilotis.maintenance")


class Task(NamedTuple):
    """Something to do every `seconds`, give or take a fifth, on the connection that holds the task's lock."""

    name: str
    seconds: float
    run: Callable[[Connection], Awaitable[object]]


class Maintenance:
    """Runs tasks until it is stopped."""

    def __init__(self, database: Database, tasks: Sequence[Task]) -> None:
        self._database = database
        self.tasks = {task.name: task for task in tasks}
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Run every task at its times from now on, for the first time within a minute or its interval."""
        self._loops = [asyncio.create_task(self._repeat(task)) for task in self.tasks.values()]

    async def stop(self) -> None:
        """End all of it, a task in the middle included: its transaction rolls back."""
        for loop in self._loops:
            loop.cancel()
        for loop in self._loops:
            with suppress(asyncio.CancelledError):
                await loop

    async def run(self, name: str) -> bool:
        """Run a task now; False if it is running already, here or on another node."""
        connection = await self._database.open_connection(statement_seconds=_STATEMENT_SECONDS)
        try:
            lock = f"pilotis.maintenance.{name}"
            if not await connection.fetchval("select pg_try_advisory_lock(hashtextextended($1, 0))", lock):
                return False
            await self.tasks[name].run(connection)
            await connection.execute("select pg_advisory_unlock_all()")
            return True
        finally:
            # A task that was cancelled in the middle of a statement leaves nothing that could be closed politely.
            connection.terminate()

    async def _repeat(self, task: Task) -> None:
        await asyncio.sleep(random.uniform(0, min(task.seconds, _FIRST_SECONDS)))  # noqa: S311 - only spreads the load
        while True:
            try:
                await self.run(task.name)
            except Exception as error:
                _log.exception("maintenance failed", task=task.name, error=type(error).__name__)
            await asyncio.sleep(task.seconds * random.uniform(0.8, 1.2))  # noqa: S311

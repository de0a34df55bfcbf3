"""Keeps PostgreSQL's statistics current for tables that were recently filled.

PostgreSQL plans with its latest statistics, which autovacuum updates a minute or more after a load. Until then it would
plan for the empty table of before, and statements prepared on the empty table would keep their plans. So each node
counts the rows that it writes, and analyzes a table once it has grown considerably.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

import asyncpg
from asyncpg import Connection

from pilotis.db.pool import Database

MIN_ROWS = 1000
"""The number of written rows below which a table is not analyzed."""
_GROWTH = 0.5
_STATEMENT_SECONDS = 60
_MAX_TABLES = 10_000
Table = TypeVar("Table")


class _Count:
    __slots__ = ("due_at", "written")

    def __init__(self) -> None:
        self.written = 0
        self.due_at: float = MIN_ROWS


class Statistics(ABC, Generic[Table]):
    """Counts the rows that one node writes, and runs ANALYZE in the background, one table at a time."""

    connection_name = "statistics"
    """The name of the connection for `Database.dedicated`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: dict[Hashable, _Count] = {}
        self._due: dict[Hashable, Table] = {}
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def analyze(self, connection: Connection, table: Table) -> int:
        """Analyze a table, and return its row count."""

    def count(self, key: Hashable, table: Table, rows: int) -> None:
        """Count committed rows of a table, which has a key."""
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= _MAX_TABLES:
                self._counts.clear()
            count = self._counts[key] = _Count()
        count.written += rows
        if count.written >= count.due_at:
            self._due[key] = table
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run())

    async def wait_until_analyzed(self) -> None:
        """Wait until every table that is due has been analyzed."""
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Cancel a running analysis and start no other."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while self._due:
            key, table = self._due.popitem()
            count = self._counts.setdefault(key, _Count())
            count.written, count.due_at = 0, math.inf
            try:
                rows = await self._analyze(table)
            except (asyncpg.PostgresError, OSError):
                # A schema change cancelled it, or the table or the database is gone; later writes trigger it again.
                count.due_at = MIN_ROWS
            else:
                count.due_at = max(MIN_ROWS, rows * _GROWTH)

    async def _analyze(self, table: Table) -> int:
        connection = await self._database.dedicated(name=self.connection_name, statement_seconds=_STATEMENT_SECONDS)
        try:
            # The cost delays are those of autovacuum.
            await connection.execute("set vacuum_cost_delay = '2ms'")
            return await self.analyze(connection, table)
        finally:
            connection.terminate()

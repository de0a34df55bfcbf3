"""Connections to PostgreSQL, simply checked out and put back.

No reset query runs when a connection comes back, which is half of what asyncpg's own pool costs: nothing here ever
sets session state. What every connection needs is given once, when it is opened.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import asyncpg
from asyncpg import Connection, Record

from pilotis.db.shares import Share
from pilotis.kit.errors import PilotisError, QueryTimeoutError, UnavailableError

ACQUIRE_SECONDS = 5.0
_CONNECT_SECONDS = 10.0
_STATEMENTS_KEPT = 256

_GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.TooManyConnectionsError,
    # What asyncpg raises where the server's farewell arrives just as a statement is sent.
    asyncpg.InternalClientError,
    ConnectionError,
    OSError,
)


class PoolState(NamedTuple):
    """A pool at a moment: connections that are open, those of them that nobody uses, and who waits for one."""

    open: int
    idle: int
    waiting: int


class Database:
    """A pool of connections to one PostgreSQL database.

    `connect_arguments` go to `asyncpg.connect`; `statement_seconds` bounds each statement on the server's side.
    """

    def __init__(self, connect_arguments: dict[str, Any], *, size: int = 10, statement_seconds: float = 5.0) -> None:
        self._arguments = connect_arguments
        self._size = size
        self._statement_seconds = statement_seconds
        self._opened = 0
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._shares: WeakValueDictionary[object, Share] = WeakValueDictionary()

    def share(self, tenant: object) -> Share:
        """Return the tenant's share of the pool: half of its connections. It is kept while somebody refers to it."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = Share(max(1, self._size // 2), ACQUIRE_SECONDS)
        return share

    async def open_connection(self, *, statement_seconds: float | None = None) -> Connection:
        """Open a connection outside the pool, for a listener or a long job. The caller closes it."""
        seconds = self._statement_seconds if statement_seconds is None else statement_seconds
        return await asyncpg.connect(
            **self._arguments,
            timeout=_CONNECT_SECONDS,
            statement_cache_size=_STATEMENTS_KEPT,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=64 * 1024,
            server_settings={
                "application_name": "pilotis",
                "statement_timeout": str(int(seconds * 1000)),
                # Shorter, so that waiting for a table is told apart from a slow query.
                "lock_timeout": str(int(seconds * 800)),
                "timezone": "UTC",
                "jit": "off",
                "default_transaction_isolation": "read committed",
                "idle_in_transaction_session_timeout": "60000",
                # How alike words must be to pass for a typing error: less than pg_trgm's own 0.6, which misses most.
                "pg_trgm.word_similarity_threshold": "0.4",
            },
        )

    def connection(self) -> Loan:
        """Lend a connection: `async with database.connection() as connection`.

        Raises `UnavailableError` when none comes free in 5 s, `QueryTimeoutError` for a statement that is too slow.
        """
        return Loan(self)

    @asynccontextmanager
    async def transaction(self, *, isolation: Any = None) -> AsyncGenerator[Connection]:
        """Lend a connection inside a transaction: committed at the end, rolled back on an exception."""
        async with self.connection() as connection, connection.transaction(isolation=isolation):
            yield connection

    def state(self) -> PoolState:
        """Return the pool's present state, for metrics."""
        return PoolState(self._opened, len(self._idle), sum(not turn.done() for turn in self._waiting))

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        """Run one statement and return its rows."""
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        """Run one statement and return its first row, or None."""
        async with self.connection() as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """Run one statement and return the first column of its first row, or None."""
        async with self.connection() as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> str:
        """Run one statement and return PostgreSQL's command tag, such as `UPDATE 1`."""
        async with self.connection() as connection:
            return await connection.execute(query, *arguments)

    async def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of arguments, all in one transaction."""
        async with self.connection() as connection:
            await connection.executemany(query, rows)

    async def close(self) -> None:
        """Close every idle connection; lent ones close when they come back."""
        self._size = 0
        idle, self._idle = self._idle, []
        for connection in idle:
            self._opened -= 1
            await connection.close(timeout=5)

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._opened -= 1
        if self._opened < self._size:
            self._opened += 1
            return await self._open()
        given = await self._wait()
        return await self._open() if given is None else given

    async def _open(self) -> Connection:
        """Open one of the connections that `_opened` counts already."""
        try:
            return await self.open_connection()
        except BaseException as error:
            self._pass_on(None)
            if isinstance(error, (*_GONE, asyncpg.PostgresError)):
                raise UnavailableError("The database is not reachable. Try again shortly.") from error
            raise

    async def _wait(self) -> Connection | None:
        """Return a connection that came back, or None for leave to open one in place of one that was lost."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting.append(turn)
        end = loop.call_later(ACQUIRE_SECONDS, _too_late, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on(turn.result())
            raise
        finally:
            end.cancel()

    def _give(self, connection: Connection) -> None:
        # Only a cancelled request leaves a transaction open; rolling back needs a round trip nobody waits for.
        if connection.is_closed() or not self._size or connection.is_in_transaction():
            connection.terminate()
            self._pass_on(None)
        else:
            self._pass_on(connection)

    def _pass_on(self, connection: Connection | None) -> None:
        """Give a connection, or the leave to open one, to who waits longest: nobody who comes later can take it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._opened -= 1
        else:
            self._idle.append(connection)


def _too_late(turn: asyncio.Future[Connection | None]) -> None:
    if not turn.done():
        turn.set_exception(UnavailableError("The database is busy. Try again shortly."))


class Loan:
    """A connection for the length of a block. A generator in its place would cost a tenth of a short statement."""

    __slots__ = ("_connection", "_database")

    _connection: Connection

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> Connection:
        self._connection = await self._database._take()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncpg.InternalClientError):
            self._connection.terminate()
        self._database._give(self._connection)
        if error is not None and (told := _told(error)):
            raise told from error


def _told(error: BaseException) -> PilotisError | None:
    """Return the error a caller can be told about; None where it is the service's to judge, or a fault of ours."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return QueryTimeoutError()
    if isinstance(error, asyncpg.LockNotAvailableError):
        return UnavailableError("The table is busy. Try again shortly.")
    if isinstance(error, _GONE):
        return UnavailableError("The database is not reachable. Try again shortly.")
    return None

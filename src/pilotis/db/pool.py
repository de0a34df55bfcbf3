"""The connection pool: fair to tenants, safe under cancellation, bounded in time.

No reset query runs when a connection is returned, which halves the cost of asyncpg's own pool: no code here sets
session state. The parameters of a connection are set once, when it is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import asyncpg
from asyncpg import Connection, Record

from pilotis.db.blocks import Acquire, Isolation, Statement, Transaction, unreachable
from pilotis.db.connecting import client_seconds, connect, forget_transaction, set_client_seconds
from pilotis.db.deadlines import Deadlines
from pilotis.db.waiters import Tenant, Waiters
from pilotis.kit.errors import UnavailableError
from pilotis.kit.granting import granted

ACQUIRE_SECONDS = 5.0
MAX_WAITERS = 1_000
_SETTLE_SECONDS = 2.0
# The maximum length of the white space before a statement's first word, and of that word.
_INDENT = 100
# Holds the idle connections that are being examined.
_EXAMINER = "pool"


class PoolState(NamedTuple):
    """The state of a pool: open connections, the idle ones among them, and waiting callers."""

    open: int
    idle: int
    waiting: int


class Database:
    """A pool of connections to one PostgreSQL database.

    `connect_arguments` go to `asyncpg.connect`; `statement_seconds` bounds each statement (see
    `pilotis.db.connecting.connect`); at most `max_waiters` callers of one tenant wait for a connection.
    `connect_arguments` may lead to a pooler in transaction mode (`is_pooled`); then `direct_arguments` lead to
    PostgreSQL itself.
    """

    def __init__(
        self,
        connect_arguments: dict[str, Any],
        *,
        size: int = 10,
        statement_seconds: float = 5.0,
        max_waiters: int = MAX_WAITERS,
        direct_arguments: dict[str, Any] | None = None,
        is_pooled: bool = False,
    ) -> None:
        self._arguments = connect_arguments
        self._direct_arguments = direct_arguments or connect_arguments
        self._is_pooled = is_pooled
        self.is_sharded = False
        """Whether Citus spreads apps over several nodes; set when the process starts."""
        self._size = size
        self._statement_seconds = statement_seconds
        # Connections that are being opened or settled count as well.
        self._opened = 0
        self._idle: list[Connection] = []
        # A caller is granted an idle connection, or None: permission to open one.
        self._waiters: Waiters[Connection | None] = Waiters(size, max_waiters)
        self._settling: set[asyncio.Task[None]] = set()
        self._client_seconds = client_seconds(statement_seconds)
        self._deadlines = Deadlines(self._client_seconds, self._examine_idle)

    def connection(
        self, tenant: Tenant | None = None, *, wait: float = ACQUIRE_SECONDS, read_only: bool = False
    ) -> Acquire:
        """Acquire a connection for a block: `async with database.connection(app_id) as connection`.

        Raises `UnavailableError` when none is free within `wait` seconds, `QueryTimeoutError` for a statement that is
        too slow, and `OutcomeUnknownError` when the connection is lost while in use; for a `read_only` block, which
        changes nothing, `UnavailableError` instead.
        """
        return Acquire(self, tenant, wait, read_only=read_only)

    def statement(self, tenant: Tenant | None = None, *, read_only: bool = False) -> Statement:
        """Acquire a connection for one statement, at a lower cost than `connection`; raises the same errors."""
        return Statement(self, tenant, ACQUIRE_SECONDS, read_only=read_only)

    def transaction(
        self,
        tenant: Tenant | None = None,
        *,
        isolation: Isolation | None = None,
        statement_seconds: float | None = None,
        wait: float = ACQUIRE_SECONDS,
    ) -> Transaction:
        """Acquire a connection inside a transaction: committed at the end of the block, rolled back on an exception.

        `statement_seconds` replaces the pool's time limit within the block. Raises the same errors as `connection`, but
        `UnavailableError` if the connection is lost before the commit, because then nothing was changed.
        """
        return Transaction(self, tenant, wait, isolation, statement_seconds)

    async def dedicated(self, *, name: str, statement_seconds: float) -> Connection:
        """Open a connection outside the pool, named `pilotis {name}`, for a long job. The caller closes it.

        It leads to PostgreSQL itself, bypassing a pooler.
        """
        return await connect(self._direct_arguments, name=f"pilotis {name}", statement_seconds=statement_seconds)

    def of(self, tenant: Tenant) -> TenantDatabase:
        """Return an object that runs single statements for a tenant, to pass in place of a connection."""
        return TenantDatabase(self, tenant)

    def state(self) -> PoolState:
        """Return the pool's current state, for metrics."""
        return PoolState(self._opened, len(self._idle), self._waiters.waiting())

    async def fetch(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> list[Record]:
        """Run one statement and return its rows."""
        async with Statement(self, tenant, ACQUIRE_SECONDS, read_only=_only_reads(query)) as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> Record | None:
        """Run one statement and return its first row, or None."""
        async with Statement(self, tenant, ACQUIRE_SECONDS, read_only=_only_reads(query)) as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> Any:
        """Run one statement and return the first column of its first row, or None."""
        async with Statement(self, tenant, ACQUIRE_SECONDS, read_only=_only_reads(query)) as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> str:
        """Run one statement and return PostgreSQL's command tag, such as `UPDATE 1`."""
        async with Statement(self, tenant, ACQUIRE_SECONDS) as connection:
            return await connection.execute(query, *arguments)

    async def executemany(self, query: str, rows: Sequence[Sequence[Any]], *, tenant: Tenant | None = None) -> None:
        """Run one statement for each row of arguments, all in one transaction."""
        async with Acquire(self, tenant, ACQUIRE_SECONDS) as connection:
            await connection.executemany(query, rows)

    async def close(self) -> None:
        """Close every idle connection, and fail waiting callers; connections in use are closed on release."""
        self._size = 0
        self._waiters.fail_all(UnavailableError())
        self._deadlines.stop()
        if self._settling:
            await asyncio.wait(self._settling)
        idle, self._idle = self._idle, []
        for connection in idle:
            self._opened -= 1
            with suppress(TimeoutError, OSError, asyncpg.InterfaceError):
                await connection.close(timeout=5)

    def _acquire_idle(self, tenant: Tenant | None) -> Connection | None:
        """Return an idle connection if the tenant may have one at once, else None; see `_acquire`.

        A separate function, because a coroutine would add a fifth to the cost of acquiring and releasing.
        """
        idle = self._idle
        if not idle or idle[-1].is_closed():
            return None
        return idle.pop() if self._waiters.try_acquire(tenant, self._size - self._opened + len(idle)) else None

    async def _acquire(self, tenant: Tenant | None, wait: float) -> Connection:
        if not self._waiters.try_acquire(tenant, self._free()):
            return await self._wait(tenant, wait)
        connection = self._pop_idle()
        return await self._open(tenant, wait) if connection is None else connection

    def _free(self) -> int:
        return self._size - self._opened + len(self._idle)

    def _pop_idle(self) -> Connection | None:
        """Return an idle connection, or None as permission to open one, which `_opened` then counts."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._opened -= 1
        self._opened += 1
        return None

    async def _open(self, tenant: Tenant | None, seconds: float) -> Connection:
        """Open a connection that `_opened` and the tenant's count already include."""
        try:
            connection = await connect(
                self._arguments,
                statement_seconds=self._statement_seconds,
                seconds=seconds,
                is_pooled=self._is_pooled,
            )
        except BaseException as error:
            self._return(tenant, None)
            if isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)):
                raise unreachable() from error
            raise
        set_client_seconds(connection, None)
        return connection

    async def _wait(self, tenant: Tenant | None, seconds: float) -> Connection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        caller: asyncio.Future[Connection | None] = loop.create_future()
        self._waiters.add(tenant, caller)
        self._serve_waiters()
        connection = await granted(caller, deadline, _busy, partial(self._return, tenant))
        if connection is None:
            return await self._open(tenant, max(deadline - loop.time(), 0.001))
        return connection

    def _serve_waiters(self) -> None:
        while self._waiters.queues and (served := self._waiters.next(self._free())):
            tenant, caller = served
            self._waiters.acquired(tenant)
            caller.set_result(self._pop_idle())

    def _return(self, tenant: Tenant | None, connection: Connection | None) -> None:
        """Return a clean connection, or None for a closed one, and serve the next waiter."""
        if connection is None:
            self._opened -= 1
        else:
            self._idle.append(connection)
        self._waiters.released(tenant)
        if self._waiters.queues:
            self._serve_waiters()

    def _release(self, tenant: Tenant | None, connection: Connection, *, clean: bool) -> None:
        """Return a connection. One that may not be clean is settled first, in the background."""
        if connection.is_closed() or not self._size:
            connection.terminate()
            self._return(tenant, None)
        elif clean and not connection.is_in_transaction():
            self._return(tenant, connection)
        else:
            task = asyncio.create_task(self._settle(tenant, connection))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self, tenant: Tenant | None, connection: Connection) -> None:
        """Ensure that a connection is outside any transaction, or close it.

        Its last statement may still be in progress, so `is_in_transaction` is unreliable before a round trip. asyncpg
        first waits for the statement that it cancelled.
        """
        try:
            async with asyncio.timeout(_SETTLE_SECONDS):
                with suppress(asyncpg.InFailedSQLTransactionError):
                    await connection.execute("select 1")
                if connection.is_in_transaction():
                    await connection.execute("rollback")
            forget_transaction(connection)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                self._return(tenant, None)
                raise
        self._release(tenant, connection, clean=True)

    def _examine_idle(self) -> None:
        """Settle every idle connection: if the network to PostgreSQL is down, all of them are dead."""
        idle, self._idle = self._idle, []
        for connection in idle:
            self._waiters.acquired(_EXAMINER)
            self._release(_EXAMINER, connection, clean=False)


def _only_reads(query: str) -> bool:
    """Whether a statement changes nothing: outside transactions no `select` of ours calls a function that writes."""
    # Only the beginning of a long statement is copied.
    return query[:_INDENT].lstrip()[:6].lower() == "select"


def _busy() -> UnavailableError:
    return UnavailableError("The database is busy. Try again shortly.")


class TenantDatabase(NamedTuple):
    """Runs single statements for one tenant, with a connection's methods."""

    database: Database
    tenant: Tenant

    async def fetch(self, query: str, *arguments: Any) -> list[Record]:
        """Run one statement and return its rows."""
        return await self.database.fetch(query, *arguments, tenant=self.tenant)

    async def fetchrow(self, query: str, *arguments: Any) -> Record | None:
        """Run one statement and return its first row, or None."""
        return await self.database.fetchrow(query, *arguments, tenant=self.tenant)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """Run one statement and return the first column of its first row, or None."""
        return await self.database.fetchval(query, *arguments, tenant=self.tenant)

    async def execute(self, query: str, *arguments: Any) -> str:
        """Run one statement and return PostgreSQL's command tag, such as `UPDATE 1`."""
        return await self.database.execute(query, *arguments, tenant=self.tenant)

"""The connections of a pool: fair to tenants, safe under cancellation, bounded in time.

No reset query runs when a connection is returned, which halves the cost of asyncpg's own pool: no code here sets
session state. The parameters of a connection are set once, when it is opened.
"""

from __future__ import annotations

import asyncio
import random
import weakref
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import asyncpg

from pilotis.db.connecting import client_seconds, connect, forget_transaction, set_client_seconds, statement_count
from pilotis.db.deadlines import Deadlines
from pilotis.db.observing import ObservedConnection, Statements
from pilotis.db.waiters import CONSOLE, OVERLOADED_SECONDS, Tenant, Waiters, busy
from pilotis.kit.errors import UnavailableError
from pilotis.kit.granting import granted
from pilotis.kit.metrics import Counter

_SETTLE_SECONDS = 2.0
# Each connection has a process of PostgreSQL with 5 to 20 MB of its own.
_UNUSED_SECONDS = 60.0
# A process of PostgreSQL remembers each table that it has seen, and its statements are remembered on both sides: with
# many apps that grows for as long as a connection lives. They end at different times, so as not to be opened together.
_LIFE_SECONDS = (1500.0, 2100.0)
# Background work runs some statements at the same time once in a while: it can open a connection for them. What runs
# fewer than one a second can too.
_FEW_STATEMENTS = 60
# Holds the idle connections that are being examined.
_EXAMINER = "pool"


class PoolState(NamedTuple):
    """The state of a pool: open connections, the idle ones among them, and waiting callers."""

    open: int
    idle: int
    waiting: int


class Connections:
    """At most `size` connections, each used by one caller at a time, fairly to tenants.

    `arguments` go to `asyncpg.connect`, and lead to a pooler in transaction mode if `is_pooled`; `statement_seconds`
    bounds each statement (see `pilotis.db.connecting.connect`); at most `max_waiters` callers of one tenant wait for a
    connection. `observer` counts the statements.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        *,
        size: int,
        statement_seconds: float,
        max_waiters: int,
        is_pooled: bool,
        observer: Statements,
    ) -> None:
        self.arguments = arguments
        self.statement_seconds = statement_seconds
        self._is_pooled = is_pooled
        self._observer = observer
        self.waits = Counter("pilotis_database_pool_waits", "Waits for a database connection.", ("tenant",))
        self.wait_seconds = Counter("pilotis_database_pool_wait_seconds", "Duration of these waits.", ("tenant",))
        self._size = size
        # Connections that are being opened or settled count as well.
        self._opened = 0
        self._idle: list[ObservedConnection] = []
        # A caller is granted an idle connection, or None: permission to open one.
        self._waiters: Waiters[ObservedConnection | None] = Waiters(size, max_waiters)
        self._settling: set[asyncio.Task[None]] = set()
        self._used: dict[ObservedConnection, int] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self.deadlines = Deadlines(client_seconds(statement_seconds), self.examine_idle)

    def state(self) -> PoolState:
        """Return the current state, for metrics."""
        return PoolState(self._opened, len(self._idle), self._waiters.waiting())

    async def close(self) -> None:
        """Close every idle connection, and fail waiting callers; connections in use are closed on release."""
        self._size = 0
        self._waiters.fail_all(UnavailableError())
        self.deadlines.stop()
        if self._sweeping:
            self._sweeping.cancel()
        if self._settling:
            await asyncio.wait(self._settling)
        idle, self._idle = self._idle, []
        for connection in idle:
            self._opened -= 1
            with suppress(TimeoutError, OSError, asyncpg.InterfaceError):
                await connection.close(timeout=5)

    def acquire_idle(self, tenant: Tenant | None) -> ObservedConnection | None:
        """Return an idle connection if the tenant may have one at once, else None; see `acquire`.

        A separate function, because a coroutine would add a fifth to the cost of acquiring and releasing.
        """
        idle = self._idle
        if not idle or idle[-1].is_closed():
            return None
        return idle.pop() if self._waiters.try_acquire(tenant, self._size - self._opened + len(idle)) else None

    async def acquire(self, tenant: Tenant | None, wait: float) -> ObservedConnection:
        """Return an idle or a new connection; raises `UnavailableError` if there is none within `wait` seconds."""
        if not self._waiters.try_acquire(tenant, self._free()):
            return await self._wait(tenant, wait)
        connection = self._pop_idle()
        return await self._open(tenant, wait) if connection is None else connection

    def _free(self) -> int:
        return self._size - self._opened + len(self._idle)

    def _pop_idle(self) -> ObservedConnection | None:
        """Return an idle connection, or None as permission to open one, which `_opened` then counts."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._opened -= 1
        self._opened += 1
        return None

    async def _open(self, tenant: Tenant | None, seconds: float) -> ObservedConnection:
        """Open a connection that `_opened` and the tenant's count already include."""
        try:
            connection = await connect(
                self.arguments,
                statement_seconds=self.statement_seconds,
                seconds=seconds,
                is_pooled=self._is_pooled,
                observer=self._observer,
            )
        except BaseException as error:
            self._return(tenant, None)
            if isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)):
                raise unreachable() from error
            raise
        set_client_seconds(connection, None)
        loop = asyncio.get_running_loop()
        loop.call_later(random.uniform(*_LIFE_SECONDS), self._end, weakref.ref(connection))  # noqa: S311
        if self._sweeping is None:
            self._sweeping = loop.call_later(_UNUSED_SECONDS, self._close_unused)
        return connection

    def _end(self, reference: weakref.ref[ObservedConnection]) -> None:
        """Close a connection at the end of its life: if it is in use, once it is returned."""
        connection = reference()
        if connection is not None:
            connection.is_old = True
            if connection in self._idle:
                self._idle.remove(connection)
                self._opened -= 1
                connection.terminate()

    def _close_unused(self) -> None:
        """Close the idle connections that have run only a few statements since the last time, all but one."""
        used = {connection: statement_count(connection) for connection in self._idle}
        unused = [
            connection
            for connection, count in used.items()
            if count - self._used.get(connection, -_FEW_STATEMENTS) < _FEW_STATEMENTS
        ]
        for connection in unused[: len(self._idle) - 1]:
            self._idle.remove(connection)
            self._opened -= 1
            connection.terminate()
        self._used = used
        more = self._opened > 1 and self._size
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(_UNUSED_SECONDS, self._close_unused) if more else None

    async def _wait(self, tenant: Tenant | None, seconds: float) -> ObservedConnection:
        loop = asyncio.get_running_loop()
        now = loop.time()
        caller: asyncio.Future[ObservedConnection | None] = loop.create_future()
        if self._waiters.add(tenant, caller, now):
            seconds = min(seconds, OVERLOADED_SECONDS)
        deadline = now + seconds
        self._serve_waiters()
        try:
            connection = await granted(caller, deadline, busy, partial(self._return, tenant))
        finally:
            kind = _kind_of(tenant)
            self.waits.add(kind)
            self.wait_seconds.add(kind, number=loop.time() - now)
        if connection is None:
            return await self._open(tenant, max(deadline - loop.time(), 0.001))
        return connection

    def _serve_waiters(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiters.queues and (served := self._waiters.next(self._free(), now)):
            tenant, caller = served
            self._waiters.acquired(tenant)
            caller.set_result(self._pop_idle())

    def _return(self, tenant: Tenant | None, connection: ObservedConnection | None) -> None:
        """Return a clean connection, or None for a closed one, and serve the next waiter."""
        if connection is None:
            self._opened -= 1
        else:
            self._idle.append(connection)
        self._waiters.released(tenant)
        if self._waiters.queues:
            self._serve_waiters()

    def release(self, tenant: Tenant | None, connection: ObservedConnection, *, clean: bool) -> None:
        """Return a connection. One that may not be clean is settled first, in the background."""
        if connection.is_closed() or not self._size:
            connection.terminate()
            self._return(tenant, None)
        elif clean and not connection.is_in_transaction():
            if connection.is_old:
                connection.terminate()
                self._return(tenant, None)
            else:
                self._return(tenant, connection)
        else:
            task = asyncio.create_task(self._settle(tenant, connection))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self, tenant: Tenant | None, connection: ObservedConnection) -> None:
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
        self.release(tenant, connection, clean=True)

    def examine_idle(self) -> None:
        """Settle every idle connection: if the network to PostgreSQL is down, all of them are dead."""
        idle, self._idle = self._idle, []
        for connection in idle:
            self._waiters.acquired(_EXAMINER)
            self.release(_EXAMINER, connection, clean=False)


def _kind_of(tenant: Tenant | None) -> str:
    """Return the kind of a tenant, of which there are few, for metrics."""
    if tenant is None:
        return "server"
    if tenant == CONSOLE:
        return "console"
    return tenant if isinstance(tenant, str) else "app"


def unreachable() -> UnavailableError:
    """Return the error for an unreachable database, if nothing was changed."""
    return UnavailableError("The database is not reachable. Try again shortly.")

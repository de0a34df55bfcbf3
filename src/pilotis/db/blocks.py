"""Context managers that hold a pooled connection: for one statement, for several, for a transaction.

They determine the effect of an error inside the block on the connection, and the error that the caller gets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg import Connection
from asyncpg.transaction import Transaction as TransactionBlock

from pilotis.db.connecting import client_seconds, set_client_seconds
from pilotis.db.connections import Connections, unreachable
from pilotis.db.observing import ObservedConnection
from pilotis.db.waiters import Tenant
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import OutcomeUnknownError, PilotisError, QueryTimeoutError, StorageFullError, UnavailableError

Isolation = Literal["read_committed", "repeatable_read", "serializable"]

_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    # asyncpg raises this if the server terminates the connection while a statement is being sent.
    asyncpg.InternalClientError,
    # The client's deadline for a statement: PostgreSQL's own deadline has passed without an answer.
    TimeoutError,
)

# Citus reports the loss of another node as an internal error (XX000).
_LOST_NODE = re.compile(r"\b(connection|server closed|remote node|worker node|placement)\b")


# The callbacks to run once the transaction on a connection has been committed.
_AFTER_COMMIT: WeakKeyDictionary[Connection, list[Callable[[], None]]] = WeakKeyDictionary()


def after_commit(connection: Connection, run: Callable[[], None]) -> None:
    """Call `run` after the connection's `Transaction` has been committed, or may have been."""
    _AFTER_COMMIT.setdefault(connection, []).append(run)


class Statement:
    """A connection for a block of one statement. A generator-based one would make a short statement 10 % slower."""

    __slots__ = ("_connection", "_connections", "_read_only", "_tenant", "_wait")

    _connection: ObservedConnection

    def __init__(
        self, connections: Connections, tenant: Tenant | None, wait: float, *, read_only: bool = False
    ) -> None:
        self._connections = connections
        self._tenant = tenant
        self._wait = wait
        self._read_only = read_only

    async def __aenter__(self) -> Connection:
        connections = self._connections
        connection = connections.acquire_idle(self._tenant)
        if connection is None:
            connection = await connections.acquire(self._tenant, self._wait)
        self._connection = connection
        connections.deadlines.start(connection)
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.deadlines.end(self._connection)
        self._release(error)
        if error is None:
            if not self._read_only:
                took_effect()
            return
        if _is_lost(error, self._connection):
            raise (unreachable() if self._read_only else OutcomeUnknownError()) from error
        if mapped := _map_error(error):
            raise mapped from error

    def _release(self, error: BaseException | None) -> None:
        """Return the connection after a block that ended with `error`."""
        if error is None:
            self._connections.release(self._tenant, self._connection, clean=True)
            return
        # Any other exception may have left a statement running: a timeout, or the cancellation of the task.
        answered = isinstance(error, (PilotisError, asyncpg.PostgresError))
        clean = answered and not _is_lost(error, self._connection)
        if isinstance(error, asyncpg.InternalClientError):
            self._connection.terminate()
        self._connections.release(self._tenant, self._connection, clean=clean)
        if isinstance(error, TimeoutError):
            self._connections.examine_idle()


class Acquire(Statement):
    """A connection for a block of any number of statements, each with the client's deadline."""

    __slots__ = ("_statement_seconds",)

    def __init__(
        self,
        connections: Connections,
        tenant: Tenant | None,
        wait: float,
        statement_seconds: float | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(connections, tenant, wait, read_only=read_only)
        self._statement_seconds = connections.statement_seconds if statement_seconds is None else statement_seconds

    async def __aenter__(self) -> Connection:
        self._connection = await self._connections.acquire(self._tenant, self._wait)
        set_client_seconds(self._connection, client_seconds(self._statement_seconds))
        return self._connection

    def _release(self, error: BaseException | None) -> None:
        set_client_seconds(self._connection, None)
        super()._release(error)


class _OpenedTogether:
    """A transaction whose first statement is sent with `begin`, in one round trip. No other one can be nested in it."""

    __slots__ = ("_connection", "_opening")

    def __init__(self, connection: Connection, isolation: Isolation | None, first: str) -> None:
        level = "" if isolation is None else f" isolation level {isolation.replace('_', ' ')}"
        self._connection = connection
        self._opening = f"begin{level}; {first}"

    async def start(self) -> None:
        await self._connection.execute(self._opening)

    async def commit(self) -> None:
        await self._connection.execute("commit")

    async def rollback(self) -> None:
        await self._connection.execute("rollback")


class Transaction(Acquire):
    """A connection inside a transaction for the duration of a block."""

    __slots__ = ("_block", "_first", "_isolation")

    _block: TransactionBlock | _OpenedTogether

    def __init__(
        self,
        connections: Connections,
        tenant: Tenant | None,
        wait: float,
        isolation: Isolation | None,
        statement_seconds: float | None,
        first: str = "",
    ) -> None:
        super().__init__(connections, tenant, wait, statement_seconds)
        self._isolation = isolation
        self._first = first

    async def __aenter__(self) -> Connection:
        connection = await super().__aenter__()
        try:
            if self._first:
                self._block = _OpenedTogether(connection, self._isolation, self._first)
            else:
                # It refuses one that was lost since it was acquired.
                self._block = connection.transaction(isolation=self._isolation)
            await self._block.start()
            if self._statement_seconds != self._connections.statement_seconds:
                await connection.execute(f"set local statement_timeout = {int(self._statement_seconds * 1000)}")
        except BaseException as error:
            self._release(error)
            if mapped := self._nothing_changed(error):
                raise mapped from error
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        waiting = _AFTER_COMMIT.pop(self._connection, ()) if _AFTER_COMMIT else ()
        try:
            await (self._block.commit() if error is None else self._roll_back(error))
        except BaseException as failure:
            self._release(failure)
            # A rollback hides a lost connection, so it was lost during the commit.
            if _is_lost(failure, self._connection):
                took_effect()
                raise OutcomeUnknownError from failure
            if mapped := _map_error(failure):
                raise mapped from failure
            raise
        finally:
            if error is None:
                for run in waiting:
                    run()
        self._release(error)
        if error is None:
            took_effect()
        elif mapped := self._nothing_changed(error):
            raise mapped from error

    async def _roll_back(self, error: BaseException) -> None:
        """Roll back, unless a statement may still be running: then settling the connection rolls back."""
        if isinstance(error, (PilotisError, asyncpg.PostgresError)) and not self._connection.is_closed():
            # Report the error that ended the block, not this one.
            with suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
                await self._block.rollback()

    def _nothing_changed(self, error: BaseException) -> PilotisError | None:
        return unreachable() if _is_lost(error, self._connection) else _map_error(error)


def _is_lost(error: BaseException, connection: Connection) -> bool:
    """Whether the error means that the connection is lost or the server does not answer."""
    if isinstance(error, (asyncpg.InterfaceError, OSError)) and not isinstance(error, TimeoutError):
        return connection.is_closed()
    if isinstance(error, asyncpg.InternalServerError):
        return _LOST_NODE.search(str(error)) is not None
    return isinstance(error, _LOST)


def _map_error(error: BaseException) -> PilotisError | None:
    """Return the error for the caller; None if the service handles the exception, or if it is our bug."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return QueryTimeoutError()
    if isinstance(error, asyncpg.LockNotAvailableError):
        return UnavailableError("The table is busy. Try again shortly.")
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFullError()
    if isinstance(error, asyncpg.OutOfMemoryError):
        return UnavailableError("The database is short of memory. Try again shortly.")
    return None

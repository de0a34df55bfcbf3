"""The database as stores use it: single statements, and blocks that hold a connection of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from asyncpg import Connection, Record

from pilotis.db.blocks import Acquire, Isolation, Statement, Transaction
from pilotis.db.connecting import connect
from pilotis.db.connections import Connections, PoolState
from pilotis.db.observing import Statements
from pilotis.db.waiters import Tenant
from pilotis.kit.metrics import CounterOf, Metric

ACQUIRE_SECONDS = 5.0
MAX_WAITERS = 1_000
# The maximum length of the white space before a statement's first word, and of that word.
_INDENT = 100


class Database:
    """A pool of connections to one PostgreSQL database.

    `connect_arguments` go to `asyncpg.connect`; `statement_seconds` bounds each statement (see
    `pilotis.db.connecting.connect`); at most `max_waiters` callers of one tenant wait for a connection.
    A statement of `slow_statement_seconds` is logged, 0 = none; `statements` counts them in place of that.
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
        slow_statement_seconds: float = 0,
        statements: Statements | None = None,
    ) -> None:
        self.statements = statements or Statements(slow_statement_seconds)
        """The statements of the pool and of dedicated connections."""
        self._connections = Connections(
            connect_arguments,
            size=size,
            statement_seconds=statement_seconds,
            max_waiters=max_waiters,
            is_pooled=is_pooled,
            observer=self.statements,
        )
        self._direct_arguments = direct_arguments or connect_arguments
        self.is_sharded = False
        """Whether Citus spreads apps over several nodes; set when the process starts."""

    def connection(
        self, tenant: Tenant | None = None, *, wait: float = ACQUIRE_SECONDS, read_only: bool = False
    ) -> Acquire:
        """Acquire a connection for a block: `async with database.connection(app_id) as connection`.

        Raises `UnavailableError` when none is free within `wait` seconds, `QueryTimeoutError` for a statement that is
        too slow, and `OutcomeUnknownError` when the connection is lost while in use; for a `read_only` block, which
        changes nothing, `UnavailableError` instead.
        """
        return Acquire(self._connections, tenant, wait, read_only=read_only)

    def statement(self, tenant: Tenant | None = None, *, read_only: bool = False) -> Statement:
        """Acquire a connection for one statement, at a lower cost than `connection`; raises the same errors."""
        return Statement(self._connections, tenant, ACQUIRE_SECONDS, read_only=read_only)

    def transaction(
        self,
        tenant: Tenant | None = None,
        *,
        isolation: Isolation | None = None,
        statement_seconds: float | None = None,
        wait: float = ACQUIRE_SECONDS,
        first: str = "",
    ) -> Transaction:
        """Acquire a connection inside a transaction: committed at the end of the block, rolled back on an exception.

        `first` is SQL without parameters that runs at its beginning, in the same round trip. `statement_seconds`
        replaces the pool's time limit within the block. Raises the same errors as `connection`, but `UnavailableError`
        if the connection is lost before the commit, because then nothing was changed.
        """
        return Transaction(self._connections, tenant, wait, isolation, statement_seconds, first)

    async def dedicated(self, *, name: str, statement_seconds: float) -> Connection:
        """Open a connection outside the pool, named `pilotis {name}`, for a long job. The caller closes it.

        It leads to PostgreSQL itself, bypassing a pooler.
        """
        return await connect(
            self._direct_arguments,
            name=f"pilotis {name}",
            statement_seconds=statement_seconds,
            observer=self.statements,
        )

    def of(self, tenant: Tenant) -> TenantDatabase:
        """Return an object that runs single statements for a tenant, to pass in place of a connection."""
        return TenantDatabase(self, tenant)

    def state(self) -> PoolState:
        """Return the pool's current state, for metrics."""
        return self._connections.state()

    def metrics(self) -> list[Metric]:
        """Return what the pool counts."""
        return [
            self._connections.waits,
            self._connections.wait_seconds,
            CounterOf("pilotis_database_statements", "Statements, by feature.", "feature", self.statements.counts),
            CounterOf(
                "pilotis_database_statement_seconds",
                "Time of statements, by feature.",
                "feature",
                self.statements.seconds,
            ),
        ]

    async def fetch(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> list[Record]:
        """Run one statement and return its rows."""
        async with Statement(self._connections, tenant, ACQUIRE_SECONDS, read_only=_only_reads(query)) as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> Record | None:
        """Run one statement and return its first row, or None."""
        async with Statement(self._connections, tenant, ACQUIRE_SECONDS, read_only=_only_reads(query)) as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> Any:
        """Run one statement and return the first column of its first row, or None."""
        async with Statement(self._connections, tenant, ACQUIRE_SECONDS, read_only=_only_reads(query)) as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any, tenant: Tenant | None = None) -> str:
        """Run one statement and return PostgreSQL's command tag, such as `UPDATE 1`."""
        async with Statement(self._connections, tenant, ACQUIRE_SECONDS) as connection:
            return await connection.execute(query, *arguments)

    async def executemany(self, query: str, rows: Sequence[Sequence[Any]], *, tenant: Tenant | None = None) -> None:
        """Run one statement for each row of arguments, all in one transaction."""
        async with Acquire(self._connections, tenant, ACQUIRE_SECONDS) as connection:
            await connection.executemany(query, rows)

    async def close(self) -> None:
        """Close every idle connection, and fail waiting callers; connections in use are closed on release."""
        await self._connections.close()


def _only_reads(query: str) -> bool:
    """Whether a statement changes nothing: outside transactions no `select` of ours calls a function that writes."""
    # Only the beginning of a long statement is copied.
    return query[:_INDENT].lstrip()[:6].lower() == "select"


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

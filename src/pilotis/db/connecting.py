"""Opens a connection to PostgreSQL: its settings, its deadlines, and the detection of a silent network."""

from __future__ import annotations

import socket
import sys
from typing import Any

import asyncpg
from asyncpg import Connection

from pilotis.db.observing import ObservedConnection, Statements

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 2.0
"""How much longer than `statement_timeout` the client waits: PostgreSQL itself answers earlier if it is alive."""
_MAX_STATEMENTS = 256
_SILENT_SECONDS = 7
_TCP_RXT_CONNDROPTIME = 0x80  # seconds without an acknowledgement, in netinet/tcp.h of macOS


def session_parameters(statement_seconds: float) -> dict[str, str]:
    """Return the PostgreSQL parameters of every connection; `statement_seconds` bounds each statement."""
    return {
        "statement_timeout": str(int(statement_seconds * 1000)),
        # Shorter, so that waiting for a lock is distinguishable from a slow query.
        "lock_timeout": str(int(statement_seconds * 800)),
        # Citus hides its shards from the catalogue, which made asyncpg's lookup of a type take seconds. Elsewhere it
        # has no effect.
        "citus.override_table_visibility": "off",
        "timezone": "UTC",
        "jit": "off",
        "default_transaction_isolation": "read committed",
        "idle_in_transaction_session_timeout": "60000",
        # The minimum similarity of words that differ by a typing error: below pg_trgm's default of 0.6, which misses
        # most.
        "pg_trgm.word_similarity_threshold": "0.4",
    }


async def connect(
    arguments: dict[str, Any],
    *,
    name: str = "pilotis",
    statement_seconds: float,
    seconds: float = CONNECT_SECONDS,
    is_pooled: bool = False,
    observer: Statements | None = None,
) -> ObservedConnection:
    """Open a connection with `asyncpg.connect`'s `arguments`. The caller closes it.

    Through a pooler (`is_pooled`) it uses the parameters of its role, because each transaction may use another server
    connection. `name` is its `application_name`. `statement_seconds` bounds each statement, 0 = unlimited: PostgreSQL
    then cancels it, and if no answer arrives the client gives up `ANSWER_SECONDS` later with a `TimeoutError`; see
    `set_client_seconds`. `seconds` bounds the connection attempt, also with a `TimeoutError`. `observer` counts the
    statements.
    """
    connection: ObservedConnection = await asyncpg.connect(
        **arguments,
        connection_class=ObservedConnection,
        timeout=seconds,
        command_timeout=client_seconds(statement_seconds),
        statement_cache_size=_MAX_STATEMENTS,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=64 * 1024,
        server_settings=None if is_pooled else {"application_name": name, **session_parameters(statement_seconds)},
    )
    connection.observer = observer
    _detect_silence(connection)
    return connection


def client_seconds(statement_seconds: float) -> float | None:
    """Return how long the client waits for a statement's answer; None if unlimited."""
    return statement_seconds + ANSWER_SECONDS if statement_seconds else None


def set_client_seconds(connection: Connection, seconds: float | None) -> None:
    """Change how long the client waits for each answer on this connection."""
    # asyncpg reads this attribute before each statement, and has no public way to change it.
    private: Any = connection
    private._config = private._config._replace(command_timeout=seconds)


def statement_count(connection: Connection) -> int:
    """Return how many statements a connection has run."""
    private: Any = connection
    count: int = private._protocol.queries_count
    return count


def forget_transaction(connection: Connection) -> None:
    """Reset asyncpg's state of a transaction that was cut off; otherwise the next one would become a savepoint."""
    private: Any = connection
    private._top_xact = None


def _detect_silence(connection: Connection) -> None:
    """Let the kernel close a TCP connection whose peer has acknowledged nothing for some seconds (tcp(7))."""
    private: Any = connection
    connected = private._transport.get_extra_info("socket")
    if connected is None or connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    if sys.platform == "linux":
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_SECONDS * 1000)
    elif sys.platform == "darwin":
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, _SILENT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, _TCP_RXT_CONNDROPTIME, _SILENT_SECONDS)

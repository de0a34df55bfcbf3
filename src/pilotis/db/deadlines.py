"""The client's deadlines for single statements: one timer for all of them.

asyncpg can time each statement with its own timer, which costs a fifth of a short statement. Blocks of several
statements use it; this module watches single statements, which are the majority.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from asyncpg import Connection

_SWEEP_SECONDS = 0.5


class Deadlines:
    """Closes connections whose statement is overdue, which ends the statement with a lost connection.

    `overdue` is called once for each sweep that closed any.
    """

    def __init__(self, seconds: float | None, overdue: Callable[[], None]) -> None:
        self._seconds = seconds
        self._overdue = overdue
        self._running: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: Connection) -> None:
        """Watch a connection whose statement starts now."""
        if self._seconds is not None:
            self._running[connection] = time.monotonic() + self._seconds
            if self._timer is None:
                self._schedule()

    def end(self, connection: Connection) -> None:
        """Stop watching a connection."""
        self._running.pop(connection, None)

    def stop(self) -> None:
        """Stop watching all connections."""
        self._running.clear()
        if self._timer:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        now = time.monotonic()
        overdue = [connection for connection, deadline in self._running.items() if deadline <= now]
        for connection in overdue:
            del self._running[connection]
            connection.terminate()
        self._timer = None
        if self._running:
            self._schedule()
        if overdue:
            self._overdue()

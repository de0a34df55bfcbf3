"""Runs a server that records its locks: `python -m tests.races.recorder FILE PYTHON -m pilotis serve …`.

After each statement PostgreSQL itself tells which rows the statement's transaction has locked so far, and how
(`pgrowlocks`). A line of JSON is written for each statement that locked rows, and for each connection that a task
acquires while it holds another: with all of them in use, such tasks wait for each other.
"""

import asyncio
import json
import runpy
import sys
import traceback
from asyncio import AbstractEventLoop
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg import Connection

from pilotis.db import connections

_LOCKS = """
    select c.relname as table, l.row, l.mode from pg_locks k join pg_class c on c.oid = k.relation
    cross join lateral (
        select locked_row::text as row, m.mode from pgrowlocks('pilotis.' || c.relname) r
        cross join lateral unnest(r.pids, r.modes) m(pid, mode) where m.pid = $1
    ) l
    where k.pid = $1 and k.mode in ('RowShareLock', 'RowExclusiveLock')
        and c.relnamespace = 'pilotis'::regnamespace and c.relkind = 'r'
"""
Locked = frozenset[tuple[str, str, str]]
"""Tables, rows and modes."""


@dataclass(eq=False)
class Watcher:
    """A connection that looks at the locks of others."""

    connection: Connection | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Recorder:
    """Watches the connections of one process."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a")
        self._arguments: dict[str, Any] = {}
        # A connection and its lock for each event loop.
        self._watchers: WeakKeyDictionary[AbstractEventLoop, Watcher] = WeakKeyDictionary()
        self._locked: dict[Connection, tuple[int, Locked]] = {}
        self._transactions = 0
        self._holders: dict[Connection, asyncio.Task[Any] | None] = {}

    def install(self) -> None:
        """Begin to watch what this process opens from now on."""
        self._watch_statements()
        self._watch_holders()

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _watch_statements(self) -> None:
        connect, execute = connections.connect, Connection._do_execute
        simple = Connection.execute

        async def recorded_connect(arguments: dict[str, Any], **more: Any) -> Connection:
            self._arguments = arguments
            return await connect(arguments, **more)

        async def recorded(connection: Connection, query: Any, *arguments: Any, **more: Any) -> Any:
            if not self._is_watched(connection):
                return await execute(connection, query, *arguments, **more)
            if connection.is_in_transaction() or str(query).split(None, 1)[0].lower() in {"select", "set"}:
                result = await execute(connection, query, *arguments, **more)
                await self._look(connection, str(query))
                return result
            async with connection.transaction():
                result = await execute(connection, query, *arguments, **more)
                await self._look(connection, str(query))
            return result

        async def recorded_simple(connection: Connection, query: str, *arguments: Any, **more: Any) -> Any:
            result = await simple(connection, query, *arguments, **more)
            if not arguments and self._is_watched(connection):
                await self._look(connection, query)
            return result

        connections.connect = recorded_connect
        Connection._do_execute = recorded
        Connection.execute = recorded_simple

    def _is_watched(self, connection: Connection) -> bool:
        return connection in self._holders

    async def _look(self, connection: Connection, query: str) -> None:
        """Write which rows this statement has locked."""
        if not connection.is_in_transaction():
            self._locked.pop(connection, None)
            return
        watcher = self._watchers.setdefault(asyncio.get_running_loop(), Watcher())
        async with watcher.lock:
            if watcher.connection is None:
                watcher.connection = await asyncpg.connect(**self._arguments)
                await watcher.connection.execute("create extension if not exists pgrowlocks")
            rows = await watcher.connection.fetch(_LOCKS, connection.get_server_pid())
        now = frozenset((row["table"], row["row"], row["mode"]) for row in rows)
        number, before = self._locked.get(connection, (0, frozenset()))
        if not number:
            self._transactions += 1
            number = self._transactions
        self._locked[connection] = number, before | now
        known = {(table, row): mode for table, row, mode in before}
        new = sorted({(table, mode) for table, row, mode in now if (table, row) not in known})
        more = sorted({(table, known[table, row], mode) for table, row, mode in now - before if (table, row) in known})
        if new or more:
            self._write(
                transaction=number, locks=new, upgrades=more, statement=" ".join(query.split())[:300], by=_callers()
            )

    def _watch_holders(self) -> None:
        lender = connections.Connections
        idle, wait, release = lender.acquire_idle, lender.acquire, lender.release

        def recorded_idle(pool: connections.Connections, tenant: Any) -> Connection | None:
            return self._hold(idle(pool, tenant))

        async def recorded_wait(pool: connections.Connections, tenant: Any, seconds: float) -> Connection:
            self._look_for_another()
            held = self._hold(await wait(pool, tenant, seconds))
            assert held is not None
            return held

        def recorded_release(
            pool: connections.Connections, tenant: Any, connection: Connection, *, clean: bool
        ) -> None:
            self._holders.pop(connection, None)
            self._locked.pop(connection, None)
            release(pool, tenant, connection, clean=clean)

        lender.acquire_idle = recorded_idle
        lender.acquire = recorded_wait
        lender.release = recorded_release

    def _hold(self, connection: Connection | None) -> Connection | None:
        if connection is not None:
            self._look_for_another()
            self._holders[connection] = asyncio.current_task()
        return connection

    def _look_for_another(self) -> None:
        if asyncio.current_task() in self._holders.values():
            self._write(nested=_callers())


def _callers() -> list[str]:
    """Return where in the product the current call comes from, the innermost last."""
    frames = [frame for frame in traceback.extract_stack() if "/src/pilotis/" in frame.filename]
    return [
        f"{frame.filename.rpartition('/src/pilotis/')[2]}:{frame.name}"
        for frame in frames
        if "/pilotis/http/" not in frame.filename and "/pilotis/db/" not in frame.filename
    ][-4:]


if __name__ == "__main__":
    recorder = Recorder(Path(sys.argv[1]))
    recorder.install()
    # The command that this wraps: an interpreter, -m, a module and its arguments.
    sys.argv = sys.argv[4:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

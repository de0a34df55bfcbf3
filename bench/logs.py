"""How long a page of a log takes when the log is long: `python -m bench.logs --rows 3000000`.

Fills each kind of log in a database of its own, as `tests/db/test_log_pages.py` does, and asks for each of that test's
pages: the first, with each filter, of ten seconds long ago, and of nothing. The time is that of the page and of its
total, which counts at most 10,000 entries: the median of `--tries`, after six that decide about PostgreSQL's plan.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg
from tests.db.test_log_pages import APP, FILLS, PAGES

from bench.servers import Pilotis
from pilotis.db import migrations

_SETTLING = 6
_NAME = "long_logs"


class _Connections:
    """Runs each statement on one of some connections, as a pool does; those of a page run at the same time."""

    def __init__(self, connections: list[asyncpg.Connection]) -> None:
        self._free: asyncio.LifoQueue[asyncpg.Connection] = asyncio.LifoQueue()
        for connection in connections:
            self._free.put_nowait(connection)

    async def fetch(self, statement: str, *arguments: Any, **_: Any) -> list[asyncpg.Record]:
        connection = await self._free.get()
        try:
            return await connection.fetch(statement, *arguments)
        finally:
            self._free.put_nowait(connection)

    async def fetchval(self, statement: str, *arguments: Any, **_: Any) -> Any:
        (row,) = await self.fetch(statement, *arguments)
        return row[0]

    @asynccontextmanager
    async def connection(self, *_: Any, **__: Any) -> AsyncIterator[_Connections]:
        yield self


async def _fill(address: dict[str, Any], rows: int) -> None:
    maintenance = await asyncpg.connect(**address)
    await maintenance.execute(f"create database {_NAME}")
    await maintenance.close()
    connection = await asyncpg.connect(**{**address, "database": _NAME})
    await migrations.migrate(connection)
    await connection.execute("set session_replication_role = replica")
    for table, statement in FILLS.items():
        started = time.monotonic()
        await connection.execute(statement, APP, rows, timeout=1800)
        await connection.execute(f"vacuum analyze pilotis.{table}", timeout=1800)
        size = await connection.fetchval(
            "select pg_size_pretty(pg_total_relation_size($1::text::regclass))", f"pilotis.{table}"
        )
        print(f"{table}: {rows:,} rows in {time.monotonic() - started:.0f} s, {size}", flush=True)
    await connection.close()


async def _measure(address: dict[str, Any], rows: int, tries: int) -> None:
    await _fill(address, rows)
    opened = [await asyncpg.connect(**{**address, "database": _NAME}) for _ in range(2)]
    connections = _Connections(opened)
    for name, page in PAGES.items():
        taken = []
        for number in range(_SETTLING + tries):
            started = time.perf_counter()
            await page(connections)
            if number >= _SETTLING:
                taken.append(time.perf_counter() - started)
        print(f"{name:32}{1000 * median(taken):7.1f} ms  (at most {1000 * max(taken):.1f})", flush=True)
    for connection in opened:
        await connection.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.logs", description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--tries", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Pilotis(Path(directory)) as pilotis:
        asyncio.run(_measure(pilotis.connect_arguments(), options.rows, options.tries))


if __name__ == "__main__":
    main()

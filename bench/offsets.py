"""`python -m bench.offsets`: PostgreSQL's processor time for a page of twenty at a large offset.

Three statements alternate on one connection, on 100,000 rows of `bench.data`: text is made below Limit, rows
are chosen first, ids are chosen first. The table shows the median, and the least, in milliseconds. `--rows` for fewer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from statistics import median
from uuid import UUID

import asyncpg
from asyncpg import Connection

from bench.cases import Stage
from bench.servers import Pilotis
from pilotis.apps.keys import PUBLIC_PREFIX, app_of
from pilotis.data.rows.statements import Statements
from pilotis.data.tables import store

_CASES = [("__id", 100, 40), ("__id", 1000, 40), ("__id", 50_000, 9), ("age desc nulls last, __id", 50_000, 7)]


def _statements(table: str, row: str, slice_: str) -> list[str]:
    items = [
        f"select {row} as item from {table} {slice_}",
        f"select {row} as item from (select * from {table} {slice_}) chosen",
        f"select (select {row} from {table} where __id = chosen) as item"
        f" from (select __id as chosen from {table} {slice_}) ids",
    ]
    return [f"select string_agg(item, ',') from ({item}) page" for item in items]


def _milliseconds(pid: int) -> float:
    """Return the processor time that a process has taken (proc_pid_schedstat(5))."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


async def _measure(connection: Connection, statements: list[str], times: int) -> list[list[float]]:
    pid = await connection.fetchval("select pg_backend_pid()")
    taken: list[list[float]] = [[] for _ in statements]
    for _ in range(times):
        answers = set()
        for statement, own in zip(statements, taken, strict=True):
            begun = _milliseconds(pid)
            answers.add(await connection.fetchval(statement))
            own.append(_milliseconds(pid) - begun)
        assert len(answers) == 1
    return taken


async def _run(pilotis: Pilotis, rows: int) -> None:
    arguments = pilotis.connect_arguments()
    stage = Stage(pilotis, rows)
    app_id = app_of(pilotis.headers["X-Public-Key"], PUBLIC_PREFIX)
    assert app_id is not None
    connection = await asyncpg.connect(**arguments)
    record = await store.live_table(connection, app_id, UUID(stage.table_id))
    assert record is not None
    schema = record.schema
    await connection.execute(f"vacuum analyze {schema.physical}")
    await connection.execute("set max_parallel_workers_per_gather = 0")
    print(f"load average at the start: {os.getloadavg()[0]:.1f}")
    print("| order | offset | text below Limit | rows chosen first | ids chosen first |\n|---|---|---|---|---|")
    for order, offset, times in _CASES:
        slice_ = f"order by {order} limit 20 offset {offset * rows // 100_000}"
        taken = await _measure(connection, _statements(schema.physical, Statements(schema).row, slice_), times)
        cells = " | ".join(f"{median(one):.2f} ({min(one):.2f})" for one in taken)
        print(f"| {order} | {offset * rows // 100_000} | {cells} |", flush=True)
    await connection.close()


def main() -> None:
    """Fill a table and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.offsets", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows in the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotis-offsets-") as name, Pilotis(Path(name)) as pilotis:
        asyncio.run(_run(pilotis, options.rows))


if __name__ == "__main__":
    main()

"""Jobs completed per second, and the statements of an idle server.

`python -m bench.jobs [SECONDS]` runs two processes on an embedded PostgreSQL. Jobs do nothing, so what is measured is
the queue itself: enqueueing 100 by a statement, claiming, ending. Beside it, in the same way, runs a loop that an
expert would write for one process: `delete … returning` of rows found by `for update skip locked`, without leases.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg

from bench.servers import Pilotis
from pilotis.db import migrations
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.jobs.background import Background
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.node import identity
from pilotis.jobs.queue import Jobs
from pilotis.kit.ids import uuid7

_BATCH = 100
_SLOTS = 256
_PROCESSES = 2


async def _nothing(_: Job[int]) -> None:
    pass


def _kind() -> JobKind[int]:
    return JobKind(name="bench.nothing", queue="light", payload=int, run=_nothing)


async def _work(arguments: dict[str, Any], slot: int, seconds: float) -> None:
    database = Database(arguments, size=8, statement_seconds=30)
    control, jobs = Control(database), Jobs(database)
    kind = _kind()
    jobs.register(kind)
    background = Background(database, control, identity("bench", slot=slot), jobs, slots={"light": _SLOTS})
    await control.start()
    await background.start()
    apps = [uuid7() for _ in range(20)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        async with database.transaction() as connection:
            await jobs.enqueue_all(connection, kind, [(apps[number % 20], number, None) for number in range(_BATCH)])
        await _drained(database, 2000)
    await _drained(database, 0)
    await background.stop(1)
    await control.stop()
    await database.close()


async def _drained(database: Database, most: int) -> None:
    more = f"select exists (select from pilotis.jobs offset {most})"
    while await database.fetchval(more):  # noqa: ASYNC110 - others work
        await asyncio.sleep(0.05)


async def _plain(arguments: dict[str, Any], seconds: float) -> int:
    """Return how many rows a plain queue moves: the baseline, in one process with eight connections."""
    pool = await asyncpg.create_pool(**arguments, min_size=8, max_size=8)
    await pool.execute("create table plain_queue (id uuid primary key, payload jsonb, run_at timestamptz)")
    await pool.execute("create index on plain_queue (run_at)")
    end, done = time.monotonic() + seconds, 0

    async def produce() -> None:
        while time.monotonic() < end:
            rows = [(uuid7(), "1") for _ in range(_BATCH)]
            await pool.executemany("insert into plain_queue values ($1, $2::text::jsonb, now())", rows)

    async def consume() -> None:
        nonlocal done
        while time.monotonic() < end:
            rows = await pool.fetch(
                """
                delete from plain_queue where id = any(array(
                    select id from plain_queue where run_at <= now() order by run_at limit 100 for update skip locked
                )) returning id
                """
            )
            done += len(rows)

    await asyncio.gather(*(produce() for _ in range(2)), *(consume() for _ in range(4)))
    await pool.close()
    return done


def _process(arguments: dict[str, Any], slot: int, seconds: float) -> None:
    asyncio.run(_work(arguments, slot, seconds))


async def _prepared(address: dict[str, Any]) -> dict[str, Any]:
    connection = await asyncpg.connect(**address)
    await connection.execute("create database bench_jobs")
    await connection.close()
    arguments = {**address, "database": "bench_jobs"}
    connection = await asyncpg.connect(**arguments)
    await migrations.migrate(connection)
    await connection.execute("create table counted (n bigint)")
    await connection.close()
    return arguments


def _deleted_count(arguments: dict[str, Any]) -> int:
    return asyncio.run(_deleted(arguments))


async def _deleted(arguments: dict[str, Any]) -> int:
    connection = await asyncpg.connect(**arguments)
    await connection.execute("select pg_stat_force_next_flush()")
    number: int = await connection.fetchval(
        "select n_tup_del from pg_stat_user_tables where schemaname = 'pilotis' and relname = 'jobs'"
    )
    await connection.close()
    return number


async def _postmaster(arguments: dict[str, Any]) -> str:
    """Return the id of the process that has started PostgreSQL's others."""
    connection = await asyncpg.connect(**arguments)
    backend: int = await connection.fetchval("select pg_backend_pid()")
    parent = _stat(Path(f"/proc/{backend}/stat"))[1]
    await connection.close()
    return parent


def _stat(path: Path) -> list[str]:
    """Return the fields of `/proc/<pid>/stat` from the state on (proc(5))."""
    return path.read_text(errors="replace").rpartition(")")[2].split()


def _postgres_seconds(postmaster: str) -> float:
    """Return the processor time of PostgreSQL's processes in seconds, by `/proc/<pid>/stat` (proc(5))."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = _stat(path)
            if path.parent.name == postmaster:
                # With that of its processes that have ended.
                ticks += sum(int(field) for field in fields[11:15])
            elif fields[1] == postmaster:
                ticks += sum(int(field) for field in fields[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def main(seconds: float) -> None:
    """Measure and print both rates."""
    with tempfile.TemporaryDirectory() as folder, Pilotis(Path(folder)) as pilotis:
        arguments = asyncio.run(_prepared(pilotis.connect_arguments()))
        postmaster = asyncio.run(_postmaster(arguments))
        started, postgres = time.monotonic(), _postgres_seconds(postmaster)
        before = _deleted_count(arguments)
        processes = [
            multiprocessing.Process(target=_process, args=(arguments, slot, seconds)) for slot in range(_PROCESSES)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        number = _deleted_count(arguments) - before
        rate = number / (time.monotonic() - started)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = (usage.ru_utime + usage.ru_stime) / number * 1e6
        postgres = (_postgres_seconds(postmaster) - postgres) / number * 1e6
        plain = asyncio.run(_plain(arguments, seconds)) / seconds
    cores = len(os.sched_getaffinity(0))
    print(f"processor time of a job: {own:.0f} µs in Python, {postgres:.0f} µs in PostgreSQL,", end=" ")
    print(f"so {cores} cores that do nothing else do {cores * 1e6 / (own + postgres):,.0f} jobs a second")
    print(f"jobs, enqueued to done: {rate:,.0f}/s; plain queue: {plain:,.0f}/s; ratio {rate / plain:.2f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)

"""Periodic tasks that use their own connection, for work that may take longer than a statement of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.jobs import schedules, store
from pilotis.jobs.kinds import SERVER, Job, JobKind, Periodic

TASK_SECONDS = 600.0
_BATCH_SIZE = 5_000


def on_connection(
    database: Database,
    name: str,
    every_seconds: float,
    work: Callable[[Connection], Awaitable[object]],
    *,
    queue: str = "light",
    seconds: float = TASK_SECONDS,
    when: Callable[[], bool] = lambda: True,
) -> Periodic:
    """Return a periodic task that runs `work` on a connection outside the pool, if `when` is true when the task is due.

    The connection is named after the job and its fence. A successor terminates connections of a predecessor that was
    taken over: that process may be paused, but PostgreSQL would keep running its statement.
    """

    async def run(job: Job[dict[str, Any]]) -> None:
        if not when():
            return
        connection = await database.dedicated(name=f"job {name} {job.fence}", statement_seconds=seconds)
        try:
            await end_predecessors(connection, name)
            await work(connection)
        finally:
            # A task that was cancelled during a statement leaves a connection that cannot be closed gracefully.
            connection.terminate()

    return Periodic(name=name, every_seconds=every_seconds, run=run, queue=queue, seconds=seconds)


async def end_predecessors(connection: Connection, name: str) -> None:
    """Terminate connections that an earlier run of the task has left open."""
    with suppress(asyncpg.PostgresError):
        await connection.execute(
            """
            select pg_terminate_backend(pid, 2000) from pg_stat_activity
            where datname = current_database() and application_name like $1 and pid <> pg_backend_pid()
            """,
            f"pilotis job {name} %",
        )


async def delete_former_tasks(connection: Connection, names: Sequence[str]) -> None:
    """Delete what periodic tasks have left that are not among `names`, and that no version has had for a day."""
    async with connection.transaction():
        former = await schedules.delete_of_former_tasks(connection, names)
        await store.delete_waiting(connection, SERVER, former)


def delete_dead_jobs(database: Database, kinds: dict[str, JobKind[Any]]) -> Periodic:
    """Return the task that deletes dead jobs past their retention, and what apps and tasks left that are no more."""

    async def work(connection: Connection) -> None:
        names = list(kinds)
        await schedules.delete_of_purged_apps(connection)
        await delete_former_tasks(connection, names)
        while await store.delete_dead(connection, names, [kinds[n].dead_days for n in names], _BATCH_SIZE):
            pass

    return on_connection(database, "jobs.expire", 6 * 3600, work)

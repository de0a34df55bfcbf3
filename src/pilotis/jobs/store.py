"""SQL statements for `pilotis.jobs`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND, CONSOLE
from pilotis.jobs.kinds import Hold
from pilotis.jobs.sql import fair_claim
from pilotis.kit.ids import uuid7

MAX_LOSSES = 5
"""After how many deaths of the process running a job the job counts as their cause and becomes dead."""

_ENQUEUE = """
    insert into pilotis.jobs as j (app_id, job_id, queue, kind, key, subject, payload, depth, run_at)
    values ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, coalesce($9, now()))
    on conflict (app_id, kind, key) where key is not null and state <> 'dead' do update set
        run_at = case when j.state = 'waiting' then least(j.run_at, excluded.run_at) else excluded.run_at end,
        payload = excluded.payload, subject = excluded.subject,
        again = j.again or (j.state = 'running' and $10)
    returning job_id
"""

_CLAIM = fair_claim(
    table="pilotis.jobs",
    waiting="w.queue = $6 and w.state = 'waiting'",
    due="run_at",
    key="job_id",
    changes=", state = 'running', attempts = x.attempts + 1",
    returning="x.app_id, x.job_id, x.kind, x.key, x.subject, x.payload::text as payload, x.depth, x.attempts, x.fence",
)

# A keyed job that was enqueued again while it ran becomes due again. Both halves see the same row version: if an
# enqueue commits in between, neither matches, and the caller runs the statement again.
_FINISH = """
    with done as (select * from unnest($2::uuid[], $3::uuid[], $4::bigint[]) as d (app_id, job_id, fence)),
    repeated as (
        update pilotis.jobs j set state = 'waiting', again = false, attempts = 0, losses = 0, owner = null, error = null
        from done d
        where j.app_id = d.app_id and j.job_id = d.job_id and j.owner = $1 and j.fence = d.fence and j.again
        returning j.job_id
    ),
    removed as (
        delete from pilotis.jobs j using done d
        where j.app_id = d.app_id and j.job_id = d.job_id and j.owner = $1 and j.fence = d.fence and not j.again
        returning j.job_id
    )
    select job_id from repeated union all select job_id from removed
"""

# A job that was enqueued again while it ran has new work to do, however the earlier run ended.
_FAIL = """
    update pilotis.jobs set
        state = case when $6::float8 is null and not again then 'dead' else 'waiting' end,
        run_at = now() + make_interval(secs => case when again then 0 else coalesce($6::float8, 0) end),
        attempts = case when again then 0 else attempts end,
        ended_at = case when $6::float8 is null and not again then now() end,
        owner = null, again = false, error = $5::text::jsonb
    where app_id = $2 and job_id = $3 and owner = $1 and fence = $4
    returning job_id
"""

_RELEASE = """
    update pilotis.jobs j set state = 'waiting', owner = null, again = false, run_at = now(),
        attempts = greatest(0, attempts - 1)
    where owner = $1 and queue = $2 and not exists (
        select from unnest($3::uuid[], $4::bigint[]) as kept (job_id, fence)
        where kept.job_id = j.job_id and kept.fence = j.fence)
"""

_RELEASE_LOST = f"""
    update pilotis.jobs set
        state = case when losses >= {MAX_LOSSES} then 'dead' else 'waiting' end,
        ended_at = case when losses >= {MAX_LOSSES} then now() end,
        error = case when losses >= {MAX_LOSSES} then
            '{{"code": "WORKER_LOST", "message": "Each process that ran it has died."}}'::jsonb else error end,
        owner = null, again = false, run_at = now(), losses = losses + 1, fence = fence + 1
    where owner = $1 and queue = $2
"""


class JobRecord(NamedTuple):
    """A job that a process has claimed; `payload` is the JSON text of the kind's type."""

    app_id: UUID
    job_id: UUID
    kind: str
    key: str | None
    subject: str | None
    payload: Any
    depth: int
    attempts: int
    fence: int


class DeadJobRecord(NamedTuple):
    """A dead job of an app, or of the server, whose id is nil; `error` is JSON text."""

    app_id: UUID
    job_id: UUID
    kind: str
    subject: str | None
    attempts: int
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class JobCount(NamedTuple):
    """The number of jobs of a kind in a state, `waiting`, `running` or `dead`, and since when the oldest is due."""

    queue: str
    kind: str
    state: str
    number: int
    oldest: datetime


async def enqueue(
    connection: Connection,
    app_id: UUID,
    job_id: UUID,
    queue: str,
    kind: str,
    key: str | None,
    subject: str | None,
    payload: str,
    depth: int,
    run_at: datetime | None,
    again: bool,
) -> UUID:
    """Insert a job, or merge it into the unfinished job with the same key; return the id of the stored job."""
    job: UUID = await connection.fetchval(
        _ENQUEUE, app_id, job_id, queue, kind, key, subject, payload, depth, run_at, again
    )
    return job


async def enqueue_all(
    connection: Connection,
    queue: str,
    kind: str,
    jobs: Sequence[tuple[UUID, UUID, str | None, str]],
    depth: int,
    run_at: datetime | None,
) -> None:
    """Insert jobs without keys in one round trip, each given by app, id, subject and payload."""
    await connection.execute(
        """
        insert into pilotis.jobs (app_id, job_id, queue, kind, subject, payload, depth, run_at)
        select j.app_id, j.job_id, $1, $2, j.subject, j.payload::jsonb, $3, coalesce($4, now())
        from unnest($5::uuid[], $6::uuid[], $7::text[], $8::text[]) as j (app_id, job_id, subject, payload)
        """,
        queue,
        kind,
        depth,
        run_at,
        [job[0] for job in jobs],
        [job[1] for job in jobs],
        [job[2] for job in jobs],
        [job[3] for job in jobs],
    )


async def begin(database: Database, node_id: UUID, queue: str, kind: str, key: str) -> JobRecord | None:
    """Insert a keyed job as already running in the process; return None if an unfinished one exists."""
    row = await database.fetchrow(
        """
        insert into pilotis.jobs (app_id, job_id, queue, kind, key, payload, state, run_at, owner, fence, attempts)
        values ('00000000-0000-0000-0000-000000000000', $1, $2, $3, $4, '{}', 'running', now(), $5, 1, 1)
        on conflict (app_id, kind, key) where key is not null and state <> 'dead' do nothing
        returning app_id, job_id, kind, key, subject, payload::text as payload, depth, attempts, fence
        """,
        uuid7(),
        queue,
        kind,
        key,
        node_id,
        tenant=BACKGROUND,
    )
    return JobRecord(*row) if row else None


async def claim(
    database: Database, node_id: UUID, queue: str, free: int, full: Sequence[UUID], after: UUID, lease_seconds: float
) -> list[JobRecord]:
    """Claim at most `free` due jobs of a queue for a process, starting with the apps that follow `after`."""
    rows = await database.fetch(_CLAIM, node_id, free, list(full), after, lease_seconds, queue, tenant=BACKGROUND)
    return [JobRecord(*row) for row in rows]


async def finish(connection: Any, node_id: UUID, jobs: Sequence[tuple[UUID, UUID, int]]) -> set[UUID]:
    """End jobs, each given by app, id and fence; return the ids of those that the process still held."""
    ended: set[UUID] = set()
    remaining = list(jobs)
    for _ in range(2):
        rows = await connection.fetch(
            _FINISH, node_id, [j[0] for j in remaining], [j[1] for j in remaining], [j[2] for j in remaining]
        )
        ended.update(job_id for (job_id,) in rows)
        remaining = [job for job in remaining if job[1] not in ended]
        if not remaining:
            break
    return ended


async def fail(
    database: Database, node_id: UUID, app_id: UUID, job_id: UUID, fence: int, error: str, gap: float | None
) -> bool:
    """Store a failed attempt, to be retried after `gap` seconds or never; False if the job was no longer held."""
    return await database.fetchval(_FAIL, node_id, app_id, job_id, fence, error, gap, tenant=BACKGROUND) is not None


async def postpone(database: Database, node_id: UUID, app_id: UUID, job_id: UUID, fence: int, seconds: float) -> None:
    """Return a job that this process cannot run, for another process to claim."""
    await database.execute(
        """
        update pilotis.jobs set state = 'waiting', owner = null, attempts = attempts - 1,
            run_at = now() + make_interval(secs => $5)
        where app_id = $2 and job_id = $3 and owner = $1 and fence = $4
        """,
        node_id,
        app_id,
        job_id,
        fence,
        seconds,
        tenant=BACKGROUND,
    )


async def lock_held(connection: Connection, node_id: UUID, app_id: UUID, job_id: UUID, fence: int) -> bool:
    """Lock a job for the rest of the transaction; return False if the process no longer holds it."""
    return bool(
        await connection.fetchval(
            "select true from pilotis.jobs where app_id = $2 and job_id = $3 and owner = $1 and fence = $4 for update",
            node_id,
            app_id,
            job_id,
            fence,
        )
    )


async def release(connection: Connection, owner: UUID, queue: str, *, lost: bool, keep: Sequence[Hold] = ()) -> None:
    """Return every job of a queue that a process holds, except those in `keep`; `lost` if the process has died."""
    if lost:
        await connection.execute(_RELEASE_LOST, owner, queue)
    else:
        await connection.execute(_RELEASE, owner, queue, [job_id for job_id, _ in keep], [fence for _, fence in keep])


async def waiting(connection: Connection | TenantDatabase, app_id: UUID, queue: str, limit: int) -> int:
    """Return how many jobs of an app wait in a queue, counting up to `limit`."""
    count: int = await connection.fetchval(
        """
        select count(*) from (
            select from pilotis.jobs where queue = $1 and app_id = $2 and state = 'waiting' limit $3
        ) counted
        """,
        queue,
        app_id,
        limit,
    )
    return count


async def dead(
    database: Database, app_id: UUID, kind: str | None, subject: str | None, limit: int, offset: int
) -> tuple[list[DeadJobRecord], int]:
    """Return an app's dead jobs, of one kind and subject or all, newest first, and how many there are."""
    return await fetch_page(
        database,
        app_id,
        """
        select app_id, job_id, kind, subject, attempts, error::text as error, created_at, ended_at
        from pilotis.jobs where app_id = $1 and state = 'dead' and ($2::text is null or kind = $2)
            and ($3::text is null or subject = $3)
        """,
        (app_id, kind, subject),
        order_by="job_id desc",
        limit=limit,
        offset=offset,
        record=DeadJobRecord,
    )


async def count_dead(database: Database, app_id: UUID) -> int:
    """Return how many dead jobs an app has."""
    number: int = await database.fetchval(
        "select count(*) from pilotis.jobs where app_id = $1 and state = 'dead'", app_id, tenant=app_id
    )
    return number


async def dead_ids(connection: Connection, app_id: UUID, kind: str | None, limit: int) -> list[UUID]:
    """Return the ids of an app's dead jobs, of one kind or all, oldest first."""
    rows = await connection.fetch(
        """
        select job_id from pilotis.jobs where app_id = $1 and state = 'dead' and ($2::text is null or kind = $2)
        order by job_id limit $3
        """,
        app_id,
        kind,
        limit,
    )
    return [job_id for (job_id,) in rows]


async def delete_one_dead(connection: Connection, app_id: UUID, job_id: UUID) -> str | None:
    """Delete a dead job of an app and return its kind; None if it does not exist."""
    kind: str | None = await connection.fetchval(
        "delete from pilotis.jobs where app_id = $1 and job_id = $2 and state = 'dead' returning kind", app_id, job_id
    )
    return kind


async def overview(connection: Connection | TenantDatabase) -> list[JobCount]:
    """Return the number of jobs by queue, kind and state."""
    rows = await connection.fetch(
        """
        select queue, kind, state, count(*) as number,
            min(case when state = 'dead' then ended_at else run_at end) as oldest
        from pilotis.jobs group by queue, kind, state order by queue, kind, state
        """
    )
    return [JobCount(*row) for row in rows]


async def all_dead(database: Database, limit: int) -> list[DeadJobRecord]:
    """Return dead jobs of all apps, newest first."""
    rows = await database.fetch(
        """
        select app_id, job_id, kind, subject, attempts, error::text as error, created_at, ended_at
        from pilotis.jobs where state = 'dead' order by ended_at desc limit $1
        """,
        limit,
        tenant=CONSOLE,
    )
    return [DeadJobRecord(*row) for row in rows]


async def revive(
    connection: Connection, app_id: UUID | None, job_id: UUID, subject: str | None = None
) -> tuple[UUID, str] | None:
    """Make a dead job due now and return its app and kind; None if it does not exist, or has another subject.

    If an unfinished job with the same key exists, the dead one is deleted: the other job does the same work.
    """
    found = await connection.fetchrow(
        """
        select app_id, kind from pilotis.jobs
        where job_id = $2 and state = 'dead' and ($1::uuid is null or app_id = $1)
            and ($3::text is null or subject = $3) for update
        """,
        app_id,
        job_id,
        subject,
    )
    if found is None:
        return None
    owner, kind = found
    revived = await connection.fetchval(
        """
        update pilotis.jobs j set state = 'waiting', run_at = now(), attempts = 0, losses = 0, ended_at = null
        where app_id = $1 and job_id = $2 and not exists (
            select from pilotis.jobs o where o.app_id = j.app_id and o.kind = j.kind and o.key = j.key
                and o.state <> 'dead')
        returning true
        """,
        owner,
        job_id,
    )
    if not revived:
        await connection.execute("delete from pilotis.jobs where app_id = $1 and job_id = $2", owner, job_id)
    return owner, kind


async def delete_waiting(connection: Connection, app_id: UUID, kinds: Sequence[str]) -> None:
    """Delete the waiting jobs of these kinds of an app."""
    await connection.execute(
        "delete from pilotis.jobs where app_id = $1 and kind = any($2::text[]) and state = 'waiting'",
        app_id,
        list(kinds),
    )


async def delete_dead(connection: Connection, kinds: Sequence[str], days: Sequence[int], limit: int) -> int:
    """Delete at most `limit` dead jobs that are past their kind's retention; unknown kinds are kept for 14 days."""
    status = await connection.execute(
        """
        delete from pilotis.jobs where (app_id, job_id) in (
            select j.app_id, j.job_id from pilotis.jobs j
            left join unnest($1::text[], $2::int[]) as k (kind, days) on k.kind = j.kind
            where j.state = 'dead' and j.ended_at < now() - make_interval(days => coalesce(k.days, 14)) limit $3
        )
        """,
        list(kinds),
        list(days),
        limit,
    )
    return int(status.split()[1])

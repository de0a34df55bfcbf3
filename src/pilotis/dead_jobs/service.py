"""Dead jobs: listing, retrying and deleting them, and the findings of `pilotis doctor` about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.db.waiters import CONSOLE
from pilotis.dead_jobs.types import DeadJob, DeadJobQuery, JobError
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage
from pilotis.jobs import store
from pilotis.jobs.kinds import SERVER
from pilotis.jobs.store import DeadJobRecord
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.kit.reports import Report
from pilotis.security.audit.service import record

MAX_RETRIED = 1000
OVERDUE = timedelta(minutes=1)
_INTERNAL = JobError("ERROR", "An unexpected error; the operator of the server sees it with `pilotis jobs list`.")


class JobNotFoundError(NotFoundError):
    """404: the dead job does not exist."""

    code = "JOB_NOT_FOUND"
    message = "The dead job does not exist."


class OwnedDeadJob(NamedTuple):
    """A dead job and its owner: `app_id` is nil for the server's own work. `error` is complete."""

    app_id: UUID
    job_id: UUID
    kind: str
    subject: str | None
    attempts: int
    ended_at: str | None
    error: JobError | None


class RevivedJob(NamedTuple):
    """A job that is due again. `app_id` is nil for the server's own work."""

    app_id: UUID
    job_id: UUID
    kind: str


class DeadJobs:
    """The dead jobs of every app and of the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, app: AppInfo, query: DeadJobQuery) -> ItemPage[DeadJob]:
        """Return a page of an app's dead jobs, newest first. The text of unexpected errors is hidden."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.dead(self._database, app.app_id, query.kind, query.subject, limit, query.offset)
        data = [_shown(row) for row in rows]
        return ItemPage(data=data, total_count=total, limit=limit, offset=query.offset)

    async def count(self, app_id: UUID) -> int:
        """Return how many dead jobs an app has."""
        return await store.count_dead(self._database, app_id)

    async def all(self, limit: int) -> list[OwnedDeadJob]:
        """Return at most `limit` dead jobs of all apps and the server, newest first."""
        return [_owned(row) for row in await store.all_dead(self._database, limit)]

    async def retry(
        self, job_id: UUID, actor: Actor, app_id: UUID | None = None, subject: str | None = None
    ) -> RevivedJob:
        """Make a dead job due now, with all its attempts; raises `JobNotFoundError`.

        If an unfinished job has its key, the dead one is deleted: the other does the same work. With `app_id` the job
        must belong to that app, with `subject` be about that.
        """
        async with self._database.transaction(app_id or CONSOLE) as connection:
            revived = await store.revive(connection, app_id, job_id, subject)
            if revived is None:
                raise JobNotFoundError
            owner, kind = revived
            if owner != SERVER:
                await record(connection, owner, actor, "job.retry", job_id, kind=kind)
        return RevivedJob(owner, job_id, kind)

    async def retry_all(self, app_id: UUID, actor: Actor, kind: str | None) -> int:
        """Make an app's dead jobs, or those of one kind, due now; return how many, at most `MAX_RETRIED`."""
        async with self._database.transaction(app_id) as connection:
            found = await store.dead_ids(connection, app_id, kind, MAX_RETRIED)
            for job_id in found:
                await store.revive(connection, app_id, job_id)
            if found:
                await record(connection, app_id, actor, "job.retry_all", kind, number=len(found))
        return len(found)

    async def delete(self, app_id: UUID, actor: Actor, job_id: UUID) -> None:
        """Delete an app's dead job; raises `JobNotFoundError`."""
        async with self._database.transaction(app_id) as connection:
            kind = await store.delete_one_dead(connection, app_id, job_id)
            if kind is None:
                raise JobNotFoundError
            await record(connection, app_id, actor, "job.delete", job_id, kind=kind)


async def report(connection: Connection) -> list[Report]:
    """Return reports for the operator about dead jobs."""
    return [
        Report(
            f"{row.number} jobs of {row.kind} are dead, the oldest since {rfc3339(row.oldest)}.",
            "`pilotis jobs list` shows why; `pilotis jobs retry ID` repeats one once the cause is removed.",
        )
        for row in await store.overview(connection)
        if row.state == "dead"
    ]


async def overdue_report(connection: Connection) -> list[Report]:
    """Return reports for the operator about jobs that have been due for more than a minute."""
    return [
        Report(
            f"Jobs of {row.kind} are due since {rfc3339(row.oldest)}; no server works on the queue {row.queue}.",
            f"Start a server whose setting background allows {row.queue}.",
        )
        for row in await store.overview(connection)
        if row.state == "waiting" and datetime.now(UTC) - row.oldest > OVERDUE
    ]


def _shown(row: DeadJobRecord) -> DeadJob:
    error = _error(row)
    return DeadJob(
        job_id=row.job_id,
        kind=row.kind,
        subject=row.subject,
        attempts=row.attempts,
        created_at=rfc3339(row.created_at),
        ended_at=optional_rfc3339(row.ended_at),
        error=_INTERNAL if error is not None and error.code == "ERROR" else error,
    )


def _owned(row: DeadJobRecord) -> OwnedDeadJob:
    return OwnedDeadJob(
        row.app_id,
        row.job_id,
        row.kind,
        row.subject,
        row.attempts,
        optional_rfc3339(row.ended_at),
        _error(row),
    )


def _error(row: DeadJobRecord) -> JobError | None:
    return msgspec.json.decode(row.error, type=JobError) if row.error else None

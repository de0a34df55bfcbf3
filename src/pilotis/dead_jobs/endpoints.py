"""The console routes of dead jobs."""

from __future__ import annotations

from uuid import UUID

from pilotis.dead_jobs.service import DeadJobs, JobNotFoundError
from pilotis.dead_jobs.types import DeadJob, DeadJobQuery, DeadJobResult, RetriedJobs, RetryKind
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage

_JOBS = "/v1/apps/:app_id/dead-jobs"


class DeadJobEndpoints(Endpoints, tag="Background jobs"):
    """Background jobs of an app that have failed permanently. They are kept for two weeks."""

    def __init__(self, dead_jobs: DeadJobs) -> None:
        self._dead_jobs = dead_jobs

    @get(_JOBS, access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: DeadJobQuery) -> ItemPage[DeadJob]:
        """List dead jobs, newest first."""
        return await self._dead_jobs.page(call.app, query)

    @post(f"{_JOBS}/retry", access=Access.APP_EDITOR)
    async def retry_all(self, call: Call, app_id: UUID, body: RetryKind) -> RetriedJobs:
        """Retry all dead jobs, or those of one kind: the oldest 1,000 of them, with all their attempts."""
        number = await self._dead_jobs.retry_all(call.app.app_id, call.actor, body.kind)
        return RetriedJobs(f"{number} jobs are due again.", number)

    @post(f"{_JOBS}/:job_id/retry", access=Access.APP_EDITOR, errors=[JobNotFoundError])
    async def retry(self, call: Call, app_id: UUID, job_id: UUID) -> DeadJobResult:
        """Retry a dead job, with all its attempts."""
        await self._dead_jobs.retry(job_id, call.actor, call.app.app_id)
        return DeadJobResult("The job is due again.", job_id)

    @delete(f"{_JOBS}/:job_id", access=Access.APP_EDITOR, errors=[JobNotFoundError])
    async def delete(self, call: Call, app_id: UUID, job_id: UUID) -> DeadJobResult:
        """Delete a dead job: it will never run again."""
        await self._dead_jobs.delete(call.app.app_id, call.actor, job_id)
        return DeadJobResult("Dead job deleted.", job_id)

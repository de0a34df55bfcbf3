"""The types of dead jobs."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

from pilotis.http.api.schemas import Paging


class DeadJobQuery(Paging, forbid_unknown_fields=True):
    """Which dead jobs to list: those of a `kind`, such as `functions.call`, those about a `subject`, or all."""

    kind: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    subject: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class RetryKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead jobs to retry: those of a `kind`, or all."""

    kind: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class JobError(msgspec.Struct, frozen=True):
    """Why the last attempt failed. `code` is `TIMEOUT`, `WORKER_LOST`, `ERROR`, or the code of an API error."""

    code: str
    message: str


class DeadJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed permanently at `ended_at`, after `attempts` attempts; `subject` is what it was about."""

    job_id: UUID
    kind: str
    subject: str | None
    attempts: int
    created_at: str
    ended_at: str | None
    error: JobError | None


class DeadJobResult(msgspec.Struct, frozen=True):
    """The result of retrying or deleting a dead job."""

    message: str
    id: UUID


class RetriedJobs(msgspec.Struct, frozen=True):
    """How many dead jobs were made due again; at most 1,000 per request."""

    message: str
    retried: int

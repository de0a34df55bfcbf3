"""`pilotis jobs`: background jobs that have failed permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
import msgspec

from pilotis.cli.command import Outcome, command
from pilotis.http.api.principals import OPERATOR

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.dead_jobs.feature import DeadJobsFeature


@click.group()
def jobs() -> None:
    """List and retry background jobs that have failed permanently."""


@command(jobs)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, help="Maximum number of jobs. Default: 100.")
async def list_(on: Session, limit: int) -> Outcome:
    """List dead jobs with their last errors, newest first. They are kept for two weeks."""
    dead = await on.features.get(_feature()).dead_jobs.all(limit)
    found = [{**one._asdict(), "error": one.error and msgspec.to_builtins(one.error)} for one in dead]
    lines = [_line(one) for one in found]
    return Outcome(found, lines or ["There are no dead jobs."])


@command(jobs)
@click.argument("job_id", type=click.UUID, help="The job's id, as `jobs list` shows it.")
async def retry(on: Session, job_id: UUID) -> Outcome:
    """Retry a dead job, with all of its attempts."""
    revived = (await on.features.get(_feature()).dead_jobs.retry(job_id, OPERATOR))._asdict()
    return Outcome(revived, [f"The job {job_id} ({revived['kind']}) is due again; a running server starts it now."])


def _feature() -> type[DeadJobsFeature]:
    from pilotis.dead_jobs.feature import DeadJobsFeature

    return DeadJobsFeature


def _line(job: dict[str, Any]) -> str:
    error = job["error"] or {"code": "ERROR", "message": ""}
    owner = f"app {job['app_id']}" if job["app_id"].int else "the server"
    about = f" about {job['subject']}" if job["subject"] else ""
    attempts = f"{job['attempts']} attempts, the last {job['ended_at']}"
    return f"{job['job_id']}  {job['kind']}{about} of {owner}: {error['code']} after {attempts}: {error['message']}"

"""Dead jobs in the console and on the command line, and their deletion after a time."""

from __future__ import annotations

from pilotis.dead_jobs.endpoints import DeadJobEndpoints
from pilotis.dead_jobs.service import DeadJobs
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.jobs.tasks import delete_dead_jobs


class DeadJobsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Dead jobs."""

    described = (DeadJobEndpoints,)

    dead_jobs: DeadJobs


def feature(floor: Floor) -> DeadJobsFeature:
    """Return the feature."""
    dead_jobs = DeadJobs(floor.database)
    return DeadJobsFeature(
        name="dead jobs",
        endpoints=[DeadJobEndpoints(dead_jobs)],
        periodic=[delete_dead_jobs(floor.database, floor.jobs.kinds)],
        dead_jobs=dead_jobs,
    )

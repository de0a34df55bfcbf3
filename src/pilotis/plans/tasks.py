"""The periodic task of plans."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.plans.service import Plans

JUDGE_SECONDS = 15


def periodic(database: Database, plans: Plans) -> list[Periodic]:
    """Return the task that compares what apps have used with their quotas."""
    return [on_connection(database, "plans.judge", JUDGE_SECONDS, plans.judge)]

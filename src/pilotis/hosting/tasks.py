"""The periodic task of web hosting."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.hosting.retention import Retention
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, retention: Retention) -> list[Periodic]:
    """Return the task, which expires surplus deployments and collects unused contents."""
    return [on_connection(database, "hosting.collect", 900, retention.run_periodically, queue="bytes")]

"""The periodic tasks of web hosting."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.hosting import deployment_store
from pilotis.hosting.retention import Retention
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, retention: Retention, versions_kept: int) -> list[Periodic]:
    """Return the tasks: surplus deployments expire and unused contents go, and so do records of old deployments."""
    return [
        on_connection(database, "hosting.collect", 900, retention.run_periodically, queue="bytes"),
        on_connection(
            database,
            "hosting.expire",
            6 * 3600,
            lambda connection: deployment_store.delete_old(connection, versions_kept),
        ),
    ]

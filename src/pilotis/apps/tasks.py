"""The periodic tasks of apps."""

from __future__ import annotations

from pilotis.apps.requests.service import Requests
from pilotis.apps.service import Apps
from pilotis.apps.stats.service import Statistics
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, apps: Apps, statistics: Statistics, requests: Requests) -> list[Periodic]:
    """Return the tasks, which delete branches that have expired, purge deleted apps, and delete old statistics."""
    return [
        on_connection(database, "apps.purge", 3600, apps.purge_deleted),
        on_connection(database, "apps.expire_branches", 600, apps.delete_ended_branches),
        on_connection(database, "stats.expire", 6 * 3600, statistics.delete_old),
        on_connection(database, "requests.expire", 600, requests.delete_old),
    ]

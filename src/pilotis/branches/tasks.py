"""The periodic task of branches."""

from __future__ import annotations

from pilotis.branches.service import Branches
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, branches: Branches) -> list[Periodic]:
    """Return the task that forgets branches that no longer exist."""
    return [on_connection(database, "branches.forget", 3600, branches.delete_gone)]

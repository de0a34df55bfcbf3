"""The periodic task of second factors of console users: challenges expire."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.user_accounts.passkeys.store import delete_expired


def periodic(database: Database) -> list[Periodic]:
    """Return the task."""
    return [on_connection(database, "user_accounts.expire", 3600, delete_expired)]

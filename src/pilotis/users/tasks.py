"""The periodic task of console users."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.users.role_store import delete_expired_invitations


def periodic(database: Database) -> list[Periodic]:
    """Return the task, which deletes invitations one day after they expire."""
    return [on_connection(database, "invitations.expire", 6 * 3600, delete_expired_invitations)]

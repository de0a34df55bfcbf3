"""The periodic tasks of console users."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.users.role_store import delete_expired_invitations
from pilotis.users.store import delete_expired_tickets


def periodic(database: Database) -> list[Periodic]:
    """Return the tasks: invitations are deleted one day after they expire, and sign-ins that were not finished."""
    return [
        on_connection(database, "invitations.expire", 6 * 3600, delete_expired_invitations),
        on_connection(database, "users.expire_tickets", 3600, delete_expired_tickets),
    ]

"""The periodic tasks of members: the retention of guests, due deletions, and sign-ins that were not finished."""

from __future__ import annotations

from pilotis.floor import Floor
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.members.gate.store import delete_expired
from pilotis.members.guests import Guests
from pilotis.members.service import Members

_HOUR = 3600
_DAY = 24 * _HOUR


def periodic(floor: Floor, members: Members) -> list[Periodic]:
    """Return the tasks."""
    guests = Guests(floor.events, floor.limits.guest_days, members.departed)
    return [
        on_connection(floor.database, "members.expire_guests", _DAY, guests.expire),
        on_connection(floor.database, "members.delete_due", _HOUR, members.delete_due),
        on_connection(floor.database, "members.expire_tickets", _HOUR, delete_expired),
    ]

"""The periodic task of members: the retention of guests."""

from __future__ import annotations

from pilotis.floor import Floor
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.members.guests import Guests
from pilotis.members.service import Members

_DAY = 24 * 3600


def periodic(floor: Floor, members: Members) -> list[Periodic]:
    """Return the task."""
    guests = Guests(floor.events, floor.limits.guest_days, members.departed)
    return [on_connection(floor.database, "members.expire_guests", _DAY, guests.expire)]

"""The periodic tasks of sessions, rate limits, single-use values, the tokens of functions, and the audit log."""

from __future__ import annotations

from pilotis.floor import Floor
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.security import single_use
from pilotis.security.audit import retention
from pilotis.security.function_tokens import store as function_tokens


def periodic(floor: Floor) -> list[Periodic]:
    """Return the tasks, which delete expired rows."""
    return [
        on_connection(floor.database, "sessions.expire", 3600, floor.sessions.delete_expired),
        on_connection(floor.database, "rate_limits.expire", 300, lambda _: floor.rate_limits.delete_expired()),
        on_connection(floor.database, "single_use.expire", 3600, single_use.delete_expired),
        on_connection(floor.database, "function_tokens.expire", 3600, function_tokens.delete_expired),
        on_connection(
            floor.database,
            "audit.expire",
            6 * 3600,
            lambda connection: retention.delete_old(connection, floor.limits),
        ),
    ]

"""The periodic task of idempotency keys."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.security.idempotency.store import IdempotencyKeys


def expire(database: Database, keys: IdempotencyKeys) -> Periodic:
    """Return the task that deletes expired keys every hour."""
    return on_connection(database, "idempotency_keys.expire", 3600, keys.delete_expired)

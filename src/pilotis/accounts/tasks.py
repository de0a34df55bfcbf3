"""The periodic task of accounts: proofs, challenges and invitations expire."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.accounts import store
from pilotis.accounts.invitations.store import delete_old
from pilotis.accounts.passkeys.store import delete_expired
from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection

_BATCH_SIZE = 2_000


def periodic(database: Database) -> list[Periodic]:
    """Return the task."""

    async def expire(connection: Connection) -> None:
        while await store.delete_expired(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        while await delete_old(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        await delete_expired(connection)

    return [on_connection(database, "accounts.expire", 3600, expire)]

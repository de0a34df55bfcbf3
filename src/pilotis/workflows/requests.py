"""The requests that started executions, kept for functions that read them later, encrypted under the app's key."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose
from pilotis.workflows import incoming, trigger_store
from pilotis.workflows.incoming import Incoming


class Requests:
    """Requests to trigger URLs whose first function does not run inside them."""

    def __init__(self, database: Database, secrets: Secrets) -> None:
        self._database = database
        self._secrets = secrets

    async def seal(self, app_id: UUID, execution_id: UUID, request: Incoming) -> bytes:
        """Return a request as it is stored."""
        secrets = await self._secrets.app(app_id)
        return secrets.encrypt(Purpose.WORKFLOW_REQUEST, str(execution_id), request.packed())

    async def keep(self, connection: Connection, app_id: UUID, execution_id: UUID, sealed: bytes) -> None:
        """Store a sealed request with its execution."""
        await trigger_store.insert_request(connection, app_id, execution_id, sealed)

    async def of(self, app_id: UUID, execution_id: UUID) -> Incoming | None:
        """Return the request that started an execution; None if none is kept."""
        sealed = await trigger_store.request(self._database.of(app_id), app_id, execution_id)
        if sealed is None:
            return None
        secrets = await self._secrets.app(app_id)
        return incoming.unpacked(secrets.decrypt(Purpose.WORKFLOW_REQUEST, str(execution_id), sealed))

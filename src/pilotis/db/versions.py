"""Which versions of the program serve a database."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.pool import TenantDatabase


async def is_known_everywhere(connection: Connection | TenantDatabase, version: str) -> bool:
    """Return whether all nodes have this version: an older one would not ask for second factors."""
    older = await connection.fetchval(
        "select true from pilotis.nodes where version <> $1 and lease_until > now() limit 1", version
    )
    return not older

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


async def processes_without(connection: Connection, number: int) -> list[str]:
    """Return the names and versions of processes that do not know a migration, by its number.

    One whose lease has expired counts as well, until others have taken over its work: it may only be paused.
    """
    rows = await connection.fetch(
        """
        select name, version from pilotis.nodes where knows < $1 and lease_until > '-infinity' order by name
        """,
        number,
    )
    return [f"{name} (version {version})" for name, version in rows]

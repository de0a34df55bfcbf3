"""SQL statements about the rules of storages, which tables they name."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import TenantDatabase


async def ruled_storages(connection: Connection | TenantDatabase, app_id: UUID) -> list[tuple[UUID, UUID, str, str]]:
    """Return the app's storages that have rules: app, id, name, and the rules as JSON."""
    rows = await connection.fetch(
        "select app_id, storage_id, name, rules from pilotis.file_storages where app_id = $1 and rules is not null",
        app_id,
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


async def names_table(connection: Connection | TenantDatabase, app_id: UUID, table_id: UUID) -> bool:
    """Return whether rules of a storage name a table."""
    found: bool = await connection.fetchval(
        """
        select exists (
            select from pilotis.file_storages
            where app_id = $1 and rules is not null and position($2::uuid::text in rules::text) > 0
        )
        """,
        app_id,
        table_id,
    )
    return found

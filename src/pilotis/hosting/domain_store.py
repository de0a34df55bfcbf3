"""SQL statements for the domains of web storages."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class DomainRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A domain; it is verified by a TXT record that contains `token`."""

    hostname: str
    token: str
    verified_at: datetime | None
    created_at: datetime


_COLUMNS = columns(DomainRecord)


async def domains(
    database: Database, app_id: UUID, storage_id: UUID, limit: int, offset: int
) -> tuple[list[DomainRecord], int]:
    """Return a page of a storage's domains in alphabetical order, and their total number."""
    query = f"select {_COLUMNS} from pilotis.web_domains where app_id = $1 and storage_id = $2"
    arguments = (app_id, storage_id)
    return await fetch_page(
        database, app_id, query, arguments, order_by="hostname", limit=limit, offset=offset, record=DomainRecord
    )


async def domain(
    connection: Connection | TenantDatabase, app_id: UUID, storage_id: UUID, hostname: str
) -> DomainRecord | None:
    """Return a domain of a storage."""
    row = await connection.fetchrow(
        f"select {_COLUMNS} from pilotis.web_domains where app_id = $1 and storage_id = $2 and hostname = $3",
        app_id,
        storage_id,
        hostname,
    )
    return DomainRecord(**row) if row else None


async def count_domains(connection: Connection, app_id: UUID, storage_id: UUID) -> int:
    """Return how many domains a storage has."""
    count: int = await connection.fetchval(
        "select count(*) from pilotis.web_domains where app_id = $1 and storage_id = $2", app_id, storage_id
    )
    return count


async def insert_domain(
    connection: Connection, app_id: UUID, storage_id: UUID, hostname: str, token: str
) -> DomainRecord:
    """Insert an unverified domain, or return the existing one."""
    await connection.execute(
        """
        insert into pilotis.web_domains (app_id, storage_id, hostname, token) values ($1, $2, $3, $4)
        on conflict (app_id, storage_id, hostname) do nothing
        """,
        app_id,
        storage_id,
        hostname,
        token,
    )
    row = await domain(connection, app_id, storage_id, hostname)
    assert row is not None
    return row


async def verify_domain(connection: Connection, app_id: UUID, storage_id: UUID, hostname: str) -> DomainRecord | None:
    """Record the verification of a domain; raises a unique violation if another storage has verified it."""
    row = await connection.fetchrow(
        f"""
        update pilotis.web_domains set verified_at = coalesce(verified_at, now())
        where app_id = $1 and storage_id = $2 and hostname = $3 returning {_COLUMNS}
        """,
        app_id,
        storage_id,
        hostname,
    )
    return DomainRecord(**row) if row else None


async def delete_domain(connection: Connection, app_id: UUID, storage_id: UUID, hostname: str) -> bool:
    """Delete a domain; False if there is none."""
    return (
        await connection.fetchval(
            "delete from pilotis.web_domains where app_id = $1 and storage_id = $2 and hostname = $3 returning true",
            app_id,
            storage_id,
            hostname,
        )
        is True
    )

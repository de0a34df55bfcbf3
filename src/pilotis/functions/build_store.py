"""Statements on the builds of functions."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import TenantDatabase


async def packages(connection: TenantDatabase, app_id: UUID, digest: str) -> tuple[str, str, int] | None:
    """Return the packages of a build as JSON text, its log, and the size of what it made."""
    row = await connection.fetchrow(
        """
        select packages::text, log, octet_length(built) as size from pilotis.function_builds
        where app_id = $1 and digest = $2
        """,
        app_id,
        digest,
    )
    return (row[0], row[1], row[2]) if row else None


async def built(connection: TenantDatabase, app_id: UUID, digest: str) -> bytes | None:
    """Return what a build made."""
    data: bytes | None = await connection.fetchval(
        "select built from pilotis.function_builds where app_id = $1 and digest = $2", app_id, digest
    )
    return data


async def insert(connection: Connection, app_id: UUID, digest: str, packages: str, log: str, data: bytes) -> None:
    """Store a build, unless another process has."""
    await connection.execute(
        """
        insert into pilotis.function_builds (app_id, digest, packages, log, built) values ($1, $2, $3, $4, $5)
        on conflict (app_id, digest) do nothing
        """,
        app_id,
        digest,
        packages,
        log,
        data,
    )


async def delete_unused(connection: Connection) -> None:
    """Delete builds of which no version with its source and no draft is made, once they are a day old."""
    await connection.execute(
        """
        delete from pilotis.function_builds b where created_at < now() - interval '1 day'
            and not exists (select from pilotis.function_versions v
                where v.app_id = b.app_id and v.build_digest = b.digest and v.source is not null)
            and not exists (select from pilotis.function_drafts d
                where d.app_id = b.app_id and d.build_digest = b.digest)
        """
    )

"""SQL statements for the files of deployments, and for contents: bytes that files share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database, TenantDatabase
from pilotis.hosting.types import FileEntry

PROTECTED_HOURS = 24
"""How long an unused content is kept after its last use."""


class UncompressedContent(NamedTuple):
    """A content that may be compressed: the id of its bytes, their number, and the type of a file with them."""

    blob_id: UUID
    size: int
    content_type: str


async def files(connection: Connection | TenantDatabase, app_id: UUID, deployment_id: UUID) -> dict[str, FileEntry]:
    """Return the manifest of a deployment, sorted by path."""
    rows = await connection.fetch(
        """
        select path, sha256, size, content_type from pilotis.web_files
        where app_id = $1 and deployment_id = $2 order by path
        """,
        app_id,
        deployment_id,
    )
    return {path: FileEntry(sha256, size, content_type) for path, sha256, size, content_type in rows}


async def insert_files(
    connection: Connection, app_id: UUID, deployment_id: UUID, manifest: Mapping[str, FileEntry]
) -> None:
    """Insert files of a deployment."""
    entries = manifest.values()
    await connection.execute(
        """
        insert into pilotis.web_files (app_id, deployment_id, path, sha256, size, content_type)
        select $1::uuid, $2::uuid, * from unnest($3::text[], $4::bytea[], $5::bigint[], $6::text[])
        """,
        app_id,
        deployment_id,
        list(manifest),
        [entry.sha256 for entry in entries],
        [entry.size for entry in entries],
        [entry.content_type for entry in entries],
    )


async def copy_files(
    connection: Connection, app_id: UUID, base_id: UUID, deployment_id: UUID, without: Iterable[str]
) -> None:
    """Insert a base deployment's files, except some paths, for another deployment."""
    await connection.execute(
        """
        insert into pilotis.web_files (app_id, deployment_id, path, sha256, size, content_type)
        select app_id, $3::uuid, path, sha256, size, content_type from pilotis.web_files
        where app_id = $1 and deployment_id = $2 and path <> all($4::text[])
        """,
        app_id,
        base_id,
        deployment_id,
        list(without),
    )


async def delete_files(connection: Connection, app_id: UUID, deployment_ids: Sequence[UUID]) -> None:
    """Delete all files of deployments."""
    await connection.execute(
        "delete from pilotis.web_files where app_id = $1 and deployment_id = any($2::uuid[])", app_id, deployment_ids
    )


async def touch_blobs(
    connection: Connection | TenantDatabase, app_id: UUID, hashes: Iterable[bytes]
) -> dict[bytes, int]:
    """Protect contents from collection, and return the size of each that exists.

    Touching a content in a transaction protects it until the transaction ends.
    """
    rows = await connection.fetch(
        """
        with locked as (
            select sha256 from pilotis.web_blobs where app_id = $1 and sha256 = any($2::bytea[])
            order by sha256 for no key update
        )
        update pilotis.web_blobs b set last_used_at = now() from locked
        where b.app_id = $1 and b.sha256 = locked.sha256 returning b.sha256, b.size
        """,
        app_id,
        list(hashes),
    )
    return {row[0]: row[1] for row in rows}


async def blob_id(connection: Connection | TenantDatabase, app_id: UUID, sha256: bytes) -> UUID:
    """Return the id of an existing content."""
    found: UUID = await connection.fetchval(
        "select blob_id from pilotis.web_blobs where app_id = $1 and sha256 = $2", app_id, sha256
    )
    return found


async def mark_for_deletion(database: Database, app_id: UUID, keys: Sequence[str]) -> None:
    """Mark bytes for deletion in a day, unless a content uses them before: the storing process may die."""
    await database.execute(
        """
        insert into pilotis.pending_deletions (app_id, key, due_at)
        select $1::uuid, key, now() + interval '1 day' from unnest($2::text[]) key
        on conflict (app_id, key) do update set due_at = excluded.due_at, attempts = 0
        """,
        app_id,
        list(keys),
        tenant=app_id,
    )


async def delete_soon(database: Database, app_id: UUID, keys: Sequence[str]) -> None:
    """Delete marked bytes soon that nothing refers to."""
    await database.execute(
        "update pilotis.pending_deletions set due_at = now() where app_id = $1 and key = any($2::text[])",
        app_id,
        list(keys),
        tenant=app_id,
    )


async def insert_blobs(
    connection: Connection, app_id: UUID, blobs: Sequence[tuple[bytes, UUID, int]], prefix: str
) -> None:
    """Insert contents whose bytes are stored; for an existing one the new bytes stay marked."""
    await connection.execute(
        """
        with made as (
            insert into pilotis.web_blobs (app_id, sha256, blob_id, size)
            select $1::uuid, * from unnest($2::bytea[], $3::uuid[], $4::bigint[]) given (sha256, blob_id, size)
            order by sha256
            on conflict (app_id, sha256) do update set last_used_at = now()
            returning blob_id
        )
        delete from pilotis.pending_deletions using made where app_id = $1 and key = $5 || made.blob_id::text
        """,
        app_id,
        [sha256 for sha256, _, _ in blobs],
        [blob_id for _, blob_id, _ in blobs],
        [size for _, _, size in blobs],
        prefix,
    )


async def uncompressed(
    database: Database, app_id: UUID, deployment_id: UUID, min_size: int
) -> list[UncompressedContent]:
    """Return the contents of a deployment that are not compressed yet, smallest first."""
    rows = await database.fetch(
        """
        select b.blob_id, b.size, min(f.content_type) as content_type
        from pilotis.web_files f join pilotis.web_blobs b using (app_id, sha256)
        where f.app_id = $1 and f.deployment_id = $2 and b.compressed_at is null and b.size >= $3
        group by b.app_id, b.sha256, b.blob_id, b.size order by b.size
        """,
        app_id,
        deployment_id,
        min_size,
        tenant=app_id,
    )
    return [UncompressedContent(*row) for row in rows]


async def set_compressed(
    connection: Connection,
    app_id: UUID,
    blob_id: UUID,
    brotli: tuple[UUID, int] | None,
    gzip: tuple[UUID, int] | None,
    prefix: str,
) -> None:
    """Store the compressed forms of a content; if it is deleted or already has them, the new bytes stay marked."""
    await connection.execute(
        """
        with changed as (
            update pilotis.web_blobs
            set compressed_at = now(), brotli_id = $3, brotli_size = $4, gzip_id = $5, gzip_size = $6
            where app_id = $1 and blob_id = $2 and compressed_at is null
            returning brotli_id, gzip_id
        )
        delete from pilotis.pending_deletions using changed
        where app_id = $1 and key in ($7 || brotli_id::text, $7 || gzip_id::text)
        """,
        app_id,
        blob_id,
        brotli[0] if brotli else None,
        brotli[1] if brotli else None,
        gzip[0] if gzip else None,
        gzip[1] if gzip else None,
        prefix,
    )


async def collect_blobs(connection: Connection, limit: int) -> int:
    """Delete contents that no deployment uses and that were not touched recently; return their number.

    A trigger marks their bytes for deletion. A content that is being touched is checked again after the touching
    transaction commits.
    """
    rows = await connection.fetch(
        """
        with unused as (
            select b.app_id, b.sha256 from pilotis.web_blobs b
            where b.last_used_at < now() - make_interval(hours => $2)
                and not exists (select from pilotis.web_files f where f.app_id = b.app_id and f.sha256 = b.sha256)
            order by b.last_used_at limit $1 for update skip locked
        )
        delete from pilotis.web_blobs b using unused
        where b.app_id = unused.app_id and b.sha256 = unused.sha256
            and b.last_used_at < now() - make_interval(hours => $2)
        returning b.sha256
        """,
        limit,
        PROTECTED_HOURS,
    )
    return len(rows)

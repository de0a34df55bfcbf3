"""The archives that owners of apps asked for, and the imports of uploaded ones, in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.archive.types import ArchiveStatus, Exported, Imported, ImportStatus
from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns

SEEN_SECONDS = 60.0
"""For how long an import may be silent before it counts as ended with its process."""


class ArchiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """An archive; numbers are null until it is completed."""

    archive_id: UUID
    state: ArchiveStatus
    created_at: datetime
    ended_at: datetime | None
    is_scheduled: bool
    has_passphrase: bool
    with_secrets: bool
    bytes: int | None
    tables: int | None
    rows: int | None
    blobs: int | None
    missing_blobs: int | None
    error: str | None


class PendingArchive(msgspec.Struct, frozen=True, kw_only=True):
    """An archive that is to be written."""

    passphrase: bytes | None
    with_secrets: bool
    is_scheduled: bool


class ImportRow(msgspec.Struct, frozen=True, kw_only=True):
    """An import; `is_silent` if its process has said nothing for `SEEN_SECONDS`."""

    import_id: UUID
    state: ImportStatus
    created_at: datetime
    bytes: int
    made_app_id: UUID | None
    name: str | None
    tables: int | None
    rows: int | None
    blobs: int | None
    missing_blobs: int | None
    left_out: list[str] | None
    code: str | None
    error: str | None
    is_silent: bool


async def insert(
    connection: Connection,
    app_id: UUID,
    archive_id: UUID,
    passphrase: bytes | None,
    *,
    with_secrets: bool,
    is_scheduled: bool = False,
) -> bool:
    """Add an archive that is to be written; False if the app has one already."""
    inserted = await connection.fetchval(
        """
        insert into pilotis.app_archives (app_id, archive_id, passphrase, has_passphrase, with_secrets, is_scheduled)
        values ($1, $2, $3::bytea, $3::bytea is not null, $4, $5)
        on conflict (app_id) where state = 'pending' do nothing returning true
        """,
        app_id,
        archive_id,
        passphrase,
        with_secrets,
        is_scheduled,
    )
    return bool(inserted)


async def archives(connection: TenantDatabase, app_id: UUID) -> list[ArchiveRow]:
    """Return the archives of an app, the newest first."""
    rows = await connection.fetch(
        f"select {columns(ArchiveRow)} from pilotis.app_archives where app_id = $1 order by archive_id desc", app_id
    )
    return [ArchiveRow(**row) for row in rows]


async def archive(connection: Connection | TenantDatabase, app_id: UUID, archive_id: UUID) -> ArchiveRow | None:
    """Return an archive."""
    row = await connection.fetchrow(
        f"select {columns(ArchiveRow)} from pilotis.app_archives where app_id = $1 and archive_id = $2",
        app_id,
        archive_id,
    )
    return ArchiveRow(**row) if row is not None else None


async def count_failing(connection: TenantDatabase, app_id: UUID) -> int:
    """Return how many archives of an app's schedule have failed since the last one that was completed."""
    count: int = await connection.fetchval(
        """
        select count(*) from pilotis.app_archives a
        where app_id = $1 and is_scheduled and state = 'failed'
            and exists (select from pilotis.archive_schedules s where s.app_id = $1)
            and archive_id > all (
                select archive_id from pilotis.app_archives
                where app_id = $1 and is_scheduled and state = 'completed'
            )
        """,
        app_id,
    )
    return count


async def pending(connection: TenantDatabase, app_id: UUID, archive_id: UUID) -> PendingArchive | None:
    """Return what is needed to write an archive; None if that has ended, or it was deleted."""
    row = await connection.fetchrow(
        """
        select passphrase, with_secrets, is_scheduled from pilotis.app_archives
        where app_id = $1 and archive_id = $2 and state = 'pending'
        """,
        app_id,
        archive_id,
    )
    return PendingArchive(**row) if row is not None else None


async def complete(connection: Connection, app_id: UUID, archive_id: UUID, made: Exported) -> bool:
    """Record that an archive is written; False if it was deleted meanwhile."""
    done = await connection.fetchval(
        """
        update pilotis.app_archives set state = 'completed', ended_at = now(), passphrase = null, error = null,
            bytes = $3, tables = $4, rows = $5, blobs = $6, missing_blobs = $7
        where app_id = $1 and archive_id = $2 returning true
        """,
        app_id,
        archive_id,
        made.bytes,
        made.tables,
        made.rows,
        made.blobs,
        made.missing_blobs,
    )
    return bool(done)


async def fail(connection: Connection, app_id: UUID, archive_id: UUID, error: str) -> None:
    """Record why an archive cannot be written."""
    await connection.execute(
        """
        update pilotis.app_archives set state = 'failed', ended_at = now(), passphrase = null, error = $3
        where app_id = $1 and archive_id = $2
        """,
        app_id,
        archive_id,
        error,
    )


async def fail_old(connection: Connection, days: int, error: str) -> None:
    """Record why archives of long ago, which are still to be written, will not be."""
    await connection.execute(
        """
        update pilotis.app_archives set state = 'failed', ended_at = now(), passphrase = null, error = $2
        where state = 'pending' and created_at < now() - make_interval(days => $1)
        """,
        days,
        error,
    )


async def fail_completed(connection: Connection, error: str) -> None:
    """Record of all archives that are written that their bytes are gone."""
    await connection.execute(
        "update pilotis.app_archives set state = 'failed', error = $1 where state = 'completed'", error
    )


async def delete(connection: Connection, app_id: UUID, archive_id: UUID) -> bool:
    """Delete an archive; False if there is none."""
    gone = await connection.fetchval(
        "delete from pilotis.app_archives where app_id = $1 and archive_id = $2 returning true", app_id, archive_id
    )
    return bool(gone)


async def delete_oldest(connection: Connection, app_id: UUID, keep: int, *, is_scheduled: bool) -> Sequence[UUID]:
    """Delete all but the newest archives that were made at the times of a schedule, or for requests; return their ids.

    Those that failed are counted by themselves: however often it fails, what was completed before stays.
    """
    rows = await connection.fetch(
        """
        delete from pilotis.app_archives where app_id = $1 and archive_id in (
            select archive_id from (
                select archive_id, row_number() over (partition by state order by archive_id desc) as place
                from pilotis.app_archives where app_id = $1 and is_scheduled = $3 and state <> 'pending'
            ) ended where place > $2
        ) returning archive_id
        """,
        app_id,
        keep,
        is_scheduled,
    )
    return [archive_id for (archive_id,) in rows]


async def mark_for_deletion(connection: Connection, app_id: UUID, keys: Sequence[str]) -> None:
    """Mark blobs for deletion in an hour, when no download reads them any more."""
    await connection.execute(
        """
        insert into pilotis.pending_deletions (app_id, key, due_at)
        select $1, unnest($2::text[]), now() + interval '1 hour' on conflict do nothing
        """,
        app_id,
        keys,
    )


async def unmark(connection: Connection, app_id: UUID, keys: Sequence[str]) -> None:
    """Cancel the deletion of blobs."""
    await connection.execute(
        "delete from pilotis.pending_deletions where app_id = $1 and key = any($2::text[])", app_id, keys
    )


async def begin_import(connection: Connection, import_id: UUID, user_id: UUID, size: int) -> None:
    """Record that an import runs."""
    await connection.execute(
        "insert into pilotis.app_imports (import_id, user_id, bytes) values ($1, $2, $3)", import_id, user_id, size
    )


async def see_import(connection: TenantDatabase, import_id: UUID) -> None:
    """Record that an import still runs."""
    await connection.execute("update pilotis.app_imports set seen_at = now() where import_id = $1", import_id)


async def complete_import(connection: Connection, import_id: UUID, made: Imported) -> None:
    """Record which app an import has made, in the transaction that makes it."""
    await connection.execute(
        """
        update pilotis.app_imports set state = 'completed', made_app_id = $2, name = $3, tables = $4, rows = $5,
            blobs = $6, missing_blobs = $7, left_out = $8
        where import_id = $1
        """,
        import_id,
        made.app_id,
        made.name,
        made.tables,
        made.rows,
        made.blobs,
        made.missing_blobs,
        made.left_out,
    )


async def fail_import(connection: TenantDatabase, import_id: UUID, code: str, error: str) -> None:
    """Record why an import has failed, unless it has made its app before its connection was lost."""
    await connection.execute(
        """
        update pilotis.app_imports set state = 'failed', code = $2, error = $3
        where import_id = $1 and state = 'running'
        """,
        import_id,
        code,
        error,
    )


async def app_import(connection: TenantDatabase, user_id: UUID, import_id: UUID) -> ImportRow | None:
    """Return an import of a console user."""
    row = await connection.fetchrow(
        f"""
        select {columns(ImportRow, without=["is_silent"])}, seen_at < now() - make_interval(secs => $3) as is_silent
        from pilotis.app_imports where import_id = $1 and user_id = $2
        """,
        import_id,
        user_id,
        SEEN_SECONDS,
    )
    return ImportRow(**row) if row is not None else None


async def delete_old_imports(connection: Connection, days: int) -> None:
    """Delete what is known of imports of long ago."""
    await connection.execute(
        "delete from pilotis.app_imports where created_at < now() - make_interval(days => $1)", days
    )

"""Archives that the owners of apps ask for in the console: written by a job, kept for download, a few of each app.

Their bytes are a blob of the app, so that they are moved, purged and looked for with all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import IO
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.archive import request_store as store
from pilotis.archive import schedule_store
from pilotis.archive.errors import (
    ArchiveKeyError,
    ArchiveLinkInvalidError,
    ArchiveNotFoundError,
    ArchiveNotReadyError,
    ArchivePendingError,
)
from pilotis.archive.request_store import ArchiveRow, PendingArchive
from pilotis.archive.service import Archives
from pilotis.archive.types import AppArchive, AppArchiveList, ArchiveLink, NewArchive
from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, AppUser, InvalidTokenError, Role
from pilotis.jobs.kinds import Job, JobKind, LeaseLostError
from pilotis.jobs.queue import Jobs
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import PilotisError
from pilotis.kit.ids import uuid7
from pilotis.kit.scratch import scratch
from pilotis.security import single_use
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose
from pilotis.users.service import UserInactiveError, Users

CONTENT_TYPE = "application/vnd.pilotis.archive"
LINK_LIFETIME = timedelta(seconds=60)
LINK_PREFIX = "ar_"
SCHEDULED = "schedule"
"""What the encryption of a schedule's passphrase names, which is that of each of its archives."""
_LINK = "archive"
_GAPS = (5.0, 60.0, 600.0)
_SECONDS = 6 * 3600.0
_LOST_DAYS = 2  # more than all attempts take
_UNKNOWN = "The archive could not be written. The server's log says why."
_PIECE_BYTES = 1 << 20
_log = structlog.get_logger("pilotis.archive")


class ArchiveJob(msgspec.Struct, frozen=True):
    """The archive that a job writes."""

    archive_id: UUID


class LinkedArchive(msgspec.Struct, frozen=True):
    """Which archive a link downloads, and for whom."""

    archive_id: UUID
    user_id: UUID


class Download(msgspec.Struct, frozen=True):
    """The bytes of an archive, their number, and a name for the file."""

    name: str
    size: int
    chunks: AsyncGenerator[bytes]


class RequestedArchives:
    """Takes the requests, writes the archives, and gives them out."""

    def __init__(
        self,
        database: Database,
        archives: Archives,
        blobs: BlobStore,
        secrets: Secrets,
        jobs: Jobs,
        apps: Apps,
        users: Users,
        base_url: str,
        folder: Path,
    ) -> None:
        self._database = database
        self._archives = archives
        self._blobs = blobs
        self._secrets = secrets
        self._jobs = jobs
        self._apps = apps
        self._users = users
        self._base_url = base_url
        self._folder = folder
        self.kind = JobKind(
            name="archives.write",
            queue="archives",
            payload=ArchiveJob,
            run=self._run,
            gaps=_GAPS,
            # What takes longer ends before, and says so.
            seconds=_SECONDS + 60,
        )

    async def ask(self, app: AppInfo, actor: Actor, archive_id: UUID, wanted: NewArchive) -> AppArchive:
        """Have an archive written; raises `ArchivePendingError`."""
        app_id = app.app_id
        sealed = None
        if wanted.passphrase is not None:
            secrets = await self._secrets.app(app_id)
            sealed = secrets.encrypt(Purpose.ARCHIVE_PASSPHRASE, str(archive_id), wanted.passphrase.encode())
        async with self._database.transaction(app_id) as connection:
            if not await store.insert(connection, app_id, archive_id, sealed, with_secrets=wanted.with_secrets):
                raise ArchivePendingError
            await record(connection, app_id, actor, "app.export", app_id)
            await self._jobs.enqueue(
                connection, self.kind, app_id, ArchiveJob(archive_id), key=str(archive_id), subject=str(archive_id)
            )
        return await self.read(app, archive_id)

    async def ask_scheduled(
        self, connection: Connection, app_id: UUID, passphrase: bytes | None, *, with_secrets: bool
    ) -> bool:
        """Have an archive written at the time of a schedule; False if one is being written.

        The passphrase is the encrypted one of the schedule.
        """
        archive_id = uuid7()
        if not await store.insert(
            connection, app_id, archive_id, passphrase, with_secrets=with_secrets, is_scheduled=True
        ):
            return False
        await self._jobs.enqueue(
            connection, self.kind, app_id, ArchiveJob(archive_id), key=str(archive_id), subject=str(archive_id)
        )
        return True

    async def list(self, app: AppInfo) -> AppArchiveList:
        """Return the archives of an app, the newest first."""
        rows = await store.archives(self._database.of(app.app_id), app.app_id)
        return AppArchiveList(data=[_view(row) for row in rows], total_count=len(rows), kept=app.limits.app_archives)

    async def read(self, app: AppInfo, archive_id: UUID) -> AppArchive:
        """Return an archive; raises `ArchiveNotFoundError`."""
        return _view(await self._row(app.app_id, archive_id))

    async def delete(self, app_id: UUID, actor: Actor, archive_id: UUID) -> None:
        """Delete an archive, also one that is being written; raises `ArchiveNotFoundError`."""
        async with self._database.transaction(app_id) as connection:
            if not await store.delete(connection, app_id, archive_id):
                raise ArchiveNotFoundError
            await store.mark_for_deletion(connection, app_id, [blob_key(app_id, archive_id)])
            await record(connection, app_id, actor, "app.archive_delete", archive_id)

    async def link(self, principal: AppUser, archive_id: UUID) -> ArchiveLink:
        """Return a link that downloads an archive once; raises `ArchiveNotFoundError`, `ArchiveNotReadyError`."""
        app_id = principal.app.app_id
        if (await self._row(app_id, archive_id)).state != "completed":
            raise ArchiveNotReadyError
        minted = single_use.mint(LINK_PREFIX, app_id)
        linked = LinkedArchive(archive_id, principal.user.user_id)
        async with self._database.transaction(app_id) as connection:
            expires_at = await single_use.put(
                connection, app_id, minted, _LINK, msgspec.to_builtins(linked), LINK_LIFETIME
            )
        return ArchiveLink(f"{self._base_url}/v1/archives/{minted.text}", rfc3339(expires_at))

    async def download(self, text: str) -> Download:
        """Return what a link downloads; it cannot be used again. Raises `ArchiveLinkInvalidError`."""
        app_id = single_use.app_of(LINK_PREFIX, text)
        if app_id is None:
            raise ArchiveLinkInvalidError
        async with self._database.transaction(app_id) as connection:
            data = await single_use.consume(connection, app_id, _LINK, text)
        if data is None:
            raise ArchiveLinkInvalidError
        linked = msgspec.convert(data, LinkedArchive)
        try:
            app = await self._apps.by_id(app_id)
            await self._users.require_active(linked.user_id)
            row = await self._row(app_id, linked.archive_id)
        except (AppNotFoundError, InvalidTokenError, UserInactiveError, ArchiveNotFoundError):
            raise ArchiveLinkInvalidError from None
        if await self._users.role_on(app_id, linked.user_id) is not Role.OWNER or row.bytes is None:
            raise ArchiveLinkInvalidError
        name = f"{app.name} {rfc3339(row.created_at)[:16].replace(':', '.')}.pilotis"
        return Download(name, row.bytes, self._blobs.open(blob_key(app_id, row.archive_id)))

    async def fail_lost(self, connection: Connection) -> None:
        """Record that archives have failed whose job was given up because each process that ran it has died."""
        await store.fail_old(connection, _LOST_DAYS, _UNKNOWN)

    async def _row(self, app_id: UUID, archive_id: UUID) -> ArchiveRow:
        row = await store.archive(self._database.of(app_id), app_id, archive_id)
        if row is None:
            raise ArchiveNotFoundError
        return row

    async def _run(self, job: Job[ArchiveJob]) -> None:
        app_id, archive_id = job.app_id, job.payload.archive_id
        wanted = await store.pending(self._database.of(app_id), app_id, archive_id)
        if wanted is None:
            return
        app = None
        try:
            async with asyncio.timeout(_SECONDS):
                app = await self._apps.by_id(app_id)
                passphrase = None
                if wanted.passphrase is not None:
                    secrets = await self._secrets.app(app_id)
                    named = SCHEDULED if wanted.is_scheduled else str(archive_id)
                    passphrase = secrets.decrypt(Purpose.ARCHIVE_PASSPHRASE, named, wanted.passphrase).decode()
                await self._write(job, app, passphrase, wanted)
        except LeaseLostError:
            raise
        except Exception as error:
            if not isinstance(error, AppNotFoundError | ArchiveKeyError) and job.attempt <= len(_GAPS):
                raise
            if not isinstance(error, PilotisError):
                _log.exception("archive failed", app_id=str(app_id), archive_id=str(archive_id))
            async with job.transaction() as connection:
                await store.fail(connection, app_id, archive_id, _sentence(error))
                if app is not None:
                    await _delete_oldest(connection, app, wanted)
                await job.finish(connection)

    async def _write(self, job: Job[ArchiveJob], app: AppInfo, passphrase: str | None, wanted: PendingArchive) -> None:
        app_id, archive_id = app.app_id, job.payload.archive_id
        key = blob_key(app_id, archive_id)
        async with scratch(self._folder) as folder:
            path = folder / "app.pilotis"
            made = await self._archives.write(app_id, path, passphrase, with_secrets=wanted.with_secrets)
            job.require_lease()
            with await asyncio.to_thread(path.open, "rb") as file:
                await self._blobs.put(key, _pieces(file), size=made.bytes, content_type=CONTENT_TYPE)
        async with job.transaction() as connection:
            if not await store.complete(connection, app_id, archive_id, made):
                await store.mark_for_deletion(connection, app_id, [key])
            await _delete_oldest(connection, app, wanted)
            await job.finish(connection)


def blob_key(app_id: UUID, archive_id: UUID) -> str:
    """Return the key of an archive in the object store."""
    return f"blobs/{app_id}/{archive_id}"


async def _delete_oldest(connection: Connection, app: AppInfo, wanted: PendingArchive) -> None:
    """Delete the oldest archives: a schedule says how many of its own stay, and the limit how many of the others do."""
    keep = app.limits.app_archives
    if wanted.is_scheduled and (schedule := await schedule_store.read(connection, app.app_id)) is not None:
        keep = min(keep, schedule.keep)
    old = await store.delete_oldest(connection, app.app_id, keep, is_scheduled=wanted.is_scheduled)
    await store.mark_for_deletion(connection, app.app_id, [blob_key(app.app_id, one) for one in old])


async def _pieces(file: IO[bytes]) -> AsyncGenerator[bytes]:
    while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
        yield piece


def _sentence(error: Exception) -> str:
    if isinstance(error, PilotisError):
        return error.text
    if isinstance(error, TimeoutError):
        return f"It took longer than {_SECONDS / 3600:.0f} hours."
    return _UNKNOWN


def _view(row: ArchiveRow) -> AppArchive:
    return AppArchive(
        id=row.archive_id,
        status=row.state,
        created_at=rfc3339(row.created_at),
        ended_at=optional_rfc3339(row.ended_at),
        is_scheduled=row.is_scheduled,
        has_passphrase=row.has_passphrase,
        with_secrets=row.with_secrets,
        bytes=row.bytes,
        tables=row.tables,
        rows=row.rows,
        files=row.blobs,
        missing_files=row.missing_blobs,
        error=row.error,
    )

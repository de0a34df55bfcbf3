"""The console routes of archives."""

from __future__ import annotations

from uuid import UUID

from pilotis.archive.errors import (
    AppImportNotFoundError,
    ArchiveLinkInvalidError,
    ArchiveNotFoundError,
    ArchiveNotReadyError,
    ArchivePendingError,
    ArchiveScheduleNotFoundError,
    ImportsBusyError,
)
from pilotis.archive.imports import AppImports
from pilotis.archive.requested import CONTENT_TYPE, RequestedArchives
from pilotis.archive.scheduled import ScheduledArchives
from pilotis.archive.types import (
    AppArchive,
    AppArchiveList,
    AppImport,
    ArchiveLink,
    ArchiveSchedule,
    NewArchive,
    NewArchiveSchedule,
)
from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.multipart import MalformedMultipartError, Multipart
from pilotis.http.api.principals import Access, AppUser, ReauthenticationRequiredError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, Whole
from pilotis.http.replies.reply import Reply, Stream, disposition
from pilotis.kit.errors import PayloadTooLargeError, StorageFullError, ValidationError
from pilotis.kit.generators import started
from pilotis.users.service import AppCreationNotAllowedError

_ALL = "/v1/apps/:app_id/archives"
_ONE = f"{_ALL}/:archive_id"
_SCHEDULE = "/v1/apps/:app_id/archive-schedule"


class ArchiveEndpoints(Endpoints, tag="Archives"):
    """Archives of apps, and apps made of archives."""

    def __init__(self, archives: RequestedArchives, scheduled: ScheduledArchives, imports: AppImports) -> None:
        self._archives = archives
        self._scheduled = scheduled
        self._imports = imports

    @post(
        _ALL,
        access=Access.APP_OWNER_FRESH,
        status=202,
        creates="archive_id",
        again="read",
        errors=[ReauthenticationRequiredError, ArchivePendingError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewArchive) -> AppArchive:
        """Write an archive of the app: one file with everything of it, which any server can import.

        It is written in the background while requests go on; read it until it is `completed`. There is one at a time,
        and the newest 7 are kept, besides those of a schedule. Whoever has the file and the passphrase has all that the
        app has, so only owners may.
        """
        return await self._archives.ask(call.app, call.actor, UUID(call.new_id()), body)

    @get(_SCHEDULE, access=Access.APP_OWNER, errors=[ArchiveScheduleNotFoundError])
    async def read_schedule(self, call: Call, app_id: UUID) -> ArchiveSchedule:
        """Read when archives of the app are made, and how many of them are kept."""
        return await self._scheduled.read(call.app)

    @put(_SCHEDULE, access=Access.APP_OWNER_FRESH, errors=[ReauthenticationRequiredError, ValidationError])
    async def put_schedule(self, call: Call, app_id: UUID, body: NewArchiveSchedule) -> ArchiveSchedule:
        """Have an archive of the app made at set times, once an hour at most, and keep the newest ones.

        One that cannot be made, because the app has secrets and the schedule no passphrase for example, is listed as
        `failed` with the reason. If one is still being written, the next one is left out.
        """
        return await self._scheduled.put(call.app, call.actor, body)

    @delete(_SCHEDULE, access=Access.APP_OWNER, errors=[ArchiveScheduleNotFoundError])
    async def delete_schedule(self, call: Call, app_id: UUID) -> Deleted:
        """Make no more archives at set times. Those that there are stay."""
        await self._scheduled.delete(call.app, call.actor)
        return Deleted("Schedule deleted.", app_id)

    @get(_ALL, access=Access.APP_OWNER)
    async def list(self, call: Call, app_id: UUID, query: Whole) -> AppArchiveList:
        """List the archives of the app, the newest first."""
        return await self._archives.list(call.app)

    @get(_ONE, access=Access.APP_OWNER, errors=[ArchiveNotFoundError])
    async def read(self, call: Call, app_id: UUID, archive_id: UUID) -> AppArchive:
        """Read an archive, such as whether it is completed."""
        return await self._archives.read(call.app, archive_id)

    @delete(_ONE, access=Access.APP_OWNER, errors=[ArchiveNotFoundError])
    async def delete(self, call: Call, app_id: UUID, archive_id: UUID) -> Deleted:
        """Delete an archive. One that is being written is given up."""
        await self._archives.delete(app_id, call.actor, archive_id)
        return Deleted("Archive deleted.", archive_id)

    @post(
        f"{_ONE}/link",
        access=Access.APP_OWNER_FRESH,
        errors=[ReauthenticationRequiredError, ArchiveNotFoundError, ArchiveNotReadyError],
    )
    async def link(self, call: Call, app_id: UUID, archive_id: UUID) -> ArchiveLink:
        """Create a link to an archive, for a download by a browser, which cannot send a header.

        It can be used once, within 60 seconds, while the user who created it owns the app.
        """
        assert isinstance(call.principal, AppUser)
        return await self._archives.link(call.principal, archive_id)

    @get(
        "/v1/archives/:archive_link",
        access=Access.OPEN,
        returns=bytes,
        media_type=CONTENT_TYPE,
        errors=[ArchiveLinkInvalidError, BlobStoreUnavailableError],
    )
    async def download(self, call: Call, archive_link: str) -> Reply:
        """Download an archive by a link."""
        found = await self._archives.download(archive_link)
        return Reply(
            Stream(found.size, await started(found.chunks)),
            headers=[
                (b"content-disposition", disposition("attachment", found.name).encode()),
                (b"cache-control", b"no-store"),
            ],
            content_type=CONTENT_TYPE.encode(),
        )

    @post(
        "/v1/apps/import",
        access=Access.APPS,
        status=202,
        errors=[
            AppCreationNotAllowedError,
            ImportsBusyError,
            MalformedMultipartError,
            PayloadTooLargeError,
            StorageFullError,
            ValidationError,
        ],
    )
    async def import_(self, call: Call, body: Multipart) -> AppImport:
        """Make an app of an archive, which the caller owns.

        The form has the part `file`, and may have `name`, `passphrase`, and `with_secrets` (`false` leaves secrets
        out, if you have no passphrase). The app is there completely or not at all; read the import until it is
        `completed`. What acts on its own, such as webhooks and schedules, arrives switched off, and the app has no
        secret key yet.
        """
        return await self._imports.begin(call.user.user_id, call.actor, UUID(call.new_id()), body)

    @get("/v1/apps/import/:import_id", access=Access.CONSOLE, errors=[AppImportNotFoundError])
    async def read_import(self, call: Call, import_id: UUID) -> AppImport:
        """Read how an import of the caller went, up to 30 days after."""
        return await self._imports.read(call.user.user_id, import_id)

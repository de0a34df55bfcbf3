"""Exports what an app has of a member, and deletes what a deleted member has created."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection

from pilotis.apps.service import Apps
from pilotis.data.rows.service import Rows
from pilotis.data.rows.types import DeleteWhere, Query
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.db.pool import Database
from pilotis.files.service import Files
from pilotis.http.api.principals import Actor, AppInfo, AppItself, MemberInfo
from pilotis.jobs.kinds import DiscardError, Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.account_settings import pages_path
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import ConflictError, ForbiddenError, NotFoundError, UnauthorizedError, UnavailableError
from pilotis.mail.service import Mails, NewMail, NoAddressError
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.service import Members
from pilotis.personal_data import store
from pilotis.personal_data.archives import Archive, safe_name
from pilotis.personal_data.types import ExportTicket
from pilotis.security import single_use
from pilotis.security.audit.service import record
from pilotis.security.rate_limits import RateLimits

LIFETIME = timedelta(hours=24)
_AGAIN = timedelta(seconds=60)
_PREFIX, _PURPOSE = "px_", "members.export"
_PAGE = 200
_BATCH_SIZE = 500
_DAY_SECONDS = 24 * 3600
_PER_DAY = 5
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_README = """What {app} has stored of you.

account.json   your account: addresses, settings, where you are signed in, teams, connected programs, mails
rows/          what you have created in the app's tables: one JSON object per line
files/         the files that you have uploaded
"""

_log = structlog.get_logger("pilotis.personal_data")


class ExportExpiredError(UnauthorizedError):
    """401: the token of an export is unknown, used or expired."""

    code = "EXPORT_EXPIRED"
    message = "This export was downloaded, has expired or does not exist. Ask for another one."


class ExportBusyError(UnavailableError):
    """503: another export of the app is being downloaded; there is one at a time."""

    code = "EXPORT_BUSY"
    message = "Another export of this app is being downloaded. Try again in a minute."


class ExportLimitError(ForbiddenError):
    """403: a member exports its data five times a day at most."""

    code = "EXPORT_LIMIT"
    message = "You have asked for five exports in 24 hours. Try again tomorrow."


class Erased(msgspec.Struct):
    """The payload of the job: the ids of the members whose rows and files are deleted, or lose their creator."""

    member_ids: list[str]
    anonymises: bool = False


class PersonalData:
    """Exports and deletions of members' data."""

    def __init__(
        self,
        database: Database,
        apps: Apps,
        tables: Tables,
        rows: Rows,
        files: Files,
        jobs: Jobs,
        rate_limits: RateLimits,
        members: Members,
        mails: Mails,
        base_url: str,
    ) -> None:
        self._database = database
        self._apps = apps
        self._tables = tables
        self._rows = rows
        self._files = files
        self._jobs = jobs
        self._rate_limits = rate_limits
        self._members = members
        self._mails = mails
        self._base_url = base_url
        self._running: set[UUID] = set()
        self.kind = JobKind(name="personal_data.erase", queue="light", payload=Erased, run=self._erase, seconds=3600.0)

    async def ask(self, app: AppInfo, actor: Actor, member: MemberInfo, *, by_mail: bool) -> ExportTicket:
        """Return what the signed-in member downloads its export with, or mail a link to its verified address.

        Raises `ExportLimitError`, and `NoAddressError` for a mail to a member without an address.
        """
        minted = single_use.mint(_PREFIX, app.app_id)
        writer = await self._mails.writer(app.app_id) if by_mail else None
        async with self._database.transaction(app.app_id) as connection:
            if writer is not None:
                state = await self._members.lock_own(connection, app, member)
                if state.email is None:
                    raise NoAddressError
                link = f"{self._base_url}{pages_path(app.app_id)}/download#{minted.text}"
                language = state.language or writer.sending.language
                mail = NewMail("export_ready", state.email, language, member.member_id, link=link, lifetime=LIFETIME)
                await writer.write(connection, mail)
            key = f"export:{app.app_id}:{member.member_id}"
            if not await self._rate_limits.permits(connection, key, _PER_DAY, _DAY_SECONDS):
                raise ExportLimitError
            data, subject = {"member_id": member.member_id}, member.member_id
            expires_at = await single_use.put(connection, app.app_id, minted, _PURPOSE, data, LIFETIME, subject=subject)
            await record(connection, app.app_id, actor, "member.export", member.member_id)
        return ExportTicket(None if by_mail else minted.text, rfc3339(expires_at))

    async def download(self, app: AppInfo, token: str) -> AsyncGenerator[bytes]:
        """Return the archive that a token stands for, which is used up.

        Raises `ExportExpiredError`, or `ExportBusyError` for a token that is still good.
        """
        async with self._place(app.app_id):
            async with self._database.transaction(app.app_id) as connection:
                data = await single_use.consume(connection, app.app_id, _PURPOSE, token)
            if data is None:
                raise ExportExpiredError
            try:
                return await self._begun(app, data["member_id"])
            except MemberNotFoundError:
                raise ExportExpiredError from None

    async def export(self, app: AppInfo, actor: Actor, member_id: str) -> AsyncGenerator[bytes]:
        """Return the archive of a member for the app's team, which the audit log names."""
        chunks = await self.archive(app, member_id)
        async with self._database.transaction(app.app_id) as connection:
            await record(connection, app.app_id, actor, "member.export", member_id)
        return chunks

    async def archive(self, app: AppInfo, member_id: str) -> AsyncGenerator[bytes]:
        """Return a zip archive with all of a member; raises `MemberNotFoundError`, `ExportBusyError`."""
        async with self._place(app.app_id):
            return await self._begun(app, member_id)

    @asynccontextmanager
    async def _place(self, app_id: UUID) -> AsyncGenerator[None]:
        """Take the place of the app's one export for a block that returns what gives it back; raises `ExportBusyError`.

        If the block fails, the place is free again.
        """
        if app_id in self._running:
            raise ExportBusyError
        self._running.add(app_id)
        try:
            yield
        except BaseException:
            self._running.discard(app_id)
            raise

    async def _begun(self, app: AppInfo, member_id: str) -> AsyncGenerator[bytes]:
        """Return an archive that has begun: then its end gives back the place, also where nobody reads on."""
        account = await store.account(self._database.of(app.app_id), app.app_id, member_id)
        if account is None:
            raise MemberNotFoundError
        chunks = self._chunks(app, member_id, account)
        return _from(await anext(chunks), chunks)

    async def _chunks(self, app: AppInfo, member_id: str, account: str) -> AsyncGenerator[bytes]:
        try:
            archive = Archive()
            pretty = msgspec.json.format(account.encode(), indent=2)
            for name, content in (("README.txt", _README.format(app=app.name).encode()), ("account.json", pretty)):
                with archive.begin(name) as file:
                    file.write(content)
            yield archive.take()
            for table in await self._tables.all(app):
                with suppress(TableNotFoundError):
                    async for chunk in self._rows_of(app, archive, table.id, table.title, member_id):
                        yield chunk
            async for chunk in self._files_of(app, archive, member_id):
                yield chunk
            yield archive.close()
        finally:
            self._running.discard(app.app_id)

    async def _rows_of(
        self, app: AppInfo, archive: Archive, table_id: UUID, title: str, member_id: str
    ) -> AsyncGenerator[bytes]:
        cursor: str | None = "first"
        name = f"rows/{_UNSAFE.sub('_', title)[:60]}-{str(table_id)[:8]}.jsonl"
        file = None
        try:
            while cursor is not None:
                query = Query(where=_created_by(member_id), limit=_PAGE, cursor=cursor)
                page = msgspec.json.decode(await self._rows.query(AppItself(app), table_id, query), type=_Page)
                if page.data and file is None:
                    file = archive.begin(name)
                for row in page.data:
                    assert file is not None
                    file.write(bytes(row) + b"\n")
                cursor = page.next_cursor if page.data else None
                yield archive.take()
        finally:
            if file is not None:
                file.close()

    async def _files_of(self, app: AppInfo, archive: Archive, member_id: str) -> AsyncGenerator[bytes]:
        after: UUID | None = None
        while found := await store.files_of(self._database.of(app.app_id), app.app_id, member_id, after, _PAGE):
            for one in found:
                name = f"files/{str(one.storage_id)[:8]}/{safe_name(one.path)}"
                with archive.begin(name, is_compressed=False) as file:
                    async for chunk in self._files.content(app.app_id, one.blob_id, one.size):
                        file.write(chunk)
                        yield archive.take()
            after = found[-1].file_id

    async def erase(self, connection: Connection, app_id: UUID, member_ids: list[str], anonymises: bool) -> None:
        """Delete what members have created, or take its creator away, in the transaction that deletes them: by a job.

        It runs again a minute later: a request that had found the member may still have written something.
        """
        erased, now = Erased(member_ids, anonymises), datetime.now(UTC)
        for run_at in (now, now + _AGAIN):
            await self._jobs.enqueue(connection, self.kind, app_id, erased, run_at=run_at)

    async def _erase(self, job: Job[Erased]) -> None:
        try:
            app = await self._apps.by_id(job.app_id)
        except NotFoundError:
            raise DiscardError("The app is gone.") from None
        for member_id in job.payload.member_ids:
            if job.payload.anonymises:
                await self._anonymise(job, app, member_id)
                continue
            for table in await self._tables.all(app):
                with suppress(TableNotFoundError):
                    await self._erase_rows(job, app, table.id, member_id)
            await self._erase_files(job, app, member_id)

    async def _anonymise(self, job: Job[Erased], app: AppInfo, member_id: str) -> None:
        """Take the creator away, some rows or files in each transaction, so that a job that ends goes on from there."""
        for table in await self._tables.all(app):
            with suppress(TableNotFoundError):
                while await self._rows.forget_creator(app, table.id, member_id):
                    job.require_lease()
        while await self._files.listing.forget_creator(app.app_id, member_id):
            job.require_lease()

    async def _erase_rows(self, job: Job[Erased], app: AppInfo, table_id: UUID, member_id: str) -> None:
        after: str | None = None
        size = _BATCH_SIZE
        while True:
            job.require_lease()
            where = _created_by(member_id) | ({} if after is None else {"id": {"$gt": after}})
            query = Query(where=where, limit=size, count=False)
            page = msgspec.json.decode(await self._rows.query(AppItself(app), table_id, query), type=_Ids)
            ids = [row.id for row in page.data]
            if not ids:
                return
            try:
                await self._rows.delete_where(AppItself(app), table_id, DeleteWhere(where={"id": {"$in": ids}}))
            except ConflictError as error:
                if len(ids) > 1:
                    size = 1
                    continue
                # Another row holds this one by a reference.
                (after,), size = ids, _BATCH_SIZE
                _log.warning("row of a deleted member stays", table_id=str(table_id), reason=error.code)

    async def _erase_files(self, job: Job[Erased], app: AppInfo, member_id: str) -> None:
        database = self._database.of(app.app_id)
        while found := await store.files_of(database, app.app_id, member_id, None, _PAGE):
            for one in found:
                job.require_lease()
                with suppress(NotFoundError):
                    await self._files.listing.delete(app, AppItself(app), one.storage_id, one.file_id, recursive=False)


async def _from(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]
    next_cursor: str | None = None


class _Row(msgspec.Struct):
    id: str


class _Ids(msgspec.Struct):
    data: list[_Row]


def _created_by(member_id: str) -> dict[str, object]:
    return {"$creator": {"$eq": member_id}}

"""Incoming deploys: archives, processed in the request or by a job, and incremental ones."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import IO, NamedTuple, Protocol
from uuid import UUID

import msgspec

from pilotis.blobs.errors import DigestMismatchError
from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.hosting import content_store, deployment_store, manifests, storage_store, views
from pilotis.hosting.contents import BATCH_BYTES, SMALL_BYTES, Content, Contents, hashed
from pilotis.hosting.deployments import Deployments, Missing, Release, new_row
from pilotis.hosting.errors import InvalidSitePathError, WebStorageNotFoundError
from pilotis.hosting.events import DEPLOYMENT_FAILED, DeploymentEvent
from pilotis.hosting.names import Addresses
from pilotis.hosting.types import (
    DeployQuery,
    DeployResult,
    FileEntry,
    IncrementalDeploy,
    IncrementalResult,
    Problem,
    Target,
    Upsert,
)
from pilotis.hosting.uploads import Uploads, require_size
from pilotis.hosting.zips import Archive, ZipLimits
from pilotis.http.api.multipart import Multipart, Part
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import json
from pilotis.kit.errors import (
    PayloadTooLargeError,
    PilotisError,
    QueryTimeoutError,
    RateLimitedError,
    ValidationError,
    invalid,
)
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits

LARGE_ZIP_BYTES = 50 << 20
LARGE_ZIP_FILES = 5_000
"""Above either of these an archive is processed by a job."""
UNPACK_SECONDS = 900.0
_GAPS = (2.0, 15.0, 60.0)
_IN_MEMORY = 1 << 20
_MAX_MESSAGE = 500
_PIECES = 1 << 20


class ZipJob(msgspec.Struct, frozen=True):
    """Payload of the job that processes an archive, which is in the object store under `key`."""

    storage_id: UUID
    deployment_id: UUID
    key: str
    size: int
    actor_kind: str
    actor_id: str | None
    request_id: str | None = None


class AppFinder(Protocol):
    """Finds the app of a job, and branches."""

    async def by_id(self, app_id: UUID) -> AppInfo:
        """Return a live app."""

    async def has_branch(self, app_id: UUID, name: str) -> bool:
        """Tell whether an app has a branch of this name."""


def _target(query: DeployQuery) -> Target | None:
    return Target.QA if query.branch else query.target


class _Upload(NamedTuple):
    """The contents of a form: the archive, and the other fields."""

    file: IO[bytes]
    size: int
    message: str | None


class Deploys:
    """Receives deploys. Incoming archives are in unnamed files in `spool`."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        contents: Contents,
        uploads: Uploads,
        deployments: Deployments,
        events: Events,
        jobs: Jobs,
        addresses: Addresses,
        apps: AppFinder,
        spool: Path,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._contents = contents
        self._uploads = uploads
        self._deployments = deployments
        self._events = events
        self._jobs = jobs
        self._addresses = addresses
        self._apps = apps
        self._spool = spool
        self.unpack: JobKind[ZipJob] = JobKind(
            name="hosting.unpack",
            queue="builds",
            payload=ZipJob,
            run=self._run_unpack,
            gaps=_GAPS,
            seconds=UNPACK_SECONDS,
        )

    async def deploy_zip(
        self,
        app: AppInfo,
        actor: Actor,
        storage_id: UUID,
        body: Multipart,
        *,
        query: DeployQuery,
        source: str,
    ) -> DeployResult:
        """Deploy an archive; a large one is only stored, and its deployment has the status `processing`."""
        storage = await storage_store.storage(self._database.of(app.app_id), app.app_id, storage_id)
        if storage is None:
            raise WebStorageNotFoundError
        await self._require_branch(app, query)
        if (
            await deployment_store.count_zips(self._database.of(app.app_id), app.app_id)
            >= app.limits.zip_deploys_per_hour
        ):
            raise RateLimitedError(headers={"Retry-After": "60"})
        async with self._spooled() as file:
            upload = await self._read_form(app, body, file)
            archive = await self._contents.in_thread(Archive, file, _zip_limits(app.limits))
            release = Release(source, _target(query), upload.message, archive.warnings, branch=query.branch)
            if upload.size > LARGE_ZIP_BYTES or len(archive.entries) > LARGE_ZIP_FILES:
                return await self._enqueue(app, actor, storage_id, release, upload)
            files = await self._contents.store_archive(app.app_id, archive)
        committed = await self._deployments.commit(app, actor, storage_id, release, files)
        return self._deployments.result(committed)

    async def deploy_incremental(
        self, app: AppInfo, actor: Actor, storage_id: UUID, request: IncrementalDeploy, query: DeployQuery
    ) -> IncrementalResult:
        """Deploy changes; if contents are missing, deploy nothing and return how to upload them."""
        target = _target(query)
        if request.target is not None and target is not None and request.target is not target:
            raise invalid("target", "target: the body and the query name different targets.")
        await self._require_branch(app, query)
        delta = manifests.delta_of(request.upserts, request.deletes)
        if len(delta.upserts) > app.limits.site_files:
            raise PayloadTooLargeError(f"A deployment has at most {app.limits.site_files} files.")
        sizes: dict[bytes, int] = {}
        for entry in delta.upserts.values():
            require_size(entry.sha256, entry.size, sizes)
            sizes[entry.sha256] = entry.size
        known = await self._contents.sizes(app.app_id, sizes)
        for sha256, size in sizes.items():
            require_size(sha256, size, known)
        await self._uploads.take_staged(app.app_id, {one: sizes[one] for one in sizes.keys() - known.keys()})
        release = Release("incremental", request.target or target, request.message or None, branch=query.branch)
        outcome = await self._deployments.commit_delta(
            app, actor, storage_id, release, delta, request.base_deployment_id
        )
        if isinstance(outcome, Missing):
            missing = await self._uploads.missing(app, outcome.files)
            count = len({entry.sha256 for entry in outcome.files.values()})
            return IncrementalResult(deployment=None, missing=missing, missing_count=count)
        result = self._deployments.result(outcome)
        return IncrementalResult(
            deployment=result.deployment,
            unchanged=result.unchanged,
            production_deployment_id=result.production_deployment_id,
            qa_deployment_id=result.qa_deployment_id,
        )

    async def read_incremental(self, app: AppInfo, storage_id: UUID, body: Multipart) -> IncrementalDeploy:
        """Return the request of a form, after storing the contents in its parts.

        The part `manifest` is the request as JSON; each further part `file` is a file whose path is its filename.
        """
        if await storage_store.storage(self._database.of(app.app_id), app.app_id, storage_id) is None:
            raise WebStorageNotFoundError
        request = IncrementalDeploy()
        parts: dict[str, FileEntry] = {}
        small: list[Content] = []
        total = held = 0
        async for part in body:
            if part.name == "manifest":
                request = decode_incremental(await part.read(app.limits.body_bytes))
            elif part.name == "file" and part.filename:
                if part.filename in parts:
                    raise InvalidSitePathError(f"{part.filename} is sent twice.")
                entry, content = await self._read_part(app, part)
                parts[part.filename] = entry
                total += entry.size
                if content is not None:
                    small.append(content)
                    held += entry.size
                if held >= BATCH_BYTES:
                    await self._contents.store_all(app.app_id, small)
                    small, held = [], 0
                if total > app.limits.site_bytes:
                    raise PayloadTooLargeError(f"The parts have more than {app.limits.site_bytes} bytes together.")
            else:
                raise invalid(part.name, "Send a part manifest, and parts file with their path as filename.")
        await self._contents.store_all(app.app_id, small)
        return msgspec.structs.replace(request, upserts=_with_parts(request.upserts, parts))

    async def _require_branch(self, app: AppInfo, query: DeployQuery) -> None:
        if query.branch is not None and not await self._apps.has_branch(app.app_id, query.branch):
            raise invalid("branch", "The app has no branch of this name.")

    async def _read_part(self, app: AppInfo, part: Part) -> tuple[FileEntry, Content | None]:
        """Return the file in a part, with its content if that is small; a large one is stored at once."""
        async with self._spooled() as file:
            size = await self._spool_part(part, file, app.limits.site_file_bytes)
            file.seek(0)
            if size <= SMALL_BYTES:
                content = hashed(file.read())
                return FileEntry(content.sha256, size, ""), content
            sha256 = (await self._contents.in_thread(hashlib.file_digest, file, "sha256")).digest()
            if sha256 not in await self._contents.sizes(app.app_id, [sha256]):
                await self._contents.store_stream(app.app_id, self._pieces(file), size, sha256)
            return FileEntry(sha256, size, ""), None

    async def _read_form(self, app: AppInfo, body: Multipart, file: IO[bytes]) -> _Upload:
        size, message = None, None
        async for part in body:
            if part.name == "file":
                if size is not None:
                    raise invalid("file", "file: one archive is expected, not several.")
                size = await self._spool_part(part, file, app.limits.site_zip_bytes)
            elif part.name == "message":
                message = _text(await part.read(_MAX_MESSAGE * 4))
            else:
                await part.read(_MAX_MESSAGE * 4)
        if size is None:
            raise invalid("file", "file: a part with a zip archive is expected.", "REQUIRED")
        return _Upload(file, size, message)

    async def _spool_part(self, part: Part, file: IO[bytes], limit: int) -> int:
        """Write a part to a file and return its size; raises `PayloadTooLargeError`."""
        size, held = 0, bytearray()
        async for piece in part:
            size += len(piece)
            if size > limit:
                raise PayloadTooLargeError(f"The part {part.name} is too large; the maximum is {limit} bytes.")
            held += piece
            if len(held) >= _PIECES:
                self._blobs.require_space(len(held))
                await self._contents.in_thread(file.write, bytes(held))
                held.clear()
        file.write(held)
        return size

    async def _enqueue(
        self, app: AppInfo, actor: Actor, storage_id: UUID, release: Release, upload: _Upload
    ) -> DeployResult:
        deployment_id = uuid7()
        key = f"staging/{app.app_id}/{deployment_id}"
        await content_store.mark_for_deletion(self._database, app.app_id, [key])
        upload.file.seek(0)
        await self._blobs.put(key, self._pieces(upload.file), size=upload.size, content_type="application/zip")
        async with self._database.transaction(app.app_id) as connection:
            if await storage_store.lock_storage(connection, app.app_id, storage_id) is None:
                raise WebStorageNotFoundError
            columns = new_row(app.app_id, storage_id, actor, release, deployment_id)
            row = await deployment_store.insert_deployment(connection, columns)
            job = ZipJob(storage_id, deployment_id, key, upload.size, actor.kind, actor.id, actor.request_id)
            await self._jobs.enqueue(
                connection, self.unpack, app.app_id, job, key=str(deployment_id), subject=str(storage_id)
            )
            storage = await storage_store.storage(connection, app.app_id, storage_id)
            assert storage is not None
        return DeployResult(deployment=views.deployment_view(row, storage, self._addresses), **views.pointers(storage))

    async def _run_unpack(self, job: Job[ZipJob]) -> None:
        payload = job.payload
        row = await deployment_store.deployment(
            self._database.of(job.app_id), job.app_id, payload.storage_id, payload.deployment_id
        )
        if row is None or row.status != "processing":
            return
        actor = Actor(payload.actor_kind, payload.actor_id, payload.request_id)
        try:
            app = await self._apps.by_id(job.app_id)
            async with self._spooled() as file:
                await self._fetch(payload, file)
                archive = await self._contents.in_thread(Archive, file, _zip_limits(app.limits))
                files = await self._contents.store_archive(job.app_id, archive)
            target = Target(row.target) if row.target else None
            release = Release(row.source, target, row.message, archive.warnings, payload.deployment_id, row.branch)
            async with job.transaction(statement_seconds=60) as connection:
                await self._deployments.commit_in(connection, app, actor, payload.storage_id, release, files)
                await job.finish(connection)
        except PilotisError as error:
            # A time limit of the database is not the archive's fault, although its status is 400.
            may_pass = error.status >= 500 or isinstance(error, QueryTimeoutError)
            if may_pass and job.attempt <= len(_GAPS):
                raise
            await self._fail(job, actor, error)
        await content_store.delete_soon(self._database, job.app_id, [payload.key])

    async def _fail(self, job: Job[ZipJob], actor: Actor, error: PilotisError) -> None:
        payload = job.payload
        problem = Problem(error.code, error.text, list(error.details))
        columns = {"status": "failed", "error": json.encode(problem).decode()}
        async with job.transaction() as connection:
            row = await deployment_store.update_deployment(connection, job.app_id, payload.deployment_id, columns)
            storage = await storage_store.storage(connection, job.app_id, payload.storage_id)
            if row is not None and storage is not None:
                await self._events.emit(
                    connection,
                    job.app_id,
                    DEPLOYMENT_FAILED,
                    DeploymentEvent(payload.storage_id, views.deployment_view(row, storage, self._addresses)),
                    actor=actor,
                    subject=f"webs/{payload.storage_id}/deployments/{payload.deployment_id}",
                    storage_id=payload.storage_id,
                )
            await job.finish(connection)

    async def _fetch(self, payload: ZipJob, file: IO[bytes]) -> None:
        async with contextlib.aclosing(self._blobs.open(payload.key)) as chunks:
            async for chunk in chunks:
                await self._contents.in_thread(file.write, chunk)

    @contextlib.asynccontextmanager
    async def _spooled(self) -> AsyncGenerator[IO[bytes]]:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self._spool)) as file:
            yield file

    async def _pieces(self, file: IO[bytes]) -> AsyncIterator[bytes]:
        while piece := await self._contents.in_thread(file.read, _PIECES):
            yield piece


def decode_incremental(data: bytes) -> IncrementalDeploy:
    """Return an incremental deploy of JSON text; raises `ValidationError`, `MalformedJsonError`."""
    request: IncrementalDeploy = json.decode(data, _INCREMENTAL, 8)
    return request


_INCREMENTAL = json.decoder(IncrementalDeploy)


def _with_parts(upserts: list[Upsert], parts: dict[str, FileEntry]) -> list[Upsert]:
    """Return the upserts with hash and size from their parts, and one for each part without an upsert."""
    complete = []
    for upsert in upserts:
        entry = parts.pop(upsert.path, None)
        if entry is None:
            complete.append(upsert)
            continue
        if upsert.hash not in {None, entry.sha256.hex()}:
            raise DigestMismatchError(f"The bytes of {upsert.path} do not have the declared SHA-256.")
        complete.append(msgspec.structs.replace(upsert, hash=entry.sha256.hex(), size=entry.size))
    complete += [Upsert(path, entry.sha256.hex(), entry.size) for path, entry in parts.items()]
    return complete


def _zip_limits(limits: Limits) -> ZipLimits:
    return ZipLimits(limits.site_files, limits.site_file_bytes, limits.site_bytes)


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValidationError("message: UTF-8 is expected.") from None
    if "\0" in text or len(text) > _MAX_MESSAGE:
        raise invalid("message", f"message: at most {_MAX_MESSAGE} characters are expected, none of them U+0000.")
    return text or None

"""Functions and their versions: create, deploy, activate, delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection
from msgspec import UNSET

from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.events.service import Events
from pilotis.functions import sources, store
from pilotis.functions.builds import Builds
from pilotis.functions.calls import Calls
from pilotis.functions.errors import (
    FunctionInUseError,
    FunctionLimitError,
    FunctionNameTakenError,
    FunctionNotFoundError,
    SourceInvalidError,
    UsedAsHookError,
    VersionNotFoundError,
    VersionNotReadyError,
)
from pilotis.functions.events import DEPLOYED, DeployedEvent, subject_of
from pilotis.functions.runtime.build import BUILD_SECONDS, BuildFailedError, Package
from pilotis.functions.runtime.call import LoadError
from pilotis.functions.runtime.policy import Runtime
from pilotis.functions.runtime.types import (
    FunctionBusyError,
    FunctionsOverloadedError,
    QueueTimeoutError,
    RuntimeUnavailableError,
)
from pilotis.functions.sources import Source
from pilotis.functions.store import FunctionRecord, VersionRecord
from pilotis.functions.types import (
    Egress,
    Function,
    FunctionChange,
    FunctionDraft,
    FunctionQuery,
    FunctionSource,
    FunctionVersion,
    FunctionVersionDetails,
    NewFunction,
)
from pilotis.http.api.principals import SYSTEM, Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.http.outgoing_allowance import parse_host
from pilotis.jobs.kinds import DiscardError, Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.kit.errors import Detail, invalid
from pilotis.kit.ids import uuid7
from pilotis.kit.offload import offload
from pilotis.security.audit.service import record

_REVISES = {"memory_mb", "egress_mode", "egress_hosts"}
CHECK_SECONDS = 10.0
_MAX_BUILDS = 3
_SHOWN_LOG = 1500

Removed = Callable[[Connection, UUID, UUID], Any]
FindUses = Callable[[Connection, UUID, UUID], Awaitable[Sequence[str]]]


class BuildPayload(msgspec.Struct):
    """The version that a job builds."""

    function_id: UUID
    version: int
    actor: Actor = SYSTEM


class Functions:
    """The functions of apps."""

    total = store.COUNT
    """Counts functions; see `pilotis.db.daily`."""

    def __init__(
        self,
        database: Database,
        calls: Calls,
        builds: Builds,
        jobs: Jobs,
        app_of: Callable[[UUID], Awaitable[AppInfo]],
        remove_triggers: Removed,
        events: Events,
    ) -> None:
        """`remove_triggers` ends the triggers of a function in the transaction that deletes it."""
        self._database = database
        self._calls = calls
        self._builds = builds
        self._jobs = jobs
        self._app_of = app_of
        self._remove_triggers = remove_triggers
        self._events = events
        self._find_uses: FindUses = _no_uses
        self.build: JobKind[BuildPayload] = JobKind(
            name="functions.build",
            queue="builds",
            payload=BuildPayload,
            run=self._run_build,
            seconds=BUILD_SECONDS + 30,
        )

    def used_by(self, find_uses: FindUses) -> None:
        """Keep a function from deletion while `find_uses` returns names of what calls it."""
        self._find_uses = find_uses

    async def create(self, app: AppInfo, actor: Actor, function_id: UUID, new: NewFunction) -> Function:
        """Create a function; raises an error if its name is taken or a limit is exceeded."""
        limits = app.limits
        values = {
            "name": new.name,
            "runtime": new.runtime,
            "description": new.description,
            "entrypoint": new.entrypoint,
            "invoke_access": new.invoke_access,
            "oauth_scope": new.oauth_scope,
            "scopes": sorted(set(new.scopes)),
            "timeout_seconds": new.timeout_seconds or float(min(limits.function_seconds, limits.function_seconds_max)),
            "memory_mb": new.memory_mb or limits.function_memory_mb,
            "egress_mode": new.egress.mode,
            "egress_hosts": new.egress.hosts,
        }
        _check(app, values)
        async with self._database.transaction(app.app_id) as connection:
            if await store.count(connection, app.app_id) >= limits.functions:
                raise FunctionLimitError
            if not await store.insert(connection, app.app_id, function_id, values):
                raise FunctionNameTakenError
            await record(connection, app.app_id, actor, "function.create", function_id, name=new.name)
        return await self.read(app, function_id)

    async def page(self, app: AppInfo, query: FunctionQuery) -> ItemPage[Function]:
        """Return a page of an app's functions, by name."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.page(self._database, app.app_id, query.search, limit, query.offset)
        return ItemPage(data=[_function(row) for row in rows], total_count=total, limit=limit, offset=query.offset)

    async def id_of(self, app_id: UUID, name: str) -> UUID | None:
        """Return the id of the function with a name; None if there is none."""
        return await store.id_of(self._database.of(app_id), app_id, name)

    async def read(self, app: AppInfo, function_id: UUID) -> Function:
        """Return a function; raises `FunctionNotFoundError`."""
        return _function(await self._row(app.app_id, function_id))

    async def change(self, app: AppInfo, actor: Actor, function_id: UUID, change: FunctionChange) -> Function:
        """Change a function and return it."""
        given = {name: getattr(change, name) for name in change.__struct_fields__}
        values: dict[str, Any] = {name: value for name, value in given.items() if value is not UNSET}
        if isinstance(egress := values.pop("egress", None), Egress):
            values |= {"egress_mode": egress.mode, "egress_hosts": egress.hosts}
        if "scopes" in values:
            values["scopes"] = sorted(set(values["scopes"]))
        _check(app, values)
        async with self._locked(app.app_id, function_id, with_app="name" in values) as (connection, row):
            name = values.get("name", row.name)
            if name != row.name and await store.is_taken(connection, app.app_id, name):
                raise FunctionNameTakenError
            await store.update(connection, app.app_id, function_id, values, revises=bool(_REVISES & values.keys()))
            await record(connection, app.app_id, actor, "function.update", function_id, changed=sorted(values))
        return await self.read(app, function_id)

    async def exists(self, app_id: UUID, function_id: UUID) -> bool:
        """Return whether an app has a function."""
        return await store.read(self._database.of(app_id), app_id, function_id) is not None

    async def delete(self, app: AppInfo, actor: Actor, function_id: UUID, *, force: bool = False) -> None:
        """Delete a function with its versions, variables, triggers and records.

        Raises `FunctionNotFoundError`, `UsedAsHookError` and, without `force`, `FunctionInUseError`.
        """
        async with self._locked(app.app_id, function_id, deletes=True) as (connection, row):
            if function_id in msgspec.structs.asdict(app.accounts.hooks).values():
                raise UsedAsHookError
            if not force and (uses := await self._find_uses(connection, app.app_id, function_id)):
                raise FunctionInUseError(details=[Detail("workflows", "IN_USE", name) for name in uses])
            await self._remove_triggers(connection, app.app_id, function_id)
            await store.delete(connection, app.app_id, function_id)
            await record(connection, app.app_id, actor, "function.delete", function_id, name=row.name)

    async def source_of(self, app: AppInfo, function_id: UUID, new: Any) -> Source:
        """Return the source in a request: `NewVersion`, `NewDraft`, or a zip archive with the name of an entry file."""
        row = await self._row(app.app_id, function_id)
        runtime, max_bytes = Runtime(row.runtime), app.limits.function_source_bytes
        if isinstance(new, tuple):
            data, entrypoint = new
            entrypoint = entrypoint or row.entrypoint
            return await offload(len(data), sources.of_zip, runtime, data, entrypoint, max_bytes)
        return sources.of_files(runtime, new.files, new.entrypoint or row.entrypoint, max_bytes)

    async def deploy(
        self,
        app: AppInfo,
        actor: Actor,
        function_id: UUID,
        version_id: UUID,
        source: Source,
        message: str,
        *,
        activate: bool,
    ) -> FunctionVersion:
        """Store a version and activate it, if so asked; raises `SourceInvalidError` for one that cannot be loaded.

        One with packages that were not built yet is `queued`, and built, tried and activated by a job.
        """
        row = await self._row(app.app_id, function_id)
        digest = await self._builds.digest(Runtime(row.runtime), source)
        is_built = digest is None or await self._builds.is_built(app.app_id, digest)
        warnings = await self._try(app, row, source, digest, f"check:{version_id}") if is_built else []
        packages, log, size = await self._builds.packages(app.app_id, digest) if digest and is_built else ([], "", 0)
        packed = await offload(source.size, sources.pack, source.files)
        values = {
            "status": "ready" if is_built else "queued",
            "build_digest": digest,
            "activates": activate,
            "packages": msgspec.json.encode(packages).decode(),
            "build_log": log,
            "runtime_version": await self._calls.runtime_version(Runtime(row.runtime)),
            "entrypoint": source.entrypoint,
            "source": packed,
            "source_bytes": source.size,
            "bundle_bytes": size or source.size,
            "sha256": source.sha256,
            "warnings": msgspec.json.encode(warnings).decode(),
            "message": message,
            "created_by": actor.id,
            "ready_at": now() if is_built else None,
        }
        async with self._locked(app.app_id, function_id) as (connection, _):
            number = await store.insert_version(connection, app.app_id, function_id, version_id, values)
            if not is_built:
                payload = BuildPayload(function_id=function_id, version=number, actor=actor)
                subject = str(function_id)
                await self._jobs.enqueue(
                    connection, self.build, app.app_id, payload, key=str(version_id), subject=subject
                )
            elif activate:
                await self._set_active(connection, app.app_id, actor, function_id, number)
            await store.expire_versions(connection, app.app_id, function_id, app.limits.function_versions)
            await record(
                connection, app.app_id, actor, "function.deploy", function_id, version=number, activate=activate
            )
        return await self.version_by_id(app, function_id, version_id)

    async def put_draft(self, app: AppInfo, actor: Actor, function_id: UUID, source: Source) -> FunctionVersion:
        """Store the caller's draft, replacing an earlier one."""
        row = await self._row(app.app_id, function_id)
        runtime = Runtime(row.runtime)
        digest = await self._builds.digest(runtime, source)
        packages: list[Package] = []
        size = source.size
        if digest is not None:
            try:
                await self._builds.build(app.app_id, runtime, source, digest)
            except BuildFailedError as error:
                raise SourceInvalidError(f"{error} {error.log[-_SHOWN_LOG:]}".strip()) from None
            packages, _, size = await self._builds.packages(app.app_id, digest)
        warnings = await self._try(app, row, source, digest, f"check:{uuid7()}")
        packed = await offload(source.size, sources.pack, source.files)
        user_id = actor.id or ""
        values = {
            "entrypoint": source.entrypoint,
            "source": packed,
            "source_bytes": source.size,
            "sha256": source.sha256,
            "build_digest": digest,
        }
        revision = int.from_bytes(bytes.fromhex(source.sha256)[:6])
        async with self._locked(app.app_id, function_id) as (connection, _):
            await store.put_draft(connection, app.app_id, function_id, user_id, revision, values)
            await record(connection, app.app_id, actor, "function.draft", function_id)
        moment = rfc3339(now())
        return FunctionVersion(
            id=uuid7(),
            function_id=function_id,
            version="draft",
            status="draft",
            runtime_version=await self._calls.runtime_version(Runtime(row.runtime)),
            entrypoint=source.entrypoint,
            source_bytes=source.size,
            bundle_bytes=size,
            sha256=source.sha256,
            packages=packages,
            warnings=warnings,
            error=None,
            message="",
            created_by=actor.id,
            created_at=moment,
            ready_at=moment,
            is_active=False,
        )

    async def draft(self, app: AppInfo, actor: Actor, function_id: UUID) -> FunctionDraft:
        """Return the caller's own draft; invalid UTF-8 becomes replacement characters."""
        await self._row(app.app_id, function_id)
        found = await store.draft(self._database.of(app.app_id), app.app_id, function_id, actor.id or "")
        if found is None:
            return FunctionDraft(files=None, stored_at=None)
        files = await offload(found.source_bytes, sources.unpack, found.source)
        return FunctionDraft(
            files={path: data.decode("utf-8", "replace") for path, data in files.items()},
            stored_at=rfc3339(found.created_at),
        )

    async def versions(self, app: AppInfo, function_id: UUID, paging: Paging) -> ItemPage[FunctionVersion]:
        """Return a page of a function's versions, newest first."""
        limit = app.limits.page_size(paging.limit)
        # Versions before their function, here and below: a build that ends in between must not appear as ready and not
        # active.
        rows, total = await store.versions(self._database, app.app_id, function_id, limit, paging.offset)
        row = await self._row(app.app_id, function_id)
        data = [FunctionVersion(**_version(row, one)) for one in rows]
        return ItemPage(data=data, total_count=total, limit=limit, offset=paging.offset)

    async def version(self, app: AppInfo, function_id: UUID, number: int) -> FunctionVersionDetails:
        """Return a version with its build log; raises `VersionNotFoundError`."""
        found = await store.version(self._database.of(app.app_id), app.app_id, function_id, number)
        row = await self._row(app.app_id, function_id)
        if found is None:
            raise VersionNotFoundError
        return FunctionVersionDetails(**_version(row, found), build_log=found.build_log)

    async def version_by_id(self, app: AppInfo, function_id: UUID, version_id: UUID) -> FunctionVersion:
        """Return the version with an id; raises `VersionNotFoundError`."""
        found = await store.version_by_id(self._database.of(app.app_id), app.app_id, function_id, version_id)
        row = await self._row(app.app_id, function_id)
        if found is None:
            raise VersionNotFoundError
        return FunctionVersion(**_version(row, found))

    async def source(self, app: AppInfo, function_id: UUID, number: int) -> bytes:
        """Return the files of a version as a zip archive; raises `VersionNotFoundError`."""
        await self._row(app.app_id, function_id)
        found = await store.source(self._database.of(app.app_id), app.app_id, function_id, number)
        if found is None:
            raise VersionNotFoundError
        return found.source

    async def source_files(self, app: AppInfo, function_id: UUID, number: int) -> FunctionSource:
        """Return the files of a version as texts by path; invalid UTF-8 becomes replacement characters."""
        files = sources.unpack(await self.source(app, function_id, number))
        return FunctionSource({path: data.decode("utf-8", "replace") for path, data in files.items()})

    async def activate(self, app: AppInfo, actor: Actor, function_id: UUID, number: int) -> Function:
        """Activate a version, which may be an earlier one; raises `VersionNotReadyError`."""
        async with self._locked(app.app_id, function_id) as (connection, row):
            found = await store.version(connection, app.app_id, function_id, number)
            if found is None:
                raise VersionNotFoundError
            if found.status != "ready":
                raise VersionNotReadyError
            before = row.active_version
            if before != number:
                await self._set_active(connection, app.app_id, actor, function_id, number)
            await record(
                connection, app.app_id, actor, "function.activate", function_id, version=number, previous=before
            )
        return await self.read(app, function_id)

    async def _run_build(self, job: Job[BuildPayload]) -> None:
        """Build a version's packages, try it, and activate it; what speaks against it is its error, and final."""
        app_id, function_id, number = job.app_id, job.payload.function_id, job.payload.version
        values: dict[str, Any]
        async with job.transaction() as connection:
            row = await store.lock(connection, app_id, function_id)
            stored = await store.source(connection, app_id, function_id, number)
            if row is None or stored is None or stored.build_digest is None:
                raise DiscardError("The version is gone.")
            await store.update_version(connection, app_id, function_id, number, {"status": "building"})
        runtime = Runtime(row.runtime)
        source = Source(sources.unpack(stored.source), stored.entrypoint)
        digest = stored.build_digest
        try:
            if job.attempt > _MAX_BUILDS:
                raise BuildFailedError("BUILD_CRASHED: the servers that built it have stopped.", "")
            await self._builds.build(app_id, runtime, source, digest)
            packages, log, size = await self._builds.packages(app_id, digest)
            app = await self._app_of(app_id)
            warnings = await self._try(app, row, source, digest, f"check:{job.id}")
            values = {
                "status": "ready",
                "ready_at": now(),
                "packages": msgspec.json.encode(packages).decode(),
                "warnings": msgspec.json.encode(warnings).decode(),
                "build_log": log,
                "bundle_bytes": size,
            }
        except BuildFailedError as error:
            values = {"status": "failed", "error": str(error), "build_log": error.log}
        except (SourceInvalidError, RuntimeUnavailableError) as error:
            values = {"status": "failed", "error": f"{error.code}: {error.text}"}
        async with job.transaction() as connection:
            row = await store.lock(connection, app_id, function_id)
            if row is None:
                raise DiscardError("The function is gone.")
            await publish(connection, Topic.FUNCTION, app_id)
            activates = await store.update_version(connection, app_id, function_id, number, values)
            if activates and values["status"] == "ready":
                await self._set_active(connection, app_id, job.payload.actor, function_id, number)
            await job.finish(connection)
        self._calls.forget(str(app_id))

    async def _set_active(
        self, connection: Connection, app_id: UUID, actor: Actor, function_id: UUID, number: int
    ) -> None:
        await store.update(connection, app_id, function_id, {"active_version": number})
        await store.supersede_builds(connection, app_id, function_id, number)
        data = DeployedEvent(function_id, number)
        subject = subject_of(function_id)
        await self._events.emit(connection, app_id, DEPLOYED, data, actor=actor, subject=subject)

    async def _try(
        self, app: AppInfo, row: FunctionRecord, source: Source, digest: str | None, label: str
    ) -> list[str]:
        """Load a source in a sandbox and return warnings; raises `SourceInvalidError` where that fails."""
        deadline = asyncio.get_running_loop().time() + CHECK_SECONDS
        try:
            return await self._calls.check(app, row, source, digest, label, deadline)
        except LoadError as error:
            raise SourceInvalidError(str(error)[:2000] or None) from None
        except (FunctionBusyError, FunctionsOverloadedError, QueueTimeoutError):
            return ["The source was not tested, because all sandboxes are in use."]

    async def _row(self, app_id: UUID, function_id: UUID) -> FunctionRecord:
        row = await store.read(self._database.of(app_id), app_id, function_id)
        if row is None:
            raise FunctionNotFoundError
        return row

    @asynccontextmanager
    async def _locked(
        self, app_id: UUID, function_id: UUID, *, with_app: bool = False, deletes: bool = False
    ) -> AsyncGenerator[tuple[Connection, FunctionRecord]]:
        """Yield a transaction with the function locked, after the app if so asked; the commit notifies other nodes."""
        async with self._database.transaction(app_id) as connection:
            if with_app:
                await lock_app(connection, app_id)
            row = await store.lock(connection, app_id, function_id, deletes=deletes)
            if row is None:
                raise FunctionNotFoundError
            await publish(connection, Topic.FUNCTION, app_id)
            yield connection, row
        self._calls.forget(str(app_id))


async def _no_uses(_connection: Connection, _app_id: UUID, _function_id: UUID) -> Sequence[str]:
    return ()


def _check(app: AppInfo, values: dict[str, Any]) -> None:
    limits = app.limits
    if values.get("timeout_seconds", 0) > limits.function_seconds_max:
        raise invalid("timeout_seconds", f"timeout_seconds: must be at most {limits.function_seconds_max}.")
    if values.get("memory_mb", 0) > limits.function_memory_mb_max:
        raise invalid("memory_mb", f"memory_mb: must be at most {limits.function_memory_mb_max}.")
    for host in values.get("egress_hosts", ()):
        try:
            parse_host(host)
        except ValueError as error:
            raise invalid("egress.hosts", f"egress.hosts: {error}") from None


def _function(row: FunctionRecord) -> Function:
    return Function(
        id=row.function_id,
        app_id=row.app_id,
        name=row.name,
        description=row.description,
        runtime=row.runtime,
        entrypoint=row.entrypoint,
        invoke_access=row.invoke_access,
        oauth_scope=row.oauth_scope,
        scopes=row.scopes,
        timeout_seconds=row.timeout_seconds,
        memory_mb=row.memory_mb,
        egress=Egress(mode=row.egress_mode, hosts=row.egress_hosts),
        is_active=row.is_active,
        active_version=row.active_version,
        latest_version=row.latest_version,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def _version(function: FunctionRecord, row: VersionRecord) -> dict[str, Any]:
    return {
        "id": row.version_id,
        "function_id": function.function_id,
        "version": row.version,
        "status": row.status,
        "runtime_version": row.runtime_version,
        "entrypoint": row.entrypoint,
        "source_bytes": row.source_bytes,
        "bundle_bytes": row.bundle_bytes,
        "sha256": row.sha256,
        "packages": msgspec.json.decode(row.packages, type=list[Package]),
        "warnings": msgspec.json.decode(row.warnings, type=list[str]),
        "error": row.error,
        "message": row.message,
        "created_by": row.created_by,
        "created_at": rfc3339(row.created_at),
        "ready_at": optional_rfc3339(row.ready_at),
        "is_active": row.version == function.active_version,
    }

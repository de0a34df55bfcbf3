"""Deployments: immutable manifests, and the pointers to them.

Deployments of one storage are serialised: a commit locks the storage, assigns the next version and moves the pointer,
in one transaction. A partial deployment is never visible.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.blocks import after_commit
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.events.service import Events
from pilotis.hosting import content_store, deployment_store, manifests, storage_store, views
from pilotis.hosting.contents import Contents
from pilotis.hosting.deployment_store import DeploymentRecord
from pilotis.hosting.errors import (
    BaseDeploymentChangedError,
    DeploymentNotFoundError,
    DeploymentNotReadyError,
    DeploymentOfBranchError,
    NoReadyDeploymentError,
    WebStorageNotFoundError,
)
from pilotis.hosting.events import DEPLOYMENT_PROMOTED, DEPLOYMENT_READY, DeploymentEvent, PromotionEvent
from pilotis.hosting.names import Addresses
from pilotis.hosting.paths import HEADERS_FILE, REDIRECTS_FILE
from pilotis.hosting.rules import MAX_RULES_BYTES, parse_headers, parse_redirects
from pilotis.hosting.storage_store import StorageRecord
from pilotis.hosting.types import (
    Channel,
    Deployment,
    DeploymentList,
    DeploymentQuery,
    DeployResult,
    DeployWarning,
    FileEntry,
    Manifest,
    ManifestQuery,
    Promotion,
    Target,
)
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.jobs.kinds import JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.clock import now
from pilotis.kit.errors import PayloadTooLargeError, UnavailableError
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record


class DeploymentJob(msgspec.Struct, frozen=True):
    """Payload of a job about a deployment."""

    storage_id: UUID
    deployment_id: UUID


class StorageJob(msgspec.Struct, frozen=True):
    """Payload of a job about a storage."""

    storage_id: UUID


class FollowUps(NamedTuple):
    """The jobs that follow a deployment: compression of its files, and retention in its storage."""

    compress: JobKind[DeploymentJob]
    retain: JobKind[StorageJob]


class Release(NamedTuple):
    """A deployment to be committed. `deployment_id` is that of a row which is being processed, if there is one.

    `branch` is the branch of the app whose key its files have.
    """

    source: str
    target: Target | None
    message: str | None
    warnings: Sequence[DeployWarning] = ()
    deployment_id: UUID | None = None
    branch: str | None = None


class Committed(NamedTuple):
    """A deployment after its transaction, with the resulting storage."""

    deployment: DeploymentRecord
    storage: StorageRecord
    unchanged: bool


class Missing(NamedTuple):
    """Contents of a release that the server does not have, by path."""

    files: dict[str, FileEntry]


class Deployments:
    """Commits, lists and promotes deployments. `changed` is called with a storage changed by this process."""

    by_day = deployment_store.DEPLOYMENTS_BY_DAY
    """Counts deployments by day; see `pilotis.db.daily`."""

    def __init__(
        self,
        database: Database,
        contents: Contents,
        events: Events,
        jobs: Jobs,
        follow_ups: FollowUps,
        addresses: Addresses,
        changed: Callable[[UUID], None],
    ) -> None:
        self._database = database
        self._contents = contents
        self._events = events
        self._jobs = jobs
        self._follow_ups = follow_ups
        self._addresses = addresses
        self._changed = changed

    async def page(self, app: AppInfo, storage_id: UUID, query: DeploymentQuery) -> DeploymentList:
        """Return a page of a storage's deployments, newest first."""
        storage = await self._storage(app.app_id, storage_id)
        limit = app.limits.page_size(query.limit)
        status = query.status.value if query.status else None
        rows, total = await deployment_store.deployments(
            self._database, app.app_id, storage_id, status, limit, query.offset
        )
        listed = [views.deployment_view(row, storage, self._addresses) for row in rows]
        return DeploymentList(
            deployments=listed, total_count=total, limit=limit, offset=query.offset, **views.pointers(storage)
        )

    async def read(self, app_id: UUID, storage_id: UUID, deployment_id: UUID) -> Deployment:
        """Return a deployment; raises `DeploymentNotFoundError`."""
        storage = await self._storage(app_id, storage_id)
        row = await deployment_store.deployment(self._database.of(app_id), app_id, storage_id, deployment_id)
        if row is None:
            raise DeploymentNotFoundError
        return views.deployment_view(row, storage, self._addresses)

    async def manifest(self, app_id: UUID, storage_id: UUID, query: ManifestQuery) -> Manifest:
        """Return the files of a deployment; by default of the one on which the next deployment would be based."""
        storage = await self._storage(app_id, storage_id)
        async with self._database.connection(app_id, read_only=True) as connection:
            row = await self._named(connection, storage, query)
            files = {} if row is None else await content_store.files(connection, app_id, row.deployment_id)
        return Manifest(
            storage_id=storage_id,
            deployment_id=row.deployment_id if row else None,
            version=row.version if row else None,
            manifest_hash=row.manifest_hash.hex() if row and row.manifest_hash else None,
            file_count=len(files),
            total_size=sum(entry.size for entry in files.values()),
            files=manifests.listed(files),
        )

    async def promote(self, app_id: UUID, actor: Actor, storage_id: UUID, deployment_id: UUID | None) -> Promotion:
        """Promote a deployment, by default the newest ready one, to production; raises errors unless it is ready.

        Previews of branches are not promoted, since their files have the branch's key.
        """
        async with self._database.transaction(app_id) as connection:
            storage = await self._lock(connection, app_id, storage_id)
            if deployment_id is None:
                row = await deployment_store.newest_ready(connection, app_id, storage_id, of_branches=False)
                if row is None:
                    raise NoReadyDeploymentError
            else:
                row = await deployment_store.deployment(connection, app_id, storage_id, deployment_id)
                if row is None:
                    raise DeploymentNotFoundError
                if row.status != "ready":
                    raise DeploymentNotReadyError
                if row.branch is not None:
                    raise DeploymentOfBranchError
            previous_id = storage.production_id
            kind = await self._promotion_kind(connection, storage, row)
            storage = await self._point(connection, storage, "production", row, kind, actor)
            await record(connection, app_id, actor, f"web_storage.{kind}", storage_id, version=row.version)
        deployment = views.deployment_view(row, storage, self._addresses)
        return Promotion(
            production_deployment_id=deployment.id, previous_deployment_id=previous_id, kind=kind, deployment=deployment
        )

    async def commit(
        self, app: AppInfo, actor: Actor, storage_id: UUID, release: Release, files: manifests.Files
    ) -> Committed:
        """Create a deployment from a complete manifest whose contents are stored."""
        async with self._database.transaction(app.app_id, statement_seconds=60) as connection:
            return await self.commit_in(connection, app, actor, storage_id, release, files)

    async def commit_in(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        storage_id: UUID,
        release: Release,
        files: manifests.Files,
    ) -> Committed:
        """Create a deployment from a complete manifest in the caller's transaction."""
        storage = await self._lock(connection, app.app_id, storage_id)
        base = await self._base(connection, storage, release.target)
        base_files = await self._files(connection, base)
        hashes = {entry.sha256 for entry in files.values()}
        if len(await content_store.touch_blobs(connection, app.app_id, hashes)) < len(hashes):
            raise UnavailableError("Files of this deployment were deleted while it was processed. Deploy again.")
        return await self._finish(connection, app, actor, storage, base, base_files, files, release)

    async def commit_delta(
        self,
        app: AppInfo,
        actor: Actor,
        storage_id: UUID,
        release: Release,
        delta: manifests.Delta,
        expected_base: UUID | None,
    ) -> Committed | Missing:
        """Create a deployment from a base and its changes; if contents are missing, create none and return them."""
        async with self._database.transaction(app.app_id, statement_seconds=60) as connection:
            storage = await self._lock(connection, app.app_id, storage_id)
            base = await self._base(connection, storage, release.target)
            if expected_base is not None and (base is None or base.deployment_id != expected_base):
                raise BaseDeploymentChangedError
            base_files = await self._files(connection, base)
            files = manifests.applied(base_files, delta)
            known = await content_store.touch_blobs(
                connection, app.app_id, {entry.sha256 for entry in delta.upserts.values()}
            )
            missing = {path: entry for path, entry in delta.upserts.items() if entry.sha256 not in known}
            if missing:
                return Missing(missing)
            return await self._finish(connection, app, actor, storage, base, base_files, files, release)

    def result(self, committed: Committed) -> DeployResult:
        """Return the answer to a deploy."""
        deployment = views.deployment_view(committed.deployment, committed.storage, self._addresses)
        return DeployResult(deployment=deployment, **views.pointers(committed.storage), unchanged=committed.unchanged)

    async def retain(self, app_id: UUID, storage_id: UUID) -> int:
        """Expire a storage's deployments beyond those it retains; return their number."""
        async with self._database.transaction(app_id, statement_seconds=60) as connection:
            storage = await storage_store.lock_storage(connection, app_id, storage_id)
            if storage is None:
                return 0
            expired = await deployment_store.expire_deployments(connection, app_id, storage_id, storage.retain)
            if expired:
                await content_store.delete_files(connection, app_id, expired)
                await self._announce(connection, storage_id)
        return len(expired)

    async def _finish(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        storage: StorageRecord,
        base: DeploymentRecord | None,
        base_files: manifests.Files,
        files: manifests.Files,
        release: Release,
    ) -> Committed:
        """Insert a deployment under the storage's lock and move the pointer, unless the newest one is the same."""
        app_id, storage_id = app.app_id, storage.storage_id
        if len(files) > app.limits.site_files:
            raise PayloadTooLargeError(f"A deployment has at most {app.limits.site_files} files.")
        digest = manifests.manifest_hash(files)
        newest = await deployment_store.newest_ready(connection, app_id, storage_id)
        channel = "qa" if release.target or storage.promote_mode == "manual" else "production"
        same = digest, release.branch
        if newest is not None and (newest.manifest_hash, newest.branch) == same and release.deployment_id is None:
            is_moved = storage.pointer(channel) != newest.deployment_id
            storage = await self._point(connection, storage, channel, newest, "deploy", actor)
            if is_moved:
                await record(connection, app_id, actor, "web_storage.deploy", storage_id, version=newest.version)
            return Committed(newest, storage, True)
        differing = manifests.changes(base_files, files)
        version = storage.last_version + 1
        columns = {
            "version": version,
            "status": "ready",
            "base_id": base.deployment_id if base else None,
            "manifest_hash": digest,
            "file_count": len(files),
            "total_size": sum(entry.size for entry in files.values()),
            "uploaded_size": manifests.new_bytes(base_files, files),
            "added": differing.added,
            "changed": differing.changed,
            "removed": differing.removed,
            "warnings": views.warnings_text([*release.warnings, *await self._rule_warnings(connection, app_id, files)]),
            "ready_at": now(),
        }
        row = await self._write(connection, app_id, actor, storage_id, release, columns)
        if base is not None and differing.added + differing.changed < len(files) // 2:
            kept = {path for path, entry in files.items() if base_files.get(path) == entry}
            await content_store.copy_files(
                connection, app_id, base.deployment_id, row.deployment_id, base_files.keys() - kept
            )
            new = {path: entry for path, entry in files.items() if path not in kept}
        else:
            new = dict(files)
        await content_store.insert_files(connection, app_id, row.deployment_id, new)
        await storage_store.update_storage(connection, app_id, storage_id, {"last_version": version})
        storage = await self._point(connection, storage, channel, row, "deploy", actor)
        await self._follow_up(connection, app_id, actor, storage, row)
        return Committed(row, storage, False)

    async def _write(
        self,
        connection: Connection,
        app_id: UUID,
        actor: Actor,
        storage_id: UUID,
        release: Release,
        columns: dict[str, object],
    ) -> DeploymentRecord:
        if release.deployment_id is not None:
            row = await deployment_store.update_deployment(connection, app_id, release.deployment_id, columns)
            if row is None:
                raise DeploymentNotFoundError
            return row
        return await deployment_store.insert_deployment(
            connection, new_row(app_id, storage_id, actor, release, uuid7()) | columns
        )

    async def _follow_up(
        self, connection: Connection, app_id: UUID, actor: Actor, storage: StorageRecord, row: DeploymentRecord
    ) -> None:
        storage_id, deployment_id = storage.storage_id, row.deployment_id
        data = DeploymentEvent(storage_id, views.deployment_view(row, storage, self._addresses))
        await self._events.emit(
            connection,
            app_id,
            DEPLOYMENT_READY,
            data,
            actor=actor,
            subject=f"webs/{storage_id}/deployments/{deployment_id}",
            storage_id=storage_id,
        )
        await record(connection, app_id, actor, "web_storage.deploy", storage_id, version=row.version)
        await self._jobs.enqueue(
            connection,
            self._follow_ups.compress,
            app_id,
            DeploymentJob(storage_id, deployment_id),
            key=str(deployment_id),
            subject=str(storage_id),
        )
        await self._jobs.enqueue(
            connection,
            self._follow_ups.retain,
            app_id,
            StorageJob(storage_id),
            key=str(storage_id),
            subject=str(storage_id),
        )

    async def _point(
        self,
        connection: Connection,
        storage: StorageRecord,
        channel: str,
        row: DeploymentRecord,
        kind: str,
        actor: Actor,
    ) -> StorageRecord:
        """Move a pointer of a locked storage and return the storage; changes nothing if it already points there."""
        app_id, storage_id = storage.app_id, storage.storage_id
        previous_id, deployment_id = storage.pointer(channel), row.deployment_id
        if previous_id != deployment_id:
            await storage_store.update_storage(connection, app_id, storage_id, {f"{channel}_id": deployment_id})
            await deployment_store.insert_promotion(
                connection,
                {
                    "app_id": app_id,
                    "promotion_id": uuid7(),
                    "storage_id": storage_id,
                    "channel": channel,
                    "deployment_id": deployment_id,
                    "previous_id": previous_id,
                    "kind": kind,
                    "actor_kind": actor.kind,
                    "actor_id": actor.id,
                },
            )
        changed = await storage_store.storage(connection, app_id, storage_id)
        assert changed is not None
        if channel == "production" and previous_id != deployment_id:
            if previous_id is not None:
                await deployment_store.leave_production(connection, app_id, previous_id)
            view = views.deployment_view(row, changed, self._addresses)
            data = PromotionEvent(storage_id, channel, kind, previous_id, view)
            await self._events.emit(
                connection,
                app_id,
                DEPLOYMENT_PROMOTED,
                data,
                actor=actor,
                subject=f"webs/{storage_id}/deployments/{deployment_id}",
                storage_id=storage_id,
            )
        await self._announce(connection, storage_id)
        return changed

    async def _announce(self, connection: Connection, storage_id: UUID) -> None:
        await publish(connection, Topic.SITE, storage_id)
        after_commit(connection, functools.partial(self._changed, storage_id))

    async def _promotion_kind(self, connection: Connection, storage: StorageRecord, row: DeploymentRecord) -> str:
        if storage.production_id is None:
            return "promote"
        current = await deployment_store.deployment(
            connection, storage.app_id, storage.storage_id, storage.production_id
        )
        was = current.version if current is not None else None
        return "rollback" if was is not None and row.version is not None and row.version < was else "promote"

    async def _rule_warnings(self, connection: Connection, app_id: UUID, files: manifests.Files) -> list[DeployWarning]:
        """Return the problems in the rules of a release."""
        warnings: list[DeployWarning] = []
        for path in (REDIRECTS_FILE, HEADERS_FILE):
            entry = files.get(path)
            if entry is None:
                continue
            if entry.size > MAX_RULES_BYTES:
                warnings.append(DeployWarning("RULES_TOO_LARGE", path, f"It has more than {MAX_RULES_BYTES} bytes."))
                continue
            blob_id = await content_store.blob_id(connection, app_id, entry.sha256)
            text = (await self._contents.read(app_id, blob_id)).decode("utf-8", "replace")
            parse = parse_redirects if path == REDIRECTS_FILE else parse_headers
            warnings += parse(text)[1][:100]
        return warnings

    async def _base(
        self, connection: Connection, storage: StorageRecord, target: Target | None
    ) -> DeploymentRecord | None:
        """Return the deployment on which the next one of a target is based.

        This is the one of its channel, else the newest ready one, so nothing is included that was not approved.
        """
        is_qa = target is not None or storage.promote_mode == "manual"
        pointer = storage.pointer("qa" if is_qa else "production")
        if pointer is not None:
            return await deployment_store.deployment(connection, storage.app_id, storage.storage_id, pointer)
        return await deployment_store.newest_ready(connection, storage.app_id, storage.storage_id)

    async def _named(
        self, connection: Connection, storage: StorageRecord, query: ManifestQuery
    ) -> DeploymentRecord | None:
        app_id, storage_id = storage.app_id, storage.storage_id
        if query.deployment_id is not None:
            row = await deployment_store.deployment(connection, app_id, storage_id, query.deployment_id)
            if row is None:
                raise DeploymentNotFoundError
            if row.status != "ready":
                raise DeploymentNotReadyError
            return row
        if query.channel is Channel.LATEST:
            return await deployment_store.newest_ready(connection, app_id, storage_id)
        if query.channel is None:
            return await self._base(connection, storage, None)
        pointer = storage.pointer(query.channel.value)
        return None if pointer is None else await deployment_store.deployment(connection, app_id, storage_id, pointer)

    async def _files(self, connection: Connection, base: DeploymentRecord | None) -> dict[str, FileEntry]:
        if base is None:
            return {}
        return await content_store.files(connection, base.app_id, base.deployment_id)

    async def _storage(self, app_id: UUID, storage_id: UUID) -> StorageRecord:
        row = await storage_store.storage(self._database.of(app_id), app_id, storage_id)
        if row is None:
            raise WebStorageNotFoundError
        return row

    async def _lock(self, connection: Connection, app_id: UUID, storage_id: UUID) -> StorageRecord:
        row = await storage_store.lock_storage(connection, app_id, storage_id)
        if row is None:
            raise WebStorageNotFoundError
        return row


def new_row(app_id: UUID, storage_id: UUID, actor: Actor, release: Release, deployment_id: UUID) -> dict[str, object]:
    """Return the columns of a new deployment."""
    return {
        "app_id": app_id,
        "deployment_id": deployment_id,
        "storage_id": storage_id,
        "status": "processing",
        "source": release.source,
        "target": release.target.value if release.target else None,
        "message": release.message,
        "branch": release.branch,
        "actor_kind": actor.kind,
        "actor_id": actor.id,
    }

"""Branches: created by a job from an archive, compared with their parent, merged and deleted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import structlog
from asyncpg import Connection

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.apps.types import BranchOf
from pilotis.archive.service import Archives
from pilotis.archive.types import Contents, Imported
from pilotis.branches import merging, store
from pilotis.branches.errors import (
    BranchLimitError,
    BranchNameTakenError,
    BranchNotFoundError,
    BranchNotReadyError,
    BranchOfBranchError,
    DifferencesChangedError,
)
from pilotis.branches.inside import AppInside, CallInside
from pilotis.branches.merging import Base, Compared, RunningMerge
from pilotis.branches.parts import Ids
from pilotis.branches.store import Common, StoredBranch
from pilotis.branches.types import AppBranch, BranchDiff, BranchJob, Merge, Merged, NewBranch
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppItself, AppUser, Principal, Role, RoleRequiredError, app_of
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import PilotisError
from pilotis.security.audit.service import record

_CREATE_SECONDS = 1800.0
_MAX_NAME = 100
_log = structlog.get_logger("pilotis.branches")


class Branches:
    """Creates, compares, merges and deletes branches; archives are in `folder` meanwhile."""

    def __init__(self, database: Database, apps: Apps, archives: Archives, jobs: Jobs, folder: Path) -> None:
        self._database = database
        self._apps = apps
        self._archives = archives
        self._jobs = jobs
        self._folder = folder
        self._call: CallInside | None = None
        self._merging = set[UUID]()
        self.kind = JobKind(
            name="branches.create",
            queue="bytes",
            payload=BranchJob,
            run=self._run,
            gaps=(),
            seconds=_CREATE_SECONDS + 60,
        )

    def attach(self, call_inside: CallInside) -> None:
        """Set what serves calls of the API."""
        self._call = call_inside

    async def create(self, principal: Principal, actor: Actor, new: NewBranch, branch_id: UUID) -> AppBranch:
        """Begin to create a branch; raises `RoleRequiredError` and the errors of branches."""
        app = app_of(principal)
        if new.members == "all" and not principal.may(Role.OWNER):
            raise RoleRequiredError("Only an owner may copy the members of an app.")
        contents = json.encode({"rows": new.rows, "members": new.members, "files": new.files}).decode()
        async with self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            if await store.is_branch(connection, app.app_id):
                raise BranchOfBranchError
            names = await store.names(connection, app.app_id)
            if new.name in names:
                raise BranchNameTakenError
            if len(names) >= app.limits.branches:
                raise BranchLimitError
            await store.insert(connection, app.app_id, branch_id, new.name, contents, new.days, actor.id)
            payload = BranchJob(branch_id, actor.kind, actor.id)
            await self._jobs.enqueue(connection, self.kind, app.app_id, payload, subject=str(branch_id))
            await record(connection, app.app_id, actor, "branch.create", branch_id, name=new.name, contents=contents)
        return await self.read(app.app_id, branch_id)

    async def page(self, principal: Principal, paging: Paging) -> ItemPage[AppBranch]:
        """Return a page of an app's branches."""
        app = app_of(principal)
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.page(self._database, app.app_id, limit, paging.offset)
        found = [_branch(app.app_id, row) for row in rows]
        return ItemPage(data=found, total_count=total, limit=limit, offset=paging.offset)

    async def read(self, app_id: UUID, branch_id: UUID) -> AppBranch:
        """Return a branch; raises `BranchNotFoundError`."""
        return _branch(app_id, await self._stored(app_id, branch_id))

    async def delete(self, app_id: UUID, actor: Actor, branch_id: UUID) -> None:
        """Delete a branch and its app, which an owner can restore for some days; one that is being created ends."""
        stored = await self._stored(app_id, branch_id)
        await self._delete_app(branch_id, actor)
        async with self._database.transaction(app_id) as connection:
            await lock_app(connection, app_id)
            await store.delete(connection, app_id, branch_id)
            await record(connection, app_id, actor, "branch.delete", branch_id)
        if stored.state == "creating":
            # The deletion waited for a creation that was about to commit.
            await self._delete_app(branch_id, actor)

    async def diff(self, principal: Principal, branch_id: UUID) -> BranchDiff:
        """Return what differs between a branch and its parent."""
        compared = await self._compared(principal, branch_id)
        return await merging.shown(compared)

    async def merge(self, principal: Principal, actor: Actor, branch_id: UUID, merge: Merge) -> Merged:
        """Apply the definitions of a branch to its parent, each table in one transaction.

        Raises `DifferencesChangedError`, `MergeConflictError`, and `MergeFailedError` with what was applied before.
        """
        app_id = app_of(principal).app_id
        if app_id in self._merging:
            raise DifferencesChangedError("Another merge into the app is running. Read the differences again after it.")
        self._merging.add(app_id)
        try:
            return await self._merge(principal, actor, branch_id, merge)
        finally:
            self._merging.discard(app_id)

    async def _merge(self, principal: Principal, actor: Actor, branch_id: UUID, merge: Merge) -> Merged:
        app_id = app_of(principal).app_id
        compared = await self._compared(principal, branch_id)
        running = RunningMerge(merging.wanted_steps(compared, merge))
        ids = compared[0].sides.ids
        known = len(ids)
        try:
            await running.run()
        finally:
            # What was created is known by its id, even if the rest of it was rejected.
            if running.applied or len(ids) > known:
                await asyncio.shield(self._keep(app_id, actor, branch_id, running, ids))
        count = len(running.applied)
        return Merged(message=f"{count} changes were applied.", applied=running.differences)

    async def delete_gone(self, connection: Connection) -> None:
        """Delete what is known of branches that no longer exist; for a periodic task."""
        await store.delete_gone(connection)

    async def _keep(self, app_id: UUID, actor: Actor, branch_id: UUID, running: RunningMerge, ids: Ids) -> None:
        async with self._database.transaction(app_id) as connection:
            await lock_app(connection, app_id)
            # Another node may have merged the branch meanwhile: what it has stored stays.
            if (stored := await store.common(connection, app_id, branch_id)) is not None:
                base = merging.merged_base(_decoded(stored.base), running)
                await store.set_common(
                    connection, app_id, branch_id, Common(_text(base), _text({**_decoded(stored.ids), **ids}))
                )
            changes = [f"{one.part}: {one.step} {one.title}" for one in running.differences]
            await record(connection, app_id, actor, "branch.merge", branch_id, changes=changes[:200])

    async def _compared(self, principal: Principal, branch_id: UUID) -> list[Compared]:
        app = app_of(principal)
        assert isinstance(principal, AppUser)
        stored = await self._stored(app.app_id, branch_id)
        if stored.state != "ready":
            raise BranchNotReadyError
        common = await store.common(self._database.of(app.app_id), app.app_id, branch_id)
        if common is None:
            raise BranchNotFoundError
        base: Base = _decoded(common.base)
        ids: Ids = _decoded(common.ids)
        there = AppUser(await self._apps.by_id(branch_id), principal.user, principal.role)
        branch, parent = (AppInside(self._inside, one) for one in (there, principal))
        return await merging.compare(branch, parent, base, ids)

    async def _delete_app(self, branch_id: UUID, actor: Actor) -> None:
        with suppress(AppNotFoundError):
            await self._apps.delete(branch_id, actor)

    @property
    def _inside(self) -> CallInside:
        assert self._call is not None
        return self._call

    async def _stored(self, app_id: UUID, branch_id: UUID) -> StoredBranch:
        stored = await store.read(self._database.of(app_id), app_id, branch_id)
        if stored is None:
            raise BranchNotFoundError
        return stored

    async def _run(self, job: Job[BranchJob]) -> None:
        app_id, branch_id = job.app_id, job.payload.branch_id
        stored = await store.read(self._database.of(app_id), app_id, branch_id)
        if stored is None or stored.state != "creating":
            return
        try:
            async with asyncio.timeout(_CREATE_SECONDS):
                await self._create(app_id, stored, Actor(job.payload.actor_kind, job.payload.actor_id, None))
                # Changes of the parent reach a branch that is committed; those before have passed it by. Without
                # the job's fence, since apps are locked before jobs: whoever renews it twice writes the same.
                async with self._database.transaction(app_id) as connection:
                    await lock_app(connection, app_id)
                    await self._apps.renew_branch(connection, app_id, branch_id)
                base = await merging.definitions(AppInside(self._inside, AppItself(await self._apps.by_id(branch_id))))
        except BranchNotFoundError:
            return
        except (PilotisError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            _log.warning("branch failed", app_id=str(app_id), branch_id=str(branch_id), exc_info=error)
            async with job.transaction() as connection:
                await store.fail(connection, app_id, branch_id, _sentence(error))
                await job.finish(connection)
            return
        async with job.transaction() as connection:
            await store.set_common(connection, app_id, branch_id, Common(_text(base), "{}"))
            await job.finish(connection)

    async def _create(self, app_id: UUID, stored: StoredBranch, actor: Actor) -> None:
        parent = await self._apps.by_id(app_id)
        contents = {name: amount == "all" for name, amount in _decoded(stored.contents).items()}
        branch = BranchOf(app_id=stored.branch_id, parent_id=app_id, name=stored.name, expires_at=stored.expires_at)

        async def require(connection: Connection) -> None:
            if await store.read(connection, app_id, stored.branch_id) is None:
                raise BranchNotFoundError

        async def complete(connection: Connection, _: Imported) -> None:
            if not await store.lock(connection, app_id, stored.branch_id):
                raise BranchNotFoundError

        name = f"{parent.name[: _MAX_NAME - len(stored.name) - 3]} ({stored.name})"
        await self._archives.branch(name, branch, Contents(**contents), actor, self._folder, require, complete)


def _branch(app_id: UUID, row: StoredBranch) -> AppBranch:
    return AppBranch(
        branch_id=row.branch_id,
        parent_app_id=app_id,
        name=row.name,
        **_decoded(row.contents),
        state=row.state,
        error=row.error,
        public_key=row.public_key if row.state == "ready" else None,
        created_at=rfc3339(row.created_at),
        expires_at=rfc3339(row.expires_at),
    )


def _decoded(text: str) -> Any:
    return json.decode(text.encode())


def _text(value: object) -> str:
    return json.encode(value).decode()


def _sentence(error: Exception) -> str:
    if isinstance(error, PilotisError):
        return error.text
    if isinstance(error, TimeoutError):
        return f"It took longer than {_CREATE_SECONDS / 60:.0f} minutes."
    return "The server could not create it; its log has the reason."

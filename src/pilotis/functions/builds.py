"""Builds of versions and drafts that use packages: made once for each app and set of inputs, and read by every node."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.functions import build_store
from pilotis.functions.errors import VersionNotFoundError
from pilotis.functions.packages import REQUIREMENTS, PackageFolders, bundled, digest_of
from pilotis.functions.runtime.build import Builder, BuildFailedError, Built, Package
from pilotis.functions.runtime.call import Program
from pilotis.functions.runtime.policy import Runtime
from pilotis.functions.runtime.pool import Pool
from pilotis.functions.runtime.types import RuntimeUnavailableError, needs_namespaces
from pilotis.functions.sources import Source

_CONCURRENT_BUILDS = 2


class Builds:
    """The builds of apps."""

    def __init__(self, database: Database, pool: Pool, builder: Builder, folders: PackageFolders) -> None:
        self._database = database
        self._pool = pool
        self._builder = builder
        self._folders = folders
        self._slots = asyncio.Semaphore(_CONCURRENT_BUILDS)
        self.ended: Counter[str] = Counter()

    async def digest(self, runtime: Runtime, source: Source) -> str | None:
        """Return what identifies the build of a source, None where it needs none; raises `SourceInvalidError`."""
        version = (await self._pool.found(runtime)).version or ""
        return digest_of(runtime, source, version)

    async def is_built(self, app_id: UUID, digest: str) -> bool:
        """Return whether the app has this build."""
        return await build_store.packages(self._database.of(app_id), app_id, digest) is not None

    async def packages(self, app_id: UUID, digest: str) -> tuple[list[Package], str, int]:
        """Return the packages of a build, its log, and the bytes of the bundle or the archive that it made."""
        found = await build_store.packages(self._database.of(app_id), app_id, digest)
        if found is None:
            raise VersionNotFoundError
        packages, log, size = found
        return msgspec.json.decode(packages, type=list[Package]), log, size

    async def build(self, app_id: UUID, runtime: Runtime, source: Source, digest: str) -> None:
        """Build what a source asks for, unless the app has it; raises `BuildFailedError`, `RuntimeUnavailableError`."""
        if await self.is_built(app_id, digest):
            return
        found = await self._pool.found(runtime)
        if found.isolation is None:
            raise RuntimeUnavailableError(found.reason)
        if not found.has_network:
            raise needs_namespaces("Builds of packages", found)
        try:
            async with self._slots:
                with self._pool.user() as user:
                    if runtime is Runtime.JAVASCRIPT:
                        built = await self._builder.bundle(found.isolation, user, source.files, source.entrypoint)
                    else:
                        built = await self._builder.install(found.isolation, user, source.files[REQUIREMENTS])
        except BuildFailedError:
            self.ended["failed"] += 1
            raise
        await self._store(app_id, digest, built)
        self.ended["ready"] += 1

    async def program(
        self, app_id: UUID, runtime: Runtime, source: Source, digest: str | None, env: dict[str, str]
    ) -> Program:
        """Return what a sandbox loads for a source and its build."""
        packages = None
        is_commonjs = source.is_commonjs
        if digest is not None and runtime is Runtime.JAVASCRIPT:
            source, is_commonjs = bundled(source, await self._data(app_id, digest)), False
        elif digest is not None:
            packages = self._folders.find(str(app_id), digest)
            if packages is None:
                packages = await self._folders.unpack(str(app_id), digest, await self._data(app_id, digest))
        return Program(source.files, source.entrypoint, env, is_commonjs, packages)

    async def _store(self, app_id: UUID, digest: str, built: Built) -> None:
        packages = msgspec.json.encode(built.packages).decode()
        async with self._database.transaction(app_id) as connection:
            await build_store.insert(connection, app_id, digest, packages, built.log, built.data)

    async def _data(self, app_id: UUID, digest: str) -> bytes:
        data = await build_store.built(self._database.of(app_id), app_id, digest)
        if data is None:
            raise VersionNotFoundError
        return data

"""Archives of apps: writing them to files, and making apps of files."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from asyncpg import Connection

from pilotis.apps.service import Apps
from pilotis.apps.types import BranchOf
from pilotis.archive.errors import AppExistsError, SchemaChangedError
from pilotis.archive.format import ArchiveWriter
from pilotis.archive.reader import Reader, Wanted
from pilotis.archive.types import WHOLE, Contents, Exported, Imported
from pilotis.archive.writer import Sources, Writer
from pilotis.http.api.principals import Actor
from pilotis.kit.disk import DiskReserve
from pilotis.kit.scratch import scratch
from pilotis.security.audit.service import record

_TRIES = 4
"""How often an archive is begun: a schema that changes each time is being worked on."""


class Archives:
    """Writes and reads archives. `room` is the free space that must remain on the database's disk."""

    def __init__(self, sources: Sources, apps: Apps, room: DiskReserve) -> None:
        self._sources = sources
        self._apps = apps
        self._room = room

    async def export(
        self, app_id: UUID, path: Path, actor: Actor, passphrase: str | None = None, *, with_secrets: bool = True
    ) -> Exported:
        """Write an archive of an app to a new file, completely or not at all, with the mode 0600.

        Raises `AppNotFoundError`, `ArchiveKeyError` for an app with secrets and no passphrase, and
        `ArchiveInterruptedError`.
        """
        await self._record(app_id, actor)
        return await self._write(app_id, lambda: ArchiveWriter(path), passphrase, with_secrets=with_secrets)

    async def write(
        self, app_id: UUID, path: Path, passphrase: str | None, *, with_secrets: bool, contents: Contents = WHOLE
    ) -> Exported:
        """Write an archive into the data directory, which was asked for earlier.

        See `export`; raises `StorageFullError` besides.
        """
        return await self._write(
            app_id,
            lambda: ArchiveWriter(path, self._room.require),
            passphrase,
            with_secrets=with_secrets,
            contents=contents,
        )

    async def _write(
        self,
        app_id: UUID,
        begin: Callable[[], ArchiveWriter],
        passphrase: str | None,
        *,
        with_secrets: bool,
        contents: Contents = WHOLE,
    ) -> Exported:
        """Write an archive, and begin again if a table's schema changes meanwhile, as background work may change it."""
        tries = itertools.count(1)
        while True:
            try:
                with begin() as archive:
                    return await Writer(
                        self._sources, app_id, archive, passphrase, with_secrets=with_secrets, contents=contents
                    ).write()
            except SchemaChangedError:
                if next(tries) == _TRIES:
                    raise

    async def _record(self, app_id: UUID, actor: Actor) -> None:
        async with self._sources.database.transaction(app_id) as connection:
            await record(connection, app_id, actor, "app.export", app_id)

    async def import_(self, path: Path, wanted: Wanted) -> Imported:
        """Make an app of an archive; raises what `Reader.read` raises, and `OSError`."""
        with await asyncio.to_thread(path.open, "rb") as file:
            return await Reader(self._sources, self._apps, self._room, file, wanted).read()

    async def clone(self, app_id: UUID, name: str, owner_id: UUID | None, actor: Actor, folder: Path) -> Imported:
        """Make an app of another's archive, which is in `folder` meanwhile."""
        passphrase = secrets.token_urlsafe()
        async with scratch(folder) as place:
            path = place / "app.pilotis"
            await self._record(app_id, actor)
            await self.write(app_id, path, passphrase, with_secrets=True)
            return await self.import_(path, Wanted(name, owner_id, actor, passphrase))

    async def branch(
        self,
        name: str,
        branch: BranchOf,
        contents: Contents,
        actor: Actor,
        folder: Path,
        require: Callable[[Connection], Awaitable[None]],
        complete: Callable[[Connection, Imported], Awaitable[None]],
    ) -> None:
        """Make a branch of an app, whose archive is in `folder` meanwhile; for the callbacks see `Wanted`.

        Does nothing if a process that died has made it.
        """
        passphrase = secrets.token_urlsafe()
        async with scratch(folder) as place:
            path = place / "app.pilotis"
            await self.write(branch.parent_id, path, passphrase, with_secrets=True, contents=contents)
            wanted = Wanted(name, None, actor, passphrase, branch=branch, require=require, complete=complete)
            with suppress(AppExistsError):
                await self.import_(path, wanted)

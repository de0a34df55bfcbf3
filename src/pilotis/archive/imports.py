"""Archives that console users upload, each of which becomes an app of theirs.

The file and the passphrase stay in the process that received them: neither is stored anywhere else. So an import ends
with its process, and leaves nothing; its user is told, and uploads the archive again.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import structlog
from asyncpg import Connection

from pilotis.apps.service import Apps
from pilotis.archive import request_store as store
from pilotis.archive.errors import AppImportNotFoundError, ImportsBusyError
from pilotis.archive.reader import Wanted
from pilotis.archive.request_store import SEEN_SECONDS, ImportRow
from pilotis.archive.service import Archives
from pilotis.archive.types import AppImport, Imported
from pilotis.db.pool import Database
from pilotis.db.waiters import CONSOLE
from pilotis.http.api.multipart import Multipart, Part
from pilotis.http.api.principals import Actor
from pilotis.kit.clock import rfc3339
from pilotis.kit.disk import FULL, DiskReserve
from pilotis.kit.errors import PayloadTooLargeError, PilotisError, StorageFullError, invalid
from pilotis.kit.scratch import remove_remains, scratch

MAX_IMPORTS = 2
"""Concurrent imports in one process."""
_KEPT_DAYS = 30
_MAX_NAME, _MAX_PASSPHRASE = 100, 1000
_PIECE_BYTES = 1 << 20
_FILE = "app.pilotis"
_log = structlog.get_logger("pilotis.archive")


class _Upload(NamedTuple):
    size: int
    name: str | None
    passphrase: str | None
    with_secrets: bool


class AppImports:
    """Receives archives and imports them, a few at a time."""

    def __init__(
        self, database: Database, apps: Apps, archives: Archives, room: DiskReserve, max_bytes: int, folder: Path
    ) -> None:
        self._database = database
        self._apps = apps
        self._archives = archives
        self._room = room
        self._max_bytes = max_bytes
        self._folder = folder
        self._running: set[asyncio.Task[None]] = set()
        self._count = 0

    async def start(self) -> None:
        """Delete what killed processes have left."""
        await asyncio.to_thread(remove_remains, self._folder)

    async def stop(self) -> None:
        """End the imports that run; each is rolled back, and says so."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def begin(self, user_id: UUID, actor: Actor, import_id: UUID, body: Multipart) -> AppImport:
        """Receive an archive, and begin to import it.

        Raises `ImportsBusyError`, `PayloadTooLargeError`, `StorageFullError`, `ValidationError`.
        """
        if self._count >= MAX_IMPORTS:
            raise ImportsBusyError
        self._count += 1

        async def complete(connection: Connection, made: Imported) -> None:
            await store.complete_import(connection, import_id, made)

        async with AsyncExitStack() as stack:
            stack.callback(self._end)
            async with self._database.transaction(CONSOLE) as connection:
                await self._apps.require_creator(connection, user_id)
            try:
                folder = await stack.enter_async_context(scratch(self._folder))
                upload = await self._receive(body, folder / _FILE)
            except OSError as error:
                if error.errno in FULL:
                    raise StorageFullError from error
                raise
            async with self._database.transaction(CONSOLE) as connection:
                await store.begin_import(connection, import_id, user_id, upload.size)
            wanted = Wanted(
                upload.name,
                user_id,
                actor,
                upload.passphrase,
                with_secrets=upload.with_secrets,
                with_secret_key=False,
                complete=complete,
            )
            # From here on the task holds the folder and the place.
            task = asyncio.create_task(self._import(import_id, folder / _FILE, wanted, stack.pop_all()))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await self.read(user_id, import_id)

    async def read(self, user_id: UUID, import_id: UUID) -> AppImport:
        """Return how far an import of a user is; raises `AppImportNotFoundError`."""
        row = await store.app_import(self._database.of(CONSOLE), user_id, import_id)
        if row is None:
            raise AppImportNotFoundError
        return _view(row)

    async def delete_old(self, connection: Connection) -> None:
        """Delete what is known of imports of long ago."""
        await store.delete_old_imports(connection, _KEPT_DAYS)

    def _end(self) -> None:
        self._count -= 1

    async def _receive(self, body: Multipart, path: Path) -> _Upload:
        size, name, passphrase, with_secrets = None, None, None, True
        async for part in body:
            if part.name == "file":
                if size is not None:
                    raise invalid("file", "file: one archive is expected, not several.")
                size = await self._store(part, path)
            elif part.name == "name":
                name = _text(part.name, await part.read(4 * _MAX_NAME), _MAX_NAME)
            elif part.name == "passphrase":
                passphrase = _text(part.name, await part.read(4 * _MAX_PASSPHRASE), _MAX_PASSPHRASE)
            elif part.name == "with_secrets":
                with_secrets = _bool(part.name, await part.read(10))
            else:
                raise invalid(part.name, "Send the parts file, name, passphrase and with_secrets.")
        if size is None:
            raise invalid("file", "file: a part with an archive is expected.", "REQUIRED")
        return _Upload(size, name, passphrase, with_secrets)

    async def _store(self, part: Part, path: Path) -> int:
        size, held = 0, bytearray()

        async def write() -> None:
            self._room.require(len(held))
            await asyncio.to_thread(file.write, bytes(held))
            held.clear()

        with await asyncio.to_thread(path.open, "xb") as file:
            async for piece in part:
                size += len(piece)
                if size > self._max_bytes:
                    raise PayloadTooLargeError(f"The archive is too large; at most {self._max_bytes} bytes are taken.")
                held += piece
                if len(held) >= _PIECE_BYTES:
                    await write()
            await write()
        return size

    async def _import(self, import_id: UUID, path: Path, wanted: Wanted, held: AsyncExitStack) -> None:
        database = self._database.of(CONSOLE)
        async with held:
            seen = asyncio.create_task(self._say(import_id))
            try:
                await self._archives.import_(path, wanted)
            except PilotisError as error:
                await store.fail_import(database, import_id, error.code, error.text)
            except asyncio.CancelledError:
                stopped = "The server was stopped meanwhile, and nothing was imported. Import the archive again."
                with suppress(Exception):
                    await store.fail_import(database, import_id, "STOPPING", stopped)
                raise
            except Exception as error:
                _log.exception("import failed", error=type(error).__name__)
                unknown = "The archive could not be imported. The server's log says why."
                await store.fail_import(database, import_id, "INTERNAL_ERROR", unknown)
            finally:
                seen.cancel()

    async def _say(self, import_id: UUID) -> None:
        while True:
            await asyncio.sleep(SEEN_SECONDS / 6)
            with suppress(Exception):
                await store.see_import(self._database.of(CONSOLE), import_id)


def _text(name: str, data: bytes, max_length: int) -> str | None:
    text = data.decode("utf-8", "replace").strip() if name == "name" else data.decode("utf-8", "replace")
    if len(text) > max_length or "\0" in text or "\ufffd" in text:
        raise invalid(name, f"{name}: a text of at most {max_length} characters is expected.")
    return text or None


def _bool(name: str, data: bytes) -> bool:
    if data not in (b"true", b"false"):
        raise invalid(name, f"{name}: true or false is expected.")
    return data == b"true"


def _view(row: ImportRow) -> AppImport:
    status, code, error = row.state, row.code, row.error
    if status == "running" and row.is_silent:
        status, code = "failed", "STOPPING"
        error = "The server ended meanwhile, and nothing was imported. Import the archive again."
    return AppImport(
        id=row.import_id,
        status=status,
        created_at=rfc3339(row.created_at),
        bytes=row.bytes,
        app_id=row.made_app_id,
        name=row.name,
        tables=row.tables,
        rows=row.rows,
        files=row.blobs,
        missing_files=row.missing_blobs,
        left_out=row.left_out,
        code=code,
        error=error,
    )

"""Reading an archive: an app of its own, in one transaction, so that it is there at once or not at all.

An archive is hostile input. Its digests stand in the file that they vouch for, so they find damage and nothing else:
whatever it says is taken from a list of columns, checked as a request would be, and acts on nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import IO, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.apps.service import Apps, CopiedApp
from pilotis.apps.types import BranchOf, CopiedSettings
from pilotis.archive import changes, lines, request_store, store
from pilotis.archive.changes import Change
from pilotis.archive.errors import AppExistsError, ArchiveKeyError, ArchiveTooNewError, InvalidArchiveError
from pilotis.archive.format import MAC, MANIFEST, MAX_MANIFEST_BYTES, ArchiveReader, Part
from pilotis.archive.sealing import Passphrase, verify
from pilotis.archive.store import NamedBlob
from pilotis.archive.types import FORMAT, ArchivePart, Imported, Manifest
from pilotis.archive.writer import Sources
from pilotis.blobs.errors import DigestMismatchError
from pilotis.blobs.protocol import BlobStore
from pilotis.data.tables.types import ArchivedTable
from pilotis.db.waiters import BACKGROUND
from pilotis.http.api.principals import Actor
from pilotis.kit import json
from pilotis.kit.account_settings import AccountSettings, passkey_fault
from pilotis.kit.archiving import Copied
from pilotis.kit.disk import DiskReserve
from pilotis.kit.errors import BadRequestError, ConflictError, PilotisError
from pilotis.kit.ids import uuid7
from pilotis.limits import PER_APP
from pilotis.security.audit.service import record
from pilotis.security.encryption.cipher import KEY_BYTES

_MANIFEST = json.decoder(Manifest)
_OCTETS = "application/octet-stream"
_MARKED_TOGETHER = 500


class Wanted(NamedTuple):
    """What an archive is to become: an app with a name, None for the archive's, of a console user.

    With `same_id` it keeps its id, and with it the addresses of its files and sites. Without `with_secret_key` its
    owner makes its first secret key.
    """

    name: str | None
    owner_id: UUID | None
    actor: Actor
    passphrase: str | None
    same_id: bool = False
    with_secrets: bool = True
    with_secret_key: bool = True
    branch: BranchOf | None = None
    require: Callable[[Connection], Awaitable[None]] | None = None
    """Called in the transaction before files are copied, which takes long: it may raise, but lock nothing."""
    complete: Callable[[Connection, Imported], Awaitable[None]] | None = None
    """Called at the end of the transaction."""


class Reader:
    """Reads one archive."""

    def __init__(self, sources: Sources, apps: Apps, room: DiskReserve, file: IO[bytes], wanted: Wanted) -> None:
        self._sources = sources
        self._apps = apps
        self._room = room
        self._file = file
        self._wanted = wanted

    async def read(self) -> Imported:
        """Create the app; raises `InvalidArchiveError`, `ArchiveKeyError`, `ArchiveTooNewError`, `AppExistsError`."""
        archive = await asyncio.to_thread(ArchiveReader, self._file)
        manifest, data_key = await asyncio.to_thread(self._opened, archive)
        source = manifest.app.app_id
        branch = self._wanted.branch
        target = source if self._wanted.same_id else branch.app_id if branch else uuid7()
        change = Change(source, target, data_key, os.urandom(32))
        connection = await self._sources.database.dedicated(name="archive", statement_seconds=0)
        try:
            async with connection.transaction():
                return await self._create(connection, archive, manifest, change)
        except asyncpg.UniqueViolationError as error:
            raise _taken(error) from None
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.SyntaxOrAccessError) as error:
            raise InvalidArchiveError(f"The archive is damaged: {_reason(error)}.") from None
        except asyncpg.ProgramLimitExceededError:
            raise InvalidArchiveError(
                "The archive is damaged: a value is larger than any that Pilotis writes."
            ) from None
        finally:
            await connection.close(timeout=2)

    def _opened(self, archive: ArchiveReader) -> tuple[Manifest, bytes | None]:
        """Return the manifest, which is as the passphrase says, and the data key."""
        encoded, signed = archive.whole(MANIFEST, MAX_MANIFEST_BYTES), archive.whole(MAC, 64)
        manifest = _manifest(encoded)
        named = [part.name for part in manifest.parts]
        if sorted(named) != sorted(archive.parts.keys() - {MANIFEST, MAC}):
            raise InvalidArchiveError("The archive is cut off or damaged: its manifest names other parts.")
        if (manifest.blobs, manifest.blob_bytes) != (archive.blob_count, archive.blob_bytes):
            raise InvalidArchiveError("The archive is cut off or damaged: its manifest counts other files.")
        if manifest.salt is None:
            verify(None, encoded, signed)
        data_key = None
        if self._wanted.passphrase is not None:
            if manifest.salt is None:
                raise ArchiveKeyError("The archive was written without a passphrase. Import it without one.")
            passphrase = Passphrase(self._wanted.passphrase, bytes.fromhex(manifest.salt))
            verify(passphrase, encoded, signed)
            if manifest.data_key is not None:
                data_key = passphrase.open(bytes.fromhex(manifest.data_key), manifest.app.app_id)
                if len(data_key) != KEY_BYTES:
                    raise InvalidArchiveError("The archive is damaged: its key is none.")
        elif manifest.data_key is not None and self._wanted.with_secrets:
            raise ArchiveKeyError("The archive has secrets. Give its passphrase, or leave the secrets out.")
        return manifest, data_key if self._wanted.with_secrets else None

    async def _create(
        self, connection: Connection, archive: ArchiveReader, manifest: Manifest, change: Change
    ) -> Imported:
        wanted, sources = self._wanted, self._sources
        await store.begin(connection)
        if manifest.schema > await store.schema_number(connection):
            raise ArchiveTooNewError(f"Pilotis {manifest.version} wrote this archive. Import it with that version.")
        if await store.has_app(connection, change.target):
            raise AppExistsError
        copied = await self._new_app(connection, manifest, change.target)
        app = copied.app
        if change.data_key is not None:
            await sources.encryption.set_data_key(connection, change.target, change.data_key)
        parts = {part.name: part for part in manifest.parts}
        for table, how in sources.copied:
            if (part := parts.pop(f"server/{table}.copy.gz", None)) is not None:
                await self._insert(connection, archive, part, table, how, change)
        tables = await sources.schemas.create_archived(connection, app)
        rows = {}
        for one in tables:
            part = parts.pop(f"rows/{one.table_id.hex}.copy.gz", None)
            rows[one.table_id] = await self._insert_rows(connection, archive, part, one, change)
        if parts:
            raise InvalidArchiveError("The archive has parts that belong to nothing of its app.")
        try:
            await sources.schemas.complete_archived(connection, app, rows)
        except ConflictError:
            raise InvalidArchiveError(
                "The archive is damaged: its rules or views name what its tables do not have."
            ) from None
        await store.finish(connection, sources.copied, change.target)
        if wanted.branch:
            await store.branch(connection, sources.copied, change.target, change.source)
        await record(
            connection,
            app.app_id,
            wanted.actor,
            "app.import",
            app.app_id,
            source=str(change.source),
            rows=sum(rows.values()),
        )
        made = Imported(
            app_id=app.app_id,
            name=app.name,
            public_key=copied.public_key,
            secret_key=copied.secret_key,
            tables=len(tables),
            rows=sum(rows.values()),
            blobs=manifest.blobs,
            missing_blobs=manifest.missing_blobs,
            left_out=manifest.left_out,
        )
        if wanted.require:
            await wanted.require(connection)
        async with _Blobs(sources.blobs, archive, change.target) as blobs:
            named = store.each_blob(connection, change.target, sources.copied)
            await blobs.put_all(self._marked(connection, change.target, named), manifest.missing_blobs)
            if wanted.complete:
                await wanted.complete(connection, made)
        return made

    async def _marked(
        self, connection: Connection, app_id: UUID, named: AsyncIterator[NamedBlob]
    ) -> AsyncGenerator[NamedBlob]:
        """Yield the blobs, each marked for deletion unless this transaction commits: the process may be killed.

        The marks are committed at once, and deleted in the transaction, which thereby keeps others from acting on them.
        """
        batch: list[NamedBlob] = []

        async def mark() -> None:
            keys = [f"blobs/{app_id}/{one.blob_id}" for one in batch]
            async with self._sources.database.transaction(BACKGROUND) as other:
                await request_store.mark_for_deletion(other, app_id, keys)
            await request_store.unmark(connection, app_id, keys)

        async for one in named:
            batch.append(one)
            if len(batch) == _MARKED_TOGETHER:
                await mark()
                for marked in batch:
                    yield marked
                batch = []
        if batch:
            await mark()
        for marked in batch:
            yield marked

    async def _new_app(self, connection: Connection, manifest: Manifest, app_id: UUID) -> CopiedApp:
        wanted, settings = self._wanted, _settings(manifest, self._wanted.name)
        if wanted.owner_id is not None and wanted.actor.kind == "console_user":
            await self._apps.require_creator(connection, wanted.owner_id)
        return await self._apps.create_copy(
            connection,
            settings,
            wanted.owner_id,
            wanted.actor,
            app_id,
            with_secret_key=wanted.with_secret_key,
            branch=wanted.branch,
        )

    async def _insert(
        self,
        connection: Connection,
        archive: ArchiveReader,
        part: ArchivePart,
        table: str,
        how: Copied,
        change: Change,
    ) -> None:
        if not set(part.columns) <= set(how.names) or len(set(part.columns)) < len(part.columns):
            raise InvalidArchiveError(f"The archive is damaged: {table} has columns that do not move.")
        columns, prefix = ["app_id", *how.replaced, *part.columns], changes.prefix(how, change)
        found = lines.whole_lines(archive.unzipped(part.name, part.sha256))
        if steps := changes.steps(part.columns, how, change):
            changed = changes.in_order(steps)
            blocks = (lines.rewritten(block, len(part.columns), changed, prefix) for block in found)
        else:
            blocks = (lines.prefixed(block, prefix) for block in found)
        try:
            rows = await store.copy_in(connection, "pilotis", table, columns, self._in_thread(blocks))
        except (ValueError, BadRequestError) as error:
            raise _wrong(table, error) from None
        _require_count(table, rows, part)

    async def _insert_rows(
        self,
        connection: Connection,
        archive: ArchiveReader,
        part: ArchivePart | None,
        table: ArchivedTable,
        change: Change,
    ) -> int:
        if part is None or part.columns != table.columns:
            raise InvalidArchiveError(f"The archive is damaged: the rows of {table.title[:100]} are not there.")
        blocks: Iterator[bytes] = lines.whole_lines(archive.unzipped(part.name, part.sha256))
        if steps := changes.of_rows(table, change):
            changed = changes.in_order(steps)
            blocks = (lines.rewritten(block, len(table.columns), changed, b"") for block in blocks)
        try:
            rows = await store.copy_in(connection, table.schema, table.name, table.columns, self._in_thread(blocks))
        except ValueError:
            raise InvalidArchiveError(f"The archive is damaged: a row of {table.title[:100]} has no id.") from None
        _require_count(table.title, rows, part)
        return rows

    async def _in_thread(self, blocks: Iterator[bytes]) -> AsyncGenerator[bytes]:
        while (block := await asyncio.to_thread(next, blocks, None)) is not None:
            self._room.require(len(block))
            yield block


class _Blobs:
    """Stores the bytes of an archive where the rows of the new app name them.

    Use it as a context manager: if anything fails in the block, what was stored is deleted.
    """

    def __init__(self, blobs: BlobStore, archive: ArchiveReader, app_id: UUID) -> None:
        self._blobs = blobs
        self._archive = archive
        self._app_id = app_id

    async def __aenter__(self) -> _Blobs:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            await asyncio.shield(self._remove())

    async def put_all(self, named: AsyncIterator[NamedBlob], missing: int) -> None:
        """Store everything; of the named bytes the archive must lack as many as `missing`.

        Rows and parts are in the order of the digests.
        """
        if await self._merge(named) != missing:
            raise InvalidArchiveError("The archive is cut off or damaged: files that its rows name are missing.")

    async def _merge(self, named: AsyncIterator[NamedBlob]) -> int:
        parts = self._archive.each_blob()
        sha256, part = next(parts, ("", None))
        last, first_key, missing = "", "", 0
        async for row in named:
            key = f"blobs/{self._app_id}/{row.blob_id}"
            if row.sha256 == last:
                if first_key:
                    await self._blobs.copy(first_key, key)
                continue
            last, first_key = row.sha256, ""
            if part is None or sha256 != row.sha256:
                missing += 1
                continue
            if part.size != row.size:
                raise InvalidArchiveError("The archive is damaged: a file has another size than its row says.")
            await self._put(key, part, sha256)
            first_key = key
            sha256, part = next(parts, ("", None))
        if part is not None:
            raise InvalidArchiveError("The archive has bytes that no row names.")
        return missing

    async def _put(self, key: str, part: Part, sha256: str) -> None:
        async def chunks() -> AsyncGenerator[bytes]:
            found = self._archive.chunks_of(part)
            while chunk := await asyncio.to_thread(next, found, b""):
                yield chunk

        try:
            async with aclosing(chunks()) as data:
                await self._blobs.put(key, data, size=part.size, content_type=_OCTETS, sha256=bytes.fromhex(sha256))
        except DigestMismatchError:
            raise InvalidArchiveError("The archive is damaged: the bytes of a file are others.") from None

    async def _remove(self) -> None:
        keys: list[str] = []
        async for info in self._blobs.list(f"blobs/{self._app_id}"):
            keys.append(info.key)
            if len(keys) == 500:
                await self._blobs.delete(keys)
                keys = []
        await self._blobs.delete(keys)


def _manifest(encoded: bytes) -> Manifest:
    try:
        version = json.object_of(encoded).get("format")
        if isinstance(version, int) and version > FORMAT:
            raise ArchiveTooNewError("A newer version of Pilotis wrote this archive. Import it with that version.")
        manifest: Manifest = json.decode(encoded, _MANIFEST)
    except (PilotisError, msgspec.MsgspecError) as error:
        if isinstance(error, ArchiveTooNewError):
            raise
        raise InvalidArchiveError("The archive is damaged: its manifest cannot be read.") from None
    if manifest.format != FORMAT:
        raise InvalidArchiveError("The archive is damaged: its manifest cannot be read.")
    return manifest


def _settings(manifest: Manifest, name: str | None) -> CopiedSettings:
    app = manifest.app
    try:
        accounts = msgspec.convert(app.account_settings, AccountSettings)
        if passkey_fault(accounts.passkey_domain, accounts.allowed_origins):
            raise InvalidArchiveError("The archive is damaged: passkeys belong to no domain.")
    except msgspec.ValidationError:
        raise InvalidArchiveError("The archive is damaged: the app's account settings cannot be read.") from None
    if not app.limits.keys() <= PER_APP or any(value < 0 for value in app.limits.values()):
        raise InvalidArchiveError("The archive is damaged: the app's limits are none.")
    return CopiedSettings(
        name=name or app.name,
        schema_locked=app.schema_locked,
        allow_id_password_login=app.allow_id_password_login,
        allow_guest_login=app.allow_guest_login,
        limits=json.encode(app.limits).decode(),
        account_settings=json.encode(accounts).decode(),
    )


def _require_count(what: str, rows: int, part: ArchivePart) -> None:
    if rows != part.rows:
        raise InvalidArchiveError(f"The archive is damaged: {what[:100]} has {rows} rows instead of {part.rows}.")


def _taken(error: asyncpg.UniqueViolationError) -> PilotisError:
    if error.constraint_name == "web_storage_slug_unique":
        return ConflictError("The server has a site of this name. Import the archive as an app of its own.")
    return InvalidArchiveError("The archive is damaged: two rows have the same key.")


def _wrong(table: str, error: ValueError | BadRequestError) -> InvalidArchiveError:
    """Return the error for a row of a server's table, whose value a check has refused."""
    if isinstance(error, InvalidArchiveError):
        return error
    text = error.text if isinstance(error, BadRequestError) else str(error)
    return InvalidArchiveError(f"The archive is damaged, in {table}: {text.removesuffix('.')}.")


def _reason(error: asyncpg.PostgresError) -> str:
    """Return what PostgreSQL found, without the values."""
    where = f" of {error.table_name}" if error.table_name else ""
    return f"a row{where} cannot be stored ({error.sqlstate})"

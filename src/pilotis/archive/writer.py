"""Writing an archive: the rows of one snapshot, then the bytes of the files that they name."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from typing import IO, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis import __version__
from pilotis.apps.service import AppNotFoundError
from pilotis.archive import store
from pilotis.archive.errors import ArchiveInterruptedError, ArchiveKeyError, SchemaChangedError
from pilotis.archive.format import MAC, MANIFEST, ArchiveWriter, GzipPart
from pilotis.archive.sealing import Passphrase, signature
from pilotis.archive.types import FORMAT, WHOLE, ArchivedApp, ArchivePart, Contents, Exported, Manifest
from pilotis.blobs.errors import BlobNotFoundError
from pilotis.blobs.protocol import BlobStore
from pilotis.data.tables.service import Tables
from pilotis.db.pool import Database
from pilotis.kit import json
from pilotis.kit.archiving import Archived, Copied, LeftOut
from pilotis.kit.clock import now, rfc3339
from pilotis.security.encryption.service import Encryption

_BUFFER_BYTES = 1 << 20


class Sources(NamedTuple):
    """What archives are read from: `tables` by name, as features declare them, `schemas` of the apps' own tables."""

    database: Database
    blobs: BlobStore
    encryption: Encryption
    schemas: Tables
    tables: Archived

    @property
    def copied(self) -> Sequence[tuple[str, Copied]]:
        """The tables that move, those that others refer to first."""
        return [(table, how) for table, how in self.tables.items() if isinstance(how, Copied)]


class Writer:
    """Writes one archive."""

    def __init__(
        self,
        sources: Sources,
        app_id: UUID,
        archive: ArchiveWriter,
        passphrase: str | None,
        *,
        with_secrets: bool,
        contents: Contents = WHOLE,
    ) -> None:
        self._sources = sources
        self._app_id = app_id
        self._archive = archive
        self._passphrase = Passphrase.new(passphrase) if passphrase is not None else None
        self._with_secrets = with_secrets
        self._contents = contents
        self._copied = [(table, how) for table, how in sources.copied if contents.has(how.part)]
        self._parts: list[ArchivePart] = []
        self._left_out: list[str] = []
        self._missing = 0
        self._blobs = 0
        self._blob_bytes = 0

    async def write(self) -> Exported:
        """Write everything; raises `AppNotFoundError`, `ArchiveKeyError`, `ArchiveInterruptedError`."""
        connection = await self._sources.database.dedicated(name="archive", statement_seconds=0)
        with tempfile.TemporaryFile(dir=self._archive.path.parent) as named:
            try:
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    manifest = await self._snapshot(connection, named)
            finally:
                await connection.close(timeout=2)
            # Writers may change the schema again while the files are copied: blobs never change under their keys.
            await self._copy_blobs(named)
        manifest = msgspec.structs.replace(
            manifest, blobs=self._blobs, blob_bytes=self._blob_bytes, missing_blobs=self._missing
        )
        encoded = json.encode(manifest)
        self._archive.whole(MANIFEST, encoded)
        self._archive.whole(MAC, signature(self._passphrase, encoded))
        size = await asyncio.to_thread(self._archive.finish)
        rows = [part.rows for part in self._parts if part.name.startswith("rows/")]
        return Exported(
            app_id=self._app_id,
            bytes=size,
            tables=len(rows),
            rows=sum(rows),
            blobs=self._blobs,
            missing_blobs=self._missing,
            left_out=self._left_out,
        )

    async def _snapshot(self, connection: Connection, named: IO[bytes]) -> Manifest:
        sources, app_id = self._sources, self._app_id
        await store.begin(connection)
        app = await store.read_app(connection, app_id)
        if app is None:
            raise AppNotFoundError
        sealed = await self._sealed_key(has_key=app.has_key)
        # Since the snapshot no more is read than what it has: the moment is that of the first statement.
        moment, schema = rfc3339(now()), await store.schema_number(connection)
        for table, how in self._copied:
            await self._copy_table(connection, table, how)
        await self._copy_rows(connection)

        async def keep(data: bytes) -> None:
            await asyncio.to_thread(named.write, data)

        if any(how.blobs for _, how in self._copied):
            await store.copy_query_out(connection, store.blobs_query(app_id, self._copied), keep)
        self._left_out += [f"{table}: {how.why}" for table, how in sources.tables.items() if isinstance(how, LeftOut)]
        return Manifest(
            format=FORMAT,
            version=__version__,
            schema=schema,
            made_at=moment,
            app=ArchivedApp(
                app_id=app_id,
                name=app.name,
                schema_locked=app.schema_locked,
                allow_id_password_login=app.allow_id_password_login,
                allow_guest_login=app.allow_guest_login,
                limits=json.decode(app.limits.encode()),
                account_settings=json.decode(app.account_settings.encode()),
            ),
            parts=self._parts,
            blobs=0,
            blob_bytes=0,
            missing_blobs=0,
            left_out=self._left_out,
            salt=self._passphrase.salt.hex() if self._passphrase is not None else None,
            data_key=sealed,
        )

    async def _sealed_key(self, *, has_key: bool) -> str | None:
        if not has_key or not self._with_secrets:
            return None
        if self._passphrase is None:
            raise ArchiveKeyError(
                "The app has encrypted columns or secrets. Give a passphrase, under which they move, or leave them out."
            )
        return self._passphrase.seal(await self._sources.encryption.data_key(self._app_id), self._app_id).hex()

    async def _copy_table(self, connection: Connection, table: str, how: Copied) -> None:
        secret = [one.column for one in how.secrets] if not self._with_secrets else []
        if secret and not (await store.not_null(connection, table)).isdisjoint(secret):
            self._left_out.append(f"{table}: secrets were left out")
            return
        part = _Compressed(self._archive, f"server/{table}.copy.gz")
        rows = await store.copy_out(connection, table, how, self._app_id, secret, part.write)
        self._parts.append(await part.end(rows, how.names))

    async def _copy_rows(self, connection: Connection) -> None:
        for table in await self._sources.schemas.archived(connection, self._app_id, with_encrypted=self._with_secrets):
            if table.is_migrating:
                raise ArchiveInterruptedError(f"A column of {table.title} is being encrypted. Try again later.")
            part = _Compressed(self._archive, f"rows/{table.table_id.hex}.copy.gz")
            if not self._contents.rows:
                self._parts.append(await part.end(0, table.columns))
                continue
            try:
                rows = await store.copy_query_out(connection, table.query, part.write)
            except (asyncpg.UndefinedColumnError, asyncpg.UndefinedTableError):
                rows = -1
            # A table that was rewritten since the snapshot looks empty to it.
            if rows != table.row_count:
                raise SchemaChangedError(table.title)
            self._parts.append(await part.end(rows, table.columns))

    async def _copy_blobs(self, named: IO[bytes]) -> None:
        named.seek(0)
        last, written = "", True
        for line in named:
            sha256, blob_id, size = line.decode().split()
            if sha256 != last:
                self._missing += not written
                last, written = sha256, False
            if not written:
                written = await self._copy_blob(sha256, UUID(blob_id), int(size))
        self._missing += not written

    async def _copy_blob(self, sha256: str, blob_id: UUID, size: int) -> bool:
        """Copy the bytes of a digest; return False if the store does not have them under this id."""
        archive = self._archive
        archive.begin(f"blobs/{sha256}")
        try:
            async for chunk in self._sources.blobs.open(f"blobs/{self._app_id}/{blob_id}"):
                await asyncio.to_thread(archive.write, chunk)
        except BlobNotFoundError:
            archive.drop()
            return False
        if archive.size != size or archive.digest != sha256:
            archive.drop()
            return False
        archive.end()
        self._blobs += 1
        self._blob_bytes += size
        return True


class _Compressed:
    """A part that is compressed outside the event loop, a megabyte at a time."""

    def __init__(self, archive: ArchiveWriter, name: str) -> None:
        self._name = name
        self._part = GzipPart(archive, name)
        self._buffer: list[bytes] = []
        self._size = 0

    async def write(self, data: bytes) -> None:
        """Append rows."""
        self._buffer.append(data)
        self._size += len(data)
        if self._size >= _BUFFER_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        data, self._buffer, self._size = b"".join(self._buffer), [], 0
        await asyncio.to_thread(self._part.write, data)

    async def end(self, rows: int, columns: list[str]) -> ArchivePart:
        """End the part, and return what the manifest says of it."""
        await self._flush()
        written = self._part.end()
        return ArchivePart(name=self._name, rows=rows, columns=columns, bytes=written.bytes, sha256=written.sha256)

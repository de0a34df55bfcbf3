"""One app out of a server's backup: the server is restored into a folder that nobody keeps, and the app archived there.

The rest is that of archives: `pilotis app import` would do the same with the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import msgspec

from pilotis.apps.service import AppNotFoundError
from pilotis.archive.feature import ArchiveFeature
from pilotis.backup import restore
from pilotis.backup.errors import BackupError, BackupRefusedError
from pilotis.backup.place import Place, connected
from pilotis.backup.restore import Restored, Wanted
from pilotis.db import migrations
from pilotis.db.embedded import EmbeddedPostgres
from pilotis.db.embedded.beside import running
from pilotis.db.pool import Database
from pilotis.feature import Features
from pilotis.floor import command_floor
from pilotis.http.api.principals import OPERATOR
from pilotis.kit.crypto import fingerprint
from pilotis.security import master_key
from pilotis.settings import Settings

_STATEMENT_SECONDS = 60


class Extracted(NamedTuple):
    """The name that the app had, and what was restored of its server."""

    name: str
    restored: Restored


async def extract(place: Place, wanted: Wanted, app_id: UUID, archive: Path, passphrase: str) -> Extracted:
    """Write an archive of an app as it was; raises `BackupError`, `BackupRefusedError`, `DamagedError`.

    `wanted.directory` must be empty, and is the caller's to delete. The master key is the one in it, or one of those of
    the server.
    """
    settings = _settings(place, wanted)
    await restore.require_room(place, await place.catalogue.find(wanted.backup_id), with_files=False)
    restored = await restore.restore(place, wanted._replace(app_id=app_id, master_key=None))
    postgres = EmbeddedPostgres(
        wanted.directory / "postgres",
        binaries=Path(settings.postgres_binaries) if settings.postgres_binaries else None,
        settings={"archive_mode": "off"},
    )
    async with running(postgres) as address:
        arguments = address._asdict()
        connection = await connected(arguments)
        try:
            await _require_key(settings, await restore.stored_fingerprint(connection))
            # The archive is read by the statements of this version.
            await migrations.migrate(connection)
            name = await connection.fetchval(
                "select name from pilotis.apps where app_id = $1 and deleted_at is null", app_id
            )
        finally:
            await connection.close()
        if name is None:
            raise BackupError(f"The server had no app {app_id} at the last commit, {restored.last_commit}.")
        await _export(settings, arguments, app_id, archive, passphrase)
        return Extracted(name, restored)


async def _export(
    settings: Settings, arguments: dict[str, object], app_id: UUID, archive: Path, passphrase: str
) -> None:
    pool = Database(arguments, size=4, statement_seconds=_STATEMENT_SECONDS)
    floor = command_floor(settings, pool)
    try:
        archives = Features(floor).get(ArchiveFeature).archives
        await archives.export(app_id, archive, OPERATOR, passphrase)
    except AppNotFoundError as error:
        raise BackupError(error.text) from error
    finally:
        await floor.close_passwords()
        await floor.close_blobs()
        await pool.close()


def _settings(place: Place, wanted: Wanted) -> Settings:
    """Return the settings of the restored server, whose files are in its own data directory."""
    keys = master_key.existing_keys(place.settings)
    current = wanted.master_key or (keys.current if keys else None)
    previous = keys.previous if keys and wanted.master_key is None else None
    return msgspec.structs.replace(
        place.settings,
        data_dir=str(wanted.directory),
        blob_store=None,
        previous_blob_store=None,
        master_key=current.hex() if current else None,
        master_key_file=None,
        previous_master_key=previous.hex() if previous else None,
    )


async def _require_key(settings: Settings, stored: str | None) -> None:
    keys = master_key.existing_keys(settings)
    if stored and stored not in map(fingerprint, keys.accepted if keys else ()):
        raise BackupRefusedError(
            "The server had another master key at the moment. Give it by --master-key-file: without it nobody can read"
            " the app's secrets and encrypted columns."
        )

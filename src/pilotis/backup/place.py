"""Where backups are made: the data directory of a server with the embedded database, and the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.backup import keys
from pilotis.backup.catalogue import Catalogue
from pilotis.backup.encryption import BackupKey
from pilotis.backup.errors import BackupError, BackupRefusedError
from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.floor import open_blobs_at
from pilotis.kit.errors import PilotisError
from pilotis.settings import Settings

EXTERNAL = (
    "The database is one of your own, so its backups are its operator's: use your provider's, pg_basebackup, pgBackRest"
    " or Barman, with a point in time. `pilotis app export` saves one app."
)
NO_STORE = (
    'There is no backup store. Set `store` in the table [backup] of pilotis.toml, such as store = "s3://bucket/backups"'
    " or a directory on another disk, and start the server again."
)


class Place(msgspec.Struct, frozen=True, eq=False):
    """The settings, the open store, its key and its catalogue. `key_is_new` says that the key was just made."""

    settings: Settings
    store: BlobStore
    key: BackupKey
    key_is_new: bool = False

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return Path(self.settings.data_dir)

    @property
    def cluster(self) -> Path:
        """The directory of the embedded database."""
        return self.data_dir / "postgres"

    @property
    def catalogue(self) -> Catalogue:
        """The backups in the store."""
        return Catalogue(self.store, self.key)


async def connected(connect_arguments: dict[str, Any]) -> Connection:
    """Open a connection without a time limit, which the caller closes; raises `BackupError`."""
    try:
        return await Database(connect_arguments).dedicated(name="backup", statement_seconds=0)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise BackupError(f"The database cannot be reached: {error}.") from error


def require_own_database(settings: Settings) -> None:
    """Raise `BackupRefusedError` unless this server can back its database up."""
    if settings.database_url:
        raise BackupRefusedError(EXTERNAL)


@asynccontextmanager
async def opened(settings: Settings, *, may_create: bool = False) -> AsyncGenerator[Place]:
    """Open the store for the block; with `may_create`, a missing key is made. Raises `BackupRefusedError`."""
    if settings.backup.store is None:
        raise BackupRefusedError(NO_STORE)
    is_new = False
    if may_create:
        key, is_new = keys.load_or_create(settings)
    else:
        key = keys.load(settings)
    # Every backup is itself what a full disk is to be saved from: no reserve stands in its way.
    store = open_blobs_at(msgspec.structs.replace(settings, upload_reserve_bytes=0), settings.backup.store)
    try:
        yield Place(settings, store, key, is_new)
    except BlobStoreUnavailableError as error:
        raise BackupError(f"The backup store does not answer: {error.text}") from error
    except PilotisError as error:
        raise BackupError(f"The backup store refused: {error.text}") from error
    finally:
        await store.close()

"""Encrypts or decrypts the values of a large table's columns in the background.

The schema change that turns `encrypted` on or off only adds the column's other form, empty, and marks the column. From
then on every write clears the other form of what it changes, under the same schema version on every node, so a row
lacks it exactly if it must still be filled. The rows themselves record the progress, and a node that dies has
nothing to hand over. When a pass over the table finds few rows to fill, a second short schema change fills the rest,
and the other form replaces the column. Until then reads and conditions use the current form.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import asyncpg
import structlog
from asyncpg import Connection

from pilotis.data.tables import column_migration, store
from pilotis.data.tables.columns import ColumnNotFoundError
from pilotis.data.tables.encrypted_columns import ColumnCipher
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.kit.errors import PilotisError
from pilotis.security.encryption.service import Encryption

RUN_SECONDS = 60.0
_MAX_PASSES = 20
_log = structlog.get_logger("pilotis.tables")

Key = tuple[UUID, UUID, int]
"""A column: its app, its table, its number."""


class _StoppingError(Exception):
    """The process is stopping; another one continues."""


class ColumnMigrator:
    """Encrypts or decrypts the columns that schema changes have marked."""

    def __init__(self, tables: Tables, encryption: Encryption) -> None:
        self._tables = tables
        self._encryption = encryption
        self._stopping = asyncio.Event()

    async def stop(self) -> None:
        """End a running migration after its current batch, so that a stop need not wait; another process continues."""
        self._stopping.set()

    async def run_once(self, connection: Connection) -> None:
        """Migrate every marked column in sequence; the next run retries one that fails.

        `connection` is outside the pool; the caller ensures that no other node runs this at the same time.
        """
        for key in await store.migrating_columns(connection):
            try:
                await self._migrate(connection, key)
            except _StoppingError:
                return
            except (ColumnNotFoundError, TableNotFoundError):
                # The column was dropped; or its table is in the trash, and the migration continues after it is
                # restored.
                continue
            except (PilotisError, asyncpg.PostgresError) as error:
                # Most likely another schema change interfered.
                _log.warning("column not migrated yet", table_id=str(key[1]), column=key[2], error=repr(error))

    async def _migrate(self, connection: Connection, key: Key) -> None:
        for _ in range(_MAX_PASSES):
            if await self._pass(connection, key) <= column_migration.BATCH:
                break
        await self._tables.finish_migration(*key)
        _log.info("column migrated", table_id=str(key[1]), column=key[2])

    async def _pass(self, connection: Connection, key: Key) -> int:
        """Fill every row that can be filled, and return how many."""
        filled, after = 0, column_migration.FIRST
        while True:
            if self._stopping.is_set():
                raise _StoppingError
            started = time.monotonic()
            ids = await self._batch(connection, key, after)
            if not ids:
                return filled
            filled, after = filled + len(ids), ids[-1]
            # Leaves half of the time for other work.
            with suppress(TimeoutError):
                async with asyncio.timeout(time.monotonic() - started):
                    await self._stopping.wait()

    async def _batch(self, connection: Connection, key: Key, after: UUID) -> Sequence[UUID]:
        app_id, table_id, number = key
        row = await store.live_table(connection, app_id, table_id)
        if row is None:
            raise TableNotFoundError
        table = row.schema
        column = next((column for column in table.columns if column.number == number), None)
        if column is None or not column.migrating:
            raise ColumnNotFoundError
        cipher = ColumnCipher(table, await self._encryption.cipher(app_id))
        async with connection.transaction():
            # Fails under any other version, and keeps the version until the transaction ends.
            await connection.execute(f"select {table.version_column} from {table.physical} limit 0")
            return await column_migration.fill(connection, table, column, cipher, after)

"""Sealing and opening the values of a large table's columns in the background.

The schema change that turns `encrypted` on or off only adds the column's other form, empty, and marks the column.
From then on every write clears the other form of what it changes, under the same version of the schema on every node:
a row lacks it exactly where it is yet to be made. So the rows themselves tell what is done, and a node that dies has
nothing to hand over. When a pass over the table finds few rows to fill, a second short schema change fills those that
are left, and the other form takes the column's place. Until then reads and conditions go by the present one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import structlog
from asyncpg import Connection

from pilotis.encryption.service import Encryption
from pilotis.kit.errors import PilotisError
from pilotis.tables import resealing, store
from pilotis.tables.columns import ColumnNotFoundError
from pilotis.tables.sealing import Sealer
from pilotis.tables.service import TableNotFoundError, Tables

TURN_SECONDS = 10.0
_MOST_PASSES = 20
_log = structlog.get_logger("pilotis.tables")

Key = tuple[UUID, UUID, int]
"""A column: its app, its table, its number."""


class Rewriting:
    """Does what changes of `encrypted` have left to the background."""

    def __init__(self, tables: Tables, encryption: Encryption) -> None:
        self._tables = tables
        self._encryption = encryption

    async def turn(self, connection: Connection) -> None:
        """Rewrite every column that is marked, one after the other; one that is held up waits for the next turn.

        `connection` is one outside the pool; the caller sees to it that no other node does the same.
        """
        for key in await store.columns_being_rewritten(connection):
            try:
                await self._rewrite(connection, key)
            except (ColumnNotFoundError, TableNotFoundError):
                # Dropped meanwhile; or its table is in the trash, and it goes on when that is restored.
                continue
            except (PilotisError, asyncpg.PostgresError) as error:
                # Most likely another schema change came between.
                _log.warning("column not rewritten yet", table_id=str(key[1]), column=key[2], error=repr(error))

    async def _rewrite(self, connection: Connection, key: Key) -> None:
        for _ in range(_MOST_PASSES):
            if await self._pass(connection, key) <= resealing.BATCH:
                break
        await self._tables.end_rewriting(*key)
        _log.info("column rewritten", table_id=str(key[1]), column=key[2])

    async def _pass(self, connection: Connection, key: Key) -> int:
        """Fill every row that can be filled, and return how many there were."""
        filled, after = 0, resealing.FIRST
        while True:
            started = time.monotonic()
            ids = await self._batch(connection, key, after)
            if not ids:
                return filled
            filled, after = filled + len(ids), ids[-1]
            # Half of the time is for the others.
            await asyncio.sleep(time.monotonic() - started)

    async def _batch(self, connection: Connection, key: Key, after: UUID) -> Sequence[UUID]:
        app_id, table_id, number = key
        row = await store.live_table(connection, app_id, table_id)
        if row is None:
            raise TableNotFoundError
        table = store.table_schema(row)
        column = next((column for column in table.columns if column.number == number), None)
        if column is None or not column.rewriting:
            raise ColumnNotFoundError
        sealer = Sealer(table, await self._encryption.cipher(app_id))
        async with connection.transaction():
            # Fails under any other version, and keeps the version what it is until the transaction ends.
            await connection.execute(f"select {table.version_column} from {table.physical} limit 0")
            return await resealing.fill(connection, table, column, sealer, after)

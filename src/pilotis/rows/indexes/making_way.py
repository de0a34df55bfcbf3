"""When a value is too large for an index: the index makes way, and the write is done.

An entry of a B-tree has at most a third of a page. No index that appeared by itself may refuse a row.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from pilotis.db.pool import Database
from pilotis.rows.indexes import store
from pilotis.rows.indexes.definitions import PREFIX
from pilotis.tables.built import cancel_builds
from pilotis.tables.schema import TableSchema

_LOCK_MILLISECONDS = 300
_GIVE_UP_SECONDS = 15
TOO_LONG = "Values of this table are too long for this index."


async def make_way(database: Database, table: TableSchema, name: str | None) -> bool:
    """Drop the index of this name and note that it is not to be built; False if it is none of ours."""
    if name is None or not name.startswith(f"{PREFIX}{table.table_id.hex}_"):
        return False
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while True:
        try:
            async with database.transaction() as connection:
                await connection.execute(f"set local lock_timeout = {_LOCK_MILLISECONDS}")
                await connection.execute(f"drop index if exists app_{table.app_id.hex}.{name}")
                await store.fail(connection, table, name, TOO_LONG)
                return True
        except Exception as error:
            busy = isinstance(error.__cause__, asyncpg.LockNotAvailableError)
            if not busy or time.monotonic() > deadline:
                raise
        await cancel_builds(database, table)
        await asyncio.sleep(0.05)

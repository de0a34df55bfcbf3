"""When a value is too long for an index: the index makes way, and the write is done.

An entry of a B-tree has at most a third of a page, 2704 bytes. No index that appeared by itself may refuse a row.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.rows.indexes import store
from pilotis.rows.indexes.definitions import PREFIX
from pilotis.tables.built import cancel_builds
from pilotis.tables.schema import TableSchema

_LOCK_MILLISECONDS = 300
_GIVE_UP_SECONDS = 15
# PostgreSQL's functions that make index entries; other limits have the same error class.
_OF_INDEXES = frozenset({"_bt_check_third_page", "index_form_tuple", "index_form_tuple_context"})
TOO_LONG = "Values of this table are too long for this index."


async def make_way(database: Database, table: TableSchema, error: asyncpg.ProgramLimitExceededError) -> bool:
    """Drop the index that an insert or update failed on; False if it is none of ours.

    PostgreSQL does not always name it. Then all that may be meant are dropped; those that are not to blame come back.
    """
    if error.server_source_function not in _OF_INDEXES:
        return False
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while True:
        try:
            async with database.transaction() as connection:
                await connection.execute(f"set local lock_timeout = {_LOCK_MILLISECONDS}")
                return await _drop(connection, table, error.constraint_name)
        except Exception as failure:
            busy = isinstance(failure.__cause__, asyncpg.LockNotAvailableError)
            if not busy or time.monotonic() > deadline:
                raise
        await cancel_builds(database, table.app_id, table.table_id)
        await asyncio.sleep(0.05)


async def _drop(connection: Connection, table: TableSchema, blamed: str | None) -> bool:
    names = await store.of_text(connection, table, blamed)
    for name in names:
        await connection.execute(f"drop index if exists app_{table.app_id.hex}.{name}")
        if blamed:
            await store.fail(connection, table, name, TOO_LONG)
        else:
            await store.interrupt(connection, table.app_id, table.table_id, name)
    # Another writer that met it may have been faster.
    return blamed is None or blamed.startswith(PREFIX)

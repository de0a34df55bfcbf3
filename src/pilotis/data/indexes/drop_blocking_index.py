"""Drops an automatic index that cannot hold a value, so that the write succeeds.

An entry of a B-tree takes at most a third of a page, 2704 bytes. No automatic index may reject a row.
"""

from __future__ import annotations

import asyncio
import re
import time

import asyncpg
from asyncpg import Connection

from pilotis.data.indexes import store
from pilotis.data.indexes.definitions import PREFIX
from pilotis.data.tables.index_builds import cancel_builds
from pilotis.data.tables.schema import TableSchema
from pilotis.db.pool import Database

_LOCK_MILLISECONDS = 300
_GIVE_UP_SECONDS = 15
# PostgreSQL's functions that form index entries; other limits share the error class.
_OF_INDEXES = frozenset({"_bt_check_third_page", "index_form_tuple", "index_form_tuple_context"})
# Citus forwards a worker's error by this function, with its message only; there an index's name has the shard's number.
_FORWARDED = "ReportResultError"
_AUTOMATIC = re.compile(rf'"({PREFIX}[0-9a-f]{{32}}_[0-9a-f]{{12}})_\d+"')
TOO_LONG = "Values of this table are too long for this index."


async def drop(database: Database, table: TableSchema, error: asyncpg.ProgramLimitExceededError) -> bool:
    """Drop the index that made an insert or update fail; False if it is not an automatic index.

    PostgreSQL does not always name the index. Then all candidates are dropped; slow queries will recreate those that
    they need.
    """
    if error.server_source_function == _FORWARDED:
        named = _AUTOMATIC.search(error.message)
        if named is None and "index row" not in error.message:
            return False
        blamed = named and named[1]
    elif error.server_source_function in _OF_INDEXES:
        blamed = error.constraint_name
    else:
        return False
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while True:
        try:
            async with database.transaction(table.app_id) as connection:
                await connection.execute(f"set local lock_timeout = {_LOCK_MILLISECONDS}")
                return await _drop(connection, table, blamed)
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
    # Another writer with the same error may have been faster.
    return blamed is None or blamed.startswith(PREFIX)

"""Reclaims the slots of dropped columns, which PostgreSQL counts among a table's 1600 columns.

A copy of the table with its columns, those in the trash included, replaces the old table. Writes wait until the
copy is complete, reads only for the moment of the replacement.
"""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.data.tables import references
from pilotis.data.tables.schema import TableSchema

MAX_DROPPED = 400
"""The number of dropped columns above which a table is rewritten in the background."""
_READER_SECONDS = 10.0
_PAUSE_SECONDS = 0.2


async def tables_to_rewrite(connection: Connection) -> list[tuple[UUID, UUID]]:
    """Return the app and id of each table outside the trash with too many dropped columns."""
    rows = await connection.fetch(
        """
        select t.app_id, t.table_id from pilotis.tables t
        where t.dropped_at is null and t.next_column > 100 and (
            select count(*) from pg_attribute a
            where a.attisdropped and a.attrelid = to_regclass(
                'app_' || replace(t.app_id::text, '-', '') || '.t_' || replace(t.table_id::text, '-', '')
            )
        ) > $1
        """,
        MAX_DROPPED,
    )
    return [(app_id, table_id) for app_id, table_id in rows]


async def copy(connection: Connection, table: TableSchema) -> None:
    """Make a copy of a table without its dropped columns, and lock the table against every statement.

    While the rows are copied and indexed, which is nearly all of the time, the table is read but not written. The
    caller's transaction waits only briefly for locks.
    """
    old, new = table.physical, _copy_of(table)
    await _lock_exclusively(connection, table, keep=False)
    await connection.execute(f"lock table {old} in exclusive mode")
    columns = await connection.fetchval(
        """
        select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
        where attrelid = $1::regclass and attnum > 0 and not attisdropped
        """,
        old,
    )
    await connection.execute(f"create table {new} (like {old} including defaults including constraints)")
    await connection.execute(f"insert into {new} ({columns}) select {columns} from {old}")
    await _copy_indexes(connection, table)
    await connection.execute(f"analyze {new}")
    await _lock_exclusively(connection, table)


async def replace(connection: Connection, table: TableSchema) -> None:
    """Put the copy in the place of a table whose version was changed."""
    version = f'"__v{table.version + 1}"'
    await references.let_go(connection, table)
    await connection.execute(f"drop table {table.physical}")
    await connection.execute(f"alter table {_copy_of(table)} rename column {table.version_column} to {version}")
    await connection.execute(f"alter table {_copy_of(table)} rename to t_{table.table_id.hex}")
    await references.take_again(connection, table)


async def _copy_indexes(connection: Connection, table: TableSchema) -> None:
    indexes = await connection.fetch(
        """
        select i.indexrelid::regclass::text as index, pg_get_indexdef(i.indexrelid) as definition,
            c.conname as constraint, pg_get_constraintdef(c.oid) as constraint_definition
        from pg_index i left join pg_constraint c on c.conindid = i.indexrelid and c.contype = 'p'
        where i.indrelid = $1::regclass and i.indisvalid
        """,
        table.physical,
    )
    new = _copy_of(table)
    for number, index in enumerate(indexes):
        # The copy's index takes the name. Renaming an index blocks no reader.
        await connection.execute(f"alter index {index['index']} rename to t_{table.table_id.hex}_old_{number}")
        if index["constraint"] is None:
            await connection.execute(index["definition"].replace(f" ON {table.physical} ", f" ON {new} ", 1))
        else:
            await connection.execute(
                f'alter table {new} add constraint "{index["constraint"]}" {index["constraint_definition"]}'
            )


async def _lock_exclusively(connection: Connection, table: TableSchema, *, keep: bool = True) -> None:
    """Lock a table against readers too, when the current ones have ended; without `keep` only test that this works.

    Raises `asyncpg.LockNotAvailableError` when a reader does not end. Each attempt is short, because later readers
    queue behind it.
    """
    deadline = time.monotonic() + _READER_SECONDS
    while True:
        block = connection.transaction()
        await block.start()
        try:
            await connection.execute(f"lock table {table.physical} in access exclusive mode")
        except asyncpg.LockNotAvailableError:
            await block.rollback()
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            await (block.commit() if keep else block.rollback())
            return


def _copy_of(table: TableSchema) -> str:
    return f"{table.physical}_new"

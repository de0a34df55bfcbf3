"""Rows by the batch, with something beside them in their transaction, and a whole table out of one snapshot.

For jobs that act with an editor's rights: no access level is looked at here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec
from asyncpg import Connection
from asyncpg.cursor import Cursor

from pilotis.db.pool import Database
from pilotis.http.principals import AppInfo
from pilotis.kit.errors import PilotisError
from pilotis.kit.ids import uuid7_text
from pilotis.rows import records
from pilotis.rows.bulk.types import Batch, Failure, NewRow, Source, StoredRow
from pilotis.rows.prepared import PreparedTables
from pilotis.rows.table import PreparedTable
from pilotis.tables.schema import TableSchema

_FETCH_SECONDS = 30
_WANTED_BYTES = 1 << 20
_FIRST_ROWS, _MOST_ROWS = 50, 2000
_MOST_SNAPSHOTS = 4

_rows = msgspec.json.Decoder(list[StoredRow])


class BulkRows:
    """Writes batches of rows and reads whole tables."""

    def __init__(self, database: Database, tables: PreparedTables) -> None:
        self._database = database
        self._tables = tables
        self._snapshots = asyncio.Semaphore(_MOST_SNAPSHOTS)

    async def schema(self, app: AppInfo, table_id: UUID) -> TableSchema:
        """Return a table's schema, perhaps a moment old; raises a 404 error."""
        return (await self._tables.current(app, table_id)).schema

    async def insert(
        self,
        app: AppInfo,
        table_id: UUID,
        sources: Sequence[Source],
        new_row: Callable[[TableSchema, Source], NewRow],
        beside: Callable[[Connection, Batch[Source]], Awaitable[None]],
    ) -> Batch[Source]:
        """Make rows of as many sources as can be made rows, in one transaction with what `beside` does.

        `new_row` may raise a `PilotisError` for a source of which none can be made. If the schema changes meanwhile
        everything runs anew.
        """

        async def insert(table: PreparedTable) -> Batch[Source]:
            new, failed = _checked(table, sources, new_row, app.limits.row_bytes)
            batch = Batch(len(new), failed)
            async with table.connection() as connection, connection.transaction():
                if new:
                    await connection.execute(table.statements.insert, (b"[" + b",".join(new) + b"]").decode())
                await beside(connection, batch)
            return batch

        return await self._tables.use(app, table_id, insert)

    @asynccontextmanager
    async def snapshot(
        self, app: AppInfo, table_id: UUID
    ) -> AsyncGenerator[tuple[TableSchema, AsyncGenerator[list[StoredRow]]]]:
        """Lend a table's schema and all its rows as they are at one moment, in the order of their creation.

        They come about a megabyte at a time, over a connection outside the pool. While it lasts the table's schema
        cannot be changed.
        """
        async with self._snapshots:
            connection = await self._database.open_connection(statement_seconds=_FETCH_SECONDS)
            try:
                table, cursor = await self._tables.use(app, table_id, lambda table: _begin(connection, table))
                yield table.schema, _fetched(table, cursor)
            finally:
                connection.terminate()


def _checked(
    table: PreparedTable,
    sources: Sequence[Source],
    new_row: Callable[[TableSchema, Source], NewRow],
    most_bytes: int,
) -> tuple[list[bytes], list[Failure[Source]]]:
    made: list[bytes] = []
    failed: list[Failure[Source]] = []
    for source in sources:
        try:
            data, creator = new_row(table.schema, source)
            row = table.new_rows.decode(data)
            records.check_size(row, most_bytes)
        except PilotisError as error:
            failed.append(Failure(source, error))
            continue
        row_id = uuid7_text()
        made.append(records.record(table.schema, row_id, creator, table.sealed(row, row_id)))
    return made, failed


async def _begin(connection: Connection, table: PreparedTable) -> tuple[PreparedTable, Cursor]:
    """Begin a transaction with a cursor over the table's rows; it ends with the connection."""
    transaction = connection.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    try:
        # Before the snapshot: rows of a table that is rewritten after it would not be seen.
        await connection.execute(f"lock table {table.schema.physical} in access share mode")
        # The version column, so that this fails under another schema.
        columns = f"{table.statements.row} as item, __creator, {table.schema.version_column}"
        return table, await connection.cursor(f"select {columns} from {table.schema.physical} order by __id")
    except BaseException:
        await transaction.rollback()
        raise


async def _fetched(table: PreparedTable, cursor: Cursor) -> AsyncGenerator[list[StoredRow]]:
    count = _FIRST_ROWS
    while found := await cursor.fetch(count):
        text = "[" + ",".join([row["item"] for row in found]) + "]"
        rows = _rows.decode(table.opened(text))
        for row, record in zip(rows, found, strict=True):
            row.creator = record["__creator"]
        yield rows
        count = min(_MOST_ROWS, max(1, count * _WANTED_BYTES // len(text)))

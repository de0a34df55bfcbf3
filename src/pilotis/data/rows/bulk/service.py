"""Writes rows in batches, with other changes in the same transaction, and reads whole tables in one snapshot.

For work that has an editor's rights: access levels are not checked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

import msgspec
from asyncpg import Connection
from asyncpg.cursor import Cursor

from pilotis.data.rows import records
from pilotis.data.rows.bulk.types import Batch, Failure, NewRow, Source, StoredRow, UpsertBy
from pilotis.data.rows.bulk.upserts import Upserts
from pilotis.data.rows.table import PreparedTable, PreparedTables, row_id_of
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.data.tables.generated import Writer
from pilotis.data.tables.schema import TableSchema
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo
from pilotis.http.api.repeating import ContendedError
from pilotis.kit.errors import PilotisError, UnavailableError
from pilotis.kit.ids import uuid7_text
from pilotis.kit.offload import in_thread

_FETCH_SECONDS = 30
_WANTED_BYTES = 1 << 20
_FIRST_ROWS, _MAX_ROWS = 50, 2000
_RETRY_SECONDS = 5
_INSERT_TRIES = 3

_rows = msgspec.json.Decoder(list[StoredRow])


class ExportsBusyError(UnavailableError):
    """503 `EXPORTS_BUSY`: the app, or the server, is running as many exports as it may."""

    code = "EXPORTS_BUSY"
    message = "Too many exports are running. Try again when one of them has ended."

    def __init__(self) -> None:
        super().__init__(retry_after=_RETRY_SECONDS)


class BulkRows:
    """Writes batches of rows and reads whole tables."""

    def __init__(self, database: Database, tables: PreparedTables) -> None:
        self._database = database
        self._tables = tables
        self._snapshots: Counter[UUID] = Counter()

    async def schema(self, app: AppInfo, table_id: UUID) -> TableSchema:
        """Return a table's schema, which may be slightly out of date; raises a 404 error."""
        return (await self._tables.current(app, table_id)).schema

    async def insert(
        self,
        app: AppInfo,
        table_id: UUID,
        sources: Sequence[Source],
        new_row: Callable[[TableSchema, Source], NewRow],
        beside: Callable[[Connection, Batch[Source]], Awaitable[None]],
        by: UpsertBy | None = None,
    ) -> Batch[Source]:
        """Create a row for each valid source, in one transaction with what `beside` does.

        With `by`, a row that has the source's unique key already is changed instead. `new_row` may raise a
        `PilotisError` for an invalid source. If the schema changes meanwhile, everything runs again.
        """
        if by is not None:
            return await self._upsert(app, table_id, sources, new_row, beside, by)

        async def insert(table: PreparedTable) -> Batch[Source]:
            new, failed = await in_thread(_checked, table, sources, new_row, app.limits.row_bytes)
            async with table.transaction() as connection:
                made = len(new)
                if new and (table.schema.enforced_keys or table.schema.refers):
                    made, taken = await _insert_unless_taken(connection, table, list(new))
                    failed = [*failed, *(Failure(new[record], error) for record, error in taken)]
                    places = {id(source): at for at, source in enumerate(sources)}
                    failed.sort(key=lambda failure: places[id(failure.source)])
                elif new:
                    await connection.execute(
                        table.statements.insert_without_events, (b"[" + b",".join(new) + b"]").decode()
                    )
                batch = Batch(made, failed)
                if made and table.statements.apart:
                    await connection.execute(table.statements.add_to_count, made)
                await beside(connection, batch)
            table.written(batch.made)
            return batch

        return await self._tables.use(app, table_id, insert)

    async def _upsert(
        self,
        app: AppInfo,
        table_id: UUID,
        sources: Sequence[Source],
        new_row: Callable[[TableSchema, Source], NewRow],
        beside: Callable[[Connection, Batch[Source]], Awaitable[None]],
        by: UpsertBy,
    ) -> Batch[Source]:
        async def upsert(table: PreparedTable) -> Batch[Source]:
            async with table.transaction() as connection:
                upserts = Upserts[Source](connection, table, by, app.limits.row_bytes)
                batch = await upserts.run(sources, new_row)
                if batch.made and table.statements.apart:
                    await connection.execute(table.statements.add_to_count, batch.made)
                await beside(connection, batch)
            table.written(batch.made)
            return batch

        return await self._tables.use(app, table_id, upsert)

    @asynccontextmanager
    async def snapshot(
        self, app: AppInfo, table_id: UUID
    ) -> AsyncGenerator[tuple[TableSchema, AsyncGenerator[list[StoredRow]]]]:
        """Yield a table's schema and all its rows in one snapshot, in the order of creation.

        Rows arrive about a megabyte at a time, over a connection outside the pool. The table's schema cannot be changed
        until the block ends. Raises `ExportsBusyError` if the app, or the server, is running as many as it may.
        """
        with self._counted(app):
            connection = await self._database.dedicated(name="export", statement_seconds=_FETCH_SECONDS)
            try:
                table, cursor = await self._tables.use(app, table_id, lambda table: _begin(connection, table))
                yield table.schema, _fetched(table, cursor)
            finally:
                connection.terminate()

    @contextmanager
    def _counted(self, app: AppInfo) -> Generator[None]:
        running = self._snapshots
        if running[app.app_id] >= app.limits.app_exports or running.total() >= app.limits.exports:
            raise ExportsBusyError
        running[app.app_id] += 1
        try:
            yield
        finally:
            running[app.app_id] -= 1
            if not running[app.app_id]:
                del running[app.app_id]


def _checked(
    table: PreparedTable,
    sources: Sequence[Source],
    new_row: Callable[[TableSchema, Source], NewRow],
    max_bytes: int,
) -> tuple[dict[bytes, Source], list[Failure[Source]]]:
    """Return the records of the valid sources with these, and the failures of the others."""
    made: dict[bytes, Source] = {}
    failed: list[Failure[Source]] = []
    for source in sources:
        try:
            data, creator = new_row(table.schema, source)
            row = table.new_rows.decode(data, Writer(creator))
            records.check_size(row, max_bytes)
        except PilotisError as error:
            failed.append(Failure(source, error))
            continue
        row_id = uuid7_text()
        made[records.record(table.schema, row_id, creator, table.encrypted(row, row_id))] = source
    return made, failed


async def _insert_unless_taken(
    connection: Connection, table: PreparedTable, left: Sequence[bytes]
) -> tuple[int, list[tuple[bytes, PilotisError]]]:
    """Insert records; return the number of rows, and the errors of those that refer to no row or have a taken key."""
    made, errors = 0, list[tuple[bytes, PilotisError]]()
    for _ in range(_INSERT_TRIES):
        rows = (b"[" + b",".join(left) + b"]").decode()
        refers = table.referring()
        (found,) = await connection.fetch(table.import_statement(refers), rows)
        ids = set(found["ids"] or ())
        made += len(ids)
        left = [record for record in left if row_id_of(record) not in ids]
        if not left:
            return made, errors
        if refers:
            refused = await table.refused(left, everything(table.schema, Action.CREATE), refers, connection)
            errors += [(record, refused[row_id_of(record)]) for record in left if row_id_of(record) in refused]
            left = [record for record in left if row_id_of(record) not in refused]
            if not left:
                return made, errors
        taken = await table.taken(left, connection)
        for record in left:
            if one := taken.get(row_id_of(record)):
                errors.append((record, table.violation(*one)))
        left = [record for record in left if row_id_of(record) not in taken]
        if not left:
            return made, errors
    raise ContendedError


async def _begin(connection: Connection, table: PreparedTable) -> tuple[PreparedTable, Cursor]:
    """Begin a transaction with a cursor over the table's rows; it ends with the connection."""
    transaction = connection.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    try:
        # Locked before the snapshot: rows of a table that is rewritten after the snapshot would be invisible to it.
        await connection.execute(f"lock table {table.schema.physical} in access share mode")
        # Names the version column, so that it fails under another schema.
        columns = f"{table.statements.row} as item, __creator, {table.schema.version_column}"
        return table, await connection.cursor(f"select {columns} from {table.schema.physical} order by __id")
    except BaseException:
        await transaction.rollback()
        raise


async def _fetched(table: PreparedTable, cursor: Cursor) -> AsyncGenerator[list[StoredRow]]:
    count = _FIRST_ROWS
    while found := await cursor.fetch(count):
        text = "[" + ",".join([row["item"] for row in found]) + "]"
        rows = _rows.decode(table.decrypted(text))
        for row, record in zip(rows, found, strict=True):
            row.creator = record["__creator"]
        yield rows
        count = min(_MAX_ROWS, max(1, count * _WANTED_BYTES // len(text)))

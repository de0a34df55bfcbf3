"""Imports and exports of whole tables, at constant memory.

An import notes how far it has come in the transaction that writes the rows, so after a crash at any moment it goes on
with the first line that is not done: no row is lost and none is made twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol
from uuid import UUID, uuid4

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.audit.service import record as audit
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo
from pilotis.kit.errors import BadRequestError, ConflictError
from pilotis.rows.bulk.service import BulkRows
from pilotis.rows.bulk.types import Batch, Failure
from pilotis.tables.service import TableNotFoundError
from pilotis.transfer import store
from pilotis.transfer.conversion import CsvRows, Exported, JsonRows
from pilotis.transfer.formats import (
    CsvReader,
    CsvWriter,
    Format,
    JsonLinesReader,
    JsonLinesWriter,
    Reader,
    Record,
    check_header,
)
from pilotis.transfer.guessing import SAMPLE_BYTES, SAMPLE_RECORDS, column_names, guess_csv, guess_json_lines
from pilotis.transfer.store import Progress
from pilotis.transfer.types import ExportOptions, ImportOptions, ImportResult, Open, Rejected

_BATCH_ROWS = 1000
_BATCH_BYTES = 4 * 1024 * 1024
_MOST_TOLD = 1000


class ImportRunningError(ConflictError):
    """409 `IMPORT_RUNNING`: another process is at this import, or has finished it meanwhile."""

    code = "IMPORT_RUNNING"
    message = "This import is being done by somebody else."


class NoHeaderError(BadRequestError):
    """400 `NO_HEADER`: the CSV text has no first line with the names of its columns."""

    code = "NO_HEADER"
    message = "CSV begins with a line that names its columns."


class FreeFormCsvError(BadRequestError):
    """400 `FREE_FORM_CSV`: a table without a schema has no columns that CSV could have."""

    code = "FREE_FORM_CSV"
    message = "A table that takes any field is exported as JSON lines only."


class ImportFormatError(ConflictError):
    """409 `IMPORT_FORMAT`: the import was begun in another format."""

    code = "IMPORT_FORMAT"
    message = "The import of this key was begun in another format."


class Rejections(Protocol):
    """Keeps what was rejected, in a place that can be cut back to where it was before."""

    def begin(self, position: int) -> int:
        """Return the position to go on at, given the one that an interrupted import noted."""

    def put(self, position: int, failed: Sequence[Failure[Record]]) -> int:
        """Cut back to a position, keep these for good, and return the new position."""


class FirstRejections:
    """Keeps the first thousand rejections, to be told in an answer."""

    def __init__(self) -> None:
        self.kept: list[Rejected] = []

    def begin(self, position: int) -> int:  # noqa: ARG002 - an earlier answer told of those before
        """Begin at nothing."""
        return 0

    def put(self, position: int, failed: Sequence[Failure[Record]]) -> int:
        """Keep as many as there is room for."""
        del self.kept[position:]
        self.kept += [rejected(failure) for failure in failed[: _MOST_TOLD - len(self.kept)]]
        return len(self.kept)


def rejected(failure: Failure[Record]) -> Rejected:
    """Return what is told of a record of which no row was made."""
    source, error = failure
    last = source.last if source.last != source.line else msgspec.UNSET
    return Rejected(source.line, error.code, error.text, last)


class Transfer:
    """Imports files into tables, and exports tables."""

    def __init__(self, database: Database, rows: BulkRows) -> None:
        self._database = database
        self._rows = rows

    async def import_(
        self,
        app: AppInfo,
        actor: Actor,
        table_id: UUID,
        open_: Open,
        options: ImportOptions,
        rejections: Rejections,
        progressed: Callable[[Progress], None] = lambda _: None,
    ) -> ImportResult:
        """Import what `open_` gives, and return what came of it; raises a 400, 404 or 409 error.

        Lines of which no row can be made go to `rejections`, and do not stop it.
        """
        schema = await self._rows.schema(app, table_id)
        key = options.key or str(uuid4())
        try:
            begun = await store.begin(
                self._database, app.app_id, table_id, key, options.format.value, again=options.again
            )
        except asyncpg.ForeignKeyViolationError:
            # Ended for good since its schema was looked at.
            raise TableNotFoundError from None
        if begun.is_finished:
            return ImportResult(table_id, key, begun.created, begun.rejected, was_finished=True)
        if begun.format != options.format.value:
            raise ImportFormatError
        state = msgspec.structs.replace(begun, rejected_position=rejections.begin(begun.rejected_position))

        async with aclosing(_records(open_(state.position), _reader(options, state))) as records:
            rows: CsvRows | JsonRows
            if options.format is Format.CSV:
                header = state.header or await _header(records)
                state.header = header
                rows = CsvRows(header, own_fields=options.own_fields)
                rows.check(schema)
            else:
                rows = JsonRows(own_fields=options.own_fields)
            async for batch in _batches(records):
                state = await self._write(app, table_id, key, state, batch, rows, rejections)
                progressed(state)
        await self._finish(app, actor, table_id, key, state)
        resumed = begun.line if begun.position else None
        return ImportResult(table_id, key, state.created, state.rejected, resumed_at_line=resumed)

    async def export(self, app: AppInfo, table_id: UUID, options: ExportOptions) -> AsyncGenerator[bytes]:
        """Yield a table's rows as they are at one moment, about a megabyte at a time; raises a 400 or 404 error."""
        async with self._rows.snapshot(app, table_id) as (schema, batches):
            if schema.is_free_form and options.format is Format.CSV:
                raise FreeFormCsvError
            exported = Exported(schema, own_fields=options.own_fields, encrypted=options.encrypted)
            writer = CsvWriter(exported.columns) if options.format is Format.CSV else JsonLinesWriter()
            yield writer.head()
            async with aclosing(batches):
                async for rows in batches:
                    yield writer.rows(exported.fields(rows))

    async def note_export(self, app: AppInfo, actor: Actor, table_id: UUID, options: ExportOptions) -> None:
        """Put an export in the audit log."""
        async with self._database.transaction() as connection:
            await audit(connection, app.app_id, actor, "table.export", table_id, format=options.format.value)

    async def delete_old(self, connection: Connection) -> None:
        """Forget imports of which nothing was heard for 30 days."""
        await store.delete_old(connection)

    async def _write(
        self,
        app: AppInfo,
        table_id: UUID,
        key: str,
        state: Progress,
        records: Sequence[Record],
        rows: CsvRows | JsonRows,
        rejections: Rejections,
    ) -> Progress:
        after = state

        async def note(connection: Connection, batch: Batch[Record]) -> None:
            nonlocal after
            after = msgspec.structs.replace(
                state,
                position=records[-1].end,
                line=records[-1].last,
                created=state.created + batch.made,
                rejected=state.rejected + len(batch.failed),
            )
            # Kept for good before the commit; what was kept before a commit that failed is cut off again.
            if batch.failed:
                after.rejected_position = rejections.put(state.rejected_position, batch.failed)
            if not await store.advance(connection, app.app_id, table_id, key, state.position, after):
                raise ImportRunningError

        await self._rows.insert(app, table_id, records, rows.new_row, note)
        return after

    async def _finish(self, app: AppInfo, actor: Actor, table_id: UUID, key: str, state: Progress) -> None:
        async with self._database.transaction() as connection:
            done = msgspec.structs.replace(state, is_finished=True)
            if not await store.advance(connection, app.app_id, table_id, key, state.position, done):
                raise ImportRunningError
            counts = {"created": state.created, "rejected": state.rejected}
            await audit(connection, app.app_id, actor, "table.import", table_id, **counts)


async def guess(chunks: AsyncIterator[bytes], options: ImportOptions) -> dict[str, str]:
    """Return a schema for what begins like this; raises a 400 error. Reads no more than it needs."""
    sample: list[Record] = []
    size = 0
    header: list[str] | None = None
    async with aclosing(_records(chunks, _reader(options))) as records:
        if options.format is Format.CSV:
            header = await _header(records)
        async for record in records:
            sample.append(record)
            size += len(record.text)
            if len(sample) >= SAMPLE_RECORDS or size >= SAMPLE_BYTES:
                break
    sample = [record for record in sample if record.error is None]
    guessed = guess_json_lines(sample) if header is None else guess_csv(header, sample)
    names = column_names(list(guessed))
    return {names[name]: type_ for name, type_ in guessed.items()}


def from_offset(chunks: AsyncIterator[bytes]) -> Open:
    """Return how to read what can be read once, from its beginning: up to the offset it is thrown away."""

    async def skipping(offset: int) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if offset < len(chunk):
                yield chunk[offset:]
            offset = max(0, offset - len(chunk))

    return skipping


def _reader(options: ImportOptions, state: Progress | None = None) -> Reader:
    place = (state.position, state.line) if state else (0, 0)
    return CsvReader(options.delimiter, *place) if options.format is Format.CSV else JsonLinesReader(*place)


async def _records(chunks: AsyncIterator[bytes], reader: Reader) -> AsyncGenerator[Record]:
    async for chunk in chunks:
        for record in reader.feed(chunk):
            yield record
    for record in reader.finish():
        yield record


async def _header(records: AsyncIterator[Record]) -> list[str]:
    async for record in records:
        if record.error is not None:
            raise record.error
        check_header(record.fields)
        return list(record.fields)
    raise NoHeaderError


async def _batches(records: AsyncIterator[Record]) -> AsyncGenerator[list[Record]]:
    batch: list[Record] = []
    size = 0
    async for record in records:
        batch.append(record)
        size += len(record.text)
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch

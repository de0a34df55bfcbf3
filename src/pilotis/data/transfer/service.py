"""Imports and exports of whole tables, in constant memory.

An import records its position in the transaction that writes the rows, so after a crash it continues with the first
unprocessed line: no row is lost or created twice.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol
from uuid import UUID, uuid4

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.rows.bulk.service import BulkRows
from pilotis.data.rows.bulk.types import Batch, Failure, UpsertBy
from pilotis.data.tables import events
from pilotis.data.tables.keys import key_called
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableNotFoundError
from pilotis.data.transfer import store
from pilotis.data.transfer.conversion import CsvRows, Exported, JsonRows
from pilotis.data.transfer.formats import (
    CsvReader,
    CsvWriter,
    Format,
    JsonLinesReader,
    JsonLinesWriter,
    Reader,
    Record,
    check_header,
)
from pilotis.data.transfer.inference import SAMPLE_BYTES, SAMPLE_RECORDS, column_names, infer_csv, infer_json_lines
from pilotis.data.transfer.store import Progress
from pilotis.data.transfer.types import ExportOptions, ImportOptions, ImportProgress, ImportResult, Open, Rejected
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.kit.disk import DiskReserve
from pilotis.kit.errors import BadRequestError, ConflictError, NotFoundError
from pilotis.security.audit.service import record as audit

_BATCH_ROWS = 1000
_BATCH_BYTES = 4 * 1024 * 1024
_MAX_TOLD = 1000
_MAX_NAME = 100


class ImportRunningError(ConflictError):
    """409 `IMPORT_RUNNING`: another process is running this import, or has finished it since then."""

    code = "IMPORT_RUNNING"
    message = "This import is already running."


class NoHeaderError(BadRequestError):
    """400 `NO_HEADER`: the CSV text has no first line with the names of its columns."""

    code = "NO_HEADER"
    message = "A CSV file must begin with a line that names its columns."


class ImportNotFoundError(NotFoundError):
    """404: the table has no import with this key, or it has been inactive for 30 days."""

    code = "IMPORT_NOT_FOUND"
    message = "The table has no import with this key."


class FreeFormCsvError(BadRequestError):
    """400 `FREE_FORM_CSV`: a table without a schema has no columns for CSV."""

    code = "FREE_FORM_CSV"
    message = "A free-form table can be exported as JSON lines only."


class ImportFormatError(ConflictError):
    """409 `IMPORT_FORMAT`: the import was started in another format."""

    code = "IMPORT_FORMAT"
    message = "The import with this key was started in another format."


class Rejections(Protocol):
    """Stores rejections where they can be truncated to an earlier position."""

    def begin(self, position: int) -> int:
        """Return the position to continue at, given the one recorded by an interrupted import."""

    def put(self, position: int, failed: Sequence[Failure[Record]]) -> int:
        """Truncate to a position, append these durably, and return the new position."""


class FirstRejections:
    """Keeps the first thousand rejections for the response."""

    def __init__(self) -> None:
        self.kept: list[Rejected] = []

    def begin(self, position: int) -> int:  # noqa: ARG002 - an earlier answer listed those before
        """Start with none."""
        return 0

    def put(self, position: int, failed: Sequence[Failure[Record]]) -> int:
        """Keep at most a thousand."""
        del self.kept[position:]
        self.kept += [rejected(failure) for failure in failed[: _MAX_TOLD - len(self.kept)]]
        return len(self.kept)


def rejected(failure: Failure[Record]) -> Rejected:
    """Return the rejection for a record without a row."""
    source, error = failure
    last = source.last if source.last != source.line else msgspec.UNSET
    return Rejected(line=source.line, code=error.code, message=error.text, last_line=last)


class Transfer:
    """Imports files into tables, and exports tables."""

    def __init__(self, database: Database, rows: BulkRows, room: DiskReserve, emitter: Events) -> None:
        self._database = database
        self._rows = rows
        self._room = room
        self._events = emitter

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
        """Import what `open_` yields, and return the result; raises a 400, 404 or 409 error.

        Invalid lines go to `rejections` and do not stop the import.
        """
        schema = await self._rows.schema(app, table_id)
        if options.unique_key is not None:
            key_called(schema.keys, options.unique_key)
        key = options.key or str(uuid4())
        try:
            begun = await store.begin(
                self._database, app.app_id, table_id, key, options.format.value, again=options.again
            )
        except asyncpg.ForeignKeyViolationError:
            # The table was deleted permanently after its schema was read.
            raise TableNotFoundError from None
        if begun.is_finished:
            result = _result(table_id, key, begun, options)
            result.was_finished = True
            return result
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
                self._room.require()
                state = await self._write(app, table_id, key, state, batch, rows, rejections, options.by)
                progressed(state)
        await self._finish(schema, actor, key, state)
        resumed = begun.line if begun.position else None
        result = _result(table_id, key, state, options)
        result.resumed_at_line = resumed
        return result

    async def progress(self, app: AppInfo, table_id: UUID, key: str) -> ImportProgress:
        """Return how far an import is; raises a 404 error."""
        await self._rows.schema(app, table_id)
        found = await store.read(self._database, app.app_id, table_id, key)
        if found is None:
            raise ImportNotFoundError
        return ImportProgress(
            table_id=table_id,
            key=key,
            created=found.created,
            rejected=found.rejected,
            line=found.line,
            position=found.position,
            finished=found.is_finished,
        )

    async def export(self, app: AppInfo, table_id: UUID, options: ExportOptions) -> AsyncGenerator[bytes]:
        """Yield a snapshot of a table's rows, about a megabyte at a time; raises a 400 or 404 error."""
        async with self._rows.snapshot(app, table_id) as (schema, batches):
            if schema.is_free_form and options.format is Format.CSV:
                raise FreeFormCsvError
            exported = Exported(schema, own_fields=options.own_fields, encrypted=options.encrypted)
            writer = (
                CsvWriter(exported.columns, neutralise_formulas=options.neutralise_formulas)
                if options.format is Format.CSV
                else JsonLinesWriter()
            )
            yield writer.head()
            async with aclosing(batches):
                async for rows in batches:
                    yield writer.rows(exported.fields(rows))

    async def export_name(self, app: AppInfo, table_id: UUID, options: ExportOptions) -> str:
        """Return the name of an export's file: the table's title without characters that no file name may have."""
        schema = await self._rows.schema(app, table_id)
        title = re.sub(r"[^\w .()\[\]+@-]+", "_", schema.title)[:_MAX_NAME].strip(" .")
        return f"{title or table_id}.{options.format.value}"

    async def record_export(self, app: AppInfo, actor: Actor, table_id: UUID, options: ExportOptions) -> None:
        """Record an export in the audit log."""
        async with self._database.transaction(app.app_id) as connection:
            await audit(connection, app.app_id, actor, "table.export", table_id, format=options.format.value)

    async def delete_old(self, connection: Connection) -> None:
        """Delete the positions of imports that were inactive for 30 days."""
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
        by: UpsertBy | None,
    ) -> Progress:
        after = state

        async def record_progress(connection: Connection, batch: Batch[Record]) -> None:
            nonlocal after
            after = msgspec.structs.replace(
                state,
                position=records[-1].end,
                line=records[-1].last,
                created=state.created + batch.made,
                rejected=state.rejected + len(batch.failed),
                updated=state.updated + batch.updated,
                ignored=state.ignored + batch.ignored,
            )
            # Stored before the commit; if the commit fails, they are truncated later.
            if batch.failed:
                after.rejected_position = rejections.put(state.rejected_position, batch.failed)
            if not await store.advance(connection, app.app_id, table_id, key, state.position, after):
                raise ImportRunningError

        await self._rows.insert(app, table_id, records, rows.new_row, record_progress, by)
        return after

    async def _finish(self, table: TableSchema, actor: Actor, key: str, state: Progress) -> None:
        app_id, table_id = table.app_id, table.table_id
        async with self._database.transaction(app_id) as connection:
            done = msgspec.structs.replace(state, is_finished=True)
            if not await store.advance(connection, app_id, table_id, key, state.position, done):
                raise ImportRunningError
            counts = {"created": state.created, "rejected": state.rejected}
            await audit(connection, app_id, actor, "table.import", table_id, **counts)
            event = events.imported(actor, table, state.created, state.rejected)
            await self._events.emit_all(connection, app_id, [event])


def _result(table_id: UUID, key: str, state: Progress, options: ImportOptions) -> ImportResult:
    result = ImportResult(table_id=table_id, key=key, created=state.created, rejected=state.rejected)
    if options.unique_key is not None:
        result.updated, result.ignored = state.updated, state.ignored
    return result


async def infer_schema(chunks: AsyncIterator[bytes], options: ImportOptions) -> dict[str, str]:
    """Return a schema for a file that begins like this; raises a 400 error. Reads no more than necessary."""
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
    guessed = infer_json_lines(sample) if header is None else infer_csv(header, sample)
    names = column_names(list(guessed))
    return {names[name]: type_ for name, type_ in guessed.items()}


def from_offset(chunks: AsyncIterator[bytes]) -> Open:
    """Return a reader for a source that can be read once: skips everything up to the offset."""

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

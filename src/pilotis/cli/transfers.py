"""The work of `pilotis table`, after its options are parsed."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import UUID

import click
import msgspec

from pilotis.cli.session import Session
from pilotis.data.rows.bulk.types import Failure
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.rows.types import UpsertMode
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.tables.schema import AccessLevel
from pilotis.data.tables.service import Tables
from pilotis.data.tables.types import TableDefinition
from pilotis.data.transfer.feature import TransferFeature
from pilotis.data.transfer.formats import Format, Record
from pilotis.data.transfer.service import from_offset, infer_schema, rejected
from pilotis.data.transfer.store import Progress
from pilotis.data.transfer.types import ExportOptions, ImportOptions, ImportResult, Open
from pilotis.http.api.principals import OPERATOR, AppInfo
from pilotis.kit import json
from pilotis.kit.disk import sync_file
from pilotis.kit.ids import is_uuid
from pilotis.serve.errors import CommandError

_CHUNK = 256 * 1024


class Target(NamedTuple):
    """The table of an import. With `may_make`, `name` is a title, and `schema` may be None to guess it."""

    name: str
    may_make: bool
    schema: dict[str, Any] | None
    access_level: AccessLevel


class Import(NamedTuple):
    """What is imported, and how."""

    file: str
    rejected: str
    format: Format
    delimiter: str
    own_fields: bool
    again: bool
    unique_key: str | None
    mode: UpsertMode


async def import_(on: Session, app_id: UUID, target: Target, given: Import) -> ImportResult:
    """Import a file into its table, creating the table if that is allowed and necessary."""
    tables, transfer = on.features.get(TablesFeature).tables, on.features.get(TransferFeature).transfer
    app = await on.apps.by_id(app_id)
    path = None if given.file == "-" else Path(given.file)
    open_, sample = _sources(path)
    options = ImportOptions(
        format=given.format,
        delimiter=given.delimiter,
        key=_key(path, given) if path else None,
        own_fields=given.own_fields,
        again=given.again,
        unique_key=given.unique_key,
        mode=given.mode,
    )
    table_id = await _table(tables, app, target, lambda: infer_schema(sample(), options))
    with _progress_bar(path) as progressed, RejectionsFile(Path(given.rejected)) as rejections:
        done = await transfer.import_(app, OPERATOR, table_id, open_, options, rejections, progressed)
    await on.features.get(RowsFeature).statistics.wait_until_analyzed()
    return done


async def export(on: Session, app_id: UUID, table: str, options: ExportOptions) -> AsyncGenerator[bytes]:
    """Yield a table's rows."""
    app, table_id = await table_of(on, app_id, table)
    transfer = on.features.get(TransferFeature).transfer
    await transfer.record_export(app, OPERATOR, table_id, options)
    async with aclosing(transfer.export(app, table_id, options)) as chunks:
        async for chunk in chunks:
            yield chunk


async def save(chunks: AsyncIterator[bytes], path: Path) -> None:
    """Write a file completely or not at all."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            async for chunk in chunks:
                file.write(chunk)
            file.flush()
            sync_file(file.fileno())
        part.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


class RejectionsFile:
    """A file of JSON lines about rejected records: line, code, message and the text itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> RejectionsFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def begin(self, position: int) -> int:
        """Continue the file of an interrupted import; a new import deletes the file of an earlier one."""
        if not position:
            self._path.unlink(missing_ok=True)
        elif not self._path.exists() or self._path.stat().st_size < position:
            raise CommandError(
                f"{self._path} contained what the interrupted import rejected, and is missing or was truncated."
            )
        else:
            self.put(position, [])
        return position

    def put(self, position: int, failed: Sequence[Failure[Record]]) -> int:
        """Truncate the file to a position, append rejected records, and return its durable length."""
        if self._file is None:
            self._file = self._path.open("r+b" if self._path.exists() else "w+b")
        self._file.truncate(position)
        self._file.seek(position)
        self._file.writelines(_line(failure) for failure in failed)
        self._file.flush()
        sync_file(self._file.fileno())
        return self._file.tell()


def _line(failure: Failure[Record]) -> bytes:
    fields = msgspec.to_builtins(rejected(failure))
    text = failure.source.text
    try:
        fields["text"] = text.decode()
    except UnicodeDecodeError:
        fields["text_base64"] = base64.b64encode(text).decode()
    return json.encode(fields) + b"\n"


async def _table(tables: Tables, app: AppInfo, target: Target, guessed: Callable[[], Any]) -> UUID:
    found = await existing(tables, app, target.name)
    if found is not None:
        return found
    if not target.may_make:
        raise CommandError(f"The app has no table {target.name}; --title creates one.")
    schema = target.schema if target.schema is not None else await guessed()
    click.echo(f"Making the table {target.name} with {json.encode(schema).decode()}.", err=True)
    return await tables.create(app, OPERATOR, TableDefinition(target.name, schema, target.access_level))


async def existing(tables: Tables, app: AppInfo, name: str) -> UUID | None:
    """Return the id of the table with a title or an id."""
    for table in await tables.all(app):
        if table.title == name or (is_uuid(name) and table.id == UUID(name)):
            return table.id
    return None


async def table_of(on: Session, app_id: UUID, name: str) -> tuple[AppInfo, UUID]:
    """Return an app, and the id of its table with a title or an id; raises `CommandError` if there is none."""
    app = await on.apps.by_id(app_id)
    found = await existing(on.features.get(TablesFeature).tables, app, name)
    if found is None:
        raise CommandError(f"The app has no table {name}.")
    return app, found


def _sources(path: Path | None) -> tuple[Open, Callable[[], AsyncIterator[bytes]]]:
    """Return how to read the import, and how to read its beginning first."""
    if path is not None:
        return lambda offset: _file_chunks(path, offset), lambda: _file_chunks(path, 0)
    kept: list[bytes] = []
    incoming = _stdin_chunks()

    async def sample() -> AsyncIterator[bytes]:
        async for chunk in incoming:
            kept.append(chunk)
            yield chunk

    async def whole() -> AsyncIterator[bytes]:
        while kept:
            yield kept.pop(0)
        async for chunk in incoming:
            yield chunk

    return from_offset(whole()), sample


async def _file_chunks(path: Path, offset: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(_CHUNK):
            yield chunk


async def _stdin_chunks() -> AsyncIterator[bytes]:
    while chunk := sys.stdin.buffer.read(_CHUNK):
        yield chunk


def _key(path: Path, given: Import) -> str:
    """Return a key that identifies a file by its content and how it is read: its size, its beginning and its end."""
    size = path.stat().st_size
    by = "" if given.unique_key is None else f" {given.unique_key} {given.mode}"
    digest = hashlib.sha256(f"{size} {given.delimiter} {given.own_fields}{by}".encode())
    with path.open("rb") as file:
        digest.update(file.read(_CHUNK))
        file.seek(max(0, size - _CHUNK))
        digest.update(file.read(_CHUNK))
    return f"file {digest.hexdigest()}"


@contextmanager
def _progress_bar(path: Path | None) -> Any:
    if path is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=path.stat().st_size, file=sys.stderr) as bar:

        def progressed(state: Progress) -> None:
            bar.label = f"{state.created} rows"
            bar.update(state.position - bar.pos)

        yield progressed

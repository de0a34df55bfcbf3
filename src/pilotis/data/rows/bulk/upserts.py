"""Upserts of a batch of sources by a unique key, within the transaction of an import.

All records are looked up together. Those that are there are changed, those that are not are created, unless another
record of the batch or another request has been faster: these are looked up again, and so a later line changes what an
earlier one has created.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.rows import records
from pilotis.data.rows.bulk.types import Batch, Failure, NewRow, Source, UpsertBy
from pilotis.data.rows.keyed import key_record
from pilotis.data.rows.operations import refusal, requirements, sources
from pilotis.data.rows.table import PreparedTable, row_id_of
from pilotis.data.rows.types import UpsertMode
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.data.tables.generated import NOBODY, Writer
from pilotis.data.tables.keys import key_called
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.operands import Arguments
from pilotis.http.api.repeating import ContendedError
from pilotis.kit.errors import PilotisError
from pilotis.kit.ids import uuid7_text
from pilotis.kit.offload import in_thread

# As often may the rows of a batch come and go, or a key be in it.
_MAX_WAVES = 1000
_MAX_TRIES = 3


class _Given(NamedTuple, Generic[Source]):
    """A source, its data, the id that a new row would have, and the record with the values of its key."""

    source: Source
    data: bytes
    creator: str | None
    row_id: str
    key: str


class _Change(NamedTuple, Generic[Source]):
    source: Source
    sql: str
    arguments: Sequence[Any]


class Upserts(Generic[Source]):
    """The upserts of a batch into a table at one version of its schema."""

    def __init__(self, connection: Connection, table: PreparedTable, by: UpsertBy, max_bytes: int) -> None:
        self._connection = connection
        self._table = table
        self._key = key_called(table.schema.keys, by.key)
        self._mode = by.mode
        self._max_bytes = max_bytes
        self._failed: list[Failure[Source]] = []
        self._created = self._updated = self._ignored = 0

    async def run(self, batch: Sequence[Source], new_row: Callable[[TableSchema, Source], NewRow]) -> Batch[Source]:
        """Write the batch, and return what became of it; the failures are in order."""
        left = await in_thread(self._read, batch, new_row)
        tries = 0
        for _ in range(_MAX_WAVES):
            found = await self._look_up(left)
            await self._change([(one, found[one.row_id]) for one in left if one.row_id in found])
            fresh = [one for one in left if one.row_id not in found]
            if not fresh:
                break
            left = await self._create(fresh)
            # Where nothing happened, rows with other keys come and go.
            tries = tries + 1 if len(left) == len(fresh) and not found else 0
            if tries == _MAX_TRIES:
                raise ContendedError
        places = {id(source): at for at, source in enumerate(batch)}
        self._failed.sort(key=lambda failure: places[id(failure.source)])
        return Batch(self._created, self._failed, self._updated, self._ignored)

    def _read(self, batch: Sequence[Source], new_row: Callable[[TableSchema, Source], NewRow]) -> list[_Given[Source]]:
        read = []
        for source in batch:
            try:
                data, creator = new_row(self._table.schema, source)
                row_id = uuid7_text()
                key = key_record(creator, self._table, self._key, msgspec.Raw(data), row_id)
            except PilotisError as error:
                self._failed.append(Failure(source, error))
            else:
                read.append(_Given(source, data, creator, row_id, key))
        return read

    async def _look_up(self, left: Sequence[_Given[Source]]) -> dict[str, str]:
        """Return the ids of the rows that are there, locked, by those that new ones would have."""
        if not left:
            return {}
        keys = f"[{','.join(one.key[1:-1] for one in left)}]"
        found = await self._connection.fetch(self._table.statements.with_key_of_each(self._key), keys)
        return {row["id"]: row["existing"] for row in found}

    async def _change(self, found: Sequence[tuple[_Given[Source], str]]) -> None:
        if self._mode is UpsertMode.IGNORE:
            self._ignored += len(found)
            return
        changes = await in_thread(self._changes, found)
        for sql, alike in itertools.groupby(changes, key=lambda change: change.sql):
            run = list(alike)
            try:
                async with self._connection.transaction():
                    await self._connection.fetchmany(sql, [change.arguments for change in run])
            except asyncpg.PostgresError as error:
                if refusal(error, self._max_bytes, self._table.violated) is None:
                    raise
                for change in run:
                    await self._change_one(change)
            else:
                self._updated += len(run)

    async def _change_one(self, change: _Change[Source]) -> None:
        try:
            async with self._connection.transaction():
                await self._connection.fetch(change.sql, *change.arguments)
        except asyncpg.PostgresError as error:
            refused = refusal(error, self._max_bytes, self._table.violated)
            if refused is None:
                raise
            self._failed.append(Failure(change.source, refused))
        else:
            self._updated += 1

    def _changes(self, found: Sequence[tuple[_Given[Source], str]]) -> list[_Change[Source]]:
        changes = []
        for one, existing in found:
            try:
                changes.append(self._change_of(one, existing))
            except PilotisError as error:
                self._failed.append(Failure(one.source, error))
        return changes

    def _change_of(self, one: _Given[Source], row_id: str) -> _Change[Source]:
        table, replaces = self._table, self._mode is UpsertMode.REPLACE
        decoder = table.new_rows if replaces else table.changes
        row = decoder.decode(one.data, Writer(one.creator)) if replaces else decoder.decode(one.data)
        row = decoder.touched(row, NOBODY, records.names_in(msgspec.Raw(one.data)))
        records.check_size(row, self._max_bytes)
        columns = [column for column in table.schema.columns if column not in row.now]
        columns = columns if replaces else decoder.given(row)
        source, lifted, extra = sources(table, row, table.encrypted(row, row_id), columns)
        limit = self._max_bytes + records.BESIDE_DATA
        arguments = Arguments(UUID(row_id), source.decode(), lifted, extra.decode(), limit)
        requires = requirements(None, table, row, arguments)
        sql = table.statements.update(columns, "true", [], requires=requires, now=row.now)
        return _Change(one.source, sql, arguments.values)

    async def _create(self, fresh: Sequence[_Given[Source]]) -> list[_Given[Source]]:
        """Create rows; return those that were not, because another one has their key by now."""
        table = self._table
        new = dict(await in_thread(lambda: list(self._records(fresh))))
        if not new:
            return []
        refers = table.referring()
        (found,) = await self._connection.fetch(table.import_statement(refers), _array(list(new)))
        ids = set(found["ids"] or ())
        self._created += len(ids)
        left = {record: one for record, one in new.items() if one.row_id not in ids}
        if refers and left:
            refused = await table.refused(list(left), everything(table.schema, Action.CREATE), refers, self._connection)
            self._failed += [Failure(one.source, refused[one.row_id]) for one in left.values() if one.row_id in refused]
            left = {record: one for record, one in left.items() if one.row_id not in refused}
        there = await self._look_up(list(left.values()))
        others = [record for record, one in left.items() if one.row_id not in there]
        taken = await table.taken(others, self._connection) if others else {}
        self._failed += [
            Failure(left[record].source, table.violation(*taken[row_id]))
            for record in others
            if (row_id := row_id_of(record)) in taken
        ]
        return [one for one in left.values() if one.row_id not in taken]

    def _records(self, fresh: Sequence[_Given[Source]]) -> Iterator[tuple[bytes, _Given[Source]]]:
        table = self._table
        for one in fresh:
            try:
                row = table.new_rows.decode(one.data, Writer(one.creator))
                records.check_size(row, self._max_bytes)
            except PilotisError as error:
                self._failed.append(Failure(one.source, error))
            else:
                yield records.record(table.schema, one.row_id, one.creator, table.encrypted(row, one.row_id)), one


def _array(made: Sequence[bytes]) -> str:
    return (b"[" + b",".join(made) + b"]").decode()

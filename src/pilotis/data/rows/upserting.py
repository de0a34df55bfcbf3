"""Upsert: a row is created, or the one that has its unique key is changed, whichever of two requests came first.

Each record looks its key up and locks the row that it finds; else it creates one, and where another request was faster
it begins again. All records of a request share a transaction, in which each has a savepoint, so that one can fail by
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.rows import records
from pilotis.data.rows.creating import list_of_rows
from pilotis.data.rows.keyed import KeyIncompleteError, key_record, require_key
from pilotis.data.rows.operations import Plan, RowNotFoundError, new_record, perform, plan_create, plan_update
from pilotis.data.rows.query import statements_of
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rows.types import BulkFailure, Query, RowOutcome, Upsert, UpsertMode, UpsertResult
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import creator_of_new_row
from pilotis.data.tables.keys import UniqueKey, key_called
from pilotis.data.where.operands import Arguments
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.http.api.repeating import ContendedError
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import (
    BadRequestError,
    ConflictError,
    Detail,
    InvalidIdError,
    PilotisError,
    invalid,
)
from pilotis.kit.ids import is_uuid, uuid7_text

_TRIES = 5
_OWN_ID = "id"
_AHEAD = timedelta(hours=24)

_raw_fields = json.decoder(dict[str, msgspec.Raw])


class DuplicateInRequestError(ConflictError):
    """409 `DUPLICATE_IN_REQUEST`: an earlier record of the request has the same key."""

    code = "DUPLICATE_IN_REQUEST"
    message = "An earlier record of this request has the same key."


class IdTakenError(ConflictError):
    """409 `UNIQUE_VIOLATION`: a row that the caller may not read has the key."""

    code = "UNIQUE_VIOLATION"
    message = "Another row has this key."

    def __init__(self, key: str) -> None:
        super().__init__()
        self.extra = {"key": key}


class NothingWrittenError(BadRequestError):
    """400 `NOTHING_WRITTEN`: no record of an upsert could be written; `details` gives the reason for each."""

    code = "NOTHING_WRITTEN"
    message = "None of the rows could be written."


class Written(NamedTuple):
    """A row that was created, changed or left as it is, and its JSON."""

    row_id: str
    outcome: str
    item: bytes


class _Record(NamedTuple):
    """What is to be written: the fields, and the id of a new row."""

    data: msgspec.Raw
    row_id: str


class _BeatenError(Exception):
    """Another request has created a row with the key since it was looked up."""


class Upserts:
    """Writes rows by their unique keys."""

    def __init__(self, tables: PreparedTables) -> None:
        self._tables = tables

    async def one(self, principal: Principal, table_id: UUID, asked: Upsert) -> tuple[bool, bytes]:
        """Write one row; return whether it was created, and its JSON."""

        async def run(table: PreparedTable) -> tuple[bool, bytes]:
            work = Upserting(await self._tables.introduced(principal, table), table, asked)
            if (item := await work.create_freely(asked.data)) is not None:
                return True, item[:-1] + b',"created":true}'
            async with table.transaction() as connection:
                written = await work.write(connection, asked.data, set())
            work.end([written])
            created = written.outcome == "created"
            return created, written.item[:-1] + (b',"created":true}' if created else b',"created":false}')

        return await self._tables.use(_app(principal), table_id, run)

    async def many(self, principal: Principal, table_id: UUID, asked: Upsert) -> UpsertResult:
        """Write the rows of a list; raises `NothingWrittenError` if each of them fails."""
        items = list_of_rows(asked.data, _app(principal).limits.bulk_rows)

        async def run(table: PreparedTable) -> UpsertResult:
            work = Upserting(await self._tables.introduced(principal, table), table, asked)
            written: dict[int, Written] = {}
            failed: list[BulkFailure] = []
            details: list[Detail] = []
            seen: set[str] = set()
            async with table.transaction() as connection:
                for index, item in enumerate(items):
                    try:
                        written[index] = await work.write(connection, item, seen)
                    except PilotisError as error:
                        if error.status >= 500:
                            raise
                        for detail in error.details:
                            field = f"data[{index}]{detail.field.removeprefix('data')}"
                            details.append(Detail(field, detail.code, detail.message))
                        failed.append(BulkFailure(index=index, code=error.code, message=error.text, **error.extra))
                        if not error.details:
                            details.append(Detail(f"data[{index}]", error.code, error.text))
            if not written:
                raise NothingWrittenError(details=details)
            work.end(list(written.values()))
            outcomes = [one.outcome for one in written.values()]
            return UpsertResult(
                rows=[RowOutcome(index, one.row_id, one.outcome == "created") for index, one in written.items()],
                total=len(items),
                created_count=outcomes.count("created"),
                updated_count=outcomes.count("updated"),
                ignored_count=outcomes.count("ignored"),
                failed=failed or msgspec.UNSET,
            )

        return await self._tables.use(_app(principal), table_id, run)


class Upserting:
    """The upsert of a request into a table at one version of its schema."""

    def __init__(self, principal: Principal, table: PreparedTable, asked: Upsert) -> None:
        self._principal = principal
        self._limits = _app(principal).limits
        self._table = table
        self._mode = asked.mode
        self._name = asked.key
        self._key: UniqueKey | None = None
        if asked.key != _OWN_ID:
            self._key = key_called(table.schema.keys, asked.key)
        if asked.mode is UpsertMode.REPLACE and table.schema.is_free_form:
            raise invalid("mode", "In a table without a schema, rows are merged: nothing says which fields they have.")

    async def write(self, connection: Connection, data: msgspec.Raw, seen: set[str]) -> Written:
        """Write a record; `seen` has the ids of the rows that the request has written before."""
        record = self._record(data)
        for _ in range(_TRIES):
            try:
                # A savepoint: an error leaves what the others have written.
                async with connection.transaction():
                    return await self._write(connection, record, seen)
            except _BeatenError:
                continue
        raise ContendedError

    def lock_name(self, data: msgspec.Raw) -> str:
        """Return a name that upserts of one row usually share."""
        fields = json.decode(bytes(data), _raw_fields)
        columns = {column.number: column.name for column in self._table.schema.columns}
        names = [_OWN_ID] if self._key is None else [columns.get(number, "") for number in self._key.columns]
        values = [bytes(fields.get(name, b"")).decode() for name in names]
        return " ".join([str(self._table.schema.table_id), self._name, *values])

    async def create_freely(self, data: msgspec.Raw) -> bytes | None:
        """Create a row together with others, as a create does, and return its JSON; None if one has the key.

        None also where a rule has to judge it, and for a row whose own id is the key.
        """
        table, principal = self._table, self._principal
        if self._key is None:
            return None
        record = self._record(data)
        # A key that is not complete is an error, also where nobody has it.
        require_key(creator_of_new_row(principal), table, self._key, record.data)
        try:
            visible = table.visible_now(principal, Action.CREATE)
        except PilotisError:
            # The caller may still change the row that has the key.
            return None
        if not visible.is_everything or visible.by_row or not all(one.is_free for one in table.referring(principal)):
            return None
        try:
            new = new_record(principal, table, visible, self._limits, record.data, record.row_id)
        except PilotisError:
            # It may still be a change of a row that is there.
            return None
        moment = await table.insert(new.record)
        if moment is None:
            return None
        return records.item(record.row_id, new.shown(), rfc3339(moment), new.created_by)

    def end(self, written: Sequence[Written]) -> None:
        """Count what was committed, and begin to tell its events."""
        self._table.written(sum(one.outcome == "created" for one in written))

    async def _write(self, connection: Connection, record: _Record, seen: set[str]) -> Written:
        existing = await self._look_up(connection, record)
        if existing in seen:
            raise DuplicateInRequestError
        written = await (
            self._create(connection, record) if existing is None else self._change(connection, record, existing)
        )
        seen.add(written.row_id)
        return written

    async def _create(self, connection: Connection, record: _Record) -> Written:
        plan = plan_create(self._principal, self._table, self._limits, record.data, record.row_id)
        try:
            item = await perform(connection.fetchrow, plan)
        except asyncpg.UniqueViolationError:
            # Of the primary key: the row with the id of the record is there now.
            raise _BeatenError from None
        except ConflictError as error:
            if error.extra.get("key") == self._name:
                raise _BeatenError from None
            raise
        return Written(plan.row_id, "created", item)

    async def _change(self, connection: Connection, record: _Record, row_id: str) -> Written:
        if self._mode is UpsertMode.IGNORE:
            return Written(row_id, "ignored", await self._read(connection, row_id))
        plan = self._plan_change(record, UUID(row_id))
        try:
            return Written(row_id, "updated", await perform(connection.fetchrow, plan))
        except RowNotFoundError:
            # It is there, and hidden from the caller.
            raise IdTakenError(self._name) from None

    def _plan_change(self, record: _Record, row_id: UUID) -> Plan:
        replaces = self._mode is UpsertMode.REPLACE
        return plan_update(self._principal, self._table, self._limits, row_id, record.data, replaces=replaces)

    async def _read(self, connection: Connection, row_id: str) -> bytes:
        visible = self._table.visible_now(self._principal, Action.READ)
        table = self._table.seen_by(visible)
        arguments = Arguments(UUID(row_id), hash_=self._table.hash)
        statements = statements_of(table, Query(), visible, arguments)
        text = await connection.fetchval(statements.select(visible.and_condition(arguments)), *arguments.values)
        if text is None:
            raise IdTakenError(self._name)
        return table.decrypted_item(text)

    async def _look_up(self, connection: Connection, record: _Record) -> str | None:
        """Return the id of the row that has the record's key, locked; None if there is none."""
        statements = self._table.statements
        if self._key is None:
            sql, value = statements.lock, record.row_id
        else:
            creator = creator_of_new_row(self._principal)
            value = key_record(creator, self._table, self._key, record.data, record.row_id)
            sql = statements.with_key(self._key)
        found: str | None = await connection.fetchval(sql, value)
        return found

    def _record(self, data: msgspec.Raw) -> _Record:
        """Take the id apart, where it is the key."""
        records.check_raw_size(data, self._limits.row_bytes)
        if self._key is not None:
            return _Record(data, uuid7_text())
        fields = json.decode(bytes(data), _raw_fields)
        given = fields.pop(_OWN_ID, None)
        row_id = None if given is None else json.decode(bytes(given))
        if row_id is None:
            raise KeyIncompleteError("Give an id, a UUID of version 7.").at(f"data.{_OWN_ID}")
        if not isinstance(row_id, str) or not is_uuid(row_id) or UUID(row_id).version != 7:
            raise InvalidIdError("The id of a new row is a UUID of version 7 (RFC 9562).").at(f"data.{_OWN_ID}")
        if datetime.fromtimestamp((UUID(row_id).int >> 80) / 1000, UTC) > datetime.now(UTC) + _AHEAD:
            raise InvalidIdError("The time in the id is more than a day ahead.").at(f"data.{_OWN_ID}")
        return _Record(msgspec.Raw(json.encode(fields)), str(UUID(row_id)))


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app

"""Rows by the values of a unique key: a page by its slug, a member's profile by who is asking."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

import msgspec

from pilotis.data.rows import records
from pilotis.data.rows.operations import RowNotFoundError
from pilotis.data.rows.service import Rows, query_of
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rows.types import ReadRow, RowChange
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility, creator_of_new_row
from pilotis.data.tables.keys import CREATOR, CREATOR_NUMBER, UniqueKey, key_called
from pilotis.data.tables.schema import Column, ColumnType
from pilotis.data.tables.values import Row
from pilotis.data.where.operands import Arguments, ColumnNotReadableError
from pilotis.http.api.principals import AppInfo, Client, Principal
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, PilotisError, invalid
from pilotis.kit.ids import uuid7_text

Found = TypeVar("Found")

_RATE = "key_misses"
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_OF_CALLER = "me"
"""The value in a path for a key of `$creator` alone."""


class KeyIncompleteError(BadRequestError):
    """400 `KEY_INCOMPLETE`: the data lacks a value of the unique key, or has null in its place."""

    code = "KEY_INCOMPLETE"


class Counter(Protocol):
    """Counts what strangers try; see `pilotis.security.rate_limits`."""

    async def count(
        self, client: Client, app: AppInfo | None, rate: str, cost: int = 1, *, group: str | None = None
    ) -> Any:
        """Count a request; raises `RateLimitedError` beyond the limit."""

    async def refund(self, client: Client, app: AppInfo | None, rate: str) -> None:
        """Take a request back that was counted."""


def key_record(creator: str | None, table: PreparedTable, key: UniqueKey, data: msgspec.Raw, row_id: str) -> str:
    """Return the JSON array of a record with the values of a key; raises `KeyIncompleteError` if one is missing."""
    change = records.change(table.encrypted(require_key(creator, table, key, data), row_id))
    own = b'{"__id":"%b","__creator":%b' % (row_id.encode(), json.encode(creator))
    return f"[{(own + (b',' if len(change) > 2 else b'') + change[1:]).decode()}]"


def require_key(creator: str | None, table: PreparedTable, key: UniqueKey, data: msgspec.Raw) -> Row:
    """Return the given fields of a row; raises `KeyIncompleteError` if a value of a key is missing."""
    try:
        row = table.changes.decode_change(data)
    except PilotisError as error:
        raise error.within("data") from None
    given = {column.number for column in table.changes.given(row)}
    names = {column.number: column.name for column in table.schema.columns}
    for number in key.columns:
        name = names.get(number, CREATOR)
        if (number == CREATOR_NUMBER and creator is None) or (
            number != CREATOR_NUMBER and (number not in given or name in row.nulls)
        ):
            raise KeyIncompleteError(f"{name} belongs to the key, so give it a value.").at(f"data.{name}")
    return row


class NamedRow(NamedTuple):
    """A row that an operation names by a unique key: the key's name, and the values of its columns in order."""

    key: str
    values: Sequence[Any]

    def given(self, table: PreparedTable, key: UniqueKey) -> dict[str, Any]:
        """Return the values of the key by the names of its columns; raises a 400 error."""
        names = {column.number: column.name for column in table.schema.columns}
        own = [names[number] for number in key.columns if number != CREATOR_NUMBER]
        if len(self.values) != len(own):
            expected = ", ".join(own) or "no value, as it is about the caller: []"
            raise invalid("doc_id.value", f"The key {key.name} takes {expected}.")
        return dict(zip(own, self.values, strict=True))


def named_row(doc_id: Any) -> NamedRow | None:
    """Return the row that a `doc_id` names by a key, as in `{"key": "slug", "value": "about"}`; None for another one.

    A key of several columns takes a list of values.
    """
    if not isinstance(doc_id, dict) or doc_id.keys() != {"key", "value"} or not isinstance(doc_id["key"], str):
        return None
    value = doc_id["value"]
    return NamedRow(doc_id["key"], value if isinstance(value, list) else [value])


class LookUp(NamedTuple):
    """The statement that finds the id of a row, its arguments, and whether the caller may not list the table."""

    sql: str
    values: Sequence[Any]
    is_guess: bool


Given = Callable[[PreparedTable, UniqueKey], dict[str, Any]]
"""Returns the values of a key by the names of its columns; raises a 400 error."""


def _bound(
    principal: Principal, table: PreparedTable, visible: Visibility, key: UniqueKey, given: dict[str, Any]
) -> Arguments:
    """Bind the values of a key, which the caller must be able to read."""
    _require_readable(table, visible, key)
    data = msgspec.Raw(json.encode(given))
    return Arguments(key_record(creator_of_new_row(principal), table, key, data, uuid7_text()), hash_=table.hash)


def _id_of(table: PreparedTable, visible: Visibility, found: str, arguments: Arguments) -> str:
    where = f"{found}{visible.and_condition(arguments)} and {table.schema.at_this_version}"
    return f"select __id from {table.schema.physical} where {where}"


class KeyedRows:
    """Reads, changes and deletes a row that a path names by the values of a unique key.

    It asks for the rules `read`, `update` and `delete`, never for `list`. Where the list is closed to the caller, what
    it does not find is counted, or it could try all values.
    """

    def __init__(self, tables: PreparedTables, rows: Rows, counter: Counter) -> None:
        self._tables = tables
        self._rows = rows
        self._counter = counter

    async def read(
        self, principal: Principal, client: Client, table_id: UUID, key: str, values: Sequence[str], asked: ReadRow
    ) -> bytes:
        """Return the row's JSON; raises `RowNotFoundError`, or `RateLimitedError` after too many of them."""
        query = query_of(asked)

        async def read(table: PreparedTable, visible: Visibility, found: str, arguments: Arguments) -> bytes | None:
            return await self._rows.read_where(principal, table, visible, found, arguments, query)

        def given(table: PreparedTable, known: UniqueKey) -> dict[str, Any]:
            return _given(table, known, values)

        return await self._found(principal, client, table_id, key, given, read)

    async def update(
        self, principal: Principal, client: Client, table_id: UUID, key: str, values: Sequence[str], change: RowChange
    ) -> bytes:
        """Change the given fields of the row and return its JSON; raises what `read` does."""
        row_id = await self._id(principal, client, table_id, key, values)
        return await self._rows.update(principal, table_id, row_id, change.data, change.expected_updated_at)

    async def delete(
        self, principal: Principal, client: Client, table_id: UUID, key: str, values: Sequence[str]
    ) -> UUID:
        """Delete the row and return its id; raises what `read` does."""
        row_id = await self._id(principal, client, table_id, key, values)
        await self._rows.delete(principal, table_id, row_id)
        return row_id

    async def _id(self, principal: Principal, client: Client, table_id: UUID, key: str, values: Sequence[str]) -> UUID:
        """Return the id of the row that the caller may read."""

        def given(table: PreparedTable, known: UniqueKey) -> dict[str, Any]:
            return _given(table, known, values)

        return await self._id_by(principal, client, table_id, key, given)

    async def id_of(self, principal: Principal, client: Client, table_id: UUID, named: NamedRow) -> UUID:
        """Return the id of the row that an operation names by a key; raises what `read` does."""
        return await self._id_by(principal, client, table_id, named.key, named.given)

    async def look_up(
        self, principal: Principal, client: Client, table: PreparedTable, named: NamedRow, *, counts: bool
    ) -> LookUp:
        """Return how a transaction finds the row that an operation names by a key; with `counts` it is counted."""
        visible = await table.visible(principal, Action.READ)
        key = key_called(table.schema.keys, named.key)
        arguments = _bound(principal, table, visible, key, named.given(table, key))
        is_guess = await self._is_guess(principal, table)
        if is_guess and counts:
            await self._counter.count(client, principal.app, _RATE)
        sql = _id_of(table, visible, table.statements.has_key(key), arguments)
        return LookUp(sql, arguments.values, is_guess)

    async def found_out(self, client: Client, app: AppInfo) -> None:
        """Take a lookup back that was counted, and has found its row."""
        await self._counter.refund(client, app, _RATE)

    async def _id_by(self, principal: Principal, client: Client, table_id: UUID, key: str, given: Given) -> UUID:
        async def find(table: PreparedTable, visible: Visibility, found: str, arguments: Arguments) -> UUID | None:
            row_id: UUID | None = await table.fetchval(_id_of(table, visible, found, arguments), *arguments.values)
            return row_id

        return await self._found(principal, client, table_id, key, given, find)

    async def _found(
        self,
        principal: Principal,
        client: Client,
        table_id: UUID,
        name: str,
        given: Given,
        read: Callable[[PreparedTable, Visibility, str, Arguments], Awaitable[Found | None]],
    ) -> Found:
        """Return what is read of the row with the values of a key, by a condition and its arguments."""
        app = principal.app
        assert app is not None

        is_guess = False

        async def find(table: PreparedTable) -> Found | None:
            nonlocal is_guess
            key = key_called(table.schema.keys, name)
            visible = await table.visible(principal, Action.READ)
            arguments = _bound(principal, table, visible, key, given(table, key))
            # Only once, should the schema prove outdated and this run again.
            if not is_guess and await self._is_guess(principal, table):
                await self._counter.count(client, app, _RATE)
                is_guess = True
            return await read(table, visible, table.statements.has_key(key), arguments)

        found = await self._tables.use(app, table_id, find)
        if found is None:
            raise RowNotFoundError
        if is_guess:
            await self._counter.refund(client, app, _RATE)
        return found

    async def _is_guess(self, principal: Principal, table: PreparedTable) -> bool:
        """Whether the caller may not list the table, and so could learn by this what it has."""
        try:
            await table.visible(principal, Action.LIST)
        except PilotisError as error:
            if error.status >= 500:
                raise
            return True
        return False


def _require_readable(table: PreparedTable, visible: Visibility, key: UniqueKey) -> None:
    """Raise `ColumnNotReadableError` where what is found would tell a value that the caller may not read."""
    for column in table.schema.columns:
        if column.number in key.columns and column.name in visible.table.hidden:
            raise ColumnNotReadableError(column.name).at("key")


def _given(table: PreparedTable, key: UniqueKey, values: Sequence[str]) -> dict[str, Any]:
    """Return the values of a key by the names of its columns; raises a 400 error for one that is none."""
    columns = {column.number: column for column in table.schema.columns}
    own = [columns[number] for number in key.columns if number != CREATOR_NUMBER]
    expected = [column.name for column in own] or [_OF_CALLER]
    if len(values) != len(expected) or (not own and list(values) != [_OF_CALLER]):
        raise invalid("values", f"The key {key.name} takes {'/'.join(expected)} in the path.")
    return {column.name: _value(column, text) for column, text in zip(own, values, strict=False)}


def _value(column: Column, text: str) -> Any:
    if column.type is ColumnType.BOOLEAN and text in {"true", "false"}:
        return text == "true"
    if column.type in {ColumnType.INT, ColumnType.NUMBER} and _NUMBER.fullmatch(text):
        return json.decode(text.encode())
    # Others are texts, and what is none of theirs is told by the column's name.
    return text

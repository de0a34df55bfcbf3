"""The routes of table data."""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import unquote
from uuid import UUID

import msgspec

from pilotis.data.rows.creating import NothingCreatedError
from pilotis.data.rows.cursors import CursorExpiredError, InvalidCursorError
from pilotis.data.rows.keyed import KeyedRows, KeyIncompleteError
from pilotis.data.rows.operations import (
    CannotChangeError,
    CannotIncrementError,
    PreconditionFailedError,
    RowNotFoundError,
)
from pilotis.data.rows.query import ResultTooLargeError
from pilotis.data.rows.records import RowTooLargeError
from pilotis.data.rows.referring import ReferenceNotFoundError, RowReferencedError, TooManyReferencesError
from pilotis.data.rows.related import UnknownReferenceError
from pilotis.data.rows.rule_tests import RuleTests
from pilotis.data.rows.service import (
    Rows,
    count_rows,
    is_list,
)
from pilotis.data.rows.types import (
    BulkResult,
    DeletedRow,
    DeletedRows,
    DeleteWhere,
    NewRow,
    NewRowBody,
    NewRowsBody,
    Page,
    Query,
    QueryResult,
    ReadRow,
    Row,
    RowChange,
    RowChangeBody,
    RowPage,
    RowUpsert,
    UpdatedRows,
    UpdateWhere,
    UpdateWhereBody,
    Upsert,
    UpsertedRow,
)
from pilotis.data.rows.upserting import DuplicateInRequestError, NothingWrittenError, Upserts
from pilotis.data.rows.where_writes import TooManyRowsError, WhereRequiredError
from pilotis.data.rules.document import RULE_ERRORS
from pilotis.data.rules.types import RuleTest, RuleTestResult
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.keys import KeyNotReadyError, UniqueViolationError, UnknownKeyError
from pilotis.data.tables.service import TableNotFoundError
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.compiler import InvalidOperatorError, InvalidRegexError, WhereTooComplexError
from pilotis.data.where.operands import EncryptedColumnError
from pilotis.http.api.direct import OnceKnown, Prepared, reading_for, writing_for
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post
from pilotis.http.api.principals import Role, console, public
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit import json, origin
from pilotis.kit.errors import QueryTimeoutError, RateLimitedError
from pilotis.kit.ids import known_uuid
from pilotis.members.administration.service import MemberNotFoundError

READ = public(scope="rows:read")
WRITE = public(scope="rows:write")


_ALWAYS = [TableNotFoundError, MemberTokenRequiredError]
_PAGE = [*_ALWAYS, ResultTooLargeError, InvalidCursorError, CursorExpiredError, UnknownReferenceError]
_WHERE = [UnknownColumnError, InvalidOperatorError, InvalidRegexError, WhereTooComplexError]


_VALUES_FROM = 8
"""The first segment of the values in the path of a row by its key."""


def _result(ended: asyncio.Future[bytes]) -> bytes:
    """Return the result of a write, or raise its error: a write never starts over."""
    return ended.result()


def _deleted(row_id: str) -> DeletedRow:
    return DeletedRow("Row deleted.", row_id)


def _values(call: Call) -> list[str]:
    """Return the values of a key in a path, each of which may have a slash of its own."""
    return [unquote(segment) for segment in call.scope["raw_path"].decode("ascii").split("/")[_VALUES_FROM:]]


def _rows(body: NewRow | Upsert) -> int:
    return count_rows(body.data)


_ROWS = "/v1/public/tables/:table_id/data"
_ROW = f"{_ROWS}/:row_id"
_QUERY = f"{_ROWS}/query"


class RowEndpoints(Endpoints, tag="Table data"):
    """Rows. A table's access level decides whether a member's token is needed beside the public key."""

    def __init__(self, rows: Rows, upserts: Upserts) -> None:
        self._rows = rows
        self._upserts = upserts

    @get(
        _ROWS,
        access=READ,
        returns=RowPage,
        direct="begin_page",
        only_reads=True,
        errors=[*_PAGE, UnknownColumnError],
    )
    async def page(self, call: Call, table_id: UUID, query: Page) -> Reply:
        """List rows in the order of their creation."""
        return Reply(await self._rows.page(call.principal, table_id, query))

    def begin_page(self, call: Call, table_id: str, query: Page) -> Prepared | OnceKnown | None:
        """Prepare the usual answer of `page`."""
        return self._rows.begin_page(call.principal, known_uuid(table_id), query)

    @post(
        "/v1/public/tables/:table_id/data/upsert",
        access=WRITE,
        body_schema=RowUpsert,
        rows=True,
        returns=UpsertedRow,
        cost=_rows,
        other_statuses=(201,),
        errors=[
            *_ALWAYS,
            UnknownKeyError,
            KeyNotReadyError,
            KeyIncompleteError,
            NothingWrittenError,
            UniqueViolationError,
            DuplicateInRequestError,
        ],
    )
    async def upsert(self, call: Call, table_id: UUID, body: Upsert) -> Reply:
        """Create a row, or change the one that has its unique key already.

        If `data` is a list, the rows are written in one transaction, and the answer tells of each by its place in
        `rows`, or in `failed`: `{"rows": [{"index", "id", "created"}], "total", "created_count", "updated_count",
        "ignored_count", "failed"}`. A union of the two is beyond generators.
        """
        if is_list(body.data):
            return Reply(json.encode(await self._upserts.many(call.principal, table_id, body)))
        created, row = await self._upserts.one(call.principal, table_id, body)
        return Reply(row, 201 if created else 200)

    @get(
        _ROW,
        access=READ,
        returns=Row,
        direct="begin_read",
        only_reads=True,
        errors=[*_ALWAYS, RowNotFoundError, UnknownColumnError, UnknownReferenceError, ResultTooLargeError],
    )
    async def read(self, call: Call, table_id: UUID, row_id: UUID, query: ReadRow) -> Reply:
        """Read a row."""
        return Reply(await self._rows.read(call.principal, table_id, row_id, query))

    def begin_read(self, call: Call, table_id: str, row_id: str, query: ReadRow) -> Prepared | OnceKnown | None:
        """Prepare the usual answer of `read`."""
        if query.fields is not None or query.expand is not None:
            return None
        return self._rows.begin_read(call.principal, known_uuid(table_id), row_id)

    @post(
        _ROWS,
        access=WRITE,
        status=201,
        creates="row_id",
        again="created",
        direct="begin_create",
        body_schema=NewRowBody,
        rows=True,
        returns=Row,
        cost=_rows,
        errors=[*_ALWAYS, UnknownColumnError, RowTooLargeError, ReferenceNotFoundError, UniqueViolationError],
    )
    async def create(self, call: Call, table_id: UUID, body: NewRow) -> Reply:
        """Create a row; if `data` is a list, create rows in bulk.

        The body and answer of a bulk create are those of `…/data/bulk`; a union of the two is beyond generators.
        """
        if is_list(body.data):
            return Reply(await self._rows.create_many(call.principal, table_id, body.data, call.new_id()))
        return Reply(await self._rows.create(call.principal, table_id, body.data, call.new_id()))

    async def created(self, call: Call, table_id: UUID, row_id: UUID) -> Reply:
        """Return the answer for a created row."""
        return Reply(await self._rows.read(call.principal, table_id, row_id))

    def begin_create(self, call: Call, table_id: str, body: NewRow) -> Prepared | OnceKnown | None:
        """Prepare the usual answer of `create`."""
        token = origin.begin(call.request_id, _ROWS)
        try:
            return self._rows.begin_create(call.principal, known_uuid(table_id), body.data)
        finally:
            origin.end(token)

    @post(
        "/v1/public/tables/:table_id/data/bulk",
        access=WRITE,
        status=201,
        creates="row_id",
        body_schema=NewRowsBody,
        rows=True,
        returns=BulkResult,
        cost=_rows,
        errors=[*_ALWAYS, NothingCreatedError],
    )
    async def create_many(self, call: Call, table_id: UUID, body: NewRow) -> Reply:
        """Create up to 1000 rows. `failed` lists invalid rows; the others are created."""
        return Reply(await self._rows.create_many(call.principal, table_id, body.data))

    @post(
        _QUERY,
        access=READ,
        needs_room=False,
        only_reads=True,
        direct="begin_query",
        returns=QueryResult,
        errors=[*_PAGE, *_WHERE, EncryptedColumnError, QueryTimeoutError],
    )
    async def query(self, call: Call, table_id: UUID, body: Query) -> Reply:
        """Find rows by a condition, sorted by up to three columns."""
        return Reply(await self._rows.query(call.principal, table_id, body))

    def begin_query(self, call: Call, table_id: str, body: Query) -> Prepared | None:
        """Prepare the usual answer of `query`."""
        return reading_for(call, _QUERY, self._rows.begin_query(call.principal, known_uuid(table_id), body))

    @patch(
        _ROW,
        access=WRITE,
        direct="begin_update",
        body_schema=RowChangeBody,
        rows=True,
        returns=Row,
        errors=[
            *_ALWAYS,
            RowNotFoundError,
            UnknownColumnError,
            RowTooLargeError,
            PreconditionFailedError,
            CannotIncrementError,
            CannotChangeError,
            ReferenceNotFoundError,
            UniqueViolationError,
        ],
    )
    async def update(self, call: Call, table_id: UUID, row_id: UUID, body: RowChange) -> Reply:
        """Change the given fields of a row; the others stay as they are.

        `{"$inc": n}` in place of a number adds to it, `$min` and `$max` keep the smaller or larger value, `$push`,
        `$addToSet` and `$pull` with a list change an array, `$merge` changes members of an object. With
        `expected_updated_at`, a row that has changed since is left unchanged.
        """
        changed = await self._rows.update(call.principal, table_id, row_id, body.data, body.expected_updated_at)
        return Reply(changed)

    def begin_update(self, call: Call, table_id: str, row_id: str, body: RowChange) -> Prepared | None:
        """Prepare the usual answer of `update`."""
        asker, table, row = call.principal, known_uuid(table_id), msgspec.convert(row_id, UUID)
        if not self._rows.are_written_directly(asker, table):
            return None
        changed = partial(self._rows.update, asker, table, row, body.data, body.expected_updated_at)
        return writing_for(call, _ROW, changed), _result

    @delete(
        _ROW,
        access=WRITE,
        direct="begin_delete",
        errors=[*_ALWAYS, RowNotFoundError, RowReferencedError, TooManyReferencesError],
    )
    async def delete(self, call: Call, table_id: UUID, row_id: UUID) -> DeletedRow:
        """Delete a row."""
        await self._rows.delete(call.principal, table_id, row_id)
        return _deleted(str(row_id))

    def begin_delete(self, call: Call, table_id: str, row_id: str) -> Prepared | None:
        """Prepare the usual answer of `delete`."""
        asker, table, row = call.principal, known_uuid(table_id), msgspec.convert(row_id, UUID)
        if not self._rows.are_written_directly(asker, table):
            return None

        def finish(ended: asyncio.Future[None]) -> bytes:
            ended.result()
            return json.encode(_deleted(row_id))

        deleted = partial(self._rows.delete, asker, table, row)
        return writing_for(call, _ROW, deleted), finish

    @post(
        "/v1/public/tables/:table_id/data/delete-where",
        access=WRITE,
        needs_room=False,
        unique_keys=True,
        errors=[
            *_ALWAYS,
            *_WHERE,
            WhereRequiredError,
            EncryptedColumnError,
            RowReferencedError,
            TooManyReferencesError,
            QueryTimeoutError,
        ],
    )
    async def delete_where(self, call: Call, table_id: UUID, body: DeleteWhere) -> DeletedRows:
        """Delete the rows that satisfy a condition."""
        return DeletedRows(await self._rows.delete_where(call.principal, table_id, body))

    @post(
        "/v1/public/tables/:table_id/data/update-where",
        access=WRITE,
        body_schema=UpdateWhereBody,
        rows=True,
        unique_keys=True,
        errors=[
            *_ALWAYS,
            *_WHERE,
            WhereRequiredError,
            EncryptedColumnError,
            TooManyRowsError,
            RowTooLargeError,
            CannotIncrementError,
            CannotChangeError,
            UniqueViolationError,
            QueryTimeoutError,
        ],
    )
    async def update_where(self, call: Call, table_id: UUID, body: UpdateWhere) -> UpdatedRows:
        """Change the rows that satisfy a condition: all of them, or none.

        `data` is that of a change of one row, with its operators, such as `{"$inc": 1}`.
        """
        return UpdatedRows(await self._rows.update_where(call.principal, table_id, body))


class KeyedRowEndpoints(Endpoints, tag="Table data"):
    """Rows by the values of a unique key in the place of an id."""

    def __init__(self, keyed: KeyedRows) -> None:
        self._keyed = keyed

    @get(
        "/v1/public/tables/:table_id/data/by/:key/*values",
        access=READ,
        returns=Row,
        errors=[
            *_ALWAYS,
            RowNotFoundError,
            UnknownKeyError,
            KeyNotReadyError,
            KeyIncompleteError,
            UnknownColumnError,
            UnknownReferenceError,
            ResultTooLargeError,
            RateLimitedError,
        ],
    )
    async def read_by_key(self, call: Call, table_id: UUID, key: str, values: str, query: ReadRow) -> Reply:
        """Read the row that has the values of a unique key.

        `values` are those of the key's columns in their order, with slashes between them; a slash in a value is `%2F`.
        `$creator` in a key is the caller, and a key of it alone takes `me`. The rules ask for `read`, not for `list`.
        """
        found = await self._keyed.read(call.principal, call.client, table_id, key, _values(call), query)
        return Reply(found)

    @patch(
        "/v1/public/tables/:table_id/data/by/:key/*values",
        access=WRITE,
        body_schema=RowChangeBody,
        rows=True,
        returns=Row,
        errors=[
            *_ALWAYS,
            RowNotFoundError,
            UnknownKeyError,
            KeyNotReadyError,
            KeyIncompleteError,
            UnknownColumnError,
            RowTooLargeError,
            PreconditionFailedError,
            CannotIncrementError,
            CannotChangeError,
            RateLimitedError,
        ],
    )
    async def update_by_key(self, call: Call, table_id: UUID, key: str, values: str, body: RowChange) -> Reply:
        """Change the row that has the values of a unique key, as the row of an id is changed."""
        return Reply(await self._keyed.update(call.principal, call.client, table_id, key, _values(call), body))

    @delete(
        "/v1/public/tables/:table_id/data/by/:key/*values",
        access=WRITE,
        errors=[
            *_ALWAYS,
            RowNotFoundError,
            UnknownKeyError,
            KeyNotReadyError,
            KeyIncompleteError,
            RowReferencedError,
            TooManyReferencesError,
            RateLimitedError,
        ],
    )
    async def delete_by_key(self, call: Call, table_id: UUID, key: str, values: str) -> DeletedRow:
        """Delete the row that has the values of a unique key."""
        row_id = await self._keyed.delete(call.principal, call.client, table_id, key, _values(call))
        return _deleted(str(row_id))


class RuleTestEndpoints(Endpoints, tag="Rules"):
    """What a table's rules answer."""

    def __init__(self, tests: RuleTests) -> None:
        self._tests = tests

    @post(
        "/v1/apps/:app_id/tables/:table_id/rules/test",
        access=console(Role.EDITOR, secret_key=True),
        needs_room=False,
        errors=[TableNotFoundError, MemberNotFoundError, *RULE_ERRORS, QueryTimeoutError],
    )
    async def test(self, call: Call, app_id: UUID, table_id: UUID, body: RuleTest) -> RuleTestResult:
        """Try an action as a member, or as the public, and learn which conditions decide it.

        A write is undone. `rules` are tried in place of those that are saved.
        """
        return await self._tests.run(call.app, table_id, body)

"""The routes of table data (interface: Table data)."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, Reply, delete, get, patch, post
from pilotis.http.principals import Access
from pilotis.kit.errors import QueryTimeoutError
from pilotis.rows.operands import EncryptedColumnError
from pilotis.rows.operations import CannotIncrementError, PreconditionFailedError, RowNotFoundError
from pilotis.rows.records import RowTooLargeError
from pilotis.rows.service import (
    NothingCreatedError,
    ResultTooLargeError,
    Rows,
    WhereRequiredError,
    count_rows,
    is_list,
)
from pilotis.rows.types import (
    BulkResult,
    DataItem,
    Deleted,
    DeletedCount,
    DeleteWhere,
    NewRow,
    NewRowShape,
    NewRowsShape,
    Page,
    Query,
    QueryResult,
    RowChange,
    RowChangeShape,
    RowPage,
)
from pilotis.rows.visibility import MemberTokenRequiredError
from pilotis.rows.where import InvalidOperatorError, InvalidRegexError, WhereTooComplexError
from pilotis.tables.service import TableNotFoundError
from pilotis.tables.values import UnknownColumnError

_ALWAYS = [TableNotFoundError, MemberTokenRequiredError]
_PAGE = [*_ALWAYS, ResultTooLargeError]
_WHERE = [UnknownColumnError, InvalidOperatorError, InvalidRegexError, WhereTooComplexError]


def _rows(body: NewRow) -> int:
    return count_rows(body.data)


class RowEndpoints(Endpoints, tag="Table data"):
    """Rows. A table's access level decides whether a member's token is needed beside the public key."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @get("/v1/public/tables/:table_id/data", access=Access.PUBLIC_KEY, returns=RowPage, errors=_PAGE)
    async def page(self, call: Call, table_id: UUID, query: Page) -> Reply:
        """List rows in the order of their creation."""
        return Reply(await self._rows.page(call.principal, table_id, query))

    @get(
        "/v1/public/tables/:table_id/data/:row_id",
        access=Access.PUBLIC_KEY,
        returns=DataItem,
        errors=[*_ALWAYS, RowNotFoundError],
    )
    async def read(self, call: Call, table_id: UUID, row_id: UUID) -> Reply:
        """Read a row."""
        return Reply(await self._rows.read(call.principal, table_id, row_id))

    @post(
        "/v1/public/tables/:table_id/data",
        access=Access.PUBLIC_KEY,
        status=201,
        body_shape=NewRowShape,
        returns=DataItem | BulkResult,
        cost=_rows,
        errors=[*_ALWAYS, UnknownColumnError, RowTooLargeError],
    )
    async def create(self, call: Call, table_id: UUID, body: NewRow) -> Reply:
        """Create a row; if `data` is a list, create rows in bulk."""
        if is_list(body.data):
            return Reply(await self._rows.create_many(call.principal, table_id, body.data))
        return Reply(await self._rows.create(call.principal, table_id, body.data))

    @post(
        "/v1/public/tables/:table_id/data/bulk",
        access=Access.PUBLIC_KEY,
        status=201,
        body_shape=NewRowsShape,
        returns=BulkResult,
        cost=_rows,
        errors=[*_ALWAYS, NothingCreatedError],
    )
    async def create_many(self, call: Call, table_id: UUID, body: NewRow) -> Reply:
        """Create up to 1000 rows. Rows that are not valid are told of in `failed`; the others are created."""
        return Reply(await self._rows.create_many(call.principal, table_id, body.data))

    @post(
        "/v1/public/tables/:table_id/data/query",
        access=Access.PUBLIC_KEY,
        returns=QueryResult,
        errors=[*_PAGE, *_WHERE, EncryptedColumnError, QueryTimeoutError],
    )
    async def query(self, call: Call, table_id: UUID, body: Query) -> Reply:
        """Find rows by a condition, sorted by one field."""
        return Reply(await self._rows.query(call.principal, table_id, body))

    @patch(
        "/v1/public/tables/:table_id/data/:row_id",
        access=Access.PUBLIC_KEY,
        body_shape=RowChangeShape,
        returns=DataItem,
        errors=[
            *_ALWAYS,
            RowNotFoundError,
            UnknownColumnError,
            RowTooLargeError,
            PreconditionFailedError,
            CannotIncrementError,
        ],
    )
    async def update(self, call: Call, table_id: UUID, row_id: UUID, body: RowChange) -> Reply:
        """Change the given fields of a row; the others stay.

        `{"$inc": n}` in place of a number adds to it. With `expected_updated_at`, nothing is changed if the row has
        changed since.
        """
        changed = await self._rows.update(call.principal, table_id, row_id, body.data, body.expected_updated_at)
        return Reply(changed)

    @delete(
        "/v1/public/tables/:table_id/data/:row_id",
        access=Access.PUBLIC_KEY,
        errors=[*_ALWAYS, RowNotFoundError],
    )
    async def delete(self, call: Call, table_id: UUID, row_id: UUID) -> Deleted:
        """Delete a row."""
        await self._rows.delete(call.principal, table_id, row_id)
        return Deleted("Row deleted.", str(row_id))

    @post(
        "/v1/public/tables/:table_id/data/delete-where",
        access=Access.PUBLIC_KEY,
        errors=[*_ALWAYS, *_WHERE, WhereRequiredError, EncryptedColumnError, QueryTimeoutError],
    )
    async def delete_where(self, call: Call, table_id: UUID, body: DeleteWhere) -> DeletedCount:
        """Delete the rows that satisfy a condition."""
        return DeletedCount(await self._rows.delete_where(call.principal, table_id, body))

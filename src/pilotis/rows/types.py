"""The shapes of rows. Most answers are built by PostgreSQL as text; the types here document them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

DEFAULT_LIMIT = 20

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class DataItem(msgspec.Struct):
    """One row; the user's fields are in `data`."""

    id: str
    data: dict[str, Any]
    created_at: str
    updated_at: str


class RowPage(msgspec.Struct):
    """A page of a table's rows; `limit` is the one in effect."""

    data: list[DataItem]
    total_count: int
    limit: int
    offset: int
    execution_time_ms: float


class QueryResult(msgspec.Struct):
    """The rows that a query found, and how many there are in all."""

    data: list[DataItem]
    total_count: int
    limit: int
    offset: int


class BulkFailure(msgspec.Struct):
    """A row of a bulk create that was not made."""

    index: int
    code: str
    message: str


class BulkResult(msgspec.Struct):
    """What a bulk create made; `total` rows were sent, `success` were made, `failed` tells of the others."""

    created: list[DataItem]
    total: int
    success: int
    failed: list[BulkFailure] | msgspec.UnsetType = msgspec.UNSET


class Page(msgspec.Struct):
    """Which rows of a list: `limit` 0 asks for the total only, one above the largest is lowered to it."""

    limit: Count = DEFAULT_LIMIT
    offset: Count = 0


class NewRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row to make, or a list of rows."""

    data: msgspec.Raw


class NewRowShape(msgspec.Struct):
    """A row to make; a list of rows is a bulk create."""

    data: dict[str, Any] | list[dict[str, Any]]


class NewRowsShape(msgspec.Struct):
    """Rows to make."""

    data: list[dict[str, Any]]


class RowChange(msgspec.Struct, forbid_unknown_fields=True):
    """Fields to change, and the `updated_at` that the row must have."""

    data: msgspec.Raw
    expected_updated_at: str | None = None


class RowChangeShape(msgspec.Struct):
    """Fields to change; the others stay. `expected_updated_at` is the `updated_at` that the row must have."""

    data: dict[str, Any]
    expected_updated_at: str | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """Which rows, in which order. `select` is accepted and has no effect: all columns are returned."""

    where: dict[str, Any] | None = None
    order_by: str | None = None
    order_direction: Literal["asc", "desc"] = "asc"
    limit: Count = DEFAULT_LIMIT
    offset: Count = 0
    select: Any = None


class DeleteWhere(msgspec.Struct, forbid_unknown_fields=True):
    """Which rows to delete. Without a condition nothing is deleted unless `all` is true."""

    where: dict[str, Any] | None = None
    all: bool = False


class Deleted(msgspec.Struct):
    """What was deleted."""

    message: str
    id: str


class DeletedCount(msgspec.Struct):
    """How many rows were deleted."""

    deleted_count: int


MOST_OPERATIONS = 500


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One write. `doc_id` names the row to update or delete; in a transaction it may be `{"$ref": n}`.

    A field that is null counts as not sent.
    """

    type: Literal["create", "update", "delete"]
    table_id: UUID
    doc_id: str | dict[str, int] | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    expected_updated_at: str | None = None


class Operations(msgspec.Struct, forbid_unknown_fields=True):
    """Writes, in order."""

    operations: Annotated[list[Operation], msgspec.Meta(min_length=1, max_length=MOST_OPERATIONS)]


class OperationShape(msgspec.Struct):
    """One write: `data` to create or update, `doc_id` to update or delete.

    `{"$inc": n}` in place of a number adds to it. In a transaction `{"$ref": n}` in place of a value stands for the
    id of the row that operation `n` made.
    """

    type: Literal["create", "update", "delete"]
    table_id: UUID
    doc_id: str | None = None
    data: dict[str, Any] | None = None
    expected_updated_at: str | None = None


class OperationsShape(msgspec.Struct):
    """Up to 500 writes, in order."""

    operations: list[OperationShape]


class Failure(msgspec.Struct):
    """Why an operation was not done."""

    code: str
    message: str


class OperationResult(msgspec.Struct, omit_defaults=True):
    """What became of one operation; `data` is the row's data after a create or an update."""

    index: int
    type: str
    success: bool
    id: str | None = None
    data: msgspec.Raw | None = None
    error: Failure | None = None


class OperationResults(msgspec.Struct):
    """What became of each operation."""

    results: list[OperationResult]
    success_count: int
    failed_count: int

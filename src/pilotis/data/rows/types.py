"""The types of rows. Most answers are built by PostgreSQL as text; the types here document them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import UUID

import msgspec

from pilotis.data.rows.schemas import ReferenceObject, WhereObject
from pilotis.http.api.json_schemas import JsonObject, described_as
from pilotis.http.api.schemas import Count, Limit, Paged, Paging, UuidText, replace_nulls

if TYPE_CHECKING:
    Direction = Literal["asc", "desc"]
else:
    # Null means the default, which `Query` fills in.
    Direction = Literal["asc", "desc"] | None


class Row(msgspec.Struct, kw_only=True):
    """One row; the user's fields are in `data`.

    `created_by` is the member that created it, or null. It is present for secret keys, console users and functions, and
    for members in tables with the access level `Creator`. `expanded` has the related rows that were asked for, by their
    names: a row, null where there is none that the caller may read, or a list; `expanded_more` names the lists that
    have more rows. `counts` has the numbers that were asked for, or with `exists` booleans. `sort`, with `with_sort`,
    is a text by which rows compare as they are sorted.
    """

    id: UuidText
    data: dict[str, Any]
    created_at: str
    created_by: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str
    expanded: JsonObject | msgspec.UnsetType = msgspec.UNSET
    expanded_more: list[str] | msgspec.UnsetType = msgspec.UNSET
    counts: JsonObject | msgspec.UnsetType = msgspec.UNSET
    sort: str | msgspec.UnsetType = msgspec.UNSET


class RowPage(msgspec.Struct, kw_only=True):
    """A page of a table's rows; `limit` is the one in effect.

    `total_count` is null where `count` is false, and with a cursor unless `count` is true. With a cursor, `next_cursor`
    is the one of the next page, or null after the last.
    """

    data: list[Row]
    total_count: int | None
    limit: int
    offset: int
    next_cursor: str | msgspec.UnsetType | None = msgspec.UNSET
    execution_time_ms: float


class QueryResult(msgspec.Struct, kw_only=True):
    """The matching rows and their total number.

    `total_count` is null where `count` is false, and with a cursor unless `count` is true. With a cursor, `next_cursor`
    is the one of the next page, or null after the last.
    """

    data: list[Row]
    total_count: int | None
    limit: int
    offset: int
    next_cursor: str | msgspec.UnsetType | None = msgspec.UNSET


class BulkFailure(msgspec.Struct, kw_only=True):
    """A row of a bulk create that could not be created.

    `key` is the unique key that it violates, and `existing_id` the row that has its values, if the caller may read it.
    """

    index: int
    code: str
    message: str
    key: str | msgspec.UnsetType = msgspec.UNSET
    existing_id: UuidText | msgspec.UnsetType = msgspec.UNSET


class BulkResult(msgspec.Struct, kw_only=True):
    """The result of a bulk create: `total` rows were sent, `success` were created, `failed` lists the others."""

    created: list[Row]
    total: int
    success: int
    failed: list[BulkFailure] | msgspec.UnsetType = msgspec.UNSET


class SortKey(msgspec.Struct, forbid_unknown_fields=True):
    """A column to sort by; with `ignore_case` a string column without the case of its letters."""

    column: str
    direction: Literal["asc", "desc"] = "asc"
    ignore_case: bool = False


SortKeys = Annotated[list[SortKey], msgspec.Meta(min_length=1, max_length=3)]
# In Java a union with a list does not compile.
OrderBy = Annotated[
    str | SortKeys | None,
    described_as(
        {
            "description": "The name of a column, or a list of up to three objects with `column`, `direction` (`asc` "
            "or `desc`) and `ignore_case`: rows with equal values in the first are sorted by the next."
        }
    ),
]


class RelatedOptions(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """Related rows: without `from` the row to which a column refers.

    `from` is a table and its column that refers to this table, such as `comments.post`; `through` such a column of a
    table of pairs, whose column `to` refers to the rows that are shown. `where`, `order_by` and `limit` (1 to 200, by
    default 10) are about the rows that refer to this one.
    """

    from_: str | None = None
    through: str | None = None
    to: str | None = None
    where: WhereObject | None = None
    order_by: OrderBy = None
    order_direction: Direction = "asc"
    limit: int | None = None
    fields: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    expand: Expand = None

    def __post_init__(self) -> None:
        """Replace nulls with defaults."""
        replace_nulls(self, order_direction="asc")


class CountOptions(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """The number of rows that refer to a row; with `exists`, whether there are any."""

    from_: str
    where: WhereObject | None = None
    exists: bool = False


# In Java a union with a list does not compile.
Expand = Annotated[
    list[str] | dict[str, RelatedOptions] | None,
    described_as(
        {
            "description": "The related rows to show: a list of columns that refer to rows, such as `author` or "
            "`post.author`, or an object of names with options: `from`, `through` and `to`, `where`, `order_by`, "
            "`order_direction`, `limit`, `fields`, `expand`."
        }
    ),
]


class ReadRow(msgspec.Struct, forbid_unknown_fields=True):
    """What is shown of a row: `fields`, and with `expand` the rows to which it refers, each separated by commas."""

    fields: str | None = None
    expand: str | None = None


class Page(Paging, forbid_unknown_fields=True):
    """The page of a list: `limit` 0 returns only the total, a `limit` above the largest is lowered to it.

    `cursor` is `first`, and then each answer's `next_cursor`. `count` says whether there is a total; by default there
    is one without a cursor. `fields` are the columns to return, separated by commas, and `expand` those that refer to
    rows which are shown, too, such as `author,post.author`.
    """

    unknown_advice: ClassVar[str] = (
        "Send conditions and an order to POST /v1/public/tables/:table_id/data/query, as where, order_by and "
        "order_direction."
    )

    cursor: str | None = None
    count: bool | None = None
    fields: str | None = None
    expand: str | None = None


class NewRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row to create, or a list of rows."""

    data: msgspec.Raw


class NewRowBody(msgspec.Struct):
    """A row to create. A list of rows is a bulk create, whose own route has its types."""

    data: dict[str, Any]


class NewRowsBody(msgspec.Struct):
    """Rows to create."""

    data: list[dict[str, Any]]


class RowChange(msgspec.Struct, forbid_unknown_fields=True):
    """Fields to change, and the `updated_at` that the row must have."""

    data: msgspec.Raw
    expected_updated_at: str | None = None


class RowChangeBody(msgspec.Struct):
    """Fields to change; others stay as they are. `expected_updated_at` is the `updated_at` that the row must have."""

    data: dict[str, Any]
    expected_updated_at: str | None = None


class Query(Paged, forbid_unknown_fields=True):
    """A condition, an order and a page. `select` is accepted and has no effect.

    `cursor` is `first`, and then each answer's `next_cursor`: pages at any depth cost the same, and a row that keeps
    its sort value is returned once, whatever else is written meanwhile. With a cursor the total is left out unless
    `count` is true, else unless it is false. `fields` are the columns to return; without it all are. `expand` shows
    related rows beside each row, and `counts` how many they are. With `with_sort` each row has `sort`, a text. These
    compare, code unit by code unit, as the rows are sorted, also with those of live changes; where one is the beginning
    of the other, they do not tell which row is first.
    """

    where: WhereObject | None = None
    order_by: OrderBy = None
    order_direction: Direction = "asc"
    limit: Limit = None
    offset: Count = 0
    select: Any = None
    cursor: str | None = None
    count: bool | None = None
    fields: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    expand: Expand = None
    counts: dict[str, CountOptions] | None = None
    with_sort: bool = False

    def __post_init__(self) -> None:
        """Replace nulls with defaults."""
        super().__post_init__()
        replace_nulls(self, order_direction="asc")


class DeleteWhere(msgspec.Struct, forbid_unknown_fields=True):
    """The rows to delete. Without a condition nothing is deleted unless `all` is true."""

    where: WhereObject | None = None
    all: bool = False


class UpdateWhere(msgspec.Struct, forbid_unknown_fields=True):
    """The rows to change, and what changes of each. Without a condition nothing is changed unless `all` is true."""

    data: msgspec.Raw
    where: WhereObject | None = None
    all: bool = False
    max_rows: Annotated[int, msgspec.Meta(ge=1)] | None = None


class UpdateWhereBody(msgspec.Struct):
    """The rows to change, and what changes of each, as in a change of one row.

    Without a condition nothing is changed unless `all` is true. If more than `max_rows` rows satisfy it, nothing is.
    """

    data: dict[str, Any]
    where: WhereObject | None = None
    all: bool = False
    max_rows: Annotated[int, msgspec.Meta(ge=1)] | None = None


class UpsertMode(enum.StrEnum):
    """What happens to a row that is there: the given fields change, all fields change, or nothing does."""

    MERGE = "merge"
    REPLACE = "replace"
    IGNORE = "ignore"


class Upsert(msgspec.Struct, forbid_unknown_fields=True):
    """A row, or a list of rows, to create or change by a unique key; `key` is its name, or `id`."""

    key: str
    data: msgspec.Raw
    mode: UpsertMode = UpsertMode.MERGE


class RowUpsert(msgspec.Struct):
    """A row to create, or to change where one has the key already; `data` may also be a list of rows.

    `key` is the name of a unique key, or `id`: then each row brings an `id`, a UUID of version 7 made by the client.
    With the mode `merge` absent fields stay as they are, with `replace` they become absent, with `ignore` all stays.
    """

    key: str
    data: dict[str, Any]
    mode: UpsertMode = UpsertMode.MERGE


class UpsertedRow(Row, kw_only=True):
    """A row after an upsert, and whether that created it."""

    created: bool


class RowOutcome(msgspec.Struct):
    """What an upsert did with a row of a list, by its place there."""

    index: int
    id: UuidText
    created: bool


class UpsertResult(msgspec.Struct, kw_only=True):
    """The result of an upsert of a list: `total` rows were sent, `failed` lists those that were not written."""

    rows: list[RowOutcome]
    total: int
    created_count: int
    updated_count: int
    ignored_count: int
    failed: list[BulkFailure] | msgspec.UnsetType = msgspec.UNSET


class DeletedRow(msgspec.Struct):
    """A deleted row."""

    message: str
    id: UuidText


class DeletedRows(msgspec.Struct):
    """The number of deleted rows."""

    deleted_count: int


class UpdatedRows(msgspec.Struct):
    """The number of changed rows."""

    updated_count: int


TableName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, description="The id of a table, or its title.")]


OperationType = Literal["create", "update", "delete", "upsert", "update-where", "delete-where"]


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One write. `doc_id` names the row to update or delete: by its id, or by a unique key, `{"key", "value"}`.

    In a transaction it may be `{"$ref": n}`.

    A null field counts as absent.
    """

    type: OperationType
    table_id: TableName
    doc_id: str | dict[str, Any] | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    expected_updated_at: str | None = None
    key: str | None = None
    mode: UpsertMode | None = None
    where: WhereObject | None = None
    all: bool | None = None
    max_rows: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Operations(msgspec.Struct, forbid_unknown_fields=True):
    """Writes, in order. Each is decoded separately, as `Operation`, so that it can fail separately."""

    operations: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1)]


class OperationBody(msgspec.Struct):
    """One write: `data` to create or update, `doc_id` to update or delete: an id, or `{"key", "value"}`.

    `upsert` takes `key`, `data` and `mode`, as the route of its name does. In a transaction `update-where` takes
    `where` or `all`, `data` and `max_rows`, and `delete-where` takes `where` or `all`.

    `{"$inc": n}` in place of a number adds to it. In a transaction `{"$ref": n}` in place of a value is the id of the
    row that operation `n` created.
    """

    type: OperationType
    table_id: TableName
    doc_id: UUID | ReferenceObject | None = None
    data: dict[str, Any] | None = None
    expected_updated_at: str | None = None
    key: str | None = None
    mode: UpsertMode | None = None
    where: WhereObject | None = None
    all: bool | None = None
    max_rows: Annotated[int, msgspec.Meta(ge=1)] | None = None


class WriteRequestBody(msgspec.Struct):
    """Up to 500 writes, in order."""

    operations: list[OperationBody]


class OperationFailure(msgspec.Struct):
    """Why an operation failed."""

    code: str
    message: str


class OperationResult(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The result of one operation; `data` and `updated_at` are the row's after a create, an update or an upsert.

    `created` says whether an upsert created it, `updated_count` and `deleted_count` how many rows were changed or
    deleted by a condition.
    """

    index: int
    type: str
    success: bool
    id: UuidText | None = None
    data: JsonObject | None = None
    updated_at: str | None = None
    created: bool | None = None
    updated_count: int | None = None
    deleted_count: int | None = None
    error: OperationFailure | None = None


class OperationResults(msgspec.Struct):
    """The result of each operation."""

    results: list[OperationResult]
    success_count: int
    failed_count: int

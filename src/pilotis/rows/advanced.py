"""The routes beside the tables' own (interface: Advanced data routes)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.db.extensions import ExtensionMissingError
from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, Reply, post
from pilotis.http.principals import Access
from pilotis.kit.errors import QueryTimeoutError
from pilotis.rows.aggregate.expressions import InvalidPipelineError
from pilotis.rows.aggregate.service import Aggregation, CalculationFailedError
from pilotis.rows.batches import Batches, TransactionConflictError
from pilotis.rows.geo.service import Geo
from pilotis.rows.geo.types import GeoRequest, GeoResult
from pilotis.rows.operands import EncryptedColumnError
from pilotis.rows.operations import CannotIncrementError, PreconditionFailedError, RowNotFoundError
from pilotis.rows.references import InvalidReferenceError
from pilotis.rows.search.service import Search
from pilotis.rows.search.types import AutocompleteRequest, SearchRequest, SearchResult, Suggestions
from pilotis.rows.service import QueryTooLargeError, ResultTooLargeError
from pilotis.rows.types import OperationResults, Operations, OperationsShape
from pilotis.rows.visibility import MemberTokenRequiredError
from pilotis.tables.service import TableNotFoundError
from pilotis.tables.values import UnknownColumnError


class Pipeline(msgspec.Struct, forbid_unknown_fields=True):
    """A pipeline of stages over a table's rows."""

    table_id: UUID
    pipeline: list[dict[str, Any]]


class Documents(msgspec.Struct):
    """The documents that came out, and how many."""

    data: list[dict[str, Any]]
    total_count: int


_ABOUT_FIELDS = [
    TableNotFoundError,
    MemberTokenRequiredError,
    UnknownColumnError,
    EncryptedColumnError,
    QueryTimeoutError,
]


def _operations(body: Operations) -> int:
    return len(body.operations)


class AdvancedEndpoints(Endpoints, tag="Advanced data routes"):
    """Aggregation, search, autocompletion, search by place, batches and transactions."""

    def __init__(self, aggregation: Aggregation, search: Search, geo: Geo, batches: Batches) -> None:
        self._aggregation = aggregation
        self._search = search
        self._geo = geo
        self._batches = batches

    @post(
        "/v1/public/aggregate",
        access=Access.PUBLIC_KEY,
        returns=Documents,
        errors=[
            TableNotFoundError,
            MemberTokenRequiredError,
            InvalidPipelineError,
            UnknownColumnError,
            EncryptedColumnError,
            CalculationFailedError,
            ResultTooLargeError,
            QueryTimeoutError,
            QueryTooLargeError,
            ResultTooLargeError,
        ],
    )
    async def aggregate(self, call: Call, body: Pipeline) -> Reply:
        """Run a pipeline of up to 20 stages over a table's rows.

        Rows enter as documents with `id`, the columns, `created_at` and `updated_at`. The stages are `$match`,
        `$group`, `$sort`, `$limit`, `$skip`, `$project`, `$count`, `$unwind` and `$addFields`.
        """
        return Reply(await self._aggregation.run(call.principal, body.table_id, body.pipeline))

    @post(
        "/v1/public/search",
        access=Access.PUBLIC_KEY,
        returns=SearchResult,
        errors=[*_ABOUT_FIELDS, ResultTooLargeError],
    )
    async def search(self, call: Call, body: SearchRequest) -> Reply:
        """Find rows by the words in their texts, best first.

        Every word must be found, in any of the fields; of the last one, the beginning will do. `"some words"` must
        stand so, next to each other; what has `-` before it must not be there. Case and accents do not count. In
        scripts without spaces, and in Korean, words are also found inside others. Where nothing is found and nothing
        is in quotes, typing errors are forgiven. Of more than 1000 rows found, the latest written 1000 are ranked and
        answered; `total_count` counts all. Of a text, the first 100,000 characters are searched.
        """
        return Reply(await self._search.search(call.principal, body))

    @post(
        "/v1/public/autocomplete",
        access=Access.PUBLIC_KEY,
        errors=_ABOUT_FIELDS,
    )
    async def autocomplete(self, call: Call, body: AutocompleteRequest) -> Suggestions:
        """Complete the beginning of a value of a string column.

        First come values that begin with it, then those in which a word does; if there are none, those with words
        like it. Values that differ in case or accents alone are one suggestion; longer than 200 characters, they are
        not suggested.
        """
        return await self._search.autocomplete(call.principal, body)

    @post(
        "/v1/public/geo",
        access=Access.PUBLIC_KEY,
        returns=GeoResult,
        errors=[*_ABOUT_FIELDS, ResultTooLargeError, ExtensionMissingError],
    )
    async def geo(self, call: Call, body: GeoRequest) -> Reply:
        """Find rows by where they are, the nearest first.

        A row's place is `{latitude, longitude}`, in degrees, in an object column. `distance` is in metres along the
        surface, from the centre of what was asked for. A row without a valid place is not found.
        """
        return Reply(await self._geo.search(call.principal, body))

    @post(
        "/v1/public/batch",
        access=Access.PUBLIC_KEY,
        body_shape=OperationsShape,
        cost=_operations,
    )
    async def batch(self, call: Call, body: Operations) -> OperationResults:
        """Run up to 500 writes, each by itself: one that fails leaves the others alone."""
        return await self._batches.batch(call.principal, body.operations)

    @post(
        "/v1/public/transactions",
        access=Access.PUBLIC_KEY,
        body_shape=OperationsShape,
        cost=_operations,
        errors=[
            TableNotFoundError,
            MemberTokenRequiredError,
            RowNotFoundError,
            PreconditionFailedError,
            CannotIncrementError,
            InvalidReferenceError,
            TransactionConflictError,
        ],
    )
    async def transact(self, call: Call, body: Operations) -> OperationResults:
        """Run up to 500 writes as one serializable transaction: all of them, or none.

        If an operation fails, the answer has its status and code, and its index as `failed_index`.
        """
        return await self._batches.transaction(call.principal, body.operations)

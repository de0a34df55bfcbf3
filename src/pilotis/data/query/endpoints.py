"""The routes of queries and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from pilotis.data.query.aggregate.expressions import InvalidPipelineError
from pilotis.data.query.aggregate.service import Aggregation, CalculationFailedError
from pilotis.data.query.geo.service import Geo
from pilotis.data.query.geo.types import GeoRequest, GeoResult
from pilotis.data.query.search.service import Search
from pilotis.data.query.search.types import AutocompleteRequest, AutocompleteResult, SearchRequest, SearchResult
from pilotis.data.rows.batches import Batches, TransactionConflictError
from pilotis.data.rows.operations import (
    CannotChangeError,
    CannotIncrementError,
    PreconditionFailedError,
    RowNotFoundError,
)
from pilotis.data.rows.query import ResultTooLargeError
from pilotis.data.rows.references import InvalidReferenceError
from pilotis.data.rows.related import UnknownReferenceError
from pilotis.data.rows.running import QueryTooLargeError
from pilotis.data.rows.schemas import StageObject
from pilotis.data.rows.types import OperationResults, Operations, TableName, WriteRequestBody
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.service import TableNotFoundError
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.compiler import InvalidOperatorError, InvalidRegexError, WhereTooComplexError
from pilotis.data.where.operands import EncryptedColumnError
from pilotis.db.extensions import ExtensionMissingError
from pilotis.http.api.direct import OnceKnown, Prepared, reading_for, writing_for
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Client, MemberInfo, Principal, known_as, public
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import QueryTimeoutError

READ = public(scope="rows:read")
WRITE = public(scope="rows:write")
_SEARCH, _BATCH, _TRANSACTIONS = "/v1/public/search", "/v1/public/batch", "/v1/public/transactions"


class AggregateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A pipeline of stages over a table's rows."""

    table_id: TableName
    pipeline: list[StageObject]


class AggregateResult(msgspec.Struct):
    """The resulting documents and their number."""

    data: list[dict[str, Any]]
    total_count: int


_ABOUT_FIELDS = [
    TableNotFoundError,
    MemberTokenRequiredError,
    UnknownColumnError,
    EncryptedColumnError,
    InvalidOperatorError,
    InvalidRegexError,
    WhereTooComplexError,
    QueryTimeoutError,
]


def _operations(body: Operations) -> int:
    return len(body.operations)


class _Kind(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw(b"null")


_kind = msgspec.json.Decoder(_Kind)


def _stores(body: Operations) -> bool:
    try:
        return any(bytes(_kind.decode(operation).type) != b'"delete"' for operation in body.operations)
    except msgspec.DecodeError:
        return True


_Run: TypeAlias = Callable[[Principal, Client, Sequence[msgspec.Raw]], Awaitable[OperationResults]]


def _once_known(call: Call, route: str, run: _Run, body: Operations) -> OnceKnown:
    """Prepare to run operations for whoever the caller turns out to be."""
    asker, client = call.principal, call.client

    def write(member: MemberInfo | None) -> Awaitable[OperationResults]:
        return run(known_as(asker, member), client, body.operations)

    return OnceKnown(writing_for(call, route, write), _results)


def _results(ended: asyncio.Future[OperationResults]) -> bytes:
    """Return the answer, or raise its error: what writes never starts over."""
    return json.encode(ended.result())


class AdvancedEndpoints(Endpoints, tag="Advanced data routes"):
    """Aggregation, search, autocompletion, geo search, batches and transactions."""

    def __init__(self, aggregation: Aggregation, search: Search, geo: Geo, batches: Batches) -> None:
        self._aggregation = aggregation
        self._search = search
        self._geo = geo
        self._batches = batches

    @post(
        "/v1/public/aggregate",
        access=READ,
        needs_room=False,
        only_reads=True,
        returns=AggregateResult,
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
    async def aggregate(self, call: Call, body: AggregateRequest) -> Reply:
        """Run a pipeline of up to 20 stages over a table's rows.

        Rows enter as documents with `id`, the columns, `created_at` and `updated_at`. The stages are `$match`,
        `$group`, `$sort`, `$limit`, `$skip`, `$project`, `$count`, `$unwind`, `$addFields` and `$lookup`.
        """
        return Reply(await self._aggregation.run(call.principal, body.table_id, body.pipeline))

    @post(
        _SEARCH,
        access=READ,
        needs_room=False,
        direct="begin_search",
        only_reads=True,
        returns=SearchResult,
        errors=[*_ABOUT_FIELDS, UnknownReferenceError, ResultTooLargeError],
    )
    async def search(self, call: Call, body: SearchRequest) -> Reply:
        """Find rows by the words in their texts, best first.

        Every word must occur in one of the fields; the last one may be the beginning of a word. `"some words"` must
        occur as a phrase; words after `-` must not occur. Case and accents are ignored. In scripts without spaces, and
        in Korean, words are also found inside others. If nothing is found and nothing is in quotes, the search
        tolerates typing errors. If more than 1000 rows match, the 1000 created last are ranked and returned;
        `total_count` counts all. The first 100,000 characters of a text are searched.
        """
        return Reply(await self._search.search(call.principal, body))

    def begin_search(self, call: Call, body: SearchRequest) -> Prepared | None:
        """Prepare the usual answer of `search`."""
        return reading_for(call, _SEARCH, self._search.begin_search(call.principal, body))

    @post(
        "/v1/public/autocomplete",
        access=READ,
        needs_room=False,
        only_reads=True,
        errors=_ABOUT_FIELDS,
    )
    async def autocomplete(self, call: Call, body: AutocompleteRequest) -> AutocompleteResult:
        """Complete the beginning of a value of a string column.

        Values that begin with it come first, then those in which a word does; if there are none, those with similar
        words. Values that differ only in case or accents are one suggestion. Values longer than 200 characters are not
        suggested.
        """
        return await self._search.autocomplete(call.principal, body)

    @post(
        "/v1/public/geo",
        access=READ,
        needs_room=False,
        only_reads=True,
        returns=GeoResult,
        errors=[*_ABOUT_FIELDS, UnknownReferenceError, ResultTooLargeError, ExtensionMissingError],
    )
    async def geo(self, call: Call, body: GeoRequest) -> Reply:
        """Find rows by location, nearest first.

        A row's location is `{latitude, longitude}`, in degrees, in an object column. `distance` is in metres along the
        surface, from the centre of the requested shape. Rows without a valid location are not found.
        """
        return Reply(await self._geo.search(call.principal, body))

    @post(
        _BATCH,
        access=WRITE,
        direct="begin_batch",
        needs_room=_stores,
        body_schema=WriteRequestBody,
        rows=True,
        unique_keys=True,
        cost=_operations,
    )
    async def batch(self, call: Call, body: Operations) -> OperationResults:
        """Run up to 500 independent writes: one that fails does not affect the others."""
        return await self._batches.batch(call.principal, call.client, body.operations)

    def begin_batch(self, call: Call, body: Operations) -> OnceKnown:
        """Prepare the usual answer of `batch`."""
        return _once_known(call, _BATCH, self._batches.batch, body)

    @post(
        _TRANSACTIONS,
        access=WRITE,
        direct="begin_transact",
        needs_room=_stores,
        body_schema=WriteRequestBody,
        rows=True,
        unique_keys=True,
        cost=_operations,
        errors=[
            TableNotFoundError,
            MemberTokenRequiredError,
            RowNotFoundError,
            PreconditionFailedError,
            CannotIncrementError,
            CannotChangeError,
            InvalidReferenceError,
            TransactionConflictError,
        ],
    )
    async def transact(self, call: Call, body: Operations) -> OperationResults:
        """Run up to 500 writes as one serializable transaction: all of them, or none.

        If an operation fails, the answer has its status and code, and its index in `failed_index`.
        """
        return await self._batches.transaction(call.principal, call.client, body.operations)

    def begin_transact(self, call: Call, body: Operations) -> OnceKnown:
        """Prepare the usual answer of `transact`."""
        return _once_known(call, _TRANSACTIONS, self._batches.transaction, body)

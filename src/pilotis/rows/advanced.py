"""The routes beside the tables' own (interface: Advanced data routes)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, Reply, post
from pilotis.http.principals import Access
from pilotis.kit.errors import QueryTimeoutError
from pilotis.rows.aggregate.expressions import InvalidPipelineError
from pilotis.rows.aggregate.service import Aggregation, CalculationFailedError
from pilotis.rows.batches import (
    Batches,
    InvalidReferenceError,
    OperationResults,
    Operations,
    OperationsShape,
    TransactionConflictError,
)
from pilotis.rows.operands import EncryptedColumnError
from pilotis.rows.operations import CannotIncrementError, PreconditionFailedError, RowNotFoundError
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


class AdvancedEndpoints(Endpoints, tag="Advanced data routes"):
    """Aggregation, batches and transactions."""

    def __init__(self, aggregation: Aggregation, batches: Batches) -> None:
        self._aggregation = aggregation
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
            QueryTimeoutError,
        ],
    )
    async def aggregate(self, call: Call, body: Pipeline) -> Reply:
        """Run a pipeline of up to 20 stages over a table's rows.

        Rows enter as documents with `id`, the columns, `created_at` and `updated_at`. The stages are `$match`,
        `$group`, `$sort`, `$limit`, `$skip`, `$project`, `$count`, `$unwind` and `$addFields`.
        """
        return Reply(await self._aggregation.run(call.principal, body.table_id, body.pipeline))

    @post(
        "/v1/public/batch",
        access=Access.PUBLIC_KEY,
        body_shape=OperationsShape,
    )
    async def batch(self, call: Call, body: Operations) -> OperationResults:
        """Run up to 500 writes, each by itself: one that fails leaves the others alone."""
        return await self._batches.batch(call.principal, body.operations)

    @post(
        "/v1/public/transactions",
        access=Access.PUBLIC_KEY,
        body_shape=OperationsShape,
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

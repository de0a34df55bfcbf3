"""Running pipelines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from pilotis.data.query.aggregate.expressions import InvalidPipelineError
from pilotis.data.query.aggregate.joins import joins_of
from pilotis.data.query.aggregate.pipeline import CompiledPipeline, compile_pipeline
from pilotis.data.rows.operations import ROW_TOO_LARGE
from pilotis.data.rows.query import ResultTooLargeError
from pilotis.data.rows.running import run_compiled
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import creator_of_new_row, everything
from pilotis.http.api.principals import AppInfo, Principal, app_of
from pilotis.kit.errors import BadRequestError
from pilotis.limits import Limits


class CalculationFailedError(BadRequestError):
    """400 `CALCULATION_FAILED`: a division by zero, or a number out of range."""

    code = "CALCULATION_FAILED"
    message = "The pipeline divides by zero, or a number in it is out of range."


Stages = Callable[[PreparedTable], Awaitable[Sequence[Any]]]
"""Returns the stages of a pipeline, for the table in its present state."""


class Aggregation:
    """Runs pipelines on tables."""

    def __init__(self, tables: PreparedTables) -> None:
        self._tables = tables

    async def run(self, principal: Principal, named: str, pipeline: Sequence[Any]) -> bytes:
        """Return the JSON of the documents that come out of a pipeline over the table with an id or title."""

        async def stages(_table: PreparedTable) -> Sequence[Any]:
            return pipeline

        app = app_of(principal)
        return await self.run_on(app, principal, await self._tables.id_of(app, named), stages)

    async def run_on(self, app: AppInfo, principal: Principal | None, table_id: UUID, stages: Stages) -> bytes:
        """Do what `run` does, for a caller, or for None, who sees everything, with stages that depend on the table."""

        async def run(table: PreparedTable) -> bytes:
            if principal is None:
                visible, own = everything(table.schema, Action.LIST, shows_creator=True), None
            else:
                visible, own = await table.visible(principal, Action.LIST), creator_of_new_row(principal)
            pipeline = await stages(table)
            joins = await joins_of(self._tables, principal, table, pipeline)
            compiled = compile_pipeline(visible.table, pipeline, visible, app.limits, own, joins)
            return await _run(table, compiled, app.limits)

        return await self._tables.use(app, table_id, run)


async def _run(table: PreparedTable, compiled: CompiledPipeline, limits: Limits) -> bytes:
    try:
        row = await run_compiled(table, CompiledQuery(*compiled))
    except (
        asyncpg.DivisionByZeroError,
        asyncpg.NumericValueOutOfRangeError,
        asyncpg.DatetimeFieldOverflowError,
    ):
        raise CalculationFailedError from None
    except asyncpg.InvalidDatetimeFormatError:
        raise InvalidPipelineError(
            "A date operator meets a value that is no date: it takes date columns, RFC 3339 texts and null."
        ) from None
    except asyncpg.InvalidParameterValueError:
        # The database's list of time zones may lack what Python's has.
        raise InvalidPipelineError("The database does not know a timezone of this pipeline.") from None
    except asyncpg.PostgresError as error:
        if error.sqlstate == ROW_TOO_LARGE:
            raise ResultTooLargeError(
                "A text that this pipeline makes is too large, or a $unionWith joins more than 100,000 documents."
            ) from None
        raise
    if row["total_count"] > (limit := limits.aggregate_documents):
        raise ResultTooLargeError(f"More than {limit} documents come out of this. Add a $limit.")
    if row["data"] is None:
        raise ResultTooLargeError("The documents that come out are too large to send together.")
    return b'{"data":%b,"total_count":%d}' % (row["data"].encode(), row["total_count"])

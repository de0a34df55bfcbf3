"""Reads the records of calls, their logs and their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.functions import execution_store, store
from pilotis.functions.errors import ExecutionNotFoundError, FunctionNotFoundError
from pilotis.functions.execution_store import ExecutionRecord, StatRecord
from pilotis.functions.runtime import call
from pilotis.functions.types import (
    Caller,
    Execution,
    ExecutionDetails,
    ExecutionQuery,
    FunctionStats,
    FunctionStatsQuery,
    LogLine,
    LogPage,
    LogQuery,
    RequestedCall,
    StatsBucket,
)
from pilotis.http.api.principals import AppInfo
from pilotis.http.api.schemas import ItemPage
from pilotis.kit.clock import now, rfc3339
from pilotis.kit.errors import invalid
from pilotis.kit.ids import is_uuid

MAX_LINES = 1000
MAX_BUCKETS = 2000
_lines = msgspec.json.Decoder(list[call.LogLine])


class Executions:
    """Records, logs and statistics of calls."""

    by_day = execution_store.BY_DAY
    """Counts calls by day; see `pilotis.db.daily`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, app: AppInfo, function_id: UUID, query: ExecutionQuery, *, shows_errors: bool
    ) -> ItemPage[Execution]:
        """Return a page of records, newest first; `shows_errors` is for callers who may see users' data."""
        await self._require(app, function_id)
        limit = app.limits.page_size(query.limit)
        rows, total = await execution_store.page(
            self._database,
            app.app_id,
            function_id,
            query.status,
            query.version,
            query.since,
            query.until,
            limit,
            query.offset,
        )
        data = [Execution(**_execution(row, shows_errors=shows_errors)) for row in rows]
        return ItemPage(data=data, total_count=total, limit=limit, offset=query.offset)

    async def read(
        self, app: AppInfo, function_id: UUID, execution_id: UUID, *, shows_errors: bool
    ) -> ExecutionDetails:
        """Return a record with its log; raises `ExecutionNotFoundError`."""
        await self._require(app, function_id)
        row = await execution_store.read(self._database.of(app.app_id), app.app_id, function_id, execution_id)
        if row is None:
            raise ExecutionNotFoundError
        logs = decoded_lines(execution_id, row.logs) if shows_errors else None
        return ExecutionDetails(**_execution(row, shows_errors=shows_errors), logs=logs)

    async def logs(self, app: AppInfo, function_id: UUID, query: LogQuery) -> LogPage:
        """Return log lines, newest first."""
        await self._require(app, function_id)
        limit = min(query.limit, MAX_LINES)
        rows = await execution_store.lines(
            self._database.of(app.app_id),
            app.app_id,
            function_id,
            level=query.level,
            search=query.search,
            execution_id=query.execution_id,
            since=query.since,
            until=query.until,
            after=_place(query.after),
            limit=limit + 1,
        )
        lines = [
            LogLine(
                execution_id=row.execution_id,
                index=row.index,
                time=_time(row.time),
                level=row.level,
                message=row.message,
            )
            for row in rows[:limit]
        ]
        return LogPage(lines, f"{lines[-1].execution_id}:{lines[-1].index}" if len(rows) > limit else None)

    async def stats(self, app: AppInfo, function_id: UUID, query: FunctionStatsQuery) -> FunctionStats:
        """Return outcomes and durations of calls over time."""
        await self._require(app, function_id)
        until = query.to or now()
        since = query.from_ or until - timedelta(days=1)
        if since >= until:
            raise invalid("from", "from: a time before `to` is expected.")
        if (until - since).total_seconds() / query.step > MAX_BUCKETS:
            raise invalid("step", f"step: must give at most {MAX_BUCKETS} steps.")
        since = since.replace(second=0, microsecond=0)
        found = self._database.of(app.app_id)
        rows = await execution_store.stats(found, app.app_id, function_id, since, until, query.step)
        by_time: dict[datetime, list[StatRecord]] = {}
        for row in rows:
            by_time.setdefault(row.time, []).append(row)
        return FunctionStats([_bucket(time, group) for time, group in by_time.items()])

    async def of_request(self, app_id: UUID, request_id: str, limit: int) -> list[RequestedCall]:
        """Return the recorded calls that a request has led to, oldest first."""
        return await execution_store.of_request(self._database.of(app_id), app_id, request_id, limit)

    async def _require(self, app: AppInfo, function_id: UUID) -> None:
        if await store.read(self._database.of(app.app_id), app.app_id, function_id) is None:
            raise FunctionNotFoundError


def log_lines(execution_id: UUID, lines: list[call.LogLine]) -> list[LogLine]:
    """Return the log lines of an execution as response types."""
    return [
        LogLine(
            execution_id=execution_id,
            index=index,
            time=_time(line.time),
            level=line.level,  # type: ignore[arg-type]
            message=line.message,
        )
        for index, line in enumerate(lines)
    ]


def decoded_lines(execution_id: UUID, stored: str) -> list[LogLine]:
    """Return the stored log lines of an execution as response types."""
    return log_lines(execution_id, _lines.decode(stored))


def execution_of(row: ExecutionRecord) -> Execution:
    """Return the record of a call with its error."""
    return Execution(**_execution(row, shows_errors=True))


def _time(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _place(after: str | None) -> tuple[UUID, int] | None:
    if after is None:
        return None
    execution_id, _, index = after.partition(":")
    if not is_uuid(execution_id) or not index.isdigit() or len(index) > 9:
        raise invalid("after", "after: must be the `next` of an earlier response.")
    return UUID(execution_id), int(index)


def _bucket(time: datetime, rows: list[StatRecord]) -> StatsBucket:
    counts: Mapping[str, int] = {
        status: sum(row.calls for row in rows if row.status == status) for status in ("success", "error", "timeout")
    }
    by_bucket: dict[int, int] = {}
    for row in rows:
        by_bucket[row.bucket] = by_bucket.get(row.bucket, 0) + row.calls
    return StatsBucket(time=rfc3339(time), **counts, p50=_quantile(by_bucket, 0.5), p99=_quantile(by_bucket, 0.99))


def _quantile(by_bucket: Mapping[int, int], part: float) -> float | None:
    """Return the upper bound, in milliseconds, of the bucket that contains the quantile."""
    wanted, seen = sum(by_bucket.values()) * part, 0
    for bucket, calls in sorted(by_bucket.items()):
        seen += calls
        if seen >= wanted:
            return round(float(1 << bucket) / 1000, 3)
    return None


def _execution(row: ExecutionRecord, *, shows_errors: bool) -> dict[str, Any]:
    return {
        "id": row.execution_id,
        "function_id": row.function_id,
        "version": int(row.version) if row.version.isdigit() else row.version,
        "status": row.status,
        "trigger": row.trigger,
        "caller": Caller(row.caller_type, row.caller_id),
        "start": row.start,
        "duration": row.duration,
        "queue_ms": row.queue_ms,
        "load_ms": row.load_ms,
        "cpu_ms": row.cpu_ms,
        "peak_memory_mb": row.peak_memory_mb,
        "error": row.error if shows_errors else None,
        "error_code": row.error_code,
        "request_id": row.request_id,
        "workflow_execution_id": row.workflow_execution_id,
        "step_id": row.step_id,
        "log_lines": row.log_lines,
        "log_dropped": row.log_dropped,
        "started_at": rfc3339(row.started_at),
        "finished_at": rfc3339(row.finished_at),
    }

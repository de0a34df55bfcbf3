"""Reads the request log and the durations of an app."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.apps.requests import store
from pilotis.apps.requests.recorder import RequestLogger
from pilotis.apps.requests.store import Bucketed, LogRow
from pilotis.apps.requests.types import (
    MetricPoint,
    MetricSeries,
    MetricsQuery,
    MetricTotals,
    RequestEntry,
    RequestMetrics,
    RequestQuery,
)
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo
from pilotis.http.api.schemas import ItemPage, time_field
from pilotis.kit.clock import now, rfc3339
from pilotis.kit.durations import BUCKETS, percentile
from pilotis.kit.errors import invalid

_SEARCHED = "concat_ws(' ', method || ' ' || route, status, code, address, actor_id, request_id)"
_MAX_SERIES = 50
_MAX_POINTS = 1500
_STEPS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
_DEFAULT_STEPS = {"minute": 60, "hour": 24, "day": 30}


class Requests:
    """An app's requests; `logger` records those that this node answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.logger = RequestLogger(database)

    async def page(self, app: AppInfo, query: RequestQuery) -> ItemPage[RequestEntry]:
        """Return a page of the request log, newest first. Requests of the last 5 seconds may not be in it yet."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.page(self._database, app.app_id, _conditions(query), limit, query.offset)
        return ItemPage(data=[_entry(row) for row in rows], total_count=total, limit=limit, offset=query.offset)

    async def of_request(self, app_id: UUID, request_id: str, limit: int) -> list[RequestEntry]:
        """Return the logged entries with a request's id, oldest first."""
        rows = await store.of_request(self._database.of(app_id), app_id, request_id, limit)
        return [_entry(row) for row in rows]

    async def metrics(self, app: AppInfo, query: MetricsQuery) -> RequestMetrics:
        """Return requests, errors and durations by time; raises a 400 error for too long a time."""
        end = time_field(query.to, "to") or now()
        start = time_field(query.from_, "from") or end - _STEPS[query.step] * _DEFAULT_STEPS[query.step]
        if (end - start) / _STEPS[query.step] > _MAX_POINTS:
            raise invalid("from", f"from and to: at most {_MAX_POINTS} steps are answered. Choose a longer step.")
        rows = await store.durations(self._database, app.app_id, query.step, start, end, query.by)
        return RequestMetrics(_series(rows))

    async def delete_old(self, connection: Connection) -> None:
        """Delete what is older than it is kept."""
        await store.delete_old(connection)


def _conditions(query: RequestQuery) -> list[tuple[str, Any]]:
    conditions: list[tuple[str, Any]] = []
    if start := time_field(query.from_, "from"):
        conditions.append(("created_at >= {}", start))
    if end := time_field(query.to, "to"):
        conditions.append(("created_at < {}", end))
    if query.status is not None and query.status.endswith("xx"):
        conditions.append(("status / 100 = {}", int(query.status[0])))
    elif query.status is not None:
        conditions.append(("status = {}", int(query.status)))
    if query.route is not None:
        conditions.append(("position({} in method || ' ' || route) > 0", query.route))
    if query.member_id is not None:
        conditions.append(("actor_kind = 'member' and actor_id = {}", query.member_id))
    if query.search:
        conditions.append((f"position(lower({{}}) in lower({_SEARCHED})) > 0", query.search))
    if query.actor_id is not None:
        conditions.append(("actor_id = {}", query.actor_id))
    if query.request_id is not None:
        conditions.append(("request_id = {}", query.request_id))
    if query.function_id is not None:
        conditions.append(
            ("(function_id = {0} or actor_kind = 'function' and actor_id = {0}::uuid::text)", query.function_id)
        )
    if query.min_ms is not None:
        conditions.append(("duration_ms >= {}", query.min_ms))
    return conditions


def _entry(row: LogRow) -> RequestEntry:
    return RequestEntry(
        request_id=row.request_id,
        time=rfc3339(row.created_at),
        method=row.method,
        route=row.route,
        status=row.status,
        code=row.code,
        duration_ms=round(row.duration_ms, 2),
        actor_kind=row.actor_kind,
        actor_id=row.actor_id,
        address=row.address,
        function_id=row.function_id,
    )


def _series(rows: Sequence[Bucketed]) -> list[MetricSeries]:
    found: dict[str, list[Bucketed]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    series = [MetricSeries(key, MetricTotals(**_totals(own)), _points(own)) for key, own in found.items()]
    series.sort(key=lambda one: -one.total.requests)
    return series[:_MAX_SERIES]


def _points(rows: Sequence[Bucketed]) -> list[MetricPoint]:
    """Return the points of one series, whose rows are in the order of time."""
    steps = groupby(rows, lambda row: row.time)
    return [MetricPoint(time=rfc3339(time), **_totals(list(own))) for time, own in steps]


def _totals(rows: Sequence[Bucketed]) -> dict[str, Any]:
    buckets = [sum(row.buckets[at] for row in rows) for at in range(BUCKETS)]
    return {
        "requests": sum(buckets),
        "client_errors": sum(sum(row.buckets) for row in rows if row.status == 4),
        "errors": sum(sum(row.buckets) for row in rows if row.status == 5),
        "p50_ms": percentile(buckets, 0.5),
        "p95_ms": percentile(buckets, 0.95),
    }

"""What one request has led to, by its id: in the request log, and in those of functions, workflows and webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pilotis.apps.requests.types import RequestEntry
from pilotis.console.types import ContextEntry, RequestContext
from pilotis.functions.types import RequestedCall
from pilotis.kit.clock import rfc3339
from pilotis.webhooks.types import RequestedDelivery
from pilotis.workflows.types import RequestedExecution

MAX_OF_KIND = 100
"""How many entries of each kind are answered."""

Finder = Callable[[UUID, str, int], Awaitable[Sequence[Any]]]
"""Returns what an app has recorded with a request's id, oldest first, at most so many."""


class Contexts:
    """Finds the context of a request."""

    def __init__(self, requests: Finder, calls: Finder, executions: Finder, deliveries: Finder) -> None:
        self._finders: tuple[tuple[Finder, Callable[[Any], ContextEntry]], ...] = (
            (requests, _request),
            (calls, _call),
            (executions, _execution),
            (deliveries, _delivery),
        )

    async def read(self, app_id: UUID, request_id: str) -> RequestContext:
        """Return what is recorded with a request's id; nothing if it is unknown, or not kept."""
        found = await asyncio.gather(*(find(app_id, request_id, MAX_OF_KIND + 1) for find, _ in self._finders))
        entries = [
            entry(row) for rows, (_, entry) in zip(found, self._finders, strict=True) for row in rows[:MAX_OF_KIND]
        ]
        entries.sort(key=lambda entry: entry.time)
        has_more = any(len(rows) > MAX_OF_KIND for rows in found)
        return RequestContext(request_id=request_id, entries=entries, has_more=has_more)


def _request(entry: RequestEntry) -> ContextEntry:
    return ContextEntry(
        kind="request",
        id=entry.request_id,
        target_id=entry.function_id,
        name=f"{entry.method} {entry.route}",
        detail=entry.actor_kind,
        status=str(entry.status),
        is_failed=entry.status >= 400,
        code=entry.code,
        time=entry.time,
        duration_ms=entry.duration_ms,
    )


def _call(row: RequestedCall) -> ContextEntry:
    return ContextEntry(
        kind="function",
        id=str(row.execution_id),
        target_id=row.function_id,
        parent_id=row.workflow_execution_id,
        name=row.name,
        detail=row.trigger,
        status=row.status,
        is_failed=row.status != "success",
        code=row.error_code,
        time=rfc3339(row.started_at),
        duration_ms=row.duration,
    )


def _execution(row: RequestedExecution) -> ContextEntry:
    return ContextEntry(
        kind="workflow",
        id=str(row.execution_id),
        target_id=row.workflow_id,
        name=row.name,
        detail=row.trigger_type,
        status=row.status,
        is_failed=row.status in {"failed", "timeout"},
        code=row.error_code,
        time=rfc3339(row.created_at),
        duration_ms=_milliseconds(row.started_at, row.finished_at),
    )


def _delivery(row: RequestedDelivery) -> ContextEntry:
    return ContextEntry(
        kind="delivery",
        id=str(row.delivery_id),
        target_id=row.target_id,
        name=row.name or row.url,
        detail=row.event_type,
        status=row.state,
        is_failed=row.state == "failed" or (row.state == "pending" and row.error is not None),
        code=row.error,
        time=rfc3339(row.created_at),
        duration_ms=row.duration_ms,
    )


def _milliseconds(started: datetime | None, finished: datetime | None) -> float | None:
    return None if started is None or finished is None else (finished - started).total_seconds() * 1000

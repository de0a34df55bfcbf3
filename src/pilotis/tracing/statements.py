"""Spans of statements, and of batches in which several requests share one."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Coroutine
from typing import Any, NamedTuple

from pilotis.db.batching import Batcher
from pilotis.db.observing import Statements, feature_of, shape_of
from pilotis.kit import origin
from pilotis.tracing.recorder import CURRENT, MAX_STATEMENTS, Active, Recorder

_CACHED = 1024
_MAX_CACHED_LENGTH = 4096


class TracedStatements(Statements):
    """Counts statements, and records those of traced work: their text without values, never what they were given."""

    def __init__(self, recorder: Recorder, slow_seconds: float = 0) -> None:
        super().__init__(slow_seconds)
        self._recorder = recorder

    def ended(self, query: str, seconds: float) -> None:
        """Count a statement, and record it."""
        super().ended(query, seconds)
        active = CURRENT.get()
        if active is None and self._recorder.is_idle:
            return
        if active is None or not active.is_open:
            # A query that several callers share runs in a task of its own; it is the first one's.
            request_id = origin.current()
            active = None if request_id is None else self._recorder.open(request_id)
        if active is None:
            return
        active.statements += 1
        if active.statements <= MAX_STATEMENTS:
            described = _described if len(query) <= _MAX_CACHED_LENGTH else _described.__wrapped__
            self._recorder.ended("statement", active, seconds, described(query), "client")


@functools.lru_cache(_CACHED)
def _described(query: str) -> dict[str, str]:
    return {
        "db.system.name": "postgresql",
        "db.query.text": shape_of(query),
        "pilotis.feature": feature_of(query),
    }


class _Owner(NamedTuple):
    active: Active
    begun: float


_Batch = list[tuple[Any, "asyncio.Future[Any]", float]]
_begin = Batcher.begin
_run_batch = Batcher._run_batch
_owners: dict[asyncio.Future[Any], _Owner] = {}
"""What waits for a batch and is traced."""


def trace_batches(recorder: Recorder) -> None:
    """Record for each traced request how long it waited for its batch and for the statement of it.

    The statement itself belongs to the first of them.
    """

    def begin(self: Batcher[Any, Any], item: Any) -> asyncio.Future[Any]:
        future = _begin(self, item)
        active = CURRENT.get()
        if active is not None and active.is_open:
            _owners[future] = _Owner(active, time.perf_counter())
            future.add_done_callback(_forget)
        return future

    def run_batch(self: Batcher[Any, Any], batch: _Batch) -> Coroutine[Any, Any, None]:
        return _run_batch(self, batch) if not _owners else traced(self, batch)

    async def traced(self: Batcher[Any, Any], batch: _Batch) -> None:
        owners = [owner for _, future, _ in batch if (owner := _owners.pop(future, None)) is not None]
        token = CURRENT.set(owners[0].active if owners else None)
        try:
            await _run_batch(self, batch)
        finally:
            CURRENT.reset(token)
            for owner in owners:
                taken = time.perf_counter() - owner.begun
                recorder.ended("batch", owner.active, taken, {"pilotis.batch.size": len(batch)})

    Batcher.begin = begin  # type: ignore[method-assign]
    Batcher._run_batch = run_batch  # type: ignore[method-assign]


def _forget(future: asyncio.Future[Any]) -> None:
    _owners.pop(future, None)


def end_batches() -> None:
    """Run batches without spans again."""
    Batcher.begin = _begin  # type: ignore[method-assign]
    Batcher._run_batch = _run_batch  # type: ignore[method-assign]

"""Records of calls, written once a second so that no response waits for a write.

The statistics count every call. Of each function's calls within a minute, only the first errors and time-outs and a
few successes are stored as rows; calls from the console, by schedules and by events are always stored.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.buffered_writer import BufferedWriter
from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.events.service import Events
from pilotis.functions import execution_store, store
from pilotis.functions.events import FAILED, FailedEvent, subject_of
from pilotis.functions.metrics import FunctionCounts
from pilotis.functions.runtime.call import Outcome
from pilotis.functions.runtime.types import Ran
from pilotis.http.api.principals import Actor
from pilotis.kit.errors import UnavailableError

FAILURES_PER_MINUTE = 600
SUCCESSES_PER_MINUTE = 120
EVENT_SECONDS = 60.0
_MAX_BUFFERED = 20_000
_KEPT_TRIGGERS = {"console", "event", "schedule", "workflow", "webhook"}


class Record(msgspec.Struct, kw_only=True):
    """The context of a call for its record."""

    app_id: UUID
    function_id: UUID
    runtime: str
    execution_id: UUID
    version: str
    trigger: str
    caller_type: str
    caller_id: str | None
    request_id: str | None
    workflow_execution_id: UUID | None = None
    step_id: str | None = None
    started_at: datetime
    depth: int = 0


class _Buffer(NamedTuple):
    """What one transaction writes: rows, counts by key, and the first failure of each function."""

    rows: list[tuple[Any, ...]]
    counts: Counter[tuple[UUID, UUID, datetime, str, int]]
    failed: dict[UUID, tuple[Record, Outcome]]


class Records(BufferedWriter):
    """Buffers the records of this process and writes them."""

    what = "records of functions"

    def __init__(
        self,
        database: Database,
        events: Events,
        written: Callable[[UUID, UUID], None],
        metered: Callable[[UUID, int], None],
    ) -> None:
        """`written` is called with the app and the id of each function that has new records.

        `metered` is called with the app and the milliseconds of each call.
        """
        super().__init__(seconds=1.0)
        self._metered = metered
        self._written = written
        self._database = database
        self._events = events
        self._rows: list[tuple[Any, ...]] = []
        self._counts: Counter[tuple[UUID, UUID, datetime, str, int]] = Counter()
        self._kept: Counter[tuple[UUID, bool]] = Counter()
        self._minute = datetime.fromtimestamp(0, UTC)
        self._failed: dict[UUID, tuple[Record, Outcome]] = {}
        self.metrics = FunctionCounts()
        self._told: dict[UUID, float] = {}
        self._unknown: tuple[str, _Buffer] | None = None
        # Whoever waits for a flush waits for one that has begun, too; and only one finds out what became of another.
        self._flushing = asyncio.Lock()

    def add(self, record: Record, ran: Ran) -> None:
        """Count a call, and buffer its record if it is to be stored."""
        outcome, finished = ran.outcome, datetime.now(UTC)
        self._measure(record.runtime, ran)
        self._metered(record.app_id, max(1, int(outcome.duration * 1000)))
        minute = finished.replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute = minute
            self._kept.clear()
        bucket = max(1, int(outcome.duration * 1000)).bit_length()
        self._counts[record.app_id, record.function_id, minute, outcome.status, bucket] += 1
        failed = outcome.status != "success"
        if failed and time.monotonic() - self._told.get(record.function_id, -EVENT_SECONDS) >= EVENT_SECONDS:
            self._failed.setdefault(record.function_id, (record, outcome))
        key = (record.function_id, failed)
        if record.trigger not in _KEPT_TRIGGERS:
            if self._kept[key] >= (FAILURES_PER_MINUTE if failed else SUCCESSES_PER_MINUTE):
                return
            self._kept[key] += 1
        if len(self._rows) < _MAX_BUFFERED:
            self._rows.append(_row(record, ran, finished))

    async def flush(self) -> None:
        """Write the buffer; it is kept if that fails."""
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        await self._settle()
        if not self._counts:
            return
        buffer = _Buffer(self._rows, self._counts, self._failed)
        self._rows, self._counts, self._failed = [], Counter(), {}
        transaction_id = ""
        try:
            async with self._database.transaction(BACKGROUND) as connection:
                transaction_id = await connection.fetchval("select pg_current_xact_id()::text")
                await execution_store.keep_functions(connection, {key[:2] for key in buffer.counts})
                await execution_store.count(connection, [(*key, number) for key, number in buffer.counts.items()])
                if buffer.rows:
                    await execution_store.insert(connection, buffer.rows)
                for function_id in sorted(buffer.failed):
                    await self._tell(connection, *buffer.failed[function_id])
        except BaseException:
            if transaction_id:
                self._unknown = (transaction_id, buffer)
            else:
                self._keep(buffer)
            raise
        self._flushed(buffer)

    async def _settle(self) -> None:
        """Find out whether a transaction that failed was committed all the same: its counts must be added once."""
        if self._unknown is None:
            return
        transaction_id, buffer = self._unknown
        status = await self._database.fetchval(
            "select pg_xact_status($1::text::xid8)", transaction_id, tenant=BACKGROUND
        )
        if status == "in progress":
            raise UnavailableError
        self._unknown = None
        if status == "committed":
            self._flushed(buffer)
        else:
            self._keep(buffer)

    def _keep(self, buffer: _Buffer) -> None:
        """Write a buffer that was not committed with the next one."""
        self._rows = [*buffer.rows, *self._rows][:_MAX_BUFFERED]
        self._counts += buffer.counts
        self._failed = buffer.failed | self._failed

    def _flushed(self, buffer: _Buffer) -> None:
        self._note(buffer.failed)
        for app_id, function_id in {(row[0], row[1]) for row in buffer.rows}:
            self._written(app_id, function_id)

    async def _tell(self, connection: Connection, record: Record, outcome: Outcome) -> None:
        """Emit an event about a failed call, unless another process has within the last minute."""
        if not await store.claim_failure_event(connection, record.app_id, record.function_id, EVENT_SECONDS):
            return
        data = FailedEvent(
            function_id=record.function_id,
            version=int(record.version) if record.version.isdigit() else record.version,
            execution_id=record.execution_id,
            error=outcome.error,
            error_code=outcome.error_code,
        )
        actor = Actor("function", str(record.function_id), record.request_id, record.depth + 1)
        subject = subject_of(record.function_id)
        await self._events.emit(connection, record.app_id, FAILED, data, actor=actor, subject=subject)

    def _measure(self, runtime: str, ran: Ran) -> None:
        self.metrics.invocations.add(runtime, ran.outcome.status, ran.start)
        self.metrics.seconds.add(ran.outcome.duration / 1000)
        self.metrics.queues.add(ran.queue_ms / 1000)
        if ran.start != "warm":
            self.metrics.loads.add(ran.load_ms / 1000)

    def _note(self, told: Iterable[UUID]) -> None:
        now = time.monotonic()
        self._told = {key: at for key, at in self._told.items() if now - at < EVENT_SECONDS} | dict.fromkeys(told, now)


def _row(record: Record, ran: Ran, finished: datetime) -> tuple[Any, ...]:
    outcome = ran.outcome
    return (
        record.app_id,
        record.function_id,
        record.execution_id,
        record.version,
        outcome.status,
        record.trigger,
        record.caller_type,
        record.caller_id,
        ran.start,
        round(outcome.duration, 3),
        round(ran.queue_ms, 3),
        round(ran.load_ms, 3),
        round(outcome.cpu_ms, 3),
        outcome.peak_memory_mb,
        outcome.error,
        outcome.error_code,
        record.request_id,
        record.workflow_execution_id,
        record.step_id,
        len(outcome.logs),
        outcome.log_dropped,
        record.started_at,
        finished,
        msgspec.json.encode(outcome.logs).decode(),
    )

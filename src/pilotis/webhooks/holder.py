"""Holds a webhook's lane: reads its due deliveries in pages, attempts them concurrently, and writes the results.

One process holds a lane at a time, so the concurrency limit of a receiver is exact. Results are written
under the lane's fence, those that ended together in one statement; a process that has lost the lane writes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
import structlog

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND
from pilotis.events.types import Catalogue
from pilotis.jobs.kinds import LeaseLostError
from pilotis.jobs.lanes import Lane, LaneSource
from pilotis.kit.clock import now
from pilotis.kit.errors import UnavailableError
from pilotis.security.encryption.service import Secrets
from pilotis.webhooks import delivery_store, store
from pilotis.webhooks.attempts import AttemptSlots
from pilotis.webhooks.consents import Consents, allowed
from pilotis.webhooks.delivery_store import DueDelivery, Result
from pilotis.webhooks.metrics import DeliveryCounts
from pilotis.webhooks.schedule import BREAKER_FAILURES, Schedule
from pilotis.webhooks.sender import GONE, Endpoint, Outcome, Sender, endpoint_of

PAGE = 100
_LOW = 50
_FRESH_SECONDS = 1.0
_LOOK_SECONDS = 1.0
_DELETED_APP_SECONDS = 3600.0
_MAX_UNWRITTEN = 200
_GATHER_SECONDS = 0.005
"""How long results wait for others, while there are attempts, so that one statement writes many."""
DISABLE_SECONDS = 5 * 24 * 3600.0
"""A webhook without a success for this long, and with `DISABLE_FAILURES` attempts since then, is disabled."""
DISABLE_FAILURES = 10
CONSENT_WITHDRAWN = "CONSENT_WITHDRAWN"
EVENT_EXPIRED = "EVENT_EXPIRED"

Disable = Callable[[UUID, UUID, str], Awaitable[None]]
"""Disables a webhook, given by app and id, for a reason."""

_log = structlog.get_logger("pilotis.webhooks")


class Tools(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The objects that all holders of a process share."""

    database: Database
    secrets: Secrets
    sender: Sender
    schedule: Schedule
    slots: AttemptSlots
    consents: Consents
    catalogue: Catalogue
    disable: Disable
    counts: DeliveryCounts


class Holder:
    """Works on one lane until nothing is due."""

    def __init__(self, tools: Tools, source: LaneSource, lane: Lane) -> None:
        self._tools = tools
        self._database = tools.database.of(BACKGROUND)
        self._source = source
        self._lane = lane
        self._queue: deque[DueDelivery] = deque()
        self._in_flight: dict[UUID, asyncio.Task[None]] = {}
        self._results: list[Result] = []
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._unwritten: set[UUID] = set()
        self._changed = asyncio.Event()
        self._may_have_more = True
        self._stopping = False
        self._endpoint: Endpoint | None = None
        self._read_at = 0.0
        # A lane is due only after its pause.
        self._rest_until: datetime | None = None
        self._failure: BaseException | None = None

    def wake(self) -> None:
        """Read further deliveries: some may have been added."""
        self._may_have_more = True
        self._changed.set()

    def stop(self) -> None:
        """Start no further attempts, and return the lane once the current ones have ended."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Work until the lane is returned; raises `LeaseLostError` if another process has taken it."""
        try:
            while not await self._advance():
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._changed.wait()
                except TimeoutError:
                    self._may_have_more = True
                self._changed.clear()
                if self._failure:
                    raise self._failure
        finally:
            await self._end_tasks()

    async def _advance(self) -> bool:
        """Do the work that is possible now; return True after the lane has been returned."""
        if self._results and self._writing is None:
            self._writing = self._spawn(self._write())
        if self._may_have_more and len(self._queue) < _LOW and self._can_start and self._reading is None:
            # The deliveries of the previous page are attempted at the same time.
            self._may_have_more = False
            self._reading = self._spawn(self._read())
        while self._queue and self._can_start and len(self._in_flight) < await self._max_in_flight():
            self._begin(self._queue.popleft())
        if self._in_flight or self._results or self._writing is not None or self._reading is not None:
            return False
        if self._queue and self._can_start:
            return False
        return await self._return_lane()

    @property
    def _can_start(self) -> bool:
        return not self._stopping and not self._is_resting and len(self._unwritten) < _MAX_UNWRITTEN

    @property
    def _is_resting(self) -> bool:
        return self._rest_until is not None and self._rest_until > now()

    async def _max_in_flight(self) -> int:
        """Return how many attempts may be in flight: none for an inactive webhook, one after failures."""
        endpoint = await self._current()
        if endpoint is None:
            return 0
        return 1 if self._lane.failures >= BREAKER_FAILURES else endpoint.max_in_flight

    async def _current(self) -> Endpoint | None:
        """Return the webhook, reloaded after a second; None, without further deliveries, while nothing may be sent."""
        if time.monotonic() - self._read_at > _FRESH_SECONDS:
            row = await store.for_sending(self._database, self._lane.app_id, self._lane.target_id)
            if row is None or not row.is_active:
                raise LeaseLostError
            if not row.app_is_live:
                self._rest_until = now() + timedelta(seconds=_DELETED_APP_SECONDS)
                self._queue.clear()
                return None
            secrets = await self._tools.secrets.app(self._lane.app_id)
            self._endpoint = endpoint_of(row, secrets, now())
            self._read_at = time.monotonic()
        return self._endpoint

    async def _read(self) -> None:
        try:
            await self._source.refresh_work_seq(self._lane)
            busy = {*self._in_flight, *self._unwritten, *(one.delivery_id for one in self._queue)}
            limit = 1 if self._lane.failures >= BREAKER_FAILURES else PAGE
            found = await delivery_store.due(self._database, self._lane.app_id, self._lane.target_id, busy, limit)
        finally:
            self._reading = None
        if self._is_resting:
            # They are read again after the pause.
            self._may_have_more = True
            return
        self._queue.extend(found)
        # After a full page there may be more, and deliveries that were added or became due since then must be found.
        self._may_have_more = self._may_have_more or len(found) == limit

    def _begin(self, delivery: DueDelivery) -> None:
        self._in_flight[delivery.delivery_id] = self._spawn(self._attempt(delivery))

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # The exception ends the holder.
                self._failure = self._failure or error
            finally:
                self._changed.set()

        return asyncio.create_task(guarded())

    async def _attempt(self, delivery: DueDelivery) -> None:
        self._unwritten.add(delivery.delivery_id)
        try:
            result = await self._result(delivery)
            # `_write` replaces the list while attempts are in flight, so the attribute is read after the result is
            # known.
            if result is None:
                self._unwritten.discard(delivery.delivery_id)
            else:
                self._results.append(result)
        finally:
            del self._in_flight[delivery.delivery_id]

    async def _result(self, delivery: DueDelivery) -> Result | None:
        """Make an attempt and return its result; None while nothing may be sent."""
        event = delivery.event
        if event is None:
            return _without_attempt(delivery, "failed", EVENT_EXPIRED)
        await self._tools.slots.acquire(self._lane.app_id)
        try:
            # Waiting for a slot may have taken long, so this decides only now whether and how to send.
            endpoint = await self._current()
            if endpoint is None:
                return None
            built_in = {type_.name for type_ in self._tools.catalogue.offered()} if endpoint.client_id else ()
            if not await allowed(self._tools.consents, self._lane.app_id, endpoint.client_id, event, built_in):
                return _without_attempt(delivery, "cancelled", CONSENT_WITHDRAWN)
            self._source.require_lease(self._lane)
            outcome = await self._tools.sender.send(endpoint, event, delivery.delivery_id, delivery.attempts + 1)
        finally:
            self._tools.slots.release(self._lane.app_id)
        result = "completed" if outcome.ok else "failed"
        self._source.finished(self._source.kind, result, outcome.duration_ms / 1000)
        self._tools.counts.attempts.add(outcome.duration_ms / 1000)
        if not delivery.attempts:
            self._tools.counts.delays.add((outcome.at - event.created_at).total_seconds())
        self._count(outcome)
        return result_of(delivery, outcome, self._tools.schedule, resting=self._is_resting)

    def _count(self, outcome: Outcome) -> None:
        """Record a success or a failure of the receiver, and pause the lane if the response requires it."""
        if outcome.ok:
            self._lane.failures = 0
            self._rest_until = None
            return
        self._lane.failures += 1
        seconds = max(outcome.wait or 0.0, self._tools.schedule.breaker_gap(self._lane.failures))
        if seconds:
            until = now() + timedelta(seconds=seconds)
            self._rest_until = max(until, self._rest_until) if self._rest_until else until
            # Deliveries that have not started lose no attempt; they are read again after the pause.
            self._queue.clear()
            self._may_have_more = True

    async def _write(self) -> None:
        if self._in_flight:
            await asyncio.sleep(_GATHER_SECONDS)
        results, self._results = self._results, []
        try:
            written = await self._record(results)
        finally:
            self._writing = None
        if not written.held:
            raise LeaseLostError
        self._unwritten.difference_update(result.delivery_id for result in results)
        for result in results:
            if result.state != "pending":
                self._tools.counts.ended.add(result.state)
        # With a short schedule, a failed delivery may be due again at once.
        self._may_have_more = self._may_have_more or any(result.delay is not None for result in results)
        if any(result.status_code == GONE for result in results):
            await self._disable("GONE")
        elif written.exhausted:
            await self._disable("NO_SUCCESS")

    async def _record(self, results: list[Result]) -> delivery_store.Written:
        """Write results; while the database is unreachable this is retried, as long as the lane is held."""
        while True:
            try:
                return await delivery_store.record(
                    self._database, self._lane, results, DISABLE_SECONDS, DISABLE_FAILURES
                )
            except UnavailableError:
                # Results that may have been written are not written twice: an attempt has one number.
                await asyncio.sleep(0.5)
                self._source.require_lease(self._lane)

    async def _disable(self, reason: str) -> None:
        await self._tools.disable(self._lane.app_id, self._lane.target_id, reason)
        raise LeaseLostError

    async def _return_lane(self) -> bool:
        """Return the lane until its next delivery is due, or its pause is over."""
        due_at, moment = await delivery_store.next_due(self._database, self._lane.app_id, self._lane.target_id)
        self._lane.open_at = None
        if self._rest_until is not None and self._is_resting:
            self._lane.open_at = moment + (self._rest_until - now())
            due_at = due_at and max(due_at, self._lane.open_at)
        if await self._source.return_lane(self._lane, due_at):
            return True
        self.wake()
        return self._stopping

    async def _end_tasks(self) -> None:
        tasks = [*self._in_flight.values(), *(task for task in (self._reading, self._writing) if task)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def result_of(delivery: DueDelivery, outcome: Outcome, schedule: Schedule, *, resting: bool = False) -> Result:
    """Return the result of an attempt for its delivery."""
    number, tries = delivery.attempts + 1, delivery.tries + 1
    delay, reason, state = None, None, "succeeded"
    if not outcome.ok:
        delay = schedule.gap(tries)
        state = "failed" if delay is None or outcome.status_code == GONE else "pending"
        if state == "pending":
            reason = "retry_after" if outcome.wait else "breaker" if resting else "schedule"
            delay = outcome.wait or delay
    return Result(
        delivery_id=delivery.delivery_id,
        state=state,
        number=number,
        tries=tries,
        delay=delay if state == "pending" else None,
        reason=reason,
        attempted=True,
        ok=outcome.ok,
        at=outcome.at,
        duration_ms=outcome.duration_ms,
        status_code=outcome.status_code,
        error=outcome.error,
        excerpt=outcome.excerpt,
        headers=outcome.headers,
    )


def _without_attempt(delivery: DueDelivery, state: str, error: str) -> Result:
    return Result(
        delivery_id=delivery.delivery_id,
        state=state,
        number=delivery.attempts,
        tries=delivery.tries,
        delay=None,
        reason=None,
        attempted=False,
        ok=False,
        error=error,
    )

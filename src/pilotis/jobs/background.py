"""All background work of one process, from start to stop: its node, its workers and its schedules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.jobs import schedules, store
from pilotis.jobs.counts import JobCounts
from pilotis.jobs.kinds import SERVER, DueSchedule, Holding, JobKind, Periodic, ScheduleKind, Source
from pilotis.jobs.node import (
    BEAT_SECONDS,
    HOLDING_BEAT_SECONDS,
    IDLE_BEAT_SECONDS,
    Beat,
    Control,
    Identity,
    Node,
)
from pilotis.jobs.queue import ClaimedJob, Jobs, JobSource
from pilotis.jobs.worker import Worker
from pilotis.kit.metrics import Survey, Total

SLOTS: Mapping[str, int] = {
    "deliveries": 256,
    "workflows": 100,
    "mail": 32,
    "calls": 16,
    "light": 4,
    "certificates": 2,
    "builds": 2,
    "archives": 2,
    "bytes": 2,
    "columns": 1,
    "long": 1,
}
"""Maximum concurrent work items of each queue in one process."""

ENQUEUED_SECONDS = (0.01, 0.1)
"""Delay between an enqueue and the claim it triggers, so that the enqueuing transaction can commit first."""

AUDIT_SECONDS = 30.0
"""Period of the comparison of what this process owns with what it runs."""

_SETTLE_SECONDS = 1.0
_WATCH_SECONDS = 0.5
_log = structlog.get_logger("pilotis.jobs")


class Background:
    """Claims and runs work until it is stopped.

    `serves` names the queues that this process works for; None means all. A process that serves no queue can still
    enqueue jobs. `announce` tells other processes that a queue holds more work than this process can do.
    """

    def __init__(
        self,
        database: Database,
        control: Control,
        identity: Identity,
        jobs: Jobs,
        *,
        lease_seconds: float = 12.0,
        audit_seconds: float = AUDIT_SECONDS,
        serves: frozenset[str] | None = None,
        sources: Sequence[Source[Any]] = (),
        holdings: Sequence[Holding] = (),
        periodic: Sequence[Periodic] = (),
        schedule_kinds: Sequence[ScheduleKind] = (),
        announce: Callable[[str], None] | None = None,
        totals: Sequence[Total] = (),
        surveys: Sequence[Survey] = (),
        slots: Mapping[str, int] = SLOTS,
    ) -> None:
        self._database = database
        self.jobs = jobs
        self._slot = identity.slot
        self._audit_seconds = audit_seconds
        self._periodic = periodic
        self._announce = announce or _no_op
        self._job_kinds_of_periodic = {task.name: jobs_kind(task) for task in periodic}
        for kind in self._job_kinds_of_periodic.values():
            jobs.register(kind)
        queues = sorted({kind.queue for kind in jobs.kinds.values()})
        self.job_sources = [JobSource(queue, database, jobs.kinds, lease_seconds) for queue in queues]
        everything: list[Source[Any]] = [*self.job_sources, *sources]
        periodic_kind = ScheduleKind(name=schedules.PERIODIC, fire=self._fire_periodic)
        self._kinds = {kind.name: kind for kind in schedule_kinds} | {task.name: periodic_kind for task in periodic}
        self._fires = serves is None or bool(serves)
        self.node = Node(
            database,
            control,
            identity,
            lease_seconds=lease_seconds,
            sources=everything,
            holdings=holdings,
            fires=list(self._kinds),
        )
        for source in everything:
            source.attach(self.node)
        self.workers = {
            index: Worker(
                source, self.node, slots[source.queue], partial(self._announce, source.queue), self._work_begun
            )
            for index, source in enumerate(everything)
            if serves is None or source.queue in serves
        }
        self._job_workers = {
            worker.source.queue: worker for worker in self.workers.values() if worker.source in self.job_sources
        }
        self.counts = JobCounts(database, totals, surveys)
        self._counting: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()
        for worker in self.workers.values():
            worker.source.serve_by(worker.wake)
        self._beating: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._auditing: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._firing = asyncio.Event()
        self._firing_task: asyncio.Task[None] | None = None
        self._fire_timer: asyncio.TimerHandle | None = None
        self._timers: dict[str, list[asyncio.TimerHandle]] = {}
        self._dropped = False
        jobs.attach(self.node)
        jobs.on_enqueued(self._enqueued)

    @property
    def is_holding(self) -> bool:
        """Whether this process holds any work."""
        return any(worker.running for worker in self.workers.values())

    async def start(self) -> None:
        """Join the cluster and begin to work."""
        await schedules.put_periodic(self._database, self._periodic)
        await self.node.join()
        for worker in self.workers.values():
            worker.start()
            worker.wake()
        self._beating = asyncio.create_task(self._beat_forever())
        self._watching = asyncio.create_task(self._watch_lease())
        self._auditing = asyncio.create_task(self._audit_forever())
        self._settling = asyncio.create_task(self._settle_forever())
        if self._slot == 0:
            self._counting = asyncio.create_task(self.counts.keep())
        if self._fires:
            self._firing_task = asyncio.create_task(self._fire_forever())

    async def stop(self, seconds: float) -> None:
        """Claim no more work, give running work `seconds` to end, return the rest, and leave the cluster."""
        await self.drain(seconds)
        await self.release()

    async def drain(self, seconds: float) -> None:
        """Claim no more work, give running work `seconds` to end, then cancel the rest. The lease is still renewed."""
        for handle in [timer for timers in self._timers.values() for timer in timers]:
            handle.cancel()
        if self._fire_timer:
            self._fire_timer.cancel()
        await _ended(self._firing_task)
        await _ended(self._auditing)
        await _ended(self._settling)
        await _ended(self._counting)
        for worker in self.workers.values():
            await worker.stop_claiming()
        await asyncio.gather(*(worker.finish(seconds) for worker in self.workers.values()), return_exceptions=True)

    async def release(self) -> None:
        """Return the work that this process still holds, and leave the cluster."""
        await _ended(self._beating)
        await _ended(self._watching)
        try:
            await self.node.leave()
        except Exception as error:
            # Another node takes over when the lease has expired.
            _log.warning("releasing work failed", error=type(error).__name__)

    async def run_now(self, name: str) -> bool:
        """Run a periodic task in this process now; return False if it is already waiting or running on any process."""
        kind = self._job_kinds_of_periodic[name]
        row = await store.begin(self._database, self.node.id, kind.queue, name, name)
        if row is None:
            return False
        job = ClaimedJob[dict[str, Any]](self._database, self.node, self.node.id, row)
        job.payload = {}
        try:
            await kind.run(job)
        finally:
            await store.finish(self._database, self.node.id, [(job.app_id, job.id, job.fence)])
        return True

    def wake(self, queue: str) -> None:
        """Claim work of a queue now; called when the queue is known to have some."""
        for worker in self.workers.values():
            if worker.source.queue == queue:
                worker.wake()

    def _enqueued(self, queue: str) -> None:
        """Claim soon after the enqueuing transaction commits. Heartbeats find jobs whose commit takes longer."""
        if self._timers.get(queue):
            return
        loop = asyncio.get_running_loop()
        self._timers[queue] = [
            loop.call_later(ENQUEUED_SECONDS[0], self._claim_jobs, queue),
            loop.call_later(ENQUEUED_SECONDS[1], self._enqueued_long_ago, queue),
        ]

    def _enqueued_long_ago(self, queue: str) -> None:
        self._timers.pop(queue, None)
        self._claim_jobs(queue)

    def _claim_jobs(self, queue: str) -> None:
        """Claim jobs of a queue; other sources of its work have none because a job was enqueued."""
        if worker := self._job_workers.get(queue):
            worker.wake()

    async def _beat_forever(self) -> None:
        while True:
            before = self.node.id
            beat = await self.node.beat(is_holding=self.is_holding)
            if self.node.id != before:
                # Another process now holds everything that this one held.
                self._drop()
            elif beat is not None:
                await self._beaten(beat)
            await self._until_next_beat(beat)

    async def _until_next_beat(self, beat: Beat | None) -> None:
        """Sleep until the next heartbeat, which is earlier when there is work to hold."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while (left := start + self._beat_seconds(beat) - loop.time()) > 0:
            self._has_begun.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._has_begun.wait()

    def _work_begun(self) -> None:
        self._has_begun.set()

    async def _watch_lease(self) -> None:
        """Cancel the work as soon as the lease is uncertain, even while a heartbeat waits for its response."""
        while True:
            await asyncio.sleep(max(_WATCH_SECONDS, self.node.certain_seconds))
            if self.is_holding and not self.node.is_certain:
                self._drop()

    async def _settle_forever(self) -> None:
        # Apart from the heartbeat, which a database that is slow for an app must not delay.
        while True:
            await asyncio.sleep(_SETTLE_SECONDS)
            try:
                await self.node.settle_holdings()
            except Exception as error:
                _log.warning("held rows not returned", error=type(error).__name__)

    async def _audit_forever(self) -> None:
        """Find work that this process owns and does not run; workers release what they know of themselves."""
        reported = 0
        while True:
            await asyncio.sleep(self._audit_seconds)
            try:
                for index, owned in enumerate(await self.node.owned()):
                    if index in self.workers:
                        self.workers[index].audit(owned)
                number, age = self.strays()
                if number or reported:
                    await self.node.report_strays(number, age)
                reported = number
            except Exception as error:
                _log.warning("owned work not compared", error=type(error).__name__)

    def strays(self) -> tuple[int, float]:
        """Return how many items this process owned and did not run when it last looked, and the age of the oldest."""
        since = [at for worker in self.workers.values() for at in worker.strays]
        return len(since), asyncio.get_running_loop().time() - min(since) if since else 0.0

    def _drop(self) -> None:
        if not self._dropped:
            _log.warning("work cancelled: the lease is lost or uncertain")
        self._dropped = True
        for worker in self.workers.values():
            worker.drop()

    def _beat_seconds(self, beat: Beat | None) -> float:
        if beat is None or self._slot == 0 or self._dropped:
            return BEAT_SECONDS
        if self.is_holding:
            return min(HOLDING_BEAT_SECONDS, self.node.lease_seconds / 4)
        # A claim that finds nothing leaves an idle process the short lease of one that holds something.
        return min(IDLE_BEAT_SECONDS, self.node.lease_seconds / 2)

    async def _beaten(self, beat: Beat) -> None:
        if self.is_holding and not beat.was_certain:
            self._drop()
        try:
            if self._dropped and not self.is_holding:
                await self.node.release_holdings()
                self._dropped = False
                for worker in self.workers.values():
                    worker.resume()
            if beat.expired:
                await self.node.take_over_expired()
        except Exception as error:
            _log.warning("takeover failed", error=type(error).__name__)
        for index, due in enumerate(beat.due):
            if index in self.workers:
                self.workers[index].due(due, beat.now)
        if self._fires:
            self._schedule_due(beat.schedule_due, beat.now)

    def _schedule_due(self, due: datetime | None, now: datetime) -> None:
        if self._fire_timer:
            self._fire_timer.cancel()
            self._fire_timer = None
        if due is None:
            return
        seconds = (due - now).total_seconds()
        if seconds <= 0:
            self._firing.set()
        elif seconds <= IDLE_BEAT_SECONDS:
            self._fire_timer = asyncio.get_running_loop().call_later(seconds, self._firing.set)

    async def _fire_forever(self) -> None:
        while True:
            await self._firing.wait()
            self._firing.clear()
            try:
                fired = await schedules.fire_due(self._database, self._kinds)
                # This fires again at once if more are due. The process that fires a schedule sets a timer for the next
                # one: a period shorter than the heartbeat loses no slot, although only one process in each server has
                # a heartbeat every second.
                self._schedule_due(fired.next_due, fired.now)
            except Exception as error:
                _log.exception("schedules not fired", error=type(error).__name__)
                await asyncio.sleep(BEAT_SECONDS)

    async def _fire_periodic(self, connection: Connection, due: DueSchedule, _slot: datetime) -> None:
        kind = self._job_kinds_of_periodic[due.target_id]
        await self.jobs.enqueue(connection, kind, SERVER, {}, key=due.target_id, again=False)


def jobs_kind(task: Periodic) -> JobKind[dict[str, Any]]:
    """Return the job kind that runs a periodic task. A failed run is not retried: the next period runs it again."""
    return JobKind(
        name=task.name, queue=task.queue, payload=dict[str, Any], run=task.run, gaps=(30.0,), seconds=task.seconds
    )


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _no_op(_: str) -> None:
    """Announce nothing: there is no other process."""

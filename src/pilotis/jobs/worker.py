"""The loop that claims and runs work of any source."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog

from pilotis.jobs.kinds import Held, LeaseLostError, LeaseUncertainError, Source
from pilotis.jobs.node import Node
from pilotis.kit.errors import OutcomeUnknownError, UnavailableError

_BUSY_SECONDS = 1.0
_log = structlog.get_logger("pilotis.jobs")


class Worker:
    """Runs the due work of one source, at most `slots` items at a time, of which one app gets at most half.

    `share` is called after a claim that filled every free slot, because there may be more work than this process can
    do. `begun` is called when work begins in an idle process.
    """

    def __init__(
        self, source: Source[Any], node: Node, slots: int, share: Callable[[], None], begun: Callable[[], None]
    ) -> None:
        self.source = source
        self._node = node
        self._slots = slots
        self._share = share
        self._begun = begun
        self._claims = True
        self._may_have_more = True
        self.has_left = False
        self._running: dict[asyncio.Task[None], UUID] = {}
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.Task[None] | None = None
        self._places = False

    @property
    def running(self) -> int:
        """Return the number of work items in progress."""
        return len(self._running)

    def start(self) -> None:
        """Start claiming."""
        self._places = True
        self._loop = asyncio.create_task(self._claim_forever())

    def wake(self) -> None:
        """Claim due work now."""
        self._wake.set()

    def due(self, at: datetime | None, now: datetime) -> None:
        """Claim work when the earliest is due; both times are the database's."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is None:
            return
        if (seconds := (at - now).total_seconds()) <= 0:
            self.wake()
        else:
            self._timer = asyncio.get_running_loop().call_later(min(seconds, 3600.0), self.wake)

    def drop(self) -> None:
        """Cancel running work because the lease is no longer certain, and claim nothing until `resume`."""
        self._claims = False
        for task in self._running:
            task.cancel()

    def resume(self) -> None:
        """Claim again: this process holds no work without a task."""
        self._claims = True
        self.has_left = False
        self.wake()

    async def stop_claiming(self) -> None:
        """Claim no more work; running work continues."""
        self._places = False
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop

    async def finish(self, seconds: float) -> None:
        """Give running work `seconds` to end, then cancel it."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        self.drop()
        if self._running:
            await asyncio.wait(self._running, timeout=1.0)

    async def _claim_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._claim()
            except UnavailableError:
                await self._pause()
            except Exception as error:
                _log.exception("claim failed", queue=self.source.queue, error=type(error).__name__)
                await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(_BUSY_SECONDS)
        self._wake.set()

    async def _claim(self) -> None:
        free, full = self._slots - len(self._running), self._full()
        self._may_have_more = True
        # The claim itself renews the lease, so a process that holds nothing needs no certain lease.
        if free <= 0 or not self._claims or (self._running and not self._node.is_certain):
            return
        started = self._node.clock()
        held = await self.source.claim(self._node.id, free, full)
        if held:
            self._node.renewed(started)
        for one in held:
            self._run(one)
        # One claim gives an app at most half of the free slots, so the app may have more work.
        per_app = max(1, free // 2)
        is_cut = any(number >= per_app for number in Counter(one.app_id for one in held).values())
        self._may_have_more = bool(full) or len(held) == free or not self.source.wakes_itself
        if held and (is_cut or not self.source.wakes_itself):
            self._wake.set()
        if held and len(held) == free:
            self._share()

    async def place(self, app_id: UUID, store: Callable[[UUID | None], Awaitable[Held | None]]) -> None:
        """Store new work of an app, and run it here at once if a slot is free; returns when it is stored.

        `store` gets the process that will own the work, or None if another claim has to find it, and returns the work
        if this process owns it. Only a process with the short lease of one that holds something takes work this way,
        because `store` does not renew the lease.
        """
        node = self._node
        is_free = len(self._running) < self._slots and app_id not in self._full()
        if not (is_free and self._places and self._claims and node.is_certain and node.has_short_lease):
            await store(None)
            return
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A task of its own: what is stored runs even if the caller is cancelled.
        self._start(asyncio.create_task(self._stored(store, node.id, stored)), app_id)
        await stored

    async def _stored(
        self, store: Callable[[UUID | None], Awaitable[Held | None]], owner: UUID, stored: asyncio.Future[None]
    ) -> None:
        try:
            held = await store(owner)
        except BaseException as error:
            # The work may be stored, and this process own it: see `Background`.
            self.has_left = self.has_left or isinstance(error, OutcomeUnknownError)
            if not stored.done():
                stored.set_exception(error if isinstance(error, Exception) else UnavailableError())
            return
        if not stored.done():
            stored.set_result(None)
        if held is not None:
            await self._guarded(held)

    def _full(self) -> Sequence[UUID]:
        """Return the apps that hold half of the slots; they wait until others have been served."""
        per_app = max(1, self._slots // 2)
        return [app_id for app_id, number in Counter(self._running.values()).items() if number >= per_app]

    def _run(self, held: Held) -> None:
        self._start(asyncio.create_task(self._guarded(held)), held.app_id)

    def _start(self, task: asyncio.Task[None], app_id: UUID) -> None:
        if not self._running:
            self._begun()
        self._running[task] = app_id
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if self._may_have_more:
            self._wake.set()

    async def _guarded(self, held: Held) -> None:
        try:
            await self.source.run(held)
        except LeaseUncertainError:
            # This process may still hold the work although no task works on it: see `Background`.
            self.has_left = True
        except (asyncio.CancelledError, LeaseLostError):
            # Whichever process holds the work now runs it again.
            pass
        except Exception as error:
            _log.exception("work failed", queue=self.source.queue, error=type(error).__name__)

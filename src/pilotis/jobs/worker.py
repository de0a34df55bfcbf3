"""The loop that claims and runs work of any source."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog

from pilotis.jobs.kinds import Held, Hold, LeaseLostError, LeaseUncertainError, Source
from pilotis.jobs.node import Node
from pilotis.kit.errors import UnavailableError

_BUSY_SECONDS = 1.0
_log = structlog.get_logger("pilotis.jobs")


class Worker:
    """Runs the due work of one source, at most `slots` items at a time, of which one app gets at most half.

    Whatever fails between the claim of an item and the storage of its result, nobody can know whether the database
    still names this process as the owner. So any failure makes the worker *doubt*: before the next claim it releases
    what this process owns and does not run. Running items continue.

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
        self._doubts = False
        self._running: dict[asyncio.Task[bool], Held] = {}
        self._strays: dict[Hold, float] = {}
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """Return the number of work items in progress."""
        return len(self._running)

    @property
    def strays(self) -> Sequence[float]:
        """Return since when, by the event loop's clock, this process has owned each item that it does not run."""
        return list(self._strays.values())

    def start(self) -> None:
        """Start claiming."""
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
        """Claim again, after the release of what was cancelled."""
        self._claims = True
        self._doubt()

    def audit(self, owned: Sequence[Hold]) -> None:
        """Compare what this process owns, by the database, with what it runs.

        An item may be found once because its claim has just arrived or its end is just being stored. What is found
        twice is released.
        """
        now = asyncio.get_running_loop().time()
        held = {item.hold for item in self._running.values()}
        strays = {hold: self._strays.get(hold, now) for hold in owned if hold not in held}
        if any(hold in self._strays for hold in strays):
            self._doubt()
        self._strays = strays

    async def stop_claiming(self) -> None:
        """Claim no more work; running work continues."""
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
                if self._doubts:
                    await self._release_strays()
                await self._claim()
            except UnavailableError:
                self._doubt()
            except Exception as error:
                _log.exception("claim failed", queue=self.source.queue, error=type(error).__name__)
                self._doubt()

    def _doubt(self) -> None:
        self._doubts = True
        self._wake.set()

    async def _release_strays(self) -> None:
        """Release what this process owns and does not run; no claim of the source is in progress meanwhile."""
        await asyncio.sleep(_BUSY_SECONDS)
        # What fails from here on may not be in `keep`, and needs another release.
        self._doubts = False
        await self._node.release_own(self.source, [item.hold for item in self._running.values()])
        self._strays.clear()

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

    def _full(self) -> Sequence[UUID]:
        """Return the apps that hold half of the slots; they wait until others have been served."""
        per_app = max(1, self._slots // 2)
        apps = Counter(item.app_id for item in self._running.values())
        return [app_id for app_id, number in apps.items() if number >= per_app]

    def _run(self, held: Held) -> None:
        if not self._running:
            self._begun()
        task = asyncio.create_task(self._guarded(held))
        self._running[task] = held
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[bool]) -> None:
        del self._running[task]
        if task.cancelled() or not task.result():
            self._doubt()
        elif self._may_have_more:
            self._wake.set()

    async def _guarded(self, held: Held) -> bool:
        """Run an item; return False if this process may still own it."""
        try:
            await self.source.run(held)
        except (asyncio.CancelledError, LeaseUncertainError):
            return False
        except LeaseLostError:
            # The process that holds the work now runs it again.
            return True
        except Exception as error:
            _log.exception("work failed", queue=self.source.queue, error=type(error).__name__)
            return False
        return True

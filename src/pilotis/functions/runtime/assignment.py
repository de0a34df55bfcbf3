"""The assignment of sandboxes to calls: warm and prestarted ones, fairness between apps, eviction.

A call takes an idle sandbox of its key; else a prestarted one, which is then bound to the key; else permission to start
a new one, which, if the pool is full, replaces the least recently used idle one; else it waits. Waiting calls are
served round robin over the apps.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from uuid import UUID

from pilotis.functions.runtime.call import Outcome
from pilotis.functions.runtime.policy import Runtime
from pilotis.functions.runtime.sandbox import Sandbox
from pilotis.functions.runtime.types import (
    FunctionBusyError,
    FunctionsOverloadedError,
    Key,
    PoolSettings,
    QueueTimeoutError,
    Start,
    Wanted,
)
from pilotis.kit.granting import granted

ADMITTED_SECONDS = 5.0
"""The maximum wait of a call for a sandbox after its app's quota permits it."""
MAX_CALLS = 1000
MAX_AGE = 900.0
JITTER = 0.1
# A new duration moves the usual one by a fifth: it follows a change within about ten calls.
_WEIGHT = 0.2
_MAX_USUAL = 4096


class Grant(NamedTuple):
    """A sandbox or, if it is None, permission to start one."""

    sandbox: Sandbox | None
    start: Start


class _Waiter:
    """A call that waits for its grant, until `deadline` by the event loop's clock."""

    __slots__ = ("admitted", "deadline", "future", "wanted")

    def __init__(self, wanted: Wanted, future: asyncio.Future[Grant], deadline: float) -> None:
        self.wanted, self.future, self.deadline = wanted, future, deadline
        self.admitted: asyncio.TimerHandle | None = None


class Assignment:
    """Which call has which sandbox. `end` ends one that no call will get.

    A sandbox is prestarted (`ready`), `busy` with a call of a key, or `idle` with one; `starting` counts those that are
    none of these yet.
    """

    def __init__(self, settings: PoolSettings, end: Callable[[Sandbox], None]) -> None:
        self._settings = settings
        self._end = end
        self.idle: OrderedDict[Sandbox, Key] = OrderedDict()
        self.busy: dict[Sandbox, Key] = {}
        self.ready: dict[Runtime, list[Sandbox]] = {runtime: [] for runtime in Runtime}
        self.starting = 0
        self.is_stopping = False
        self._by_key: dict[Key, list[Sandbox]] = {}
        self._held: Counter[UUID] = Counter()
        self._versions: Counter[Key] = Counter()
        self._running: Counter[UUID] = Counter()
        self._usual: OrderedDict[Key, float] = OrderedDict()
        self._queues: OrderedDict[UUID, deque[_Waiter]] = OrderedDict()
        self._current: dict[UUID, tuple[str, int]] = {}
        self._ended: asyncio.Event | None = None

    @property
    def total(self) -> int:
        """The number of sandboxes, also of those that start."""
        return len(self.busy) + len(self.idle) + self.starting + sum(map(len, self.ready.values()))

    @property
    def granted(self) -> int:
        """The number of calls with a sandbox, or with permission to start one."""
        return sum(self._running.values())

    def all(self) -> Iterator[Sandbox]:
        """Return all sandboxes that have started."""
        yield from self.idle
        yield from self.busy
        for ready in self.ready.values():
            yield from ready

    async def acquire(self, wanted: Wanted, deadline: float) -> Grant:
        """Return a grant for a call, which must be released; raises errors if there is none until the deadline."""
        return self._grant_at_once(wanted) or await self._wait(wanted, deadline)

    def release(self, sandbox: Sandbox | None, wanted: Wanted, *, keep: bool) -> None:
        """Take back what a call was granted, with the sandbox that it has started; `keep` it for the next call."""
        self._running[wanted.app_id] -= 1
        if not self._running[wanted.app_id]:
            del self._running[wanted.app_id]
        if sandbox is None or sandbox not in self.busy:
            self.starting -= 1
            self._count_out(wanted.key)
            if sandbox:
                self._end(sandbox)
        else:
            del self.busy[sandbox]
            if self._ended and not self.busy:
                self._ended.set()
            current = self._current.get(wanted.key[1], wanted.key[2:])
            is_current = current == wanted.key[2:] or wanted.key[2].startswith("draft")
            if keep and is_current and not sandbox.is_dead and not self.is_stopping and not self.is_old(sandbox):
                self.idle[sandbox] = wanted.key
                self._by_key.setdefault(wanted.key, []).append(sandbox)
            else:
                self._forget(sandbox, wanted.key)
        self.dispatch()

    def started(self, sandbox: Sandbox, wanted: Wanted) -> None:
        """Assign a sandbox that a call has started with its permission."""
        self.busy[sandbox] = wanted.key
        self.starting -= 1

    def exchange(self, sandbox: Sandbox) -> None:
        """End a prestarted sandbox that does not fit its call, which then has permission to start one."""
        del self.busy[sandbox]
        self.starting += 1
        self._end(sandbox)

    def add_ready(self, sandbox: Sandbox) -> bool:
        """Add a prestarted sandbox; return False if it is not needed any more."""
        ready = self.ready[sandbox.runtime]
        if self.is_stopping or len(ready) >= self._settings.ready(sandbox.runtime):
            return False
        ready.append(sandbox)
        self.dispatch()
        return True

    def is_old(self, sandbox: Sandbox) -> bool:
        """Whether a sandbox has served its time, or its number of calls."""
        factor = 1 - JITTER * (hash(sandbox) % 97) / 97
        age = asyncio.get_running_loop().time() - sandbox.started_at
        return sandbox.calls >= MAX_CALLS * factor or age >= MAX_AGE * factor

    def drop(self, sandbox: Sandbox) -> None:
        """End an idle sandbox."""
        key = self.idle.pop(sandbox)
        self._by_key[key].remove(sandbox)
        if not self._by_key[key]:
            del self._by_key[key]
        self._forget(sandbox, key)

    def outdate(self, function_id: UUID, version: str, revision: int) -> None:
        """End the sandboxes of other versions and revisions of a function; busy ones end after their call."""
        for sandbox, key in list(self.idle.items()):
            if key[1] == function_id and key[2:] != (version, revision) and not key[2].startswith("draft"):
                self.drop(sandbox)
        self._current[function_id] = (version, revision)

    def measured(self, key: Key, outcome: Outcome, seconds: float) -> None:
        """Remember how long calls of a key usually take; those that timed out say nothing about it."""
        if outcome.status == "timeout":
            return
        usual = self._usual.pop(key, seconds)
        self._usual[key] = usual + _WEIGHT * (seconds - usual)
        if len(self._usual) > _MAX_USUAL:
            self._usual.popitem(last=False)

    async def drain(self, seconds: float) -> None:
        """Start no more sandboxes, and wait so many seconds for the end of running calls."""
        self.is_stopping = True
        if self.busy:
            self._ended = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)

    def close(self) -> None:
        """Grant nothing any more, and fail the calls that wait."""
        self.is_stopping = True
        for queue in self._queues.values():
            for waiter in queue:
                if not waiter.future.done():
                    waiter.future.set_exception(FunctionsOverloadedError())

    def clear(self) -> None:
        """Forget all sandboxes that no call has; they have ended."""
        self.idle.clear()
        self._by_key.clear()
        self.ready = {runtime: [] for runtime in Runtime}

    def _grant_at_once(self, wanted: Wanted) -> Grant | None:
        app_id = wanted.app_id
        queue = self._queues.get(app_id)
        if queue or self._running[app_id] >= wanted.at_once:
            if not wanted.may_wait or len(queue or ()) >= wanted.waiting:
                raise FunctionBusyError
            return None
        grant = self._grant(wanted)
        if grant is None and self.is_stopping:
            raise FunctionsOverloadedError
        if grant is None and len(queue or ()) >= wanted.waiting:
            raise FunctionBusyError
        return grant

    async def _wait(self, wanted: Wanted, deadline: float) -> Grant:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(wanted, loop.create_future(), deadline)
        self._queues.setdefault(wanted.app_id, deque()).append(waiter)
        self.dispatch()
        try:
            return await granted(waiter.future, deadline, QueueTimeoutError, partial(self._return, wanted))
        finally:
            if waiter.admitted:
                waiter.admitted.cancel()
            queue = self._queues.get(wanted.app_id)
            if queue is not None:
                with suppress(ValueError):
                    queue.remove(waiter)
                if not queue:
                    self._queues.pop(wanted.app_id, None)

    def _return(self, wanted: Wanted, grant: Grant) -> None:
        """Take back what a call was granted and did not use."""
        self.release(grant.sandbox, wanted, keep=grant.start == "warm")

    def dispatch(self) -> None:
        """Assign free capacity to waiting calls, round robin over the apps."""
        given = True
        while given:
            given = False
            for app_id in list(self._queues):
                queue = self._queues[app_id]
                waiter = self._next(queue)
                if waiter is None or self._running[app_id] >= waiter.wanted.at_once:
                    continue
                grant = self._grant(waiter.wanted)
                if grant is None:
                    self._limit_wait(queue)
                    continue
                queue.remove(waiter)
                waiter.future.set_result(grant)
                self._queues.move_to_end(app_id)
                given = True

    def _next(self, queue: deque[_Waiter]) -> _Waiter | None:
        """Return the call to serve next: the first that can still end in time, or else the one with the most time.

        Under overload the first of the queue have waited almost until their deadline. To serve them would spend a
        sandbox on calls that end as time-outs, which in turn end the sandbox.
        """
        now = asyncio.get_running_loop().time()
        best: _Waiter | None = None
        for waiter in queue:
            if waiter.future.done() or waiter.deadline <= now:
                continue
            if now + self._usual.get(waiter.wanted.key, 0.0) < waiter.deadline:
                return waiter
            if best is None or waiter.deadline > best.deadline:
                best = waiter
        return best

    def _limit_wait(self, queue: deque[_Waiter]) -> None:
        """Start the time limit of calls that wait only for a sandbox, not for their app's quota."""
        free = queue[0].wanted.at_once - self._running[queue[0].wanted.app_id]
        for waiter in list(queue)[:free]:
            if waiter.admitted is None:
                loop = asyncio.get_running_loop()
                waiter.admitted = loop.call_later(ADMITTED_SECONDS, self._give_up, waiter)

    def _give_up(self, waiter: _Waiter) -> None:
        if not waiter.future.done():
            waiter.future.set_exception(FunctionsOverloadedError())

    def _grant(self, wanted: Wanted) -> Grant | None:
        """Take a sandbox, or capacity for one, for a call that its app's quota permits."""
        key, app_id = wanted.key, wanted.app_id
        while idle := self._by_key.get(key):
            sandbox = idle.pop()
            del self.idle[sandbox]
            if not sandbox.is_lost and not self.is_old(sandbox):
                return self._begin(wanted, Grant(sandbox, "warm"))
            self._forget(sandbox, key)
        half = max(1, self._settings.sandboxes // 2)
        if self.is_stopping or self._versions[key] >= wanted.per_version:
            return None
        if self._held[app_id] >= half and not self._evict(app_id):
            return None
        # A way out is part of a sandbox from its start.
        ready = [] if wanted.egress else self.ready[wanted.runtime]
        while ready:
            sandbox = ready.pop()
            if not sandbox.is_lost and sandbox.memory_mb == wanted.memory_mb:
                return self._begin(wanted, Grant(sandbox, "ready"))
            self._end(sandbox)
        if self.total >= self._settings.sandboxes and not self._evict(None):
            return None
        return self._begin(wanted, Grant(None, "cold"))

    def _begin(self, wanted: Wanted, grant: Grant) -> Grant:
        self._running[wanted.app_id] += 1
        if grant.start != "warm":
            self._held[wanted.app_id] += 1
            self._versions[wanted.key] += 1
        if grant.sandbox is None:
            self.starting += 1
        else:
            self.busy[grant.sandbox] = wanted.key
        return grant

    def _evict(self, app_id: UUID | None) -> bool:
        """End the idle sandbox, of an app or of any, that was used least recently, or else a prestarted one."""
        for sandbox, key in self.idle.items():
            if app_id is None or key[0] == app_id:
                self.drop(sandbox)
                return True
        if app_id is None:
            for ready in self.ready.values():
                if ready:
                    self._end(ready.pop())
                    return True
        return False

    def _forget(self, sandbox: Sandbox, key: Key) -> None:
        self._count_out(key)
        self._end(sandbox)

    def _count_out(self, key: Key) -> None:
        self._held[key[0]] -= 1
        self._versions[key] -= 1
        if not self._held[key[0]]:
            del self._held[key[0]]
        if not self._versions[key]:
            del self._versions[key]

"""The order in which connections are granted: fair across tenants, within a tenant first come first served.

Where more requests come than are served, who is first of a queue that grows has waited longest, so that soon everybody
waits as long as they may, and half of the work is done for clients that have given up. A tenant whose queue grows is
overloaded: whoever came last is served first, and nobody waits for longer than `OVERLOADED_SECONDS`. A burst that is
over is no overload: all of it is served in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar
from uuid import UUID

from pilotis.kit.errors import UnavailableError

Tenant = Hashable
"""For whom a connection is acquired: an app's id, or one of the parts of the server below."""
CONSOLE = UUID(int=0)
"""The `app_id` of rows without an app, such as those of the console's users."""
BACKGROUND = "background"
"""All background work of a process."""
UNAUTHENTICATED = "unauthenticated"
"""Lookups by unverified ids from clients; one tenant, whatever the number of invented ids."""
OVERLOADED_SECONDS = 0.4
"""How long a request waits for a connection where more come than are served; twice that must pass to see it."""
# For how long after its queue has grown a tenant is overloaded: clients pause, too.
_STAYS_SECONDS = 2.0
# Clients that each wait for their answer send about as many requests as are answered.
_OVERLOADED_FACTOR = 1.1
# Work in the background does not come from clients, and is better done late than not.
_PATIENT: frozenset[Tenant | None] = frozenset({None, BACKGROUND})
Grant = TypeVar("Grant")


def busy() -> UnavailableError:
    """Return the error for a caller that has waited for too long."""
    return UnavailableError("The database is busy. Try again shortly.")


class _Queue(Generic[Grant]):
    """The callers of one tenant that wait, and how many have come and were served within the last moments."""

    def __init__(self, now: float, overloaded_until: float, *, is_patient: bool) -> None:
        self.waiting: deque[tuple[float, asyncio.Future[Grant]]] = deque()
        self.overloaded_until = overloaded_until
        self._is_patient = is_patient
        self._since = now
        self._came = self._served = 0
        self._grew = False

    def add(self, caller: asyncio.Future[Grant], now: float) -> None:
        self.waiting.append((now, caller))
        self._came += 1
        if now - self._since < OVERLOADED_SECONDS:
            return
        # A burst falls into one of two spans that follow each other. Where nobody is served the database is away.
        grows = self._came > _OVERLOADED_FACTOR * self._served > 0
        is_late = self._grew and now - self.waiting[0][0] >= OVERLOADED_SECONDS
        if grows and (is_late or now < self.overloaded_until) and not self._is_patient:
            self.overloaded_until = now + _STAYS_SECONDS
        self._since, self._came, self._served, self._grew = now, 0, 0, grows

    def refuse_late(self, now: float) -> None:
        """Refuse callers that came before their tenant was known to be overloaded, and have waited for too long."""
        while now < self.overloaded_until and self.waiting and self.waiting[0][0] <= now - OVERLOADED_SECONDS:
            _, caller = self.waiting.popleft()
            if not caller.done():
                caller.set_exception(busy())

    def take(self, now: float) -> asyncio.Future[Grant]:
        self._served += 1
        _, caller = self.waiting.pop() if now < self.overloaded_until else self.waiting.popleft()
        return caller

    def drop_done(self) -> None:
        """Drop callers at the ends, of which one is served next, that were cancelled or timed out."""
        waiting = self.waiting
        while waiting and waiting[0][1].done():
            waiting.popleft()
        while waiting and waiting[-1][1].done():
            waiting.pop()


class Waiters(Generic[Grant]):
    """Counts the connections that each tenant holds, and queues the callers that wait for one.

    A tenant holds at most half of the pool, and the last free connection goes to a tenant that holds none. A freed
    connection goes to the waiting tenant that holds the fewest, in turn among equals: so while n tenants compete, each
    gets 1/n. The tenant None is the server itself, to which neither bound applies.
    """

    def __init__(self, size: int, max_waiting: int) -> None:
        self._max_held = max(1, size // 2)
        self._max_waiting = max_waiting
        self._held: dict[Tenant | None, int] = {}
        # By tenant, in the order in which they are served next. Empty if no caller waits.
        self.queues: dict[Tenant | None, _Queue[Grant]] = {}
        # Until when tenants are overloaded whose queue is empty.
        self._overloaded: dict[Tenant | None, float] = {}

    def try_acquire(self, tenant: Tenant | None, free: int) -> bool:
        """Count one of `free` connections as the tenant's, if a new caller of it may have one without waiting."""
        if tenant in self.queues:
            return False
        held = self._held.get(tenant, 0)
        if not self._may_hold_one_more(tenant, held, free):
            return False
        self._held[tenant] = held + 1
        return True

    def acquired(self, tenant: Tenant | None) -> None:
        """Count a connection as the tenant's."""
        self._held[tenant] = self._held.get(tenant, 0) + 1

    def released(self, tenant: Tenant | None) -> None:
        """Count a connection as no longer the tenant's."""
        held = self._held[tenant] - 1
        if held:
            self._held[tenant] = held
        else:
            del self._held[tenant]

    def add(self, tenant: Tenant | None, caller: asyncio.Future[Grant], now: float) -> bool:
        """Queue a caller, and return whether its tenant is overloaded: then it waits for `OVERLOADED_SECONDS` at most.

        `now` is in seconds by the event loop's clock. Raises `UnavailableError` if too many of its tenant already wait.
        """
        queue = self.queues.get(tenant)
        if queue is None:
            until = self._overloaded.pop(tenant, 0.0)
            queue = self.queues[tenant] = _Queue(now, until, is_patient=tenant in _PATIENT)
        queue.drop_done()
        if len(queue.waiting) >= self._max_waiting:
            raise UnavailableError("Too many requests wait for the database. Try again shortly.")
        queue.add(caller, now)
        queue.refuse_late(now)
        return now < queue.overloaded_until

    def next(self, free: int, now: float) -> tuple[Tenant | None, asyncio.Future[Grant]] | None:
        """Remove and return the next caller and its tenant; None if no caller may take one of `free` connections."""
        chosen: Tenant | None = None
        fewest: int | None = None
        empty = []
        for tenant, queue in self.queues.items():
            queue.refuse_late(now)
            queue.drop_done()
            if not queue.waiting:
                empty.append(tenant)
                continue
            held = self._held.get(tenant, 0)
            if self._may_hold_one_more(tenant, held, free) and (fewest is None or held < fewest):
                chosen, fewest = tenant, held
                if not held:
                    break
        for tenant in empty:
            self._emptied(tenant, self.queues.pop(tenant), now)
        if fewest is None:
            return None
        queue = self.queues.pop(chosen)
        caller = queue.take(now)
        if queue.waiting:
            self.queues[chosen] = queue
        else:
            self._emptied(chosen, queue, now)
        return chosen, caller

    def waiting(self) -> int:
        """Return the number of waiting callers."""
        return sum(not caller.done() for queue in self.queues.values() for _, caller in queue.waiting)

    def fail_all(self, error: Exception) -> None:
        """Raise the error in every waiting caller."""
        for queue in self.queues.values():
            for _, caller in queue.waiting:
                if not caller.done():
                    caller.set_exception(error)
        self.queues.clear()

    def _emptied(self, tenant: Tenant | None, queue: _Queue[Grant], now: float) -> None:
        if now < queue.overloaded_until:
            self._overloaded = {other: until for other, until in self._overloaded.items() if now < until}
            self._overloaded[tenant] = queue.overloaded_until

    def _may_hold_one_more(self, tenant: Tenant | None, held: int, free: int) -> bool:
        if free < 1:
            return False
        return tenant is None or not held or (free > 1 and held < self._max_held)

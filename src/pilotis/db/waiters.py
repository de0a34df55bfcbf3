"""The order in which connections are granted: fair across tenants, first come first served within a tenant."""

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
Grant = TypeVar("Grant")


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
        self.queues: dict[Tenant | None, deque[asyncio.Future[Grant]]] = {}

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

    def add(self, tenant: Tenant | None, caller: asyncio.Future[Grant]) -> None:
        """Queue a caller; raises `UnavailableError` if too many of its tenant already wait."""
        queue = self.queues.get(tenant)
        if queue is None:
            queue = self.queues[tenant] = deque()
        _drop_done(queue)
        if len(queue) >= self._max_waiting:
            raise UnavailableError("Too many requests wait for the database. Try again shortly.")
        queue.append(caller)

    def next(self, free: int) -> tuple[Tenant | None, asyncio.Future[Grant]] | None:
        """Remove and return the next caller and its tenant; None if no caller may take one of `free` connections."""
        chosen: Tenant | None = None
        fewest: int | None = None
        empty = []
        for tenant, queue in self.queues.items():
            _drop_done(queue)
            if not queue:
                empty.append(tenant)
                continue
            held = self._held.get(tenant, 0)
            if self._may_hold_one_more(tenant, held, free) and (fewest is None or held < fewest):
                chosen, fewest = tenant, held
                if not held:
                    break
        for tenant in empty:
            del self.queues[tenant]
        if fewest is None:
            return None
        queue = self.queues.pop(chosen)
        caller = queue.popleft()
        if queue:
            self.queues[chosen] = queue
        return chosen, caller

    def waiting(self) -> int:
        """Return the number of waiting callers."""
        return sum(not caller.done() for queue in self.queues.values() for caller in queue)

    def fail_all(self, error: Exception) -> None:
        """Raise the error in every waiting caller."""
        for queue in self.queues.values():
            for caller in queue:
                if not caller.done():
                    caller.set_exception(error)
        self.queues.clear()

    def _may_hold_one_more(self, tenant: Tenant | None, held: int, free: int) -> bool:
        if free < 1:
            return False
        return tenant is None or not held or (free > 1 and held < self._max_held)


def _drop_done(queue: deque[asyncio.Future[Grant]]) -> None:
    """Drop callers at the front that were cancelled or timed out."""
    while queue and queue[0].done():
        queue.popleft()

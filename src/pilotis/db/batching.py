"""Combines concurrent requests into one statement, and so into one round trip and one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

from pilotis.kit.effects import took_effect
from pilotis.kit.errors import UnavailableError

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_WAITING = 10_000
"""Maximum number of callers that wait in one queue; further ones get 503 at once."""
WAIT_SECONDS = 4.0
"""How long a caller waits for its batch or query to start. With the time for a connection it stays below 10 s."""
SHARE_SECONDS = 0.002
"""How long callers of a query that already runs wait for others to share its next run with."""


class Batcher(Generic[Item, Result]):
    """Runs items in batches: the first at once, those that arrive during a batch together in the next one.

    `run` takes a batch and returns a result for each item, in order. If it fails, every item of the batch fails with
    its exception. A batch has at most `max_batch` items; at most `workers` batches run concurrently. An item whose
    caller was cancelled, or has waited for `wait_seconds`, leaves the queue without being run.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_batch: int = 100,
        workers: int = 2,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._run = run
        self._wait_seconds = wait_seconds
        self._max_batch = max_batch
        self._workers = workers
        self._running = 0
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def submit(self, item: Item) -> Result:
        """Run an item, alone or in a batch, and return its result.

        Raises `UnavailableError`, and does not run the item, when the queue is full or blocked.
        """
        result = await self.begin(item)
        took_effect()
        return result

    def begin(self, item: Item) -> asyncio.Future[Result]:
        """Return a future of what `submit` returns; raises `UnavailableError` when the queue is full."""
        if len(self._waiting) >= MAX_WAITING:
            raise _queue_is_full()
        loop = self._loop
        if loop is None:
            # Each question for it is a system call, until Python 3.12.
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        waiting = (item, future, loop.time() + self._wait_seconds)
        self._waiting.append(waiting)
        if self._running < self._workers:
            self._running += 1
            # Not the caller's own task: if it is cancelled, the items of other callers must still run.
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self._timer is None:
            self._timer = loop.call_at(waiting[2], self._expire)
        return future

    @property
    def idle(self) -> bool:
        """Return whether nothing runs or waits."""
        return not self._running

    async def _work(self) -> None:
        try:
            while batch := self._next_batch():
                await self._run_batch(batch)
        finally:
            self._running -= 1

    def _next_batch(self) -> list[_Waiting[Item, Result]]:
        batch: list[_Waiting[Item, Result]] = []
        while self._waiting and len(batch) < self._max_batch:
            waiting = self._waiting.popleft()
            if not waiting[1].done():
                batch.append(waiting)
        return batch

    def _expire(self) -> None:
        """Fail the items whose deadline has passed. They are the oldest, so they are at the front of the queue."""
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._waiting:
            _, future, deadline = self._waiting[0]
            if not future.done():
                if deadline > loop.time():
                    self._timer = loop.call_at(deadline, self._expire)
                    return
                future.set_exception(_waited_too_long())
            self._waiting.popleft()

    async def _run_batch(self, batch: list[_Waiting[Item, Result]]) -> None:
        try:
            results = await self._run([item for item, _, _ in batch])
        except Exception as error:  # Each caller handles it.
            for _, future, _ in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future, _), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


_Waiting = tuple[Item, "asyncio.Future[Result]", float]
"""An item, the future of its caller, and the loop time at which it leaves the queue."""


class Batchers(Generic[Key, Item, Result]):
    """A `Batcher` for each key while the key is in use, so items of different keys never wait for each other."""

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_batch: int = 100,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._new = partial(Batcher[Item, Result], run, max_batch=max_batch, wait_seconds=wait_seconds)
        self._batchers: dict[Key, Batcher[Item, Result]] = {}

    def begin(self, key: Key, item: Item) -> asyncio.Future[Result]:
        """Return a future of what `submit` returns; raises as `Batcher.begin` does."""
        batcher = self._batchers.get(key)
        if batcher is None:
            batcher = self._batchers[key] = self._new()
        future = batcher.begin(item)
        future.add_done_callback(lambda _: self._forget(key, batcher))
        return future

    def _forget(self, key: Key, batcher: Batcher[Item, Result]) -> None:
        if batcher.idle and self._batchers.get(key) is batcher:
            del self._batchers[key]

    async def submit(self, key: Key, item: Item) -> Result:
        """Run an item, alone or in a batch of its key, and return its result; raises as `Batcher.submit` does."""
        batcher = self._batchers.get(key)
        if batcher is None:
            batcher = self._batchers[key] = self._new()
        try:
            return await batcher.submit(item)
        finally:
            self._forget(key, batcher)


class SingleFlight(Generic[Result]):
    """Coalesces identical concurrent queries; a result is never older than the request that it answers.

    So a caller that arrives while an identical query runs shares the next run with all callers that arrive before it.
    That begins when the one before has ended or, where up to `runs` may run at once, after `SHARE_SECONDS`: callers
    of a database that is far away wait for it once, not twice.
    """

    def __init__(self, *, runs: int = 1) -> None:
        self._runs = runs
        self._flights: dict[Hashable, _Flights[Result]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, key: Hashable, query: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of `query`, run for this caller alone or for all callers with an equal key.

        Raises `UnavailableError` when too many callers wait for the key, or its query does not end.
        """
        flights = self._flights.get(key)
        if flights is not None:
            return await self._wait(key, flights, query)
        flights = self._flights[key] = _Flights()
        try:
            return await query()
        finally:
            self._end(key, flights, query)

    async def _wait(self, key: Hashable, flights: _Flights[Result], query: Callable[[], Awaitable[Result]]) -> Result:
        waiting = flights.waiting
        if len(waiting) >= MAX_WAITING:
            raise _queue_is_full()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        waiting[future] = None
        if flights.running < self._runs and flights.next_run is None:
            flights.next_run = loop.call_later(SHARE_SECONDS, self._begin, key, flights, query)
        timer = loop.call_later(WAIT_SECONDS, _expire, waiting, future)
        try:
            return await future
        finally:
            timer.cancel()
            waiting.pop(future, None)
            if not waiting and flights.next_run:
                flights.next_run.cancel()
                flights.next_run = None

    def _begin(self, key: Hashable, flights: _Flights[Result], query: Callable[[], Awaitable[Result]]) -> None:
        """Begin a run for all who wait."""
        if flights.next_run:
            flights.next_run.cancel()
            flights.next_run = None
        callers = [future for future in flights.waiting if not future.done()]
        # Their query has started and has its own time limit, so they no longer expire.
        flights.waiting.clear()
        flights.running += 1
        task = asyncio.create_task(self._answer(key, flights, query, callers))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, key: Hashable, flights: _Flights[Result], query: Callable[[], Awaitable[Result]]) -> None:
        flights.running -= 1
        if flights.waiting:
            self._begin(key, flights, query)
        elif not flights.running and self._flights.get(key) is flights:
            del self._flights[key]

    async def _answer(
        self,
        key: Hashable,
        flights: _Flights[Result],
        query: Callable[[], Awaitable[Result]],
        callers: list[asyncio.Future[Result]],
    ) -> None:
        try:
            result = await query()
        except Exception as error:  # Each caller handles it.
            for future in callers:
                if not future.done():
                    future.set_exception(error)
            return
        finally:
            self._end(key, flights, query)
        for future in callers:
            if not future.done():
                future.set_result(result)


class _Flights(Generic[Result]):
    """The runs of one query, the callers that wait for its next run, and when that begins at the latest."""

    def __init__(self) -> None:
        self.running = 1
        self.waiting: dict[asyncio.Future[Result], None] = {}
        self.next_run: asyncio.TimerHandle | None = None


def _expire(waiting: dict[asyncio.Future[Result], None], future: asyncio.Future[Result]) -> None:
    """Fail a caller that still waits for a run; the statement's time limit bounds a query that has started."""
    if future in waiting and not future.done():
        future.set_exception(_waited_too_long())


class NotBegunError(UnavailableError):
    """503: too many wait for the database, or for too long. Nothing was run for this caller."""


def _queue_is_full() -> NotBegunError:
    return NotBegunError("Too many requests wait for the database. Try again shortly.")


def _waited_too_long() -> NotBegunError:
    return NotBegunError("The database is busy. Try again shortly.")

"""Requests that arrive together share one statement, and so one round trip and one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Merger(Generic[Item, Result]):
    """Runs items in batches: the first at once, those that arrive meanwhile together in the next batch.

    `run` takes a batch and returns a result for each item, in order. If it fails, every item of the batch fails with
    its exception. A batch has at most `most` items; at most `lanes` batches run side by side.
    """

    def __init__(
        self, run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], *, most: int = 100, lanes: int = 2
    ) -> None:
        self._run = run
        self._most = most
        self._lanes = lanes
        self._running = 0
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Run an item, alone or with others, and return its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running < self._lanes:
            self._running += 1
            # Not the caller's own task: if it is cancelled, the others' items must run all the same.
            task = asyncio.create_task(self._lane())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._running

    async def _lane(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                await self._run_batch(batch)
        finally:
            self._running -= 1

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._run([item for item, _ in batch])
        except Exception as error:  # it is for each caller to handle
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


class Mergers(Generic[Key, Item, Result]):
    """A `Merger` for each key, kept while it is in use; so items of different keys never wait for each other."""

    def __init__(self, run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]) -> None:
        self._run = run
        self._mergers: dict[Key, Merger[Item, Result]] = {}

    async def submit(self, key: Key, item: Item) -> Result:
        """Run an item, alone or with others of its key, and return its result."""
        merger = self._mergers.get(key)
        if merger is None:
            merger = self._mergers[key] = Merger(self._run)
        try:
            return await merger.submit(item)
        finally:
            if merger.idle and self._mergers.get(key) is merger:
                del self._mergers[key]


class Sharing(Generic[Result]):
    """Gives those who ask the same at the same time one answer, which is begun after the last of them asked.

    So an answer is never older than its question: who asks while another's is being worked out waits for the next.
    """

    def __init__(self) -> None:
        # Questions that are being worked out, with those who wait for the next answer to each.
        self._waiting: dict[Hashable, list[asyncio.Future[Result]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, question: Hashable, answer: Callable[[], Awaitable[Result]]) -> Result:
        """Return what `answer` gives, called for this one question or for others that are equal to it."""
        waiting = self._waiting.get(question)
        if waiting is not None:
            future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            waiting.append(future)
            return await future
        self._waiting[question] = []
        try:
            return await answer()
        finally:
            self._go_on(question, answer)

    def _go_on(self, question: Hashable, answer: Callable[[], Awaitable[Result]]) -> None:
        waiting = self._waiting.pop(question)
        if waiting:
            self._waiting[question] = []
            task = asyncio.create_task(self._answer(question, answer, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, question: Hashable, answer: Callable[[], Awaitable[Result]], askers: list[asyncio.Future[Result]]
    ) -> None:
        try:
            result = await answer()
        except Exception as error:  # it is for each caller to handle
            for future in askers:
                if not future.done():
                    future.set_exception(error)
            return
        finally:
            self._go_on(question, answer)
        for future in askers:
            if not future.done():
                future.set_result(result)

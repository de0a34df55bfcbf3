"""Handles the request to stop, by SIGINT or SIGTERM, at any moment of `serve`."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - it is no error
    """The server was asked to stop before it was ready."""


class StopRequest:
    """Remembers the request to stop. The first signal takes effect, later ones are ignored.

    A signal raises no exception: one at an arbitrary point would leave locks held and event loops in an undefined
    state. Synchronous code calls `check` while it waits; asynchronous code is notified through `before` and `then`.
    """

    def __init__(self) -> None:
        self.requested = False
        self._notify: Callable[[], object] = self._no_op

    def install(self) -> None:
        """Handle the signals from now on, in this process and in its forks."""
        for number in SIGNALS:
            signal.signal(number, self._received)

    def check(self) -> None:
        """Raise `Stopped` if a stop was requested."""
        if self.requested:
            raise Stopped

    def then(self, stop: Callable[[], object]) -> None:
        """Call `stop` when a stop is requested, at once if it already was."""
        self._notify = stop
        if self.requested:
            stop()

    async def before(self, work: Awaitable[Result]) -> Result:
        """Return the result of `work`, or cancel it and raise `Stopped`."""
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        self.then(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            return await task
        except asyncio.CancelledError:
            self.check()
            raise
        finally:
            self._notify = self._no_op

    def _received(self, *_: object) -> None:
        if not self.requested:
            self.requested = True
            self._notify()

    def _no_op(self) -> None:
        pass

"""Being asked to stop, by SIGINT or SIGTERM, at any moment from the first line of `serve` to the last."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - it is no error
    """Somebody asked to stop before the server was up."""


class StopRequest:
    """Remembers the request. The first signal has an effect, further ones have none.

    A signal raises nothing: an exception out of nowhere leaves locks held and event loops in pieces. Synchronous code
    asks with `check` while it waits; asynchronous code is told through `before` and `then`.
    """

    def __init__(self) -> None:
        self.requested = False
        self._tell: Callable[[], object] = self._nothing

    def install(self) -> None:
        """Handle the signals from now on, in this process and in those forked from it."""
        for number in SIGNALS:
            signal.signal(number, self._received)

    def check(self) -> None:
        """Raise `Stopped` if somebody asked."""
        if self.requested:
            raise Stopped

    def then(self, stop: Callable[[], object]) -> None:
        """Call `stop` when somebody asks, at once if that is past."""
        self._tell = stop
        if self.requested:
            stop()

    async def before(self, work: Awaitable[Result]) -> Result:
        """Return what `work` does, or cancel it and raise `Stopped`."""
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        self.then(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            return await task
        except asyncio.CancelledError:
            self.check()
            raise
        finally:
            self._tell = self._nothing

    def _received(self, *_: object) -> None:
        if not self.requested:
            self.requested = True
            self._tell()

    def _nothing(self) -> None:
        pass

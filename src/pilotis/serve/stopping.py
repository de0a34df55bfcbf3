"""Being asked to stop, by SIGINT or SIGTERM, at any moment from the first line of `serve` to the last."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")


class Stopped(BaseException):
    """Somebody asked to stop before the server was up."""


class StopRequest:
    """Remembers the request. The first signal has an effect, further ones have none.

    At first it raises `Stopped`, which ends any waiting for PostgreSQL. From the first event loop on it is told through
    `before`, `then` and `check` alone, since an exception out of nowhere would leave a loop in pieces.
    """

    def __init__(self) -> None:
        self.requested = False
        self._tell: Callable[[], object] | None = None

    def install(self) -> None:
        """Handle the signals from now on, in this process and in those forked from it."""
        for number in SIGNALS:
            signal.signal(number, self._received)

    def check(self) -> None:
        """Raise `Stopped` if somebody asked: an exception in a finalizer is lost, the request is not."""
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
            self._tell = _nothing

    def _received(self, *_: object) -> None:
        if self.requested:
            return
        self.requested = True
        if self._tell is None:
            raise Stopped
        self._tell()


def _nothing() -> None:
    pass

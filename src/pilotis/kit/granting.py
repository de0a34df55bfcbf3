"""How a caller waits for something that another part grants it, such as a connection, a sandbox or a slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def granted(
    future: asyncio.Future[T], deadline: float, expired: Callable[[], Exception], release: Callable[[T], None]
) -> T:
    """Return what the future is granted; raises `expired()` at the deadline, by the event loop's clock.

    The timer fails the future itself, so that a grant and the deadline exclude each other. `asyncio.timeout` would
    instead cancel a caller that was granted something in the same turn of the loop, and the grant would be lost. If the
    caller is cancelled after the grant, `release` is called with it.
    """
    timer = asyncio.get_running_loop().call_at(deadline, _fail, future, expired)
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and future.exception() is None:
            release(future.result())
        raise
    finally:
        timer.cancel()


def _fail(future: asyncio.Future[T], expired: Callable[[], Exception]) -> None:
    if not future.done():
        future.set_exception(expired())

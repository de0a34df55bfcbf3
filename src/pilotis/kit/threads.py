"""Waiting for threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


async def finished(work: Future[_T], undo: Callable[[_T], object] | None = None) -> _T:
    """Wait until a thread's work ends, even when cancelled, once or again: it uses what is closed afterwards.

    Work that has not started by then is cancelled. The result of work that has is given to `undo`.
    """
    future = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not work.cancel():
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            if undo is not None and not future.cancelled() and future.exception() is None:
                undo(future.result())
        raise

"""Waiting for threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


async def finished(work: Future[_T]) -> _T:
    """Wait for a thread's work to end, even when cancelled: it uses what is to be closed afterwards.

    Work that has not begun by then never will.
    """
    future = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not work.cancel():
            await asyncio.wait([future])
        raise

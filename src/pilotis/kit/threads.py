"""Waiting for threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


async def finished(work: Future[_T]) -> _T:
    """Wait until a thread's work ends, even when cancelled: it uses resources that are closed afterwards.

    Work that has not started by then is cancelled.
    """
    future = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not work.cancel():
            await asyncio.wait([future])
        raise

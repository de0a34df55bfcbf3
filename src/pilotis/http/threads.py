"""Waiting for threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


async def finished(work: Future[_T]) -> _T:
    """Wait for a thread's work to end, in any case: it uses what is to be closed afterwards."""
    future = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise

"""Asynchronous generators of bytes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator


async def started(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Return the same chunks after reading the first one, so that an error is raised before the response begins.

    Raises `StopAsyncIteration` if there is no chunk.
    """
    return _prepend(await anext(chunks), chunks)


async def _prepend(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with contextlib.aclosing(rest):
        if first:
            yield first
        async for chunk in rest:
            yield chunk


async def no_chunks() -> AsyncGenerator[bytes]:
    """Yield nothing."""
    none: tuple[bytes, ...] = ()
    for chunk in none:
        yield chunk

"""Leases on uploads: the receiving request renews its lease, and releases it when it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

import structlog

_log = structlog.get_logger("pilotis.files")


@contextlib.asynccontextmanager
async def kept(renew: Callable[[], Awaitable[object]], lease_seconds: float) -> AsyncGenerator[None]:
    """Renew a lease several times in its duration while a block runs."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(lease_seconds / 4)
            try:
                await renew()
            except Exception as error:
                _log.warning("lease not renewed", error=type(error).__name__)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()


async def shielded(work: Coroutine[object, object, None]) -> None:
    """Finish a short action although the request is being cancelled."""
    try:
        await asyncio.shield(asyncio.ensure_future(work))
    except Exception as error:
        _log.warning("upload not released", error=type(error).__name__)

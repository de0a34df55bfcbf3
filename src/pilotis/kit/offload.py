"""Runs work whose duration depends on a request's size in a thread, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

INLINE_BYTES = 64 * 1024
"""Up to this many bytes a thread costs more than it saves: the work takes 50 ms at worst, mostly below 1 ms."""

_MODERATE_BYTES = 1024 * 1024

_Result = TypeVar("_Result")

# Two, so that one body of ten megabytes does not block all others; more would only compete for the interpreter. What
# takes milliseconds has a thread of its own: that two compete for it costs a bulk create of 1000 rows 5 %.
_threads = ThreadPoolExecutor(2, thread_name_prefix="offload")
_moderate = ThreadPoolExecutor(1, thread_name_prefix="offload")


async def offload(size: int, function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Return the function's result; runs it in a thread if it works on more than `INLINE_BYTES`.

    The function must not touch anything that belongs to the event loop.
    """
    if size <= INLINE_BYTES:
        return function(*arguments)
    return await _run(_moderate if size <= _MODERATE_BYTES else _threads, function, *arguments)


async def in_thread(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Return the function's result; always runs it in a thread."""
    return await _run(_threads, function, *arguments)


async def _run(threads: ThreadPoolExecutor, function: Callable[..., _Result], *arguments: Any) -> _Result:
    run = contextvars.copy_context().run
    return await asyncio.get_running_loop().run_in_executor(threads, run, function, *arguments)

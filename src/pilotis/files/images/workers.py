"""Runs a process for each new variant, with limits on concurrency and time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from pilotis.files.errors import ImageTooLargeError, InvalidImageError
from pilotis.files.recipes import MAX_RESULT_BYTES, Recipe
from pilotis.kit.errors import UnavailableError

_MAX_WAITING = 64
_MAX_WAITING_OF_APP = 32
_SECONDS = 30
_log = structlog.get_logger("pilotis.files")


class ImageWorkers:
    """Runs as many processes as there are cores, at least two; one app never occupies all of them.

    Beyond `max_waiting` concurrent requests, or `max_waiting_of_app` of one app, further ones are rejected with
    `UnavailableError`, as is one that takes longer than `seconds`.
    """

    def __init__(
        self,
        *,
        max_waiting: int = _MAX_WAITING,
        max_waiting_of_app: int = _MAX_WAITING_OF_APP,
        seconds: float = _SECONDS,
    ) -> None:
        self._max_waiting = max_waiting
        self._max_waiting_of_app = max_waiting_of_app
        self._seconds = seconds
        self._at_once = max(2, os.cpu_count() or 1)
        self._slots = asyncio.Semaphore(self._at_once)
        self._slots_of_app: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[UUID] = Counter()

    async def make(self, app_id: UUID, source: AsyncGenerator[bytes], recipe: Recipe) -> bytes:
        """Return the variant of a source; raises `InvalidImageError`, `ImageTooLargeError`, `UnavailableError`."""
        if self._waiting.total() >= self._max_waiting or self._waiting[app_id] >= self._max_waiting_of_app:
            raise UnavailableError("Too many images are being converted at once. Try again shortly.")
        self._waiting[app_id] += 1
        try:
            async with asyncio.timeout(self._seconds), self._slots_for(app_id), self._slots:
                return await _run(source, recipe)
        except TimeoutError:
            raise UnavailableError("The image was not converted in time. Try again shortly.") from None
        finally:
            self._waiting[app_id] -= 1
            if not self._waiting[app_id]:
                del self._waiting[app_id]

    def _slots_for(self, app_id: UUID) -> asyncio.Semaphore:
        slots = self._slots_of_app.get(app_id)
        if slots is None:
            slots = self._slots_of_app[app_id] = asyncio.Semaphore(self._at_once - 1)
        return slots


async def _run(source: AsyncGenerator[bytes], recipe: Recipe) -> bytes:
    # Its environment has none of the server's secrets, and it does not receive the server's Ctrl-C.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "pilotis.files.images.imaging",
        recipe.to_json(),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={},
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        await _feed(process.stdin, source)
        answer = await _read(process.stdout)
        return _result(await process.wait(), answer)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _feed(pipe: asyncio.StreamWriter, source: AsyncGenerator[bytes]) -> None:
    async with aclosing(source):
        # The exit status of a process that has already ended gives the reason.
        with suppress(BrokenPipeError, ConnectionResetError):
            async for chunk in source:
                pipe.write(chunk)
                await pipe.drain()
        pipe.close()


async def _read(pipe: asyncio.StreamReader) -> bytes:
    """Return everything up to the size of the largest answer."""
    try:
        return await pipe.readexactly(MAX_RESULT_BYTES + 16)
    except asyncio.IncompleteReadError as ended:
        return ended.partial


def _result(status: int, answer: bytes) -> bytes:
    outcome, _, result = answer.partition(b"\n")
    if status == 0 and outcome == b"ok":
        return result
    if status == 0 and outcome == b"invalid":
        raise InvalidImageError
    if (status == 0 and outcome == b"large") or status in {-signal.SIGXCPU, -signal.SIGKILL}:
        raise ImageTooLargeError
    _log.error("image worker ended", status=status)
    if status < 0:
        raise InvalidImageError
    raise UnavailableError

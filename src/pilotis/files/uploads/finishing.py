"""The end of an upload: copying or joining its bytes, which may take the object store minutes.

It goes on when the request that began it ends. That request, and each one that repeats it, waits for a while, and is
then told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from uuid import UUID

import structlog

from pilotis.files.errors import UploadFinishingError
from pilotis.kit.errors import PilotisError

WAIT_SECONDS = 20.0
"""For how long a request waits: shorter than the 30 s after which many proxies and clients no longer do."""
_log = structlog.get_logger("pilotis.files")


class Finishing:
    """What this process is finishing, one task for each upload."""

    def __init__(self) -> None:
        self._tasks: dict[UUID, asyncio.Task[None]] = {}

    async def run(self, upload_id: UUID, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Wait for the work on an upload, which begins now unless it is running; raises its error.

        Raises `UploadFinishingError` after `WAIT_SECONDS`, while the work goes on.
        """
        task = self._tasks.get(upload_id)
        if task is None:
            task = self._tasks[upload_id] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(upload_id, done))
        done, _ = await asyncio.wait([task], timeout=WAIT_SECONDS)
        if not done:
            raise UploadFinishingError
        task.result()

    async def stop(self) -> None:
        """Cancel what is running: the next request for the upload begins again, on any node."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _end(self, upload_id: UUID, task: asyncio.Task[None]) -> None:
        del self._tasks[upload_id]
        if task.cancelled() or (error := task.exception()) is None:
            return
        # Perhaps no request is waiting any more.
        if not isinstance(error, PilotisError) or error.status >= 500:
            _log.warning("upload not finished", upload_id=str(upload_id), error=type(error).__name__)

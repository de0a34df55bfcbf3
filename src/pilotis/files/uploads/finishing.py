"""The end of an upload: copying or joining its bytes, which may take the object store minutes.

It goes on when the request that began it ends. That request, and each one that repeats it, waits for a while, and is
then told to come again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from uuid import UUID

import structlog

from pilotis.files.errors import UploadFinishingError
from pilotis.kit.errors import PilotisError

WAIT_SECONDS = 20.0
"""For how long a request waits: shorter than the 30 s after which many proxies and clients no longer do."""
_SLOTS = 32
_SLOTS_OF_AN_APP = _SLOTS // 2
_log = structlog.get_logger("pilotis.files")


class _AppSlots:
    """The slots of one app, as long as it uses any."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(_SLOTS_OF_AN_APP)
        self.users = 0


class Finishing:
    """What this process is finishing, one task for each upload."""

    def __init__(self) -> None:
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._free = asyncio.Semaphore(_SLOTS)
        self._apps: dict[UUID, _AppSlots] = {}

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

    @contextlib.asynccontextmanager
    async def slot(self, app_id: UUID) -> AsyncGenerator[None]:
        """Wait for one of the slots of this process, of which an app has at most half, for a block.

        Bytes that pass through this server occupy tens of megabytes of memory for each upload.
        """
        own = self._apps.setdefault(app_id, _AppSlots())
        own.users += 1
        try:
            async with own.free, self._free:
                yield
        finally:
            own.users -= 1
            if not own.users:
                del self._apps[app_id]

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

"""Watches an object store while the server runs: whether it answers, and whether clients may upload to it directly."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, cast

import structlog

from pilotis.blobs.check import cause, distrust
from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.blobs.local import LocalStore
from pilotis.blobs.moving import parts_of
from pilotis.blobs.protocol import BlobStore

if TYPE_CHECKING:
    from pilotis.blobs.objects import ObjectStore

INTERVAL_SECONDS = 10.0
PATIENCE_SECONDS = 30.0
"""For how long a store may be unavailable before the server reports that it is not ready."""
_FIRST_SECONDS = 5.0
_log = structlog.get_logger("pilotis.blobs")


class StoreWatch:
    """Asks a store regularly; a directory is not asked.

    Until a store was tried, and afterwards if it failed, clients do not upload to it directly.
    """

    def __init__(
        self, store: BlobStore, *, interval: float = INTERVAL_SECONDS, patience: float = PATIENCE_SECONDS
    ) -> None:
        # Every other store is one, whose module a server with a directory does not load.
        self._stores = [cast("ObjectStore", one) for one in parts_of(store) if not isinstance(one, LocalStore)]
        self._interval = interval
        self._patience = patience
        self._failing: tuple[float, str] | None = None
        self._is_tried = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask the store once, for a few seconds at most, and then regularly."""
        if not self._stores:
            return
        for store in self._stores:
            store.takes_direct_uploads = store.probe is None
        self._task = asyncio.create_task(self._run())
        await asyncio.wait([asyncio.ensure_future(asyncio.shield(self.ask()))], timeout=_FIRST_SECONDS)

    async def stop(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def check(self) -> None:
        """Raise `BlobStoreUnavailableError` if the store has been unavailable for `PATIENCE_SECONDS`."""
        if self._failing is not None and asyncio.get_running_loop().time() - self._failing[0] >= self._patience:
            raise BlobStoreUnavailableError

    async def ask(self) -> None:
        """Ask the store whether it is there, and once whether clients may upload to it."""
        try:
            for store in self._stores:
                await store.ping()
            if not self._is_tried:
                for store in self._stores:
                    await self._try(store)
                self._is_tried = True
        except BlobStoreUnavailableError as error:
            if self._failing is None:
                self._failing = asyncio.get_running_loop().time(), cause(error)
                _log.error("object store unavailable", says=self._failing[1][:500])
            return
        if self._failing is not None:
            self._failing = None
            _log.info("object store available")

    async def _try(self, store: ObjectStore) -> None:
        if store.probe is not None:
            reason = await distrust(store, *store.probe)
            store.takes_direct_uploads = reason is None
            if reason is not None:
                _log.warning("no direct uploads", reason=reason)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.ask()
            except Exception as error:
                _log.exception("object store not asked", error=type(error).__name__)

"""What a server does for its backups: it ships the log, and makes and rehearses backups when they are due.

Of the processes of a server one does this: the one that holds the lock on the spool, which the kernel releases however
it ends. Nothing of this needs a statement on the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from cronsim import CronSim, CronSimError

from pilotis.backup import base, catalogue, proof, wal
from pilotis.backup.errors import BackupError
from pilotis.backup.place import Place, opened
from pilotis.backup.prune import prune
from pilotis.kit.clock import now
from pilotis.kit.errors import PilotisError
from pilotis.kit.metrics import Gauge, Metric
from pilotis.kit.scratch import remove_remains
from pilotis.settings import Settings

_PERIOD = 1.0
_LONGEST_PAUSE = 60.0
_ELSEWHERE_SECONDS = 5.0
_log = structlog.get_logger("pilotis.backup")


class Keeper:
    """Keeps the backups of the server of which this is a process."""

    def __init__(self, settings: Settings, connect_arguments: dict[str, Any]) -> None:
        self._settings = settings
        self._connect_arguments = connect_arguments
        self._task: asyncio.Task[None] | None = None
        self._making: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin, if there is a store and the database is the embedded one."""
        if self._settings.backup.store is not None and not self._settings.database_url:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; a backup that is being made is given up, and its remains are deleted by the next one."""
        for task in (self._making, self._task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run(self) -> None:
        pause = _PERIOD
        while True:
            began = time.monotonic()
            try:
                async with opened(self._settings, may_create=True) as place:
                    await self._keep(place)
            # Whatever it is: as long as the server runs, its log goes to the store as soon as that is possible again.
            except Exception as error:
                _log.warning("backups are held up", **_why(error))
                await self._compress()
                was_well = time.monotonic() - began > _LONGEST_PAUSE
                pause = _PERIOD if was_well else min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = _ELSEWHERE_SECONDS
            await asyncio.sleep(pause)

    async def _compress(self) -> None:
        """Compress what waits for the store, whatever keeps it from going there."""
        cluster = Path(self._settings.data_dir) / "postgres"
        try:
            with wal.shipping(cluster) as is_held:
                if is_held:
                    await asyncio.to_thread(wal.compress, cluster)
        except OSError as error:
            _log.warning("the log that waits for the backup store cannot be compressed", reason=str(error))

    async def _keep(self, place: Place) -> None:
        """Work until something fails; return at once if another process does."""
        with wal.shipping(place.cluster) as is_held:
            if not is_held:
                return
            await asyncio.to_thread(remove_remains, place.data_dir)
            full = _Due(self._settings.backup.full, now())
            incremental = _Due(self._settings.backup.incremental, now())
            rehearsal = _Due(self._settings.backup.rehearse, now())
            while True:
                await wal.ship(place.cluster, place.store, place.key)
                # Both are asked, also where one is enough: what was due at the same time is not due afterwards.
                is_full, is_incremental = full.is_due(), incremental.is_due()
                if is_full or is_incremental:
                    self._begin("backup", lambda is_full=is_full: self._create(place, full=is_full))  # type: ignore[misc]
                elif rehearsal.is_due():
                    self._begin("rehearsal", lambda: self._rehearse(place))
                await asyncio.sleep(_PERIOD)

    def _begin(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        if self._making is not None and not self._making.done():
            _log.warning("backup skipped", what=what, reason="the one before is not done yet")
            return

        async def run() -> None:
            try:
                await work()
                _log.info("backup done", what=what)
            except Exception as error:
                _log.error("backup failed", what=what, **_why(error))

        self._making = asyncio.create_task(run())

    async def _create(self, place: Place, *, full: bool) -> None:
        made = await base.create(place, self._connect_arguments, full=full)
        if made.why_full:
            _log.info("backup is a full one", reason=made.why_full)
        for sentence in (await prune(place)).incomplete:
            _log.warning("backup is incomplete", reason=sentence)

    async def _rehearse(self, place: Place) -> None:
        done = await proof.rehearse(place, await place.catalogue.find(None))
        if done.error:
            raise BackupError(done.error)


def _why(error: Exception) -> dict[str, Any]:
    """Return the fields of the log that say why something failed, with its place in the program if it is a surprise."""
    if isinstance(error, BackupError | PilotisError | OSError):
        return {"reason": str(error)}
    return {"reason": f"{type(error).__name__}: {error}", "exc_info": error}


class _Due:
    """The times of a cron expression, in UTC; none for an empty one."""

    def __init__(self, expression: str, after: datetime) -> None:
        try:
            self._times = iter(CronSim(expression, after)) if expression else iter(())
        except CronSimError as error:
            raise BackupError(f"[backup]: {expression} is no cron expression.") from error
        self._next: datetime | None = next(self._times, None)

    def is_due(self) -> bool:
        """Whether a time has come since the last question; one that was missed meanwhile counts once."""
        due = False
        while self._next is not None and self._next <= now():
            due = True
            self._next = next(self._times, None)
        return due


def metrics(settings: Settings) -> list[Metric]:
    """Return what every process of a server can say of its backups without asking the store."""
    data_dir = Path(settings.data_dir)
    cluster = data_dir / "postgres"
    same = "every process of the server reports it."
    return [
        Gauge(
            "pilotis_backup_spool_bytes",
            f"Bytes of the write-ahead log that wait for the backup store; {same}",
            lambda: wal.waiting(cluster).bytes,
            is_largest=True,
        ),
        Gauge(
            "pilotis_backup_spool_seconds",
            f"For how long the oldest of them has waited; {same}",
            lambda: wal.waiting(cluster).seconds,
            is_largest=True,
        ),
        Gauge(
            "pilotis_backup_age_seconds",
            f"For how long there has been no newer backup; {same}",
            lambda: catalogue.age(data_dir),
            is_largest=True,
        ),
        Gauge(
            "pilotis_backup_unproven_seconds",
            f"For how long no backup was restored to try it; {same}",
            lambda: catalogue.unproven(data_dir),
            is_largest=True,
        ),
    ]

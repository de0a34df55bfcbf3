"""What a server does for its backups: it ships the log and new files, makes and rehearses backups when they are due.

Of the processes of a server one does this: the one that holds the lock on the spool, which the kernel releases however
it ends. The database is asked for new files when a segment of its log was shipped, so never while nothing is written.
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
from asyncpg import InterfaceError, PostgresError
from cronsim import CronSim, CronSimError

from pilotis.backup import base, catalogue, copies, gaps, proof, wal
from pilotis.backup.errors import BackupError
from pilotis.backup.place import Place, opened
from pilotis.backup.prune import prune
from pilotis.backup.waiting import waiting
from pilotis.kit.clock import now
from pilotis.kit.errors import PilotisError
from pilotis.kit.metrics import Gauge, Metric
from pilotis.kit.scratch import remove_remains
from pilotis.settings import Settings

_PERIOD = 1.0
_LOOKS = 10
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
        self._next_bridge = 0.0

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
                await self._hold()
                was_well = time.monotonic() - began > _LONGEST_PAUSE
                pause = _PERIOD if was_well else min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = _ELSEWHERE_SECONDS
            await asyncio.sleep(pause)

    async def _hold(self) -> None:
        """Compress the log that waits for the store, whatever keeps it from going there, and note which files wait."""
        data_dir = Path(self._settings.data_dir)
        cluster = data_dir / "postgres"
        try:
            with wal.shipping(cluster) as is_held:
                if is_held:
                    await asyncio.to_thread(wal.compress, cluster)
                    await copies.look(data_dir, self._connect_arguments)
                    await self._bound(data_dir, is_away=True)
        except (OSError, BackupError, PostgresError, InterfaceError) as error:
            _log.warning("what waits for the backup store cannot be compressed and counted", reason=str(error))

    async def _keep(self, place: Place) -> None:
        """Work until something fails; return at once if another process does."""
        with wal.shipping(place.cluster) as is_held:
            if not is_held:
                return
            await asyncio.to_thread(remove_remains, place.data_dir)
            copying = _Copying(place, self._connect_arguments)
            await copying.start()
            try:
                await self._keep_shipping(place, copying)
            finally:
                await copying.stop()

    async def _keep_shipping(self, place: Place, copying: _Copying) -> None:
        full = _Due(self._settings.backup.full, now())
        incremental = _Due(self._settings.backup.incremental, now())
        rehearsal = _Due(self._settings.backup.rehearse, now())
        while True:
            count = await gaps.ship(place)
            if count:
                copying.wake()
            await self._bound(place.data_dir, is_away=False)
            if gaps.noted(place.data_dir) is not None and time.monotonic() >= self._next_bridge:
                self._next_bridge = time.monotonic() + _LONGEST_PAUSE
                self._begin("backup after a gap", lambda: self._create(place, full=False))
            # Both are asked, also where one is enough: what was due at the same time is not due afterwards.
            is_full, is_incremental = full.is_due(), incremental.is_due()
            if is_full or is_incremental:
                self._begin("backup", lambda is_full=is_full: self._create(place, full=is_full))  # type: ignore[misc]
            elif rehearsal.is_due():
                self._begin("rehearsal", lambda: self._rehearse(place))
            if count < gaps.BATCH:
                await self._pause(place)

    async def _pause(self, place: Place) -> None:
        """Wait for a second, or until there is log to ship: a backup waits for the log of its end."""
        for _ in range(_LOOKS):
            await asyncio.sleep(_PERIOD / _LOOKS)
            if wal.is_waiting(place.cluster):
                return

    async def _bound(self, data_dir: Path, *, is_away: bool) -> None:
        """Drop the log if more waits than may, or if it was dropped before and the store is still away."""
        limit = self._settings.backup.spool_bytes
        waits, gap = waiting(data_dir), gaps.noted(data_dir)
        goes_on = is_away and gap is not None and gap.following is None
        if not goes_on and (not limit or waits.bytes <= limit):
            return
        if await asyncio.to_thread(gaps.drop, data_dir):
            _log.error("the log that waited for the backup store was dropped", bytes=waits.bytes, limit=limit)
        elif not goes_on:
            # A segment that PostgreSQL is still writing is no log yet, and without a gap no file may be forgotten.
            return
        # What was deleted meanwhile need not be kept: there is no log that names it.
        await copies.forget(data_dir, self._connect_arguments)

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


class _Copying:
    """Copies new files into the store, beside the log, which never waits for them."""

    def __init__(self, place: Place, connect_arguments: dict[str, Any]) -> None:
        self._place = place
        self._connect_arguments = connect_arguments
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin with what a process before has left."""
        self._is_wanted.set()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; what is being copied is copied again by the next process."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """Copy what waits: what the database names since is in the log that was shipped."""
        self._is_wanted.set()

    async def _run(self) -> None:
        pause = _PERIOD
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                await copies.copy(self._place, self._connect_arguments)
            # Whatever it is: the log goes on, and files follow as soon as that is possible again.
            except Exception as error:
                _log.warning("files are held up on their way to the backup store", **_why(error))
                pause = min(2 * pause, _LONGEST_PAUSE)
                self._is_wanted.set()
            else:
                pause = _PERIOD
            # A commit may be seen a moment after its segment has ended.
            await asyncio.sleep(pause)


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
    same = "every process of the server reports it."
    return [
        Gauge(
            "pilotis_backup_spool_bytes",
            f"Bytes of the write-ahead log, and of deleted files, that wait for the backup store; {same}",
            lambda: waiting(data_dir).bytes,
            is_largest=True,
        ),
        Gauge(
            "pilotis_backup_spool_seconds",
            f"For how long the oldest segment of the log or new file has waited; {same}",
            lambda: waiting(data_dir).seconds,
            is_largest=True,
        ),
        Gauge(
            "pilotis_backup_waiting_files",
            f"New files that were not in the backup store when it was looked at last; {same}",
            lambda: copies.noted(data_dir).waiting,
            is_largest=True,
        ),
        Gauge(
            "pilotis_backup_gap_seconds",
            f"For how long the log has been dropped without a backup since, 0 if it was not; {same}",
            lambda: gaps.seconds(data_dir),
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

"""Archives that the owners of an app have made at set times, of which the newest are kept."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import structlog
from asyncpg import Connection
from msgspec import UNSET

from pilotis.archive import request_store
from pilotis.archive import schedule_store as store
from pilotis.archive.errors import ArchiveScheduleNotFoundError
from pilotis.archive.requested import SCHEDULED, RequestedArchives
from pilotis.archive.schedule_store import ScheduleRow
from pilotis.archive.types import ArchiveSchedule, NewArchiveSchedule
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.jobs import schedules
from pilotis.jobs.kinds import DueSchedule, ScheduleKind
from pilotis.kit.clock import now, optional_rfc3339, rfc3339
from pilotis.kit.errors import invalid
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

_KIND = "archive"
_log = structlog.get_logger("pilotis.archive")


class ScheduledArchives:
    """Says when archives are made, and has them made then. An app has one schedule, whose id is the app's."""

    def __init__(self, database: Database, requested: RequestedArchives, secrets: Secrets) -> None:
        self._database = database
        self._requested = requested
        self._secrets = secrets
        self.kind = ScheduleKind(name=_KIND, fire=self._fire)

    async def read(self, app: AppInfo) -> ArchiveSchedule:
        """Return the schedule of an app; raises `ArchiveScheduleNotFoundError`."""
        row = await store.read(self._database.of(app.app_id), app.app_id)
        if row is None:
            raise ArchiveScheduleNotFoundError
        return _view(row)

    async def put(self, app: AppInfo, actor: Actor, new: NewArchiveSchedule) -> ArchiveSchedule:
        """Set the schedule of an app, and return it; raises an error about the invalid field."""
        app_id = app.app_id
        cron = schedules.cron_of(new.cron, new.timezone, now())
        if not cron.split()[0].isdigit():
            raise invalid("cron", "An archive is made once an hour at most: give one minute, such as 30 2 * * *.")
        if new.keep > app.limits.app_archives:
            raise invalid("keep", f"At most {app.limits.app_archives} archives can be kept.")
        sealed = None
        if new.with_secrets and isinstance(new.passphrase, str):
            secrets = await self._secrets.app(app_id)
            sealed = secrets.encrypt(Purpose.ARCHIVE_PASSPHRASE, SCHEDULED, new.passphrase.encode())
        async with self._database.transaction(app_id) as connection:
            await lock_app(connection, app_id)
            before = await store.read(connection, app_id)
            if new.passphrase is UNSET and new.with_secrets and before is not None:
                sealed = before.passphrase
            await schedules.put(connection, app_id, app_id, _KIND, str(app_id), cron, new.timezone)
            await store.put(connection, app_id, cron, new.timezone, new.keep, sealed, with_secrets=new.with_secrets)
            await record(connection, app_id, actor, "app.archive_schedule", app_id, cron=cron, keep=new.keep)
            row = await store.read(connection, app_id)
        assert row is not None
        return _view(row)

    async def delete(self, app: AppInfo, actor: Actor) -> None:
        """Make no more archives at set times; those that there are stay. Raises `ArchiveScheduleNotFoundError`."""
        app_id = app.app_id
        async with self._database.transaction(app_id) as connection:
            await lock_app(connection, app_id)
            await schedules.remove(connection, app_id, app_id)
            if not await store.delete(connection, app_id):
                raise ArchiveScheduleNotFoundError
            await record(connection, app_id, actor, "app.archive_unschedule", app_id)

    async def failing(self, app_id: UUID) -> int:
        """Return how many archives of the schedule have failed since the last one that did not."""
        return await request_store.count_failing(self._database.of(app_id), app_id)

    async def _fire(self, connection: Connection, due: DueSchedule, slot: datetime) -> None:
        row = await store.due(connection, due.app_id)
        if row is None:
            return
        with_secrets = row.with_secrets
        if not await self._requested.ask_scheduled(connection, due.app_id, row.passphrase, with_secrets=with_secrets):
            _log.warning("archive skipped", app_id=str(due.app_id), slot=rfc3339(slot), reason="one is being written")


def _view(row: ScheduleRow) -> ArchiveSchedule:
    return ArchiveSchedule(
        cron=row.cron,
        timezone=row.timezone,
        keep=row.keep,
        has_passphrase=row.passphrase is not None,
        with_secrets=row.with_secrets,
        next_run_at=optional_rfc3339(row.next_run_at),
        last_run_at=optional_rfc3339(row.last_run_at),
    )

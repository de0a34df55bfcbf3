"""Plans: set by the operator; judged every few seconds by what apps have used, which the nodes have counted."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND, CONSOLE
from pilotis.events.service import Events
from pilotis.http.api.principals import OPERATOR, SYSTEM, Exceeded
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import json
from pilotis.kit.clock import now, rfc3339
from pilotis.mail.service import OperatorMail
from pilotis.plans import store
from pilotis.plans.errors import InvalidPlanError, PlanNotFoundError
from pilotis.plans.events import QUOTA_EXCEEDED, QUOTA_WARNING, QuotaEvent
from pilotis.plans.store import AppOnPlan, Used
from pilotis.plans.types import PLAN_NAME, QUOTAS, MonthUse, Plan, PlanFile, PlanUse, Quota, QuotaName, QuotaUse
from pilotis.security.audit.service import record

_SHARES = (80, 100)
"""The percents of a quota at which owners are told."""
_BATCH = 200
_JUDGE_AGAIN_SECONDS = 300.0
_ROWS: QuotaName = "row_bytes"
_QUOTAS = dict[QuotaName, Quota]


class Notice(msgspec.Struct):
    """The payload of the job that mails the owners of an app."""

    email: str
    app_name: str
    quota: str
    percent: int
    used: int
    limit: int
    resets_at: str
    hard: bool = True


class _Judged(NamedTuple):
    """An app as it was judged, and until when that is enough, in monotonic seconds."""

    app: AppOnPlan
    until: float


class Plans:
    """Sets plans, and compares what apps have used with their quotas."""

    def __init__(self, database: Database, apps: Apps, events: Events, jobs: Jobs, mail: OperatorMail) -> None:
        self._database = database
        self._apps = apps
        self._events = events
        self._jobs = jobs
        self._mail = mail
        self._judged: dict[UUID, _Judged] = {}
        self.kind = JobKind(name="plans.notify", queue="mail", payload=Notice, run=self._notify)

    async def put(self, name: str, definition: Mapping[str, Any]) -> Plan:
        """Set a plan, also for the apps that have it; raises `InvalidPlanError`."""
        if not re.fullmatch(PLAN_NAME, name) or name == "none":
            raise InvalidPlanError("A plan's name has up to 40 small letters, digits, - and _, and is not `none`.")
        try:
            plan = msgspec.convert(definition, PlanFile)
        except msgspec.ValidationError as error:
            raise InvalidPlanError(f"The plan is invalid: {error}.") from None
        given = msgspec.structs.asdict(plan.limits)
        limits = {key: value for key, value in given.items() if value is not msgspec.UNSET}
        quotas = {key: one if isinstance(one, Quota) else Quota(one) for key, one in plan.quotas.items()}
        text = _text(limits)
        async with self._database.transaction(CONSOLE) as connection:
            await store.put(connection, name, text, _text(quotas))
            changed = await self._apps.set_plan_limits(connection, name, text)
        return Plan(name=name, limits=limits, quotas=quotas, apps=changed)

    async def all(self) -> list[Plan]:
        """Return all plans."""
        return [
            Plan(name=row.name, limits=json.decode(row.limits.encode()), quotas=_quotas(row.quotas), apps=row.apps)
            for row in await store.all_plans(self._database)
        ]

    async def assign(self, app_id: UUID, name: str | None) -> None:
        """Give an app a plan, or none; raises `AppNotFoundError`, `PlanNotFoundError`."""
        async with self._apps.change(app_id) as connection:
            limits: str | None = "{}"
            if name is not None:
                limits = await store.limits_of(connection, name)
            if limits is None:
                raise PlanNotFoundError
            await self._apps.set_plan(connection, app_id, name, limits)
            await record(connection, app_id, OPERATOR, "app.plan", app_id, plan=name)
        await self._judge_one(app_id)

    async def use(self, app_id: UUID) -> PlanUse:
        """Return the plan of an app, or of the parent of a branch, and what was used of each of its quotas."""
        database = self._database.of(app_id)
        found = await store.owner_with_plan(database, app_id)
        if found is None:
            return PlanUse(None, [])
        owner, quotas = found.app_id, _quotas(found.quotas)
        rows = await self._rows(database, [owner] if _ROWS in quotas else [])
        return PlanUse(found.plan, await self._used_of(database, owner, quotas, _month(), rows.get(owner, 0)))

    async def month(self, month: date) -> list[MonthUse]:
        """Return what every app has used in a month, for the operator."""
        uses = list[MonthUse]()
        apps = await store.apps_with_plans(self._database)
        rows = dict[UUID, int]()
        for start in range(0, len(apps), _BATCH):
            batch = apps[start : start + _BATCH]
            rows |= await store.row_bytes(self._database.of(CONSOLE), [app_id for app_id, _, _ in batch])
        for app_id, name, plan in apps:
            database = self._database.of(app_id)
            used = await store.used_alone(database, app_id, month)
            files = await store.file_bytes_alone(database, app_id)
            uses.append(
                MonthUse(
                    app_id=app_id, name=name, plan=plan, file_bytes=files, row_bytes=rows[app_id], **_amounts(used)
                )
            )
        return uses

    async def judge(self, connection: Connection) -> None:
        """Compare what apps have used with their quotas; for a periodic task.

        One that had no further request is only judged again after some minutes, or if it has exceeded a quota.
        """
        judged, self._judged = self._judged, {}
        at, due = time.monotonic(), list[AppOnPlan]()
        for app in await store.apps_on_plans(connection):
            known = judged.get(app.app_id)
            if app.exceeded is None and known is not None and known.app == app and at < known.until:
                self._judged[app.app_id] = known
            else:
                due.append(app)
        for start in range(0, len(due), _BATCH):
            batch = due[start : start + _BATCH]
            rows = await self._rows(self._database.of(BACKGROUND), [one.app_id for one in batch if _ROWS in one.quotas])
            for app in batch:
                # An app that is deleted meanwhile has nothing to be judged.
                with suppress(AppNotFoundError):
                    await self._judge(app.app_id, _quotas(app.quotas), app.exceeded, rows.get(app.app_id, 0))
                    self._judged[app.app_id] = _Judged(app, at + _JUDGE_AGAIN_SECONDS)
        await store.delete_old_notices(connection)

    async def _judge_one(self, app_id: UUID) -> None:
        database = self._database.of(app_id)
        if (found := await store.owner_with_plan(database, app_id)) is not None:
            app_id = found.app_id
        quotas = {} if found is None else _quotas(found.quotas)
        rows = await self._rows(database, [app_id] if _ROWS in quotas else [])
        await self._judge(app_id, quotas, None, rows.get(app_id, 0), is_certain=False)

    async def _judge(
        self, app_id: UUID, quotas: _QUOTAS, before: str | None, rows: int, *, is_certain: bool = True
    ) -> None:
        database, month = self._database.of(app_id), _month()
        uses = await self._used_of(database, app_id, quotas, month, rows)
        past = next((use for use in uses if use.hard and use.used >= use.limit), None)
        exceeded = None if past is None else _text(Exceeded(past.quota, past.resets_at))
        if not is_certain or not _same(exceeded, before):
            async with self._apps.change(app_id) as connection:
                await self._apps.set_exceeded(connection, app_id, exceeded)
        due = [
            (use, percent) for use in uses for percent in _SHARES if use.limit and use.used * 100 >= percent * use.limit
        ]
        told = await store.notices(database, app_id, month) if due else set()
        for use, percent in due:
            if (use.quota, percent) not in told:
                await self._tell(app_id, month, use, percent)

    async def _tell(self, app_id: UUID, month: date, use: QuotaUse, percent: int) -> None:
        """Tell an app's owners once of a share of a quota: by an event, and by mail."""
        async with self._database.transaction(app_id) as connection:
            if not await store.add_notice(connection, app_id, month, use.quota, percent):
                return
            data = QuotaEvent(use.quota, use.used, use.limit, use.hard, use.resets_at)
            kind = QUOTA_WARNING if percent < 100 else QUOTA_EXCEEDED
            await self._events.emit(connection, app_id, kind, data, actor=SYSTEM, subject=f"quotas/{use.quota}")
            if self._mail.is_set_up:
                name, emails = await self._apps.owners_of(connection, app_id)
                for email in emails:
                    notice = Notice(email, name, use.quota, percent, use.used, use.limit, use.resets_at, use.hard)
                    await self._jobs.enqueue(connection, self.kind, app_id, notice)

    async def _notify(self, job: Job[Notice]) -> None:
        told = job.payload
        after = " It can store nothing more until then." if told.hard and told.percent >= 100 else ""
        await self._mail.notify(
            told.email,
            f"{told.app_name}: {told.percent} % of {told.quota} used",
            f"The app {told.app_name} has used {told.used:,} of {told.limit:,} {told.quota}."
            f" The quota begins again at {told.resets_at}.{after}",
        )

    async def _used_of(
        self, database: TenantDatabase, app_id: UUID, quotas: _QUOTAS, month: date, rows: int
    ) -> list[QuotaUse]:
        if not quotas:
            return []
        used = {**_amounts(await store.used(database, app_id, month)), _ROWS: rows}
        # It takes as long as there are files.
        if "file_bytes" in quotas:
            used["file_bytes"] = await store.file_bytes(database, app_id)
        resets_at = _reset_after(month)
        return [
            QuotaUse(
                quota=name,
                used=used[name],
                limit=quotas[name].limit,
                hard=quotas[name].hard,
                percent=round(100 * used[name] / max(quotas[name].limit, 1), 1),
                resets_at=resets_at,
            )
            for name in QUOTAS
            if name in quotas
        ]

    async def _rows(self, database: TenantDatabase, apps: Sequence[UUID]) -> Mapping[UUID, int]:
        """Return what the tables and indexes of apps, with those of their branches, take on the disk."""
        if not apps:
            return {}
        total = Counter[UUID]()
        families = await store.families(database, apps)
        bytes_of = await store.row_bytes(database, [app_id for _, app_id in families])
        for owner, app_id in families:
            total[owner] += bytes_of[app_id]
        return total


def _amounts(used: Used) -> dict[str, int]:
    return {
        "requests": used.requests,
        "traffic_bytes": used.traffic_bytes,
        "function_seconds": used.function_ms // 1000,
        "mails": used.mails,
        "executions": used.executions,
    }


def _quotas(text: str) -> _QUOTAS:
    return msgspec.json.decode(text, type=_QUOTAS)


def _same(one: str | None, other: str | None) -> bool:
    """Whether two JSON texts, which may have other spaces, say the same."""
    if one is None or other is None:
        return one == other
    return bool(json.decode(one.encode()) == json.decode(other.encode()))


def _text(value: object) -> str:
    return json.encode(value).decode()


def _month() -> date:
    return now().date().replace(day=1)


def _reset_after(first: date) -> str:
    year, month = (first.year + 1, 1) if first.month == 12 else (first.year, first.month + 1)
    return rfc3339(datetime(year, month, 1, tzinfo=UTC))

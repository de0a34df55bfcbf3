"""Who may listen to an app's rows, beside what the rules of their tables say.

Listening costs an app more than reading: the statements of a table write a log as long as anybody listens. So an app
can close it, or leave it to signed-in members, for all tables or for some.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from pilotis.data.realtime import settings_store
from pilotis.data.realtime.types import LiveSettings, Openness
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.service import TableBusyError, Tables
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.http.api.principals import Actor, AppInfo, Principal
from pilotis.kit import json
from pilotis.kit.errors import ForbiddenError, invalid
from pilotis.security.audit.service import record

_MAX_KNOWN = 10_000
_ARMINGS_PER_MINUTE = 10
"""How many tables of an app begin to write the log in a minute, on each process: each is a schema change."""


class LiveOffError(ForbiddenError):
    """403 `LIVE_OFF`: the app has turned live rows off, for all of its tables or for this one."""

    code = "LIVE_OFF"
    message = "Live rows are turned off for this table."


class _Known(NamedTuple):
    live: Openness
    tables: Mapping[str, Openness]


class LiveAccess:
    """Keeps who may listen to apps' rows."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self._database = database
        self._tables = tables
        self._known: dict[UUID, _Known] = {}
        self._changes = 0
        self._minute = 0
        self._armed: Counter[UUID] = Counter()

    def forget(self, key: str) -> None:
        """Read the settings of an app again."""
        self._changes += 1
        self._known.pop(UUID(key), None)

    def forget_all(self) -> None:
        """Read all settings again."""
        self._changes += 1
        self._known.clear()

    async def _of(self, app_id: UUID) -> _Known:
        known = self._known.get(app_id)
        if known is None:
            changes = self._changes
            live, tables = await settings_store.read(self._database, app_id) or ("public", "{}")
            known = _Known(live, json.decode(tables.encode()))
            # A change during the query makes its result too old to keep.
            if changes == self._changes:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[app_id] = known
        return known

    async def require(self, principal: Principal, app: AppInfo, table_id: UUID) -> None:
        """Raise an error unless the caller may listen to rows of a table; the app's own side always may."""
        if principal.role is not None:
            return
        known = await self._of(app.app_id)
        live = known.tables.get(str(table_id), known.live)
        if live == "off":
            raise LiveOffError
        if live == "members" and principal.member is None:
            raise MemberTokenRequiredError

    def count_arming(self, app_id: UUID) -> None:
        """Count a table that begins to write the log; raises `TableBusyError` if that are too many in a minute."""
        if (minute := int(time.monotonic() // 60)) != self._minute:
            self._minute, self._armed = minute, Counter()
        if self._armed[app_id] >= _ARMINGS_PER_MINUTE:
            raise TableBusyError
        self._armed[app_id] += 1

    async def shown(self, app: AppInfo) -> LiveSettings:
        """Return who may listen, for all tables and by table."""
        known = await self._of(app.app_id)
        ids = {str(table.table_id) for table in await self._tables.schemas(app.app_id)}
        return LiveSettings(live=known.live, tables={name: one for name, one in known.tables.items() if name in ids})

    async def save(self, app: AppInfo, actor: Actor, asked: LiveSettings) -> LiveSettings:
        """Set who may listen; tables are named by id or title. Streams that may not listen any more are told."""
        named = {
            name: str(table.table_id)
            for table in await self._tables.schemas(app.app_id)
            for name in (table.title, str(table.table_id))
        }
        for name in asked.tables:
            if name not in named:
                raise invalid("tables", f"The app has no table {name[:100]}.", "TABLE_NOT_FOUND")
        tables = {named[name]: one for name, one in asked.tables.items()}
        async with self._database.transaction(app.app_id) as connection:
            await lock_app(connection, app.app_id)
            await settings_store.save(connection, app.app_id, asked.live, json.encode(tables).decode())
            await record(connection, app.app_id, actor, "live.settings", None, live=asked.live, tables=tables)
            await publish(connection, Topic.CHANNEL_RULES, app.app_id)
        self.forget(str(app.app_id))
        return await self.shown(app)

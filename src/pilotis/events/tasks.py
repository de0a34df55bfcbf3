"""The periodic tasks of events: enable interrupted targets, disable unused events, delete old ones."""

from __future__ import annotations

from typing import NamedTuple

from asyncpg import Connection

from pilotis.db.log_sizes import excess, parts
from pilotis.db.pool import Database
from pilotis.events import store
from pilotis.events.service import Events
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


class Kept(NamedTuple):
    """For how many days events are kept, and how many bytes of them, of one app and of all together."""

    days: int
    app_bytes: int
    total_bytes: int


_BATCH_SIZE = 2_000
_EXPIRE_SECONDS = 600
"""Often, so that each time little goes: a vacuum of a large part of the table would load the machine."""


def periodic(database: Database, events: Events, kept: Kept) -> list[Periodic]:
    """Return the periodic tasks of events."""

    async def enable(_: Connection) -> None:
        await events.finish_enabling()

    async def disable_unused(_: Connection) -> None:
        await events.disable_unused()

    async def expire(connection: Connection) -> None:
        while await store.delete_old(connection, kept.days, _BATCH_SIZE) >= _BATCH_SIZE:
            pass
        for app_id, days in (await store.own_limits(connection, "event_days")).items():
            while await store.delete_old_of(connection, app_id, days, _BATCH_SIZE) == _BATCH_SIZE:
                pass
        while await store.delete_orphans(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass

    async def fit(connection: Connection) -> None:
        found = await parts(connection, "pilotis.events", store.ROW_BYTES)
        bounds = await store.own_limits(connection, "event_log_bytes")
        for app_id, number in excess(found, bounds, kept.app_bytes, kept.total_bytes).items():
            left = number
            while left > 0 and (deleted := await store.delete_oldest(connection, app_id, min(left, _BATCH_SIZE))):
                left -= deleted

    return [
        on_connection(database, "events.arm", 300, enable),
        on_connection(database, "events.disarm", 3600, disable_unused),
        on_connection(database, "events.expire", _EXPIRE_SECONDS, expire),
        on_connection(database, "events.fit", 3600, fit),
    ]

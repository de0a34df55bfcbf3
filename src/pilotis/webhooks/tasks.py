"""The periodic tasks of webhooks: retention, and cleaning up lost listeners and orphans."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from asyncpg import Connection

from pilotis.db.log_sizes import excess, parts
from pilotis.db.pool import Database
from pilotis.events import store as events
from pilotis.jobs import lanes
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.limits import Limits
from pilotis.webhooks import log_store, store
from pilotis.webhooks.service import Webhooks
from pilotis.webhooks.target import KIND

_BATCH_SIZE = 2_000


_PAYLOAD_HOURS = 24
_SUCCEEDED, _OTHERS = ("succeeded",), ("failed", "cancelled")
_FIRST = (datetime(2000, 1, 1, tzinfo=UTC), UUID(int=0))


def periodic(database: Database, webhooks: Webhooks, limits: Limits) -> list[Periodic]:
    """Return the tasks."""

    async def expire(connection: Connection) -> None:
        for states, name in ((_SUCCEEDED, "delivery_days"), (_OTHERS, "event_days")):
            await _delete_old(connection, limits, states, name)
        while await log_store.delete_orphans(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        await lanes.delete_orphans(connection, KIND)
        await store.forget_purged_tables(connection)
        await webhooks.remove_orphaned_targets(connection)

    async def fit(connection: Connection) -> None:
        await _fit(connection, limits)

    async def delete_lost_listeners(_: Connection) -> None:
        await webhooks.delete_lost_listeners()

    return [
        # Often, so that each time little goes: a vacuum of a large part of the table would load the machine.
        on_connection(database, "webhooks.expire", 600, expire),
        on_connection(database, "webhooks.shorten", 1800, _shorten),
        on_connection(database, "webhooks.fit", 3600, fit),
        on_connection(database, "webhooks.listeners", 300, delete_lost_listeners),
    ]


async def _delete_old(connection: Connection, limits: Limits, states: Sequence[str], name: str) -> None:
    """Delete deliveries that ended in one of the states, by the limit of that name."""
    while await log_store.delete_old(connection, states, getattr(limits, name), _BATCH_SIZE) == _BATCH_SIZE:
        pass
    for app_id, days in (await events.own_limits(connection, name)).items():
        while await log_store.delete_old_of(connection, app_id, states, days, _BATCH_SIZE) == _BATCH_SIZE:
            pass


async def _shorten(connection: Connection) -> None:
    """Delete the data of events that were delivered everywhere a day ago."""
    after = _FIRST
    while rows := await log_store.with_payload(connection, _PAYLOAD_HOURS, after, _BATCH_SIZE):
        gone = [row for row in rows if row.is_delivered]
        await events.delete_payloads(connection, [row.app_id for row in gone], [row.event_id for row in gone])
        after = (rows[-1].created_at, rows[-1].event_id)


async def _fit(connection: Connection, limits: Limits) -> None:
    """Delete the oldest deliveries of apps whose log is too large."""
    found = await parts(connection, "pilotis.deliveries", log_store.ROW_BYTES)
    bounds = await events.own_limits(connection, "delivery_log_bytes")
    too_many = excess(found, bounds, limits.delivery_log_bytes, limits.delivery_log_total_bytes)
    for app_id, number in too_many.items():
        left = number
        while left > 0 and (deleted := await log_store.delete_oldest(connection, app_id, min(left, _BATCH_SIZE))):
            left -= deleted

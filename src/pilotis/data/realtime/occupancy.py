"""Events of channels that begin to have listeners, and of those that have none any more, on any node.

Each process says to which channels with events it has listeners. What the app was told last stands beside, and one
statement tells what has changed: at most once a second of a channel, and ten times a second of an app. What comes and
goes in between is told by its last state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.realtime import occupancy_store
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import EventType
from pilotis.http.api.principals import SYSTEM

LINGER_SECONDS = 5.0
"""For how long a channel must have no listeners until it is vacated."""
_CHANNEL_SECONDS = 1.0
_APP_PER_SECOND = 10


class ChannelEvent(msgspec.Struct, frozen=True):
    """Data of an event about a channel: its name."""

    name: str


OCCUPIED = EventType(
    name="channel.occupied",
    scope="rows:read",
    data=ChannelEvent,
    description="The first listener came to a channel whose pattern has events.",
    example=ChannelEvent("room:42"),
)
VACATED = EventType(
    name="channel.vacated",
    scope="rows:read",
    data=ChannelEvent,
    description="For five seconds nobody has listened to a channel whose pattern has events.",
    example=ChannelEvent("room:42"),
)
EVENT_TYPES: tuple[EventType[Any], ...] = (OCCUPIED, VACATED)


class Occupancy:
    """Tells apps which of their channels have listeners."""

    def __init__(self, database: Database, events: Events, node_id: Callable[[], UUID]) -> None:
        self._database = database
        self._events = events
        self._node_id = node_id

    async def settle(self, app_id: UUID, added: Sequence[str], removed: Sequence[str]) -> bool:
        """Say to which channels this process has listeners now, and to which no more; return whether to come again."""
        async with self._database.transaction(app_id) as connection:
            # One at a time for an app, or two processes would tell the same.
            await occupancy_store.lock(connection, app_id)
            await occupancy_store.say(connection, app_id, self._node_id(), added, removed)
            return await self._tell(connection, app_id)

    async def settle_all(self, connection: Connection) -> None:
        """Tell of channels whose processes have died."""
        for app_id in await occupancy_store.apps(connection):
            await self.settle(app_id, [], [])

    async def _tell(self, connection: Connection, app_id: UUID) -> bool:
        changed = await occupancy_store.changed(connection, app_id, _CHANNEL_SECONDS)
        recent = await occupancy_store.recent(connection, app_id)
        due = [one for one in changed if one.is_due][: max(0, _APP_PER_SECOND - recent)]
        if due:
            await occupancy_store.note(connection, app_id, due)
            types = {True: OCCUPIED, False: VACATED}
            events = [
                types[one.occupied].event(ChannelEvent(one.name), SYSTEM, subject=f"channels/{one.name}") for one in due
            ]
            await self._events.emit_all(connection, app_id, events)
        await occupancy_store.forget(connection, app_id, _CHANNEL_SECONDS)
        return len(due) < len(changed)

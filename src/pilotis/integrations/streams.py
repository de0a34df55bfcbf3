"""An app's events as server-sent events, once they are stored.

An event gets its id when it happens and is stored a little later, so each look goes back a few seconds and skips what
was sent already. A look reads one range of the primary key. No notification wakes a stream, because every app would pay
for it and few are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from uuid import UUID

from pilotis.events.service import Events
from pilotis.http.api.principals import AppInfo
from pilotis.http.replies.events import Event
from pilotis.integrations.service import stored_event
from pilotis.kit import json
from pilotis.kit.errors import invalid
from pilotis.kit.ids import earliest_uuid7, uuid7, uuid7_milliseconds

MAX_BEHIND = 1000
_BATCH_SIZE = 200
_LATE_MILLISECONDS = 10_000
_MAX_KNOWN = 20_000
_LOOK_SECONDS = 1.0


class EventStreams:
    """Reads the events of apps for streams."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def follow(self, app: AppInfo, type_: str | None, last: str | None) -> AsyncGenerator[Event]:
        """Return the events from now on, or after the last seen one, of all types or of one.

        Raises a 400 error where `last` is not an event's id.
        """
        if last is not None:
            seen = _event_id(last)
            missed = await self._events.ids_since(app.app_id, seen, MAX_BEHIND + 1)
            if len(missed) <= MAX_BEHIND:
                return self._follow(app.app_id, type_, _since(seen), set(), is_behind=False)
        since = _since(uuid7())
        known = await self._events.ids_since(app.app_id, since, _MAX_KNOWN)
        return self._follow(app.app_id, type_, since, set(known), is_behind=last is not None)

    async def _follow(
        self, app_id: UUID, type_: str | None, since: UUID, known: set[UUID], *, is_behind: bool
    ) -> AsyncGenerator[Event]:
        if is_behind:
            yield Event(event="reset", data=b"{}")
        while True:
            found = await self._events.stored_since(app_id, type_, since, known, _BATCH_SIZE)
            for event in found:
                yield Event(event="event", id=str(event.event_id), data=json.encode(stored_event(event)))
            if found:
                since = max(since, _since(found[-1].event_id))
                known = {event_id for event_id in known if event_id > since} | {event.event_id for event in found}
            if len(found) < _BATCH_SIZE:
                await asyncio.sleep(_LOOK_SECONDS)


def _since(event_id: UUID) -> UUID:
    """Return the id after which events may have been stored later than this one."""
    return earliest_uuid7(max(0, uuid7_milliseconds(event_id) - _LATE_MILLISECONDS))


def _event_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise invalid("last_event_id", "last_event_id: the id of an event is expected.") from None

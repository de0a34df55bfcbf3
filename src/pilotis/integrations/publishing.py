"""Publishes domain events for the app's own servers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import NewEvent
from pilotis.http.api.principals import Actor
from pilotis.integrations import store
from pilotis.integrations.errors import (
    EventTooLargeError,
    InvalidTimestampError,
    UndeclaredEventTypeError,
    UnknownMemberError,
)
from pilotis.integrations.types import OneEvent, PublishedEvent
from pilotis.kit.clock import now, rfc3339
from pilotis.kit.errors import BadRequestError

MAX_DATA_BYTES = 64 * 1024
_MAX_AGE = timedelta(days=7)
_MAX_AHEAD = timedelta(minutes=5)


class Publishing:
    """Publishes domain events."""

    def __init__(self, database: Database, events: Events) -> None:
        self._database = database
        self._events = events

    async def publish(
        self, app_id: UUID, actor: Actor, given: Sequence[OneEvent], ids: Sequence[UUID]
    ) -> list[PublishedEvent]:
        """Publish events under these ids, all or none, and return them; for a repeated key, the first event.

        Raises `EventTooLargeError`, `InvalidTimestampError`, `UndeclaredEventTypeError` or `UnknownMemberError`.
        """
        moment = now()
        for event in given:
            _check(event, moment)
        async with self._database.transaction(app_id) as connection:
            versions = {row.event_type: row.version for row in await store.all_types(connection, app_id)}
            for event in given:
                if event.event_type not in versions:
                    raise UndeclaredEventTypeError(f"The app has not declared the event type {event.event_type}.")
            members = [event.member_id for event in given if event.member_id is not None]
            if members and not await store.members_exist(connection, app_id, members):
                raise UnknownMemberError
            # Keys are taken in one order, so that two lists with the same keys do not deadlock.
            order = sorted(range(len(given)), key=lambda index: (given[index].idempotency_key or "", index))
            published: dict[int, PublishedEvent] = {}
            for index in order:
                published[index] = await self._taken(connection, app_id, given[index], ids[index], moment)
            events = [
                _event(event, ids[index], versions[event.event_type], actor, moment)
                for index, event in enumerate(given)
                if not published[index].duplicate
            ]
            await self._events.emit_all(connection, app_id, events)
        return [published[index] for index in range(len(given))]

    async def _taken(
        self, connection: Connection, app_id: UUID, event: OneEvent, event_id: UUID, moment: datetime
    ) -> PublishedEvent:
        happened_at = event.timestamp or moment
        if event.idempotency_key is None:
            return _published(event_id, event.event_type, happened_at, duplicate=False)
        row = await store.take_key(connection, app_id, event.idempotency_key, event_id, event.event_type, happened_at)
        return _published(row.event_id, row.event_type, row.happened_at, duplicate=row.event_id != event_id)


def _check(event: OneEvent, moment: datetime) -> None:
    if len(bytes(event.data)) > MAX_DATA_BYTES:
        raise EventTooLargeError
    if not bytes(event.data).startswith(b"{"):
        raise BadRequestError("data must be an object.")
    if event.timestamp is None:
        return
    if event.timestamp.tzinfo is None or not moment - _MAX_AGE <= event.timestamp <= moment + _MAX_AHEAD:
        raise InvalidTimestampError


def _event(event: OneEvent, event_id: UUID, version: int, actor: Actor, moment: datetime) -> NewEvent:
    return NewEvent(
        event_id=event_id,
        type=event.event_type,
        version=version,
        member_id=event.member_id,
        subject=event.subject,
        actor_kind=actor.kind,
        actor_id=actor.id,
        depth=actor.depth,
        request_id=actor.request_id,
        data=event.data,
        created_at=event.timestamp or moment,
    )


def _published(event_id: UUID, event_type: str, happened_at: datetime, *, duplicate: bool) -> PublishedEvent:
    return PublishedEvent(id=event_id, event_type=event_type, timestamp=rfc3339(happened_at), duplicate=duplicate)

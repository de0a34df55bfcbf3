"""Derives domain events from row events during their fan-out: `order.created` from a new row of `orders`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.events.service import Events
from pilotis.events.types import ROW_EVENTS, Event, NewEvent, Target
from pilotis.integrations import store
from pilotis.integrations.service import CREATOR, DERIVE, source_of
from pilotis.integrations.types import Source
from pilotis.kit import json
from pilotis.kit.ids import uuid7


class Deriver:
    """A target kind that takes row events and writes domain events in the same transaction."""

    name = DERIVE

    def __init__(self, events: Events, schedule: Callable[[UUID], None]) -> None:
        """`schedule` schedules the dispatch of an app's new events."""
        self._events = events
        self._schedule = schedule

    async def take(self, connection: Connection, app_id: UUID, matched: Sequence[tuple[Event, Target]]) -> None:
        """Write a domain event for each row event and each type that is derived from it.

        The single event of a large statement has no rows, so nothing is derived from it.
        """
        declared = await store.by_ids(connection, app_id, list({target.target_id for _, target in matched}))
        types = {type_.type_id: (type_, source) for type_ in declared if (source := source_of(type_))}
        pairs = [
            (event, *types[target.target_id])
            for event, target in matched
            if target.target_id in types and event.type in ROW_EVENTS
        ]
        creators = await self._creators(connection, app_id, [(event, source) for event, _, source in pairs])
        derived = []
        for event, type_, source in pairs:
            data = json.decode(event.data.encode())["row"]
            member_id = _member(source, event, data, creators)
            derived.append(_derived(event, type_.event_type, type_.version, source, data, member_id))
        await self._events.emit_all(connection, app_id, derived)

    def taken(self, app_id: UUID) -> None:
        """Schedule the dispatch of the new events."""
        self._schedule(app_id)

    async def _creators(
        self, connection: Connection, app_id: UUID, pairs: Sequence[tuple[Event, Source]]
    ) -> dict[UUID, str]:
        """Return the creators of updated rows by row id. The actor of a creation is already known."""
        wanted: dict[UUID, list[UUID]] = {}
        for event, source in pairs:
            if source.member_from == CREATOR and event.type == "row.updated":
                row_id = UUID(msgspec.json.decode(event.data)["row"]["id"])
                wanted.setdefault(source.table_id, []).append(row_id)
        found: dict[UUID, str] = {}
        for table_id, row_ids in wanted.items():
            found |= await store.creators(connection, app_id, table_id, row_ids)
        return found


def _member(source: Source, event: Event, row: dict[str, Any], creators: dict[UUID, str]) -> str | None:
    if source.member_from is None:
        return None
    if source.member_from != CREATOR:
        value = row["data"].get(source.member_from)
        return value if isinstance(value, str) else None
    if event.type == "row.created":
        return event.actor_id if event.actor_kind == "member" else None
    return creators.get(UUID(row["id"]))


def _derived(
    event: Event, type_: str, version: int, source: Source, row: dict[str, Any], member_id: str | None
) -> NewEvent:
    values = {**row["data"], "id": row["id"], "created_at": row["created_at"], "updated_at": row["updated_at"]}
    return NewEvent(
        event_id=uuid7(),
        type=type_,
        version=version,
        member_id=member_id,
        subject=event.subject,
        actor_kind=event.actor_kind,
        actor_id=event.actor_id,
        depth=event.depth + 1,
        request_id=event.request_id,
        data=msgspec.Raw(json.encode({field: values[field] for field in source.fields if field in values})),
        created_at=event.created_at,
    )

"""Event types, events, and the targets that receive them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.http.api.principals import Actor
from pilotis.kit.event_patterns import matches
from pilotis.kit.ids import uuid7

D = TypeVar("D", bound=msgspec.Struct)

ROW_EVENTS = ("row.created", "row.updated", "row.deleted")
"""The types that statements on rows emit themselves, if their table has targets."""
ROWS_CHANGED = "rows.changed"
"""The type of the single event that replaces those of a statement on more than `MAX_ROW_EVENTS` rows."""
MAX_ROW_EVENTS = 1000


class EventType(msgspec.Struct, Generic[D], frozen=True, kw_only=True, eq=False):
    """An event type that a feature declares.

    `data` is the struct of its data, `example` an instance of it. `scope` is what an OAuth client needs to receive it.
    An `internal` type is never offered to subscribers.
    """

    name: str
    data: type[D]
    description: str
    example: D
    scope: str | None = None
    internal: bool = False
    version: int = 1

    def event(
        self,
        data: D | None,
        actor: Actor,
        *,
        subject: str | None = None,
        table_id: UUID | None = None,
        storage_id: UUID | None = None,
        member_id: str | None = None,
        depth: int | None = None,
    ) -> NewEvent:
        """Return a new event of this type; `data` is None if the statement itself builds it.

        `depth` is by default that of the actor.
        """
        return NewEvent(
            event_id=uuid7(),
            type=self.name,
            version=self.version,
            table_id=table_id,
            storage_id=storage_id,
            member_id=member_id,
            subject=subject,
            actor_kind=actor.kind,
            actor_id=actor.id,
            depth=actor.depth if depth is None else depth,
            request_id=actor.request_id,
            data=data,
        )


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be stored, as statements read it: see `pilotis.events.statements`.

    `created_at` is the time at which it happened, if that was before it is stored.
    """

    event_id: UUID
    type: str
    version: int
    table_id: UUID | None = None
    storage_id: UUID | None = None
    member_id: str | None = None
    subject: str | None = None
    actor_kind: str
    actor_id: str | None
    depth: int
    request_id: str | None = None
    data: Any
    created_at: datetime | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A stored event. `data` is JSON text.

    `depth` counts the events that led to it; `request_id` is the request that did.
    """

    app_id: UUID
    event_id: UUID
    type: str
    version: int
    table_id: UUID | None
    storage_id: UUID | None
    member_id: str | None
    subject: str | None
    actor_kind: str
    actor_id: str | None
    depth: int
    request_id: str | None = None
    data: str
    created_at: datetime


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A target: `types` are names, prefixes such as `row.*`, or `*`; `table_ids` of None means every table."""

    app_id: UUID
    kind: str
    target_id: UUID
    types: Sequence[str]
    table_ids: Sequence[UUID] | None = None
    storage_id: UUID | None = None

    def wants(self, event: Event) -> bool:
        """Return whether the target listens to the event.

        The filter by table applies to events that have a table. A target for `row.created` also receives `rows.changed`
        of that operation.
        """
        if event.table_id is not None and self.table_ids is not None and event.table_id not in self.table_ids:
            return False
        if event.storage_id is not None and self.storage_id not in {None, event.storage_id}:
            return False
        if any(matches(pattern, event.type) for pattern in self.types):
            return True
        if event.type != ROWS_CHANGED:
            return False
        operation = msgspec.json.decode(event.data).get("operation")
        return f"row.{operation}" in self.types


class TargetKind(Protocol):
    """A kind of target, such as webhooks, which takes events in the transaction of the fan-out."""

    name: str

    async def take(self, connection: Connection, app_id: UUID, matched: Sequence[tuple[Event, Target]]) -> None:
        """Store the work for each pair of an event and a target that wants it."""

    def taken(self, app_id: UUID) -> None:
        """Wake the process that does the work; called after the transaction of `take` has been committed."""


def encoded(*events: NewEvent) -> str:
    """Return events as the JSON text that statements read."""
    return msgspec.json.encode(events).decode()


def row_operations(patterns: Iterable[str]) -> frozenset[str]:
    """Return the operations on rows (`created`, `updated`, `deleted`) that a table must emit for these patterns."""
    operations = {name.partition(".")[2] for name in ROW_EVENTS if any(matches(p, name) for p in patterns)}
    if any(matches(pattern, ROWS_CHANGED) for pattern in patterns):
        operations |= {"created", "updated", "deleted"}
    return frozenset(operations)


class Catalogue:
    """All event types that the features of this process declare, by name."""

    def __init__(self) -> None:
        self._types: dict[str, EventType[Any]] = {}

    def register(self, type_: EventType[Any]) -> None:
        """Register a type; raises `ValueError` if its name is taken."""
        if type_.name in self._types:
            raise ValueError(f"Two event types have the name {type_.name}.")
        self._types[type_.name] = type_

    def get(self, name: str) -> EventType[Any] | None:
        """Return the type of a name."""
        return self._types.get(name)

    def offered(self) -> list[EventType[Any]]:
        """Return the types that are offered to subscribers, sorted by name."""
        return [type_ for _, type_ in sorted(self._types.items()) if not type_.internal]

    def first_words(self) -> set[str]:
        """Return the first words of all type names, including internal ones."""
        return {name.partition(".")[0] for name in self._types}

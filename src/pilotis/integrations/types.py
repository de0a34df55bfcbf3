"""The types of requests and answers about an app's own event types, and about publishing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.replies.events import ResumeQuery

Title = Annotated[str, msgspec.Meta(max_length=200)]
Description = Annotated[str, msgspec.Meta(max_length=2000)]
Scope = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Version = Annotated[int, msgspec.Meta(ge=1, le=32_767)]
FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
EventTypeName = Annotated[str, msgspec.Meta(min_length=1, max_length=100, examples=["order.created"])]
Subject = Annotated[str, msgspec.Meta(max_length=500)]
IdempotencyKey = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
RowEventName = Literal["row.created", "row.updated", "row.deleted"]


class Source(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The row event from which a domain event is derived, and the fields of the row that it contains.

    `member_from` names the member whom the event is about: `creator`, who created the row, or a column with the
    member's id.
    """

    event: RowEventName
    table_id: UUID
    fields: Annotated[list[FieldName], msgspec.Meta(min_length=1, max_length=200)]
    member_from: FieldName | None = None


class EventTypeDefinition(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An event type of the app's own. `payload_schema` documents the data and is not enforced."""

    title: Title = ""
    description: Description = ""
    required_scope: Scope | None = None
    payload_schema: dict[str, Any] | None = None
    example: dict[str, Any] | None = None
    version: Version = 1
    deprecated: bool = False
    source: Source | None = None


class DeclaredType(msgspec.Struct, kw_only=True):
    """A declared event type."""

    event_type: str
    title: str
    description: str
    required_scope: str | None
    payload_schema: JsonObject | None
    example: JsonObject | None
    version: int
    deprecated: bool
    source: Source | None
    created_at: str
    updated_at: str


class KnownType(msgspec.Struct, kw_only=True):
    """An event type that the app's webhooks may name: built in, or its own."""

    event_type: str
    built_in: bool
    title: str
    description: str
    required_scope: str | None
    version: int
    deprecated: bool
    example: JsonObject | None


class CatalogItem(msgspec.Struct, kw_only=True):
    """A domain event that consumers may receive."""

    event_type: str
    title: str
    description: str
    required_scope: str | None
    version: int
    payload_schema: JsonObject | None
    example: JsonObject | None
    deprecated: bool


class EventCatalog(msgspec.Struct, kw_only=True):
    """The domain events of a provider."""

    provider_app_id: UUID
    name: str
    events: list[CatalogItem]


class DeletedType(msgspec.Struct):
    """The event type that was deleted."""

    message: str
    id: str


class OneEvent(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A domain event to publish. Only the first one with an `idempotency_key` within 7 days is published."""

    event_type: EventTypeName
    data: JsonObject
    member_id: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    subject: Subject | None = None
    timestamp: datetime | None = None
    idempotency_key: IdempotencyKey | None = None


class NewEvents(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A domain event to publish, or up to 100 of them as `events`, which are published atomically."""

    event_type: EventTypeName | UnsetType = UNSET
    data: JsonObject | UnsetType = UNSET
    member_id: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    subject: Subject | None = None
    timestamp: datetime | None = None
    idempotency_key: IdempotencyKey | None = None
    events: Annotated[list[OneEvent], msgspec.Meta(min_length=1, max_length=100)] | UnsetType = UNSET


class PublishedEvent(msgspec.Struct, kw_only=True):
    """A published event; `duplicate` if it was published before with the same key."""

    id: UUID
    event_type: str
    timestamp: str
    duplicate: bool


class PublishedEvents(msgspec.Struct, kw_only=True):
    """The published events."""

    events: list[PublishedEvent]


class EventQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The events to list, newest first; `before` is an event's id."""

    type: EventTypeName | None = None
    since: datetime | None = None
    limit: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    before: UUID | None = None


class StoredEvent(msgspec.Struct, kw_only=True):
    """An event that had a target."""

    id: UUID
    event_type: str
    version: int
    timestamp: str
    subject: str | None
    member_id: str | None
    actor: EventActor
    data: JsonObject


class EventActor(msgspec.Struct):
    """The actor that caused an event."""

    kind: str
    id: str | None


class EventStreamQuery(ResumeQuery):
    """The type to follow, and the event after which the stream continues."""

    type: EventTypeName | None = None


class EventPage(msgspec.Struct):
    """A part of the stored events; `next_before` is null on the last page."""

    data: list[StoredEvent]
    limit: int
    next_before: UUID | None

"""The routes of an app's own event types, of the catalog for consumers, and of publishing."""

from __future__ import annotations

from uuid import UUID

import msgspec
from msgspec import UNSET

from pilotis.data.tables.service import TableNotFoundError
from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import ItemPage, Paging, Whole
from pilotis.http.replies.events import LAST_EVENT_ID, Events
from pilotis.http.replies.reply import Reply
from pilotis.http.replies.streams import TooManyStreamsError
from pilotis.integrations.errors import (
    EventTooLargeError,
    EventTypeNotFoundError,
    InvalidEventTypeError,
    InvalidSourceError,
    InvalidTimestampError,
    TooManyEventTypesError,
    UndeclaredEventTypeError,
    UnknownMemberError,
)
from pilotis.integrations.publishing import Publishing
from pilotis.integrations.service import EventTypes, ProviderNotFoundError
from pilotis.integrations.streams import EventStreams
from pilotis.integrations.types import (
    DeclaredType,
    DeletedType,
    EventCatalog,
    EventPage,
    EventQuery,
    EventStreamQuery,
    EventTypeDefinition,
    KnownType,
    NewEvents,
    OneEvent,
    PublishedEvent,
    PublishedEvents,
)
from pilotis.kit.errors import BadRequestError
from pilotis.kit.ids import uuid7

_TYPE = "/v1/apps/:app_id/event-types/:event_type"


class EventTypeEndpoints(Endpoints, tag="Events"):
    """Event types and events of an app."""

    def __init__(self, types: EventTypes, publishing: Publishing, streams: EventStreams) -> None:
        self._types = types
        self._streams = streams
        self._publishing = publishing

    @get("/v1/apps/:app_id/event-types", access=Access.APP_VIEWER)
    async def known(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[KnownType]:
        """List the event types that webhooks may name, with examples: built-in ones, then the app's own."""
        return await self._types.known(call.app, query)

    @put(
        _TYPE,
        access=Access.APP_EDITOR,
        returns=DeclaredType,
        errors=[InvalidEventTypeError, InvalidSourceError, TableNotFoundError, TooManyEventTypesError],
    )
    async def declare(self, call: Call, app_id: UUID, event_type: str, body: EventTypeDefinition) -> Reply:
        """Declare an event type, or replace it; 201 if it is new.

        With `source` its events are derived from events of a table's rows, without code.
        """
        declared, is_new = await self._types.put(call.app, call.actor, event_type, body)
        return Reply(msgspec.json.encode(declared), 201 if is_new else 200)

    @delete(_TYPE, access=Access.APP_EDITOR, errors=[EventTypeNotFoundError])
    async def delete(self, call: Call, app_id: UUID, event_type: str) -> DeletedType:
        """Delete an event type. Events that were emitted are still delivered."""
        await self._types.delete(call.app, call.actor, event_type)
        return DeletedType("Event type deleted.", event_type)

    @get("/v1/apps/:app_id/events", access=Access.APP_VIEWER)
    async def events(self, call: Call, app_id: UUID, query: EventQuery) -> EventPage:
        """List the app's events that had a target, newest first. They are stored for up to 30 days."""
        return await self._types.events(call.app, query)

    @get(
        "/v1/apps/:app_id/events/stream",
        access=Access.APP_VIEWER,
        errors=[TooManyStreamsError],
        request_headers=LAST_EVENT_ID,
    )
    async def event_stream(self, call: Call, app_id: UUID, query: EventStreamQuery) -> Events:
        """Follow the app's events that have a target, as server-sent events.

        Each is an `event`, about a second after it happened and nearly in that order. After a reconnection with
        `Last-Event-ID` events of the last seconds may come twice: drop those whose `id` you have seen. `reset` says
        that too many events were missed to be sent.
        """
        return Events(await self._streams.follow(call.app, query.type, query.last_seen(call)))

    @get(
        "/v1/integrations/providers/:provider_app_id/event-catalog",
        access=Access.OPEN,
        errors=[ProviderNotFoundError],
    )
    async def catalog(self, call: Call, provider_app_id: UUID, query: Whole) -> EventCatalog:
        """List the domain events that a provider offers to consumers."""
        return await self._types.catalog(provider_app_id)

    @post(
        "/v1/integrations/events",
        access=Access.SECRET_KEY,
        status=201,
        creates="event_id",
        cost=lambda body: 1 if body.events is UNSET else len(body.events),
        returns=PublishedEvent | PublishedEvents,
        errors=[UndeclaredEventTypeError, UnknownMemberError, InvalidTimestampError, EventTooLargeError],
    )
    async def publish(self, call: Call, body: NewEvents) -> Reply:
        """Publish a domain event, or up to 100 as `events`, atomically.

        A key is valid for 7 days: an event with a used key is not published again, and the response (200 for a single
        event) contains the first one.
        """
        given = _given(body)
        ids = [UUID(call.new_id()) if index == 0 else uuid7() for index in range(len(given))]
        published = await self._publishing.publish(call.app.app_id, call.actor, given, ids)
        if body.events is not UNSET:
            return Reply(msgspec.json.encode(PublishedEvents(events=published)), 201)
        return Reply(msgspec.json.encode(published[0]), 200 if published[0].duplicate else 201)


def _given(body: NewEvents) -> list[OneEvent]:
    if body.events is not UNSET:
        if body.event_type is not UNSET or body.data is not UNSET:
            raise BadRequestError("Send event_type and data, or events; not both.")
        return body.events
    if body.event_type is UNSET or body.data is UNSET:
        raise BadRequestError("Send event_type and data, or events with several of both.")
    return [
        OneEvent(
            event_type=body.event_type,
            data=body.data,
            member_id=body.member_id,
            subject=body.subject,
            timestamp=body.timestamp,
            idempotency_key=body.idempotency_key,
        )
    ]

"""The event types that an app declares for its own webhooks and for the catalog of consumers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import msgspec

from pilotis.data.tables.service import Tables
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import Event, Target
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, Paging
from pilotis.integrations import store
from pilotis.integrations.errors import (
    EventTypeNotFoundError,
    InvalidEventTypeError,
    InvalidSourceError,
    TooManyEventTypesError,
)
from pilotis.integrations.store import StoredType
from pilotis.integrations.types import (
    CatalogItem,
    DeclaredType,
    EventActor,
    EventCatalog,
    EventPage,
    EventQuery,
    EventTypeDefinition,
    KnownType,
    Source,
    StoredEvent,
)
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.kit.ids import uuid7
from pilotis.security.audit.service import record

DERIVE = "derive"
CREATOR = "creator"
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


class ProviderNotFoundError(NotFoundError):
    """404: the app does not exist."""

    code = "APP_NOT_FOUND"
    message = "The app does not exist."


class EventTypes:
    """Declares, lists and deletes event types of apps' own."""

    def __init__(self, database: Database, events: Events, tables: Tables) -> None:
        self._database = database
        self._events = events
        self._tables = tables

    async def put(self, app: AppInfo, actor: Actor, name: str, body: EventTypeDefinition) -> tuple[DeclaredType, bool]:
        """Declare a type, or replace it; return it and whether it is new.

        With a source its table emits events before this returns. Raises `InvalidEventTypeError`, `InvalidSourceError`,
        `TableNotFoundError` or `TooManyEventTypesError`.
        """
        self._check_name(name)
        if body.source is not None:
            await self._check_source(app.app_id, body.source)
        async with self._database.transaction(app.app_id) as connection:
            number = await store.count(connection, app.app_id)
            known = await store.read(connection, app.app_id, name)
            if known is None and number >= app.limits.event_types:
                raise TooManyEventTypesError
            type_id = known.type_id if known else uuid7()
            await store.put(connection, app.app_id, name, type_id, _values(body))
            await record(connection, app.app_id, actor, "event_type.put", name)
            target = _target(app.app_id, type_id, body.source) if body.source else None
            if target is not None:
                await self._events.store_target(connection, target)
            else:
                await self._events.remove_target(connection, app.app_id, DERIVE, type_id)
        if target is not None:
            await self._events.enable(target)
        return await self.read(app, name), known is None

    async def read(self, app: AppInfo, name: str) -> DeclaredType:
        """Return a declared type; raises `EventTypeNotFoundError`."""
        row = await store.read(self._database.of(app.app_id), app.app_id, name)
        if row is None:
            raise EventTypeNotFoundError
        return _declared(row)

    async def all(self, app_id: UUID) -> list[DeclaredType]:
        """Return the types that an app has declared."""
        return [_declared(row) for row in await store.all_types(self._database.of(app_id), app_id)]

    async def delete(self, app: AppInfo, actor: Actor, name: str) -> None:
        """Delete a declared type; raises `EventTypeNotFoundError`."""
        async with self._database.transaction(app.app_id) as connection:
            type_id = await store.delete(connection, app.app_id, name)
            if type_id is None:
                raise EventTypeNotFoundError
            await self._events.remove_target(connection, app.app_id, DERIVE, type_id)
            await record(connection, app.app_id, actor, "event_type.delete", name)

    async def known(self, app: AppInfo, paging: Paging) -> ItemPage[KnownType]:
        """Return a page of the types that webhooks of the app may name: built-in ones, then its own."""
        built_in = [
            KnownType(
                event_type=type_.name,
                built_in=True,
                title="",
                description=type_.description,
                required_scope=type_.scope,
                version=type_.version,
                deprecated=False,
                example=msgspec.Raw(msgspec.json.encode(type_.example)),
            )
            for type_ in self._events.catalogue.offered()
        ]
        own = [
            KnownType(
                event_type=type_.event_type,
                built_in=False,
                title=type_.title,
                description=type_.description,
                required_scope=type_.required_scope,
                version=type_.version,
                deprecated=type_.deprecated,
                example=type_.example,
            )
            for type_ in await self.all(app.app_id)
        ]
        limit = app.limits.page_size(paging.limit)
        both = [*built_in, *own]
        return ItemPage(
            data=both[paging.offset : paging.offset + limit], total_count=len(both), limit=limit, offset=paging.offset
        )

    async def catalog(self, provider_app_id: UUID) -> EventCatalog:
        """Return the domain events of a provider; raises `ProviderNotFoundError`."""
        name = await store.provider(self._database.of(provider_app_id), provider_app_id)
        if name is None:
            raise ProviderNotFoundError
        items = [
            CatalogItem(**{field: getattr(type_, field) for field in CatalogItem.__struct_fields__})
            for type_ in await self.all(provider_app_id)
        ]
        return EventCatalog(provider_app_id=provider_app_id, name=name, events=items)

    async def events(self, app: AppInfo, query: EventQuery) -> EventPage:
        """Return a page of the app's stored events, the newest first."""
        limit = app.limits.page_size(query.limit)
        found = await self._events.page(app.app_id, query.type, query.since, query.before, limit + 1)
        items = [stored_event(event) for event in found[:limit]]
        return EventPage(items, limit, items[-1].id if items and len(found) > limit else None)

    async def names(self, app_id: UUID) -> Collection[str]:
        """Return the names of an app's own types."""
        return {row.event_type for row in await store.all_types(self._database.of(app_id), app_id)}

    async def example(self, app_id: UUID, event_type: str) -> Mapping[str, Any] | None:
        """Return `version` and `data`, JSON text, of a type's example; None for a type that is not declared."""
        row = await store.read(self._database.of(app_id), app_id, event_type)
        return None if row is None else {"version": row.version, "data": row.example or "{}"}

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name) or len(name) > 100:
            raise InvalidEventTypeError
        word = name.partition(".")[0]
        if word in self._events.catalogue.first_words():
            raise InvalidEventTypeError(f"Names that begin with {word}. are built-in ones.")

    async def _check_source(self, app_id: UUID, source: Source) -> None:
        table = await self._tables.current(app_id, source.table_id)
        columns = {column.name: column for column in table.columns}
        named = [*source.fields]
        if source.member_from == CREATOR and source.event == "row.deleted":
            raise InvalidSourceError("The creator of a deleted row is unknown.")
        if source.member_from is not None and source.member_from != CREATOR:
            named.append(source.member_from)
        for field in named:
            if field in {"id", "created_at", "updated_at"}:
                continue
            if field not in columns:
                raise InvalidSourceError(f"The table has no column {field}.")
            if columns[field].encrypted:
                raise InvalidSourceError(f"The column {field} is encrypted; events do not contain its values.")


def source_of(row: StoredType) -> Source | None:
    """Return the source of a declared type."""
    return None if row.source is None else msgspec.json.decode(row.source, type=Source)


def _values(body: EventTypeDefinition) -> list[Any]:
    return [
        body.title,
        body.description,
        body.required_scope,
        _text(body.payload_schema),
        _text(body.example),
        body.version,
        body.deprecated,
        None if body.source is None else msgspec.json.encode(body.source).decode(),
    ]


def _text(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.encode(value).decode()


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _target(app_id: UUID, type_id: UUID, source: Source) -> Target:
    return Target(app_id=app_id, kind=DERIVE, target_id=type_id, types=[source.event], table_ids=[source.table_id])


def _declared(row: StoredType) -> DeclaredType:
    return DeclaredType(
        event_type=row.event_type,
        title=row.title,
        description=row.description,
        required_scope=row.required_scope,
        payload_schema=_raw(row.payload_schema),
        example=_raw(row.example),
        version=row.version,
        deprecated=row.deprecated,
        source=source_of(row),
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def stored_event(event: Event) -> StoredEvent:
    """Return an event as the interface describes it."""
    return StoredEvent(
        id=event.event_id,
        event_type=event.type,
        version=event.version,
        timestamp=rfc3339(event.created_at),
        subject=event.subject,
        member_id=event.member_id,
        actor=EventActor(event.actor_kind, event.actor_id),
        data=msgspec.Raw(event.data.encode()),
    )

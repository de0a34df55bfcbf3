"""SQL statements for declared event types and on the keys of published events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.db.pool import TenantDatabase

_COLUMNS = """
    event_type, type_id, title, description, required_scope, payload_schema::text as payload_schema,
    example::text as example, version, deprecated, source::text as source, created_at, updated_at
"""
KEY_DAYS = 7
"""For how many days a key of a published event is valid."""


class StoredType(msgspec.Struct, frozen=True):
    """A declared event type; payload schema, example and source are JSON objects."""

    event_type: str
    type_id: UUID
    title: str
    description: str
    required_scope: str | None
    payload_schema: str | None
    example: str | None
    version: int
    deprecated: bool
    source: str | None
    created_at: datetime
    updated_at: datetime


class KeyedEvent(msgspec.Struct, frozen=True):
    """The event that was published with a key."""

    event_id: UUID
    event_type: str
    happened_at: datetime


async def put(connection: Connection, app_id: UUID, event_type: str, type_id: UUID, values: Sequence[Any]) -> bool:
    """Insert or replace a declared type; return whether it is new.

    `values` are title, description, required scope, payload schema, example, version, deprecated, source.
    """
    is_new: bool = await connection.fetchval(
        """
        insert into pilotis.event_types as t (app_id, event_type, type_id, title, description, required_scope,
            payload_schema, example, version, deprecated, source)
        values ($1, $2, $3, $4, $5, $6, $7::text::json, $8::text::json, $9, $10, $11::text::json)
        on conflict (app_id, event_type) do update set title = excluded.title, description = excluded.description,
            required_scope = excluded.required_scope, payload_schema = excluded.payload_schema,
            example = excluded.example, version = excluded.version, deprecated = excluded.deprecated,
            source = excluded.source, updated_at = now()
        returning t.type_id = $3
        """,
        app_id,
        event_type,
        type_id,
        *values,
    )
    return is_new


async def count(connection: Connection, app_id: UUID) -> int:
    """Return how many types an app has declared; the app's row is locked until the transaction ends."""
    await lock_app(connection, app_id)
    number: int = await connection.fetchval("select count(*) from pilotis.event_types where app_id = $1", app_id)
    return number


async def read(connection: TenantDatabase | Connection, app_id: UUID, event_type: str) -> StoredType | None:
    """Return a declared type."""
    row = await connection.fetchrow(
        f"select {_COLUMNS} from pilotis.event_types where app_id = $1 and event_type = $2", app_id, event_type
    )
    return None if row is None else StoredType(**row)


async def all_types(connection: TenantDatabase | Connection, app_id: UUID) -> list[StoredType]:
    """Return the types that an app has declared, in the order of their names."""
    rows = await connection.fetch(
        f"select {_COLUMNS} from pilotis.event_types where app_id = $1 order by event_type", app_id
    )
    return [StoredType(**row) for row in rows]


async def by_ids(connection: Connection, app_id: UUID, type_ids: Sequence[UUID]) -> list[StoredType]:
    """Return declared types by their ids."""
    rows = await connection.fetch(
        f"select {_COLUMNS} from pilotis.event_types where app_id = $1 and type_id = any($2)", app_id, list(type_ids)
    )
    return [StoredType(**row) for row in rows]


async def delete(connection: Connection, app_id: UUID, event_type: str) -> UUID | None:
    """Delete a declared type and return its id; None if there was none."""
    type_id: UUID | None = await connection.fetchval(
        "delete from pilotis.event_types where app_id = $1 and event_type = $2 returning type_id", app_id, event_type
    )
    return type_id


async def provider(connection: TenantDatabase, app_id: UUID) -> str | None:
    """Return the name of an app that is not deleted."""
    name: str | None = await connection.fetchval(
        "select name from pilotis.apps where app_id = $1 and deleted_at is null", app_id
    )
    return name


async def take_key(
    connection: Connection, app_id: UUID, key: str, event_id: UUID, event_type: str, happened_at: datetime
) -> KeyedEvent:
    """Return the event of a key: the given one, or the one that was published with it before."""
    row = await connection.fetchrow(
        """
        insert into pilotis.published_events as p (app_id, key, event_id, event_type, happened_at)
        values ($1, $2, $3, $4, $5)
        on conflict (app_id, key) do update set
            event_id = case when p.created_at < now() - make_interval(days => $6) then $3 else p.event_id end,
            event_type = case when p.created_at < now() - make_interval(days => $6) then $4 else p.event_type end,
            happened_at = case when p.created_at < now() - make_interval(days => $6) then $5 else p.happened_at end,
            created_at = case when p.created_at < now() - make_interval(days => $6) then now() else p.created_at end
        returning event_id, event_type, happened_at
        """,
        app_id,
        key,
        event_id,
        event_type,
        happened_at,
        KEY_DAYS,
    )
    assert row is not None
    return KeyedEvent(**row)


async def delete_old_keys(connection: Connection, limit: int) -> int:
    """Delete expired keys, at most `limit`, and return their number."""
    status = await connection.execute(
        """
        delete from pilotis.published_events where (app_id, key) in (
            select app_id, key from pilotis.published_events
            where created_at < now() - make_interval(days => $1) limit $2
        )
        """,
        KEY_DAYS,
        limit,
    )
    return int(status.split()[1])


async def members_exist(connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> bool:
    """Return whether all of these are members of the app."""
    number: int = await connection.fetchval(
        "select count(*) from pilotis.members where app_id = $1 and member_id = any($2)", app_id, list(member_ids)
    )
    return number == len(set(member_ids))


async def creators(connection: Connection, app_id: UUID, table_id: UUID, row_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the members who created rows, by the rows' ids; only for existing rows that a member created."""
    rows = await connection.fetch(
        f"select __id, __creator from app_{app_id.hex}.t_{table_id.hex} where __id = any($1) and __creator is not null",
        list(row_ids),
    )
    return dict(map(tuple, rows))

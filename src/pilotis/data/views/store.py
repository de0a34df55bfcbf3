"""SQL statements of views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.rules.types import Rule
from pilotis.data.views.types import Parameters, RunAs
from pilotis.db.pool import TenantDatabase
from pilotis.db.records import columns
from pilotis.kit import json

_params = json.decoder(Parameters)
_versions = msgspec.json.Decoder(dict[UUID, int])


class Saved(NamedTuple):
    """A view as it is stored: `pipeline` names columns by number, `table_ids` are the tables that it reads."""

    view_id: UUID
    name: str
    table_id: UUID
    table_ids: tuple[UUID, ...]
    title: str
    pipeline: list[Any]
    params: Parameters
    read: Rule
    run_as: RunAs
    cache_seconds: int
    description: str | None
    version: int
    created_at: datetime
    updated_at: datetime


class Definition(NamedTuple):
    """What is stored of a view."""

    name: str
    table_id: UUID
    table_ids: Iterable[UUID]
    pipeline: list[Any]
    params: Parameters
    read: Rule
    run_as: RunAs
    cache_seconds: int
    description: str | None

    def values(self) -> list[Any]:
        """Return the values of its columns, in their order."""
        texts = [json.encode(part).decode() for part in (self.pipeline, self.params, self.read)]
        return [self.name, self.table_id, sorted(self.table_ids), *texts, *self[6:]]


class _Row(msgspec.Struct, frozen=True):
    """A view as its statement returns it: what is JSON is its text."""

    view_id: UUID
    name: str
    table_id: UUID
    table_ids: list[UUID]
    title: str
    pipeline: str
    params: str
    read_rule: str
    run_as: RunAs
    cache_seconds: int
    description: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    versions: str = "{}"


_COLUMNS = columns(_Row, "v", without=("title", "versions"))


_SHOWN = f"""
    select {_COLUMNS}, t.title from pilotis.views v
    join pilotis.tables t on t.app_id = v.app_id and t.table_id = v.table_id and t.dropped_at is null
    where v.app_id = $1
"""
# With the versions of the tables, by which a node sees whether its own schemas are those of the moment.
_CALLED = f"""
    select {_COLUMNS}, t.title, (
        select json_object_agg(o.table_id, o.version) from pilotis.tables o
        where o.app_id = v.app_id and o.table_id = any(v.table_ids)
    ) as versions
    from pilotis.views v
    join pilotis.tables t on t.app_id = v.app_id and t.table_id = v.table_id and t.dropped_at is null
    where v.app_id = $1 and v.name = $2
"""


def _saved(row: _Row) -> Saved:
    fields = msgspec.structs.asdict(row)
    del fields["versions"], fields["read_rule"]
    fields["table_ids"] = tuple(row.table_ids)
    fields["pipeline"] = json.decode(row.pipeline.encode())
    fields["params"] = json.decode(row.params.encode(), _params)
    return Saved(**fields, read=json.decode(row.read_rule.encode()))


async def all_of(connection: TenantDatabase | Connection, app_id: UUID) -> list[Saved]:
    """Return the views of an app, by name."""
    return [_saved(_Row(**row)) for row in await connection.fetch(f"{_SHOWN} order by v.name", app_id)]


async def by_id(connection: TenantDatabase | Connection, app_id: UUID, view_id: UUID) -> Saved | None:
    """Return a view."""
    row = await connection.fetchrow(f"{_SHOWN} and v.view_id = $2", app_id, view_id)
    return None if row is None else _saved(_Row(**row))


async def called(
    connection: TenantDatabase | Connection, app_id: UUID, name: str
) -> tuple[Saved, Mapping[UUID, int]] | None:
    """Return the view with a name, and the versions of the tables that it reads."""
    row = await connection.fetchrow(_CALLED, app_id, name)
    if row is None:
        return None
    found = _Row(**row)
    return _saved(found), _versions.decode(found.versions)


async def naming(connection: Connection, app_id: UUID, table_id: UUID) -> list[Saved]:
    """Return the views of an app that read a table, also where it has just been dropped."""
    query = _SHOWN.replace(" and t.dropped_at is null", "")
    rows = await connection.fetch(f"{query} and $2 = any(v.table_ids) order by v.name", app_id, table_id)
    return [_saved(_Row(**row)) for row in rows]


async def count(connection: Connection, app_id: UUID) -> int:
    """Return the number of an app's views; the app must be locked."""
    found: int = await connection.fetchval("select count(*) from pilotis.views where app_id = $1", app_id)
    return found


async def lock(connection: Connection, app_id: UUID, view_id: UUID) -> None:
    """Lock a view until the transaction ends."""
    query = "select from pilotis.views where app_id = $1 and view_id = $2 for no key update"
    await connection.execute(query, app_id, view_id)


async def insert(connection: Connection, app_id: UUID, view_id: UUID, definition: Definition) -> None:
    """Insert a view."""
    await connection.execute(
        """
        insert into pilotis.views (app_id, view_id, name, table_id, table_ids, pipeline, params, read_rule, run_as,
            cache_seconds, description)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        """,
        app_id,
        view_id,
        *definition.values(),
    )


async def update(connection: Connection, app_id: UUID, view_id: UUID, definition: Definition) -> None:
    """Replace a view, which gets a new version."""
    await connection.execute(
        """
        update pilotis.views set name = $3, table_id = $4, table_ids = $5, pipeline = $6, params = $7, read_rule = $8,
            run_as = $9, cache_seconds = $10, description = $11, version = version + 1, updated_at = now()
        where app_id = $1 and view_id = $2
        """,
        app_id,
        view_id,
        *definition.values(),
    )


async def delete(connection: Connection, app_id: UUID, view_id: UUID) -> str | None:
    """Delete a view; return its name, or None if there is none."""
    query = "delete from pilotis.views where app_id = $1 and view_id = $2 returning name"
    name: str | None = await connection.fetchval(query, app_id, view_id)
    return name

"""SQL statements for the triggers of functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class TriggerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger, and the next run of a schedule where it was read."""

    app_id: UUID
    function_id: UUID
    trigger_id: UUID
    type: Literal["schedule", "event"]
    is_active: bool
    cron: str | None
    timezone: str | None
    events: list[str] | None
    table_id: UUID | None
    storage_id: UUID | None
    batch: bool
    created_at: datetime
    next_run_at: datetime | None = None


_COLUMNS = columns(TriggerRecord, without={"next_run_at"})
_WITH_NEXT = f"""
    select {columns(TriggerRecord, "t", without={"next_run_at"})}, s.next_run_at from pilotis.function_triggers t
    left join pilotis.schedules s on s.app_id = t.app_id and s.schedule_id = t.trigger_id
"""


async def count(connection: Connection, app_id: UUID) -> int:
    """Return the number of an app's triggers."""
    number: int = await connection.fetchval("select count(*) from pilotis.function_triggers where app_id = $1", app_id)
    return number


async def insert(
    connection: Connection, app_id: UUID, function_id: UUID, trigger_id: UUID, values: dict[str, Any]
) -> None:
    """Insert a trigger."""
    places = ", ".join(f"${at + 4}" for at in range(len(values)))
    await connection.execute(
        f"""
        insert into pilotis.function_triggers (app_id, function_id, trigger_id, {", ".join(values)})
        values ($1, $2, $3, {places})
        """,
        app_id,
        function_id,
        trigger_id,
        *values.values(),
    )


async def update(connection: Connection, app_id: UUID, trigger_id: UUID, values: dict[str, Any]) -> None:
    """Change a trigger."""
    sets = [f"{name} = ${at + 3}" for at, name in enumerate(values)] + ["updated_at = now()"]
    await connection.execute(
        f"update pilotis.function_triggers set {', '.join(sets)} where app_id = $1 and trigger_id = $2",
        app_id,
        trigger_id,
        *values.values(),
    )


async def lock(connection: Connection, app_id: UUID, function_id: UUID, trigger_id: UUID) -> TriggerRecord | None:
    """Return a trigger, locked until the transaction ends."""
    row = await connection.fetchrow(
        f"""
        select {_COLUMNS} from pilotis.function_triggers
        where app_id = $1 and function_id = $2 and trigger_id = $3 for no key update
        """,
        app_id,
        function_id,
        trigger_id,
    )
    return TriggerRecord(**row) if row else None


async def read(
    connection: TenantDatabase | Connection, app_id: UUID, function_id: UUID, trigger_id: UUID
) -> TriggerRecord | None:
    """Return a trigger with the time of its next run."""
    row = await connection.fetchrow(
        f"{_WITH_NEXT} where t.app_id = $1 and t.function_id = $2 and t.trigger_id = $3",
        app_id,
        function_id,
        trigger_id,
    )
    return TriggerRecord(**row) if row else None


async def for_firing(
    connection: TenantDatabase | Connection, app_id: UUID, trigger_ids: Sequence[UUID]
) -> list[TriggerRecord]:
    """Return those of the triggers that are active."""
    rows = await connection.fetch(
        f"""
        select {_COLUMNS} from pilotis.function_triggers where app_id = $1 and trigger_id = any($2) and is_active
        order by trigger_id for share
        """,
        app_id,
        list(trigger_ids),
    )
    return [TriggerRecord(**row) for row in rows]


async def page(
    database: Database, app_id: UUID, function_id: UUID, limit: int, offset: int
) -> tuple[list[TriggerRecord], int]:
    """Return a page of a function's triggers, oldest first, and the total count."""
    return await fetch_page(
        database,
        app_id,
        f"{_WITH_NEXT} where t.app_id = $1 and t.function_id = $2",
        (app_id, function_id),
        order_by="trigger_id",
        limit=limit,
        offset=offset,
        record=TriggerRecord,
    )


async def of_function(connection: Connection, app_id: UUID, function_id: UUID) -> list[UUID]:
    """Return the ids of a function's triggers."""
    rows = await connection.fetch(
        "select trigger_id from pilotis.function_triggers where app_id = $1 and function_id = $2", app_id, function_id
    )
    return [trigger_id for (trigger_id,) in rows]


async def last_run(connection: Connection, app_id: UUID, trigger_id: UUID) -> datetime | None:
    """Return when a schedule was last due."""
    moment: datetime | None = await connection.fetchval(
        "select last_run_at from pilotis.schedules where app_id = $1 and schedule_id = $2", app_id, trigger_id
    )
    return moment


async def delete(connection: Connection, app_id: UUID, trigger_id: UUID) -> None:
    """Delete a trigger."""
    await connection.execute(
        "delete from pilotis.function_triggers where app_id = $1 and trigger_id = $2", app_id, trigger_id
    )

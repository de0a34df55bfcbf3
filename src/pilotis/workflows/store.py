"""SQL statements for workflows and their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.workflows.types import ExecutionStatus


class WorkflowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with the definition of a version as JSON text, and its last execution, if there is one."""

    app_id: UUID
    workflow_id: UUID
    version: int
    is_active: bool
    created_at: datetime
    updated_at: datetime
    definition: str
    next_run_at: datetime | None
    has_trigger: bool
    last_id: UUID | None
    last_status: ExecutionStatus | None
    last_started_at: datetime | None


class LockedWorkflow(NamedTuple):
    """What a change needs of a workflow."""

    name: str
    version: int
    is_active: bool


class CurrentWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution needs of a workflow: its current definition as JSON text, and its settings."""

    workflow_id: UUID
    version: int
    is_active: bool
    max_concurrency: int
    on_overlap: str
    definition: str


_SELECT = """
    select w.app_id, w.workflow_id, w.version, w.is_active, w.created_at, w.updated_at,
        v.definition::text as definition, s.next_run_at,
        exists (
            select from pilotis.workflow_triggers t where t.app_id = w.app_id and t.workflow_id = w.workflow_id
        ) as has_trigger,
        x.execution_id as last_id, x.status as last_status, x.started_at as last_started_at
    from pilotis.workflows w
    join pilotis.workflow_versions v
        on v.app_id = w.app_id and v.workflow_id = w.workflow_id and v.version = coalesce($2, w.version)
    left join pilotis.schedules s on s.app_id = w.app_id and s.schedule_id = w.workflow_id
    left join lateral (
        select execution_id, status, started_at from pilotis.workflow_executions e
        where e.app_id = w.app_id and e.workflow_id = w.workflow_id order by execution_id desc limit 1
    ) x on true
    where w.app_id = $1 and w.deleted_at is null
"""


COUNT = "select count(*) from pilotis.workflows where app_id = $1 and deleted_at is null"
"""The number of an app's workflows."""


async def lock_and_count(connection: Connection, app_id: UUID) -> int:
    """Lock the app's row against other changes of its workflows, and return how many it has."""
    await lock_app(connection, app_id)
    number: int = await connection.fetchval(COUNT, app_id)
    return number


async def insert(connection: Connection, app_id: UUID, workflow_id: UUID, values: dict[str, Any]) -> bool:
    """Insert a workflow; return whether its name was free."""
    places = ", ".join(f"${at + 3}" for at in range(len(values)))
    row = await connection.fetchrow(
        f"""
        insert into pilotis.workflows (app_id, workflow_id, {", ".join(values)}) values ($1, $2, {places})
        on conflict (app_id, name) where deleted_at is null do nothing returning workflow_id
        """,
        app_id,
        workflow_id,
        *values.values(),
    )
    return row is not None


async def insert_version(
    connection: Connection, app_id: UUID, workflow_id: UUID, version: int, definition: str
) -> None:
    """Insert a version of a workflow."""
    await connection.execute(
        """
        insert into pilotis.workflow_versions (app_id, workflow_id, version, definition)
        values ($1, $2, $3, $4::text::json)
        """,
        app_id,
        workflow_id,
        version,
        definition,
    )


async def lock(connection: Connection, app_id: UUID, workflow_id: UUID) -> LockedWorkflow | None:
    """Return a workflow, locked against other changes until the transaction ends."""
    row = await connection.fetchrow(
        """
        select name, version, is_active from pilotis.workflows
        where app_id = $1 and workflow_id = $2 and deleted_at is null for no key update
        """,
        app_id,
        workflow_id,
    )
    return LockedWorkflow(*row) if row else None


async def is_taken(connection: Connection, app_id: UUID, name: str) -> bool:
    """Return whether a workflow of the app has the name."""
    return bool(
        await connection.fetchval(
            "select true from pilotis.workflows where app_id = $1 and name = $2 and deleted_at is null", app_id, name
        )
    )


async def update(connection: Connection, app_id: UUID, workflow_id: UUID, values: dict[str, Any]) -> None:
    """Change a workflow."""
    sets = [f"{name} = ${at + 3}" for at, name in enumerate(values)] + ["updated_at = now()"]
    await connection.execute(
        f"update pilotis.workflows set {', '.join(sets)} where app_id = $1 and workflow_id = $2",
        app_id,
        workflow_id,
        *values.values(),
    )


async def read(
    connection: TenantDatabase | Connection, app_id: UUID, workflow_id: UUID, version: int | None = None
) -> WorkflowRecord | None:
    """Return a workflow with its current definition, or that of a version."""
    row = await connection.fetchrow(f"{_SELECT} and w.workflow_id = $3", app_id, version, workflow_id)
    return WorkflowRecord(**row) if row else None


async def current(connection: TenantDatabase | Connection, app_id: UUID, workflow_id: UUID) -> CurrentWorkflow | None:
    """Return what an execution needs of a workflow."""
    row = await connection.fetchrow(
        """
        select w.workflow_id, w.version, w.is_active, w.max_concurrency, w.on_overlap, v.definition::text as definition
        from pilotis.workflows w join pilotis.workflow_versions v using (app_id, workflow_id, version)
        where app_id = $1 and workflow_id = $2 and w.deleted_at is null
        """,
        app_id,
        workflow_id,
    )
    return CurrentWorkflow(**row) if row else None


async def page(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[WorkflowRecord], int]:
    """Return a page of an app's workflows, newest first, and their number."""
    return await fetch_page(
        database,
        app_id,
        _SELECT,
        (app_id, None),
        order_by="workflow_id desc",
        limit=limit,
        offset=offset,
        record=WorkflowRecord,
    )


async def calling(connection: Connection, app_id: UUID, function_id: UUID) -> list[str]:
    """Return the names of the workflows whose current definition calls a function."""
    rows = await connection.fetch(
        """
        select w.name from pilotis.workflows w
        join pilotis.workflow_versions v using (app_id, workflow_id, version)
        where app_id = $1 and deleted_at is null
            and jsonb_path_exists(
                v.definition::jsonb, '$.steps.**.function_id ? (@ == $id)', jsonb_build_object('id', $2::text)
            )
        order by w.name
        """,
        app_id,
        str(function_id),
    )
    return [name for (name,) in rows]


async def definition(connection: TenantDatabase, app_id: UUID, workflow_id: UUID, version: int) -> str | None:
    """Return the definition of a version as JSON text."""
    text: str | None = await connection.fetchval(
        """
        select definition::text from pilotis.workflow_versions
        where app_id = $1 and workflow_id = $2 and version = $3
        """,
        app_id,
        workflow_id,
        version,
    )
    return text


async def mark_deleted(connection: Connection, app_id: UUID, workflow_id: UUID) -> None:
    """Mark a workflow as deleted; its name is free after the commit."""
    await connection.execute(
        "update pilotis.workflows set deleted_at = now(), is_active = false where app_id = $1 and workflow_id = $2",
        app_id,
        workflow_id,
    )


async def exists(connection: TenantDatabase | Connection, app_id: UUID, workflow_id: UUID) -> bool:
    """Return whether the app has the workflow."""
    return bool(
        await connection.fetchval(
            "select true from pilotis.workflows where app_id = $1 and workflow_id = $2 and deleted_at is null",
            app_id,
            workflow_id,
        )
    )


async def delete_old_versions(connection: Connection, kept: int, batch_size: int) -> int:
    """Delete versions that are not among the newest and that no execution is of, and return how many."""
    deleted = await connection.execute(
        """
        with old as materialized (
            select v.app_id, v.workflow_id, v.version
            from pilotis.workflows w join pilotis.workflow_versions v
                on v.app_id = w.app_id and v.workflow_id = w.workflow_id and v.version <= w.version - $1
            where w.version > $1 and not exists (
                select from pilotis.workflow_executions e
                where e.app_id = v.app_id and e.workflow_id = v.workflow_id and e.version = v.version
            )
            limit $2
            for no key update of w skip locked
        )
        delete from pilotis.workflow_versions v using old
        where (v.app_id, v.workflow_id, v.version) = (old.app_id, old.workflow_id, old.version)
        """,
        kept,
        batch_size,
    )
    return int(deleted.split()[-1])


async def delete_old(connection: Connection, days: int) -> int:
    """Purge at most 20 workflows that were deleted `days` ago, with their history, and return how many."""
    deleted = await connection.execute(
        """
        delete from pilotis.workflows where (app_id, workflow_id) in (
            select app_id, workflow_id from pilotis.workflows
            where deleted_at < now() - make_interval(days => $1) limit 20
        )
        """,
        days,
    )
    return int(deleted.split()[-1])

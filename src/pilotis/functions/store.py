"""SQL statements for functions, their versions, drafts and variables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.functions.types import EgressMode, InvokeAccess, RuntimeName, VersionStatus

APP = UUID(int=0)
"""Stands for a function's id in variables of the whole app."""


class FunctionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A function with its settings; `revision` counts the changes that need new sandboxes."""

    app_id: UUID
    function_id: UUID
    name: str
    description: str
    runtime: RuntimeName
    entrypoint: str | None
    invoke_access: InvokeAccess
    oauth_scope: str | None
    scopes: list[str]
    timeout_seconds: float
    memory_mb: int
    egress_mode: EgressMode
    egress_hosts: list[str]
    is_active: bool
    active_version: int | None
    latest_version: int
    revision: int
    created_at: datetime
    updated_at: datetime


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version without its source; `packages` and `warnings` are JSON texts."""

    version: int
    version_id: UUID
    status: VersionStatus
    runtime_version: str
    entrypoint: str
    source_bytes: int
    bundle_bytes: int
    sha256: str
    packages: str
    warnings: str
    error: str | None
    message: str
    created_by: str | None
    created_at: datetime
    ready_at: datetime | None


class LoggedVersion(VersionRecord, frozen=True, kw_only=True):
    """A version with the log of its build."""

    build_log: str


class StoredSource(NamedTuple):
    """The packed files of a version, and what identifies their build, if they need one."""

    source: bytes
    entrypoint: str
    build_digest: str | None


class DraftRecord(NamedTuple):
    """A user's draft: its packed files, as those of a version, and a number of these files."""

    source: bytes
    entrypoint: str
    build_digest: str | None
    revision: int
    source_bytes: int
    created_at: datetime


class VariableRecord(msgspec.Struct, frozen=True):
    """A variable with its encrypted value."""

    function_id: UUID
    name: str
    value: bytes
    updated_at: datetime
    updated_by: str | None


_FUNCTION = columns(FunctionRecord)
_VERSION = (
    "version, version_id, status, runtime_version, entrypoint, source_bytes, bundle_bytes, sha256, packages::text, "
    "warnings::text, error, message, created_by, created_at, ready_at"
)
_VARIABLE = columns(VariableRecord)


COUNT = "select count(*) from pilotis.functions where app_id = $1"
"""The number of an app's functions."""


async def count(connection: Connection, app_id: UUID) -> int:
    """Return the number of an app's functions; locks the app's row until the transaction ends."""
    await lock_app(connection, app_id)
    number: int = await connection.fetchval(COUNT, app_id)
    return number


async def is_taken(connection: Connection, app_id: UUID, name: str) -> bool:
    """Return whether a function of the app has the name, which stays reserved until the transaction ends."""
    await lock_app(connection, app_id)
    query = "select exists (select from pilotis.functions where app_id = $1 and name = $2)"
    taken: bool = await connection.fetchval(query, app_id, name)
    return taken


async def insert(connection: Connection, app_id: UUID, function_id: UUID, values: dict[str, Any]) -> bool:
    """Insert a function; return False if its name is taken."""
    names = list(values)
    places = ", ".join(f"${at + 3}" for at in range(len(names)))
    row = await connection.fetchrow(
        f"""
        insert into pilotis.functions (app_id, function_id, {", ".join(names)}) values ($1, $2, {places})
        on conflict (app_id, name) do nothing returning function_id
        """,
        app_id,
        function_id,
        *values.values(),
    )
    return row is not None


async def update(
    connection: Connection, app_id: UUID, function_id: UUID, values: dict[str, Any], *, revises: bool = False
) -> None:
    """Change a function; with `revises` its sandboxes are replaced."""
    sets = [f"{name} = ${at + 3}" for at, name in enumerate(values)] + ["updated_at = now()"]
    sets += ["revision = revision + 1"] if revises else []
    await connection.execute(
        f"update pilotis.functions set {', '.join(sets)} where app_id = $1 and function_id = $2",
        app_id,
        function_id,
        *values.values(),
    )


async def lock(
    connection: Connection, app_id: UUID, function_id: UUID, *, deletes: bool = False
) -> FunctionRecord | None:
    """Return a function, locked against other changes until the transaction ends.

    A transaction that deletes it locks it as strongly at once: those who record its calls hold the weakest lock.
    """
    mode = "update" if deletes else "no key update"
    row = await connection.fetchrow(
        f"select {_FUNCTION} from pilotis.functions where app_id = $1 and function_id = $2 for {mode}",
        app_id,
        function_id,
    )
    return FunctionRecord(**row) if row else None


async def read(connection: TenantDatabase | Connection, app_id: UUID, function_id: UUID) -> FunctionRecord | None:
    """Return a function."""
    row = await connection.fetchrow(
        f"select {_FUNCTION} from pilotis.functions where app_id = $1 and function_id = $2", app_id, function_id
    )
    return FunctionRecord(**row) if row else None


async def for_calls(
    connection: TenantDatabase, app_id: UUID, function_id: UUID | None, name: str
) -> FunctionRecord | None:
    """Return a function by its id or its name."""
    row = await connection.fetchrow(
        f"select {_FUNCTION} from pilotis.functions where app_id = $1 and (function_id = $2 or name = $3)",
        app_id,
        function_id,
        name,
    )
    return FunctionRecord(**row) if row else None


async def id_of(connection: TenantDatabase, app_id: UUID, name: str) -> UUID | None:
    """Return the id of the function with a name; None if there is none."""
    found: UUID | None = await connection.fetchval(
        "select function_id from pilotis.functions where app_id = $1 and name = $2", app_id, name
    )
    return found


async def page(
    database: Database, app_id: UUID, search: str, limit: int, offset: int
) -> tuple[list[FunctionRecord], int]:
    """Return a page of an app's functions by name, and the total count."""
    return await fetch_page(
        database,
        app_id,
        f"select {_FUNCTION} from pilotis.functions where app_id = $1 and position(lower($2) in name) > 0",
        (app_id, search),
        order_by="name",
        limit=limit,
        offset=offset,
        record=FunctionRecord,
    )


async def claim_failure_event(connection: Connection, app_id: UUID, function_id: UUID, seconds: float) -> bool:
    """Return whether no event reported a failed call of the function for `seconds`, and record that one does now."""
    return bool(
        await connection.fetchval(
            """
            update pilotis.functions set failure_event_at = now()
            where app_id = $1 and function_id = $2
                and (failure_event_at is null or failure_event_at <= now() - make_interval(secs => $3))
            returning true
            """,
            app_id,
            function_id,
            seconds,
        )
    )


async def delete(connection: Connection, app_id: UUID, function_id: UUID) -> None:
    """Delete a function with everything that belongs to it."""
    await connection.execute(
        "delete from pilotis.function_variables where app_id = $1 and function_id = $2", app_id, function_id
    )
    await connection.execute(
        "delete from pilotis.functions where app_id = $1 and function_id = $2", app_id, function_id
    )


async def runtimes_in_use(connection: TenantDatabase) -> list[RuntimeName]:
    """Return the runtimes of functions that can be called."""
    rows = await connection.fetch(
        "select distinct runtime from pilotis.functions where is_active and active_version is not null"
    )
    return [runtime for (runtime,) in rows]


async def insert_version(
    connection: Connection, app_id: UUID, function_id: UUID, version_id: UUID, values: dict[str, Any]
) -> int:
    """Insert a version under the function's next number, and return the number."""
    number: int = await connection.fetchval(
        """
        update pilotis.functions set latest_version = latest_version + 1, updated_at = now()
        where app_id = $1 and function_id = $2 returning latest_version
        """,
        app_id,
        function_id,
    )
    names = list(values)
    places = ", ".join(f"${at + 5}" for at in range(len(names)))
    await connection.execute(
        f"""
        insert into pilotis.function_versions (app_id, function_id, version, version_id, {", ".join(names)})
        values ($1, $2, $3, $4, {places})
        """,
        app_id,
        function_id,
        number,
        version_id,
        *values.values(),
    )
    return number


async def version(
    connection: TenantDatabase | Connection, app_id: UUID, function_id: UUID, number: int
) -> LoggedVersion | None:
    """Return a version with the log of its build."""
    row = await connection.fetchrow(
        f"""
        select {_VERSION}, build_log from pilotis.function_versions
        where app_id = $1 and function_id = $2 and version = $3
        """,
        app_id,
        function_id,
        number,
    )
    return LoggedVersion(**row) if row else None


async def version_by_id(
    connection: TenantDatabase | Connection, app_id: UUID, function_id: UUID, version_id: UUID
) -> VersionRecord | None:
    """Return the version with an id."""
    row = await connection.fetchrow(
        f"""
        select {_VERSION} from pilotis.function_versions
        where app_id = $1 and function_id = $2 and version_id = $3
        """,
        app_id,
        function_id,
        version_id,
    )
    return VersionRecord(**row) if row else None


async def update_version(
    connection: Connection, app_id: UUID, function_id: UUID, number: int, values: dict[str, Any]
) -> bool:
    """Change a version and return whether it becomes the active one as soon as it is built."""
    sets = [f"{name} = ${at + 4}" for at, name in enumerate(values)]
    activates: bool = await connection.fetchval(
        f"""
        update pilotis.function_versions set {", ".join(sets)}
        where app_id = $1 and function_id = $2 and version = $3 returning activates
        """,
        app_id,
        function_id,
        number,
        *values.values(),
    )
    return activates


async def supersede_builds(connection: Connection, app_id: UUID, function_id: UUID, number: int) -> None:
    """Let no unfinished build of an older version than one that is now active become the active one."""
    await connection.execute(
        """
        update pilotis.function_versions set activates = false
        where app_id = $1 and function_id = $2 and version < $3 and activates and status in ('queued', 'building')
        """,
        app_id,
        function_id,
        number,
    )


async def fail_lost_builds(connection: Connection) -> None:
    """Give up builds whose jobs have ended without a result."""
    await connection.execute(
        """
        update pilotis.function_versions set status = 'failed', error = 'BUILD_CRASHED'
        where status in ('queued', 'building') and created_at < now() - interval '2 hours'
        """
    )


async def source(
    connection: TenantDatabase | Connection, app_id: UUID, function_id: UUID, number: int
) -> StoredSource | None:
    """Return the files of a version; None where they are no longer stored."""
    row = await connection.fetchrow(
        """
        select source, entrypoint, build_digest from pilotis.function_versions
        where app_id = $1 and function_id = $2 and version = $3 and source is not null
        """,
        app_id,
        function_id,
        number,
    )
    return StoredSource(*row) if row else None


async def versions(
    database: Database, app_id: UUID, function_id: UUID, limit: int, offset: int
) -> tuple[list[VersionRecord], int]:
    """Return a page of a function's versions, newest first, and the total count."""
    return await fetch_page(
        database,
        app_id,
        f"select {_VERSION} from pilotis.function_versions where app_id = $1 and function_id = $2",
        (app_id, function_id),
        order_by="version desc",
        limit=limit,
        offset=offset,
        record=VersionRecord,
    )


async def expire_versions(connection: Connection, app_id: UUID, function_id: UUID, kept: int) -> None:
    """Delete the sources of versions that are neither active nor among the newest `kept`."""
    await connection.execute(
        """
        update pilotis.function_versions v set status = 'expired', source = null
        from pilotis.functions f
        where v.app_id = $1 and v.function_id = $2 and f.app_id = $1 and f.function_id = $2
            and v.version <= f.latest_version - $3 and v.version is distinct from f.active_version
            and v.status in ('ready', 'failed')
        """,
        app_id,
        function_id,
        kept,
    )


async def put_draft(
    connection: Connection, app_id: UUID, function_id: UUID, user_id: str, revision: int, values: dict[str, Any]
) -> None:
    """Store a user's draft, replacing an earlier one."""
    await connection.execute(
        """
        insert into pilotis.function_drafts
            (app_id, function_id, user_id, revision, entrypoint, source, source_bytes, sha256, build_digest)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        on conflict (app_id, function_id, user_id) do update set
            revision = excluded.revision, entrypoint = excluded.entrypoint, source = excluded.source,
            source_bytes = excluded.source_bytes, sha256 = excluded.sha256, build_digest = excluded.build_digest,
            created_at = now()
        """,
        app_id,
        function_id,
        user_id,
        revision,
        values["entrypoint"],
        values["source"],
        values["source_bytes"],
        values["sha256"],
        values["build_digest"],
    )


async def draft(connection: TenantDatabase, app_id: UUID, function_id: UUID, user_id: str) -> DraftRecord | None:
    """Return a user's draft of a function."""
    row = await connection.fetchrow(
        """
        select source, entrypoint, build_digest, revision, source_bytes, created_at from pilotis.function_drafts
        where app_id = $1 and function_id = $2 and user_id = $3
        """,
        app_id,
        function_id,
        user_id,
    )
    return DraftRecord(*row) if row else None


async def delete_old_versions(connection: Connection, kept: int, batch_size: int) -> int:
    """Delete versions, with their code and build logs, that are neither active nor among the newest; return how many.

    The functions are locked, so that none of the versions becomes the active one meanwhile.
    """
    deleted = await connection.execute(
        """
        with old as materialized (
            select v.app_id, v.function_id, v.version
            from pilotis.functions f join pilotis.function_versions v
                on v.app_id = f.app_id and v.function_id = f.function_id and v.version <= f.latest_version - $1
            where f.latest_version > $1 and v.version is distinct from f.active_version
                and v.status not in ('queued', 'building')
            limit $2
            for no key update of f skip locked
        )
        delete from pilotis.function_versions v using old
        where (v.app_id, v.function_id, v.version) = (old.app_id, old.function_id, old.version)
        """,
        kept,
        batch_size,
    )
    return int(deleted.split()[-1])


async def delete_old_drafts(connection: Connection) -> None:
    """Delete drafts that have not changed for a day."""
    await connection.execute("delete from pilotis.function_drafts where created_at < now() - interval '1 day'")


async def variables(
    connection: TenantDatabase | Connection, app_id: UUID, function_ids: Sequence[UUID]
) -> list[VariableRecord]:
    """Return variables, those of the app first."""
    rows = await connection.fetch(
        f"""
        select {_VARIABLE} from pilotis.function_variables where app_id = $1 and function_id = any($2)
        order by function_id, name
        """,
        app_id,
        list(function_ids),
    )
    return [VariableRecord(*row) for row in rows]


async def put_variable(
    connection: Connection, app_id: UUID, function_id: UUID, name: str, value: bytes, size: int, by: str | None
) -> VariableRecord:
    """Store a variable and return it."""
    row = await connection.fetchrow(
        f"""
        insert into pilotis.function_variables (app_id, function_id, name, value, value_bytes, updated_by)
        values ($1, $2, $3, $4, $5, $6)
        on conflict (app_id, function_id, name) do update set
            value = excluded.value, value_bytes = excluded.value_bytes, updated_at = now(),
            updated_by = excluded.updated_by
        returning {_VARIABLE}
        """,
        app_id,
        function_id,
        name,
        value,
        size,
        by,
    )
    assert row is not None
    return VariableRecord(*row)


async def delete_variables(connection: Connection, app_id: UUID, function_id: UUID, names: Sequence[str]) -> int:
    """Delete variables and return how many existed."""
    rows = await connection.fetch(
        """
        delete from pilotis.function_variables where app_id = $1 and function_id = $2 and name = any($3) returning name
        """,
        app_id,
        function_id,
        list(names),
    )
    return len(rows)


async def variables_size(connection: Connection, app_id: UUID, function_id: UUID) -> tuple[int, int]:
    """Return the number of variables and their total size in bytes."""
    row = await connection.fetchrow(
        """
        select count(*) as number, coalesce(sum(value_bytes), 0) as size from pilotis.function_variables
        where app_id = $1 and function_id = $2
        """,
        app_id,
        function_id,
    )
    assert row is not None
    number, size = row
    return number, int(size)


async def revise(connection: Connection, app_id: UUID, function_id: UUID) -> None:
    """Increment the revision of a function, or of all functions of the app, so that sandboxes are replaced."""
    await connection.execute(
        """
        with locked as (
            select app_id, function_id from pilotis.functions
            where app_id = $1 and (function_id = $2 or $2 = '00000000-0000-0000-0000-000000000000')
            order by function_id for no key update
        )
        update pilotis.functions f set revision = f.revision + 1 from locked l
        where (f.app_id, f.function_id) = (l.app_id, l.function_id)
        """,
        app_id,
        function_id,
    )


KEEP_EGRESS = """
    update pilotis.functions b set egress_mode = f.egress_mode from pilotis.functions f
    where b.app_id = $1 and f.app_id = $2 and f.function_id = b.function_id
"""
"""The statement by which the functions of a branch, `$1`, may reach what those of its parent, `$2`, may."""

FORGET_MISSING_VERSIONS = """
    update pilotis.functions f set active_version = null
    where f.app_id = $1 and f.active_version is not null and not exists (
        select from pilotis.function_versions v
        where v.app_id = f.app_id and v.function_id = f.function_id and v.version = f.active_version
    )
"""
"""The statement that leaves the functions of an app, `$1`, without a version where the active one did not move."""

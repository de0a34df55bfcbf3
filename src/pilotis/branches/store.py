"""SQL statements for branches."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.branches.types import State
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns


class StoredBranch(msgspec.Struct, frozen=True):
    """A branch with what it was created with, a JSON object."""

    branch_id: UUID
    name: str
    contents: str
    state: State
    error: str | None
    created_by: str | None
    created_at: datetime
    expires_at: datetime
    public_key: str | None


class Common(msgspec.Struct, frozen=True):
    """The definitions that a branch and its parent had in common, and ids there by those in the branch: JSON."""

    base: str
    ids: str


_KEY = """
    (select key from pilotis.public_keys k where k.app_id = b.branch_id and k.revoked_at is null
     order by key_id limit 1)
"""
_BRANCH = f"{columns(StoredBranch, 'b').replace('b.public_key', f'{_KEY} as public_key')}"
# A branch that was deleted as an app may be restored as one, and is a branch again then.
_LIVE = (
    "(b.state <> 'ready' or exists (select from pilotis.apps a where a.app_id = b.branch_id and a.deleted_at is null))"
)


async def insert(
    connection: Connection, app_id: UUID, branch_id: UUID, name: str, contents: str, days: int, created_by: str | None
) -> None:
    """Insert a branch that is being created."""
    await connection.execute(
        """
        insert into pilotis.branches (app_id, branch_id, name, contents, created_by, expires_at)
        values ($1, $2, $3, $4::jsonb, $6, now() + make_interval(days => $5))
        """,
        app_id,
        branch_id,
        name,
        contents,
        days,
        created_by,
    )


async def names(connection: Connection, app_id: UUID) -> list[str]:
    """Return the names of an app's branches, which count towards its limit."""
    rows = await connection.fetch(f"select b.name from pilotis.branches b where b.app_id = $1 and {_LIVE}", app_id)
    return [name for (name,) in rows]


async def is_branch(connection: Connection, app_id: UUID) -> bool:
    """Return whether an app is a branch."""
    found: bool = await connection.fetchval(
        "select exists (select from pilotis.apps where app_id = $1 and parent_app_id is not null)", app_id
    )
    return found


async def page(database: Database, app_id: UUID, limit: int, offset: int) -> tuple[list[StoredBranch], int]:
    """Return a page of an app's branches, and the total count."""
    query = f"select {_BRANCH} from pilotis.branches b where b.app_id = $1 and {_LIVE}"
    return await fetch_page(
        database, app_id, query, (app_id,), order_by="branch_id", limit=limit, offset=offset, record=StoredBranch
    )


async def read(connection: Connection | TenantDatabase, app_id: UUID, branch_id: UUID) -> StoredBranch | None:
    """Return a branch of an app."""
    row = await connection.fetchrow(
        f"select {_BRANCH} from pilotis.branches b where b.app_id = $1 and b.branch_id = $2 and {_LIVE}",
        app_id,
        branch_id,
    )
    return None if row is None else StoredBranch(**row)


async def common(connection: Connection | TenantDatabase, app_id: UUID, branch_id: UUID) -> Common | None:
    """Return what a branch and its parent had in common."""
    row = await connection.fetchrow(
        f"select {columns(Common)} from pilotis.branches where app_id = $1 and branch_id = $2", app_id, branch_id
    )
    return None if row is None else Common(**row)


async def lock(connection: Connection, app_id: UUID, branch_id: UUID) -> bool:
    """Lock a branch until the transaction ends; False if it was deleted."""
    found = await connection.fetchval(
        "select true from pilotis.branches where app_id = $1 and branch_id = $2 for update", app_id, branch_id
    )
    return bool(found)


async def set_common(connection: Connection, app_id: UUID, branch_id: UUID, common: Common) -> bool:
    """Store what a branch has in common with its parent, and that it is ready; False if it was deleted."""
    tag = await connection.execute(
        """
        update pilotis.branches set base = $3::jsonb, ids = $4::jsonb, state = 'ready', error = null
        where app_id = $1 and branch_id = $2
        """,
        app_id,
        branch_id,
        common.base,
        common.ids,
    )
    return tag == "UPDATE 1"


async def fail(connection: Connection, app_id: UUID, branch_id: UUID, error: str) -> None:
    """Store why a branch could not be created."""
    await connection.execute(
        "update pilotis.branches set state = 'failed', error = $3 where app_id = $1 and branch_id = $2",
        app_id,
        branch_id,
        error,
    )


async def delete(connection: Connection, app_id: UUID, branch_id: UUID) -> None:
    """Delete what is known of a branch; its app is deleted as one."""
    await connection.execute("delete from pilotis.branches where app_id = $1 and branch_id = $2", app_id, branch_id)


async def delete_gone(connection: Connection) -> None:
    """Delete what is known of branches that are purged, and of those that could not be created and have expired."""
    await connection.execute(
        """
        delete from pilotis.branches b
        where b.state = 'ready' and not exists (select from pilotis.apps a where a.app_id = b.branch_id)
            or b.state <> 'ready' and b.expires_at < now()
        """
    )

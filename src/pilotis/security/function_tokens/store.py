"""SQL for the tokens of functions."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database


async def insert(database: Database, app_id: UUID, execution_id: UUID, seconds: float) -> None:
    """Record that an execution, which ends within these seconds, has a token."""
    await database.execute(
        """
        insert into pilotis.function_tokens (app_id, execution_id, expires_at)
        values ($1, $2, now() + make_interval(secs => $3)) on conflict do nothing
        """,
        app_id,
        execution_id,
        seconds,
        tenant=app_id,
    )


async def count_use(database: Database, app_id: UUID, execution_id: UUID) -> int | None:
    """Count a use of an execution's token and return the number of uses; None if the execution has ended."""
    uses = await database.fetchval(
        """
        update pilotis.function_tokens set uses = uses + 1
        where app_id = $1 and execution_id = $2 and expires_at > now() returning uses
        """,
        app_id,
        execution_id,
        tenant=app_id,
    )
    return cast("int | None", uses)


async def delete(database: Database, app_id: UUID, execution_id: UUID) -> None:
    """End the token of an execution."""
    await database.execute(
        "delete from pilotis.function_tokens where app_id = $1 and execution_id = $2",
        app_id,
        execution_id,
        tenant=app_id,
    )


async def delete_expired(connection: Connection) -> None:
    """Delete the tokens of executions whose process has died."""
    await connection.execute("delete from pilotis.function_tokens where expires_at < now()")

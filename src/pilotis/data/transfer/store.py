"""SQL statements for the positions of imports."""

from __future__ import annotations

from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database

_KEPT = "interval '30 days'"
_READ = """
    select format, header, position, line, created, rejected, rejected_position, updated, ignored,
        finished_at is not null as is_finished
    from pilotis.imports where app_id = $1 and table_id = $2 and key = $3
"""


class Progress(msgspec.Struct):
    """The position of an import; see the table's comment."""

    format: str
    header: list[str] | None
    position: int
    line: int
    created: int
    rejected: int
    rejected_position: int
    updated: int
    ignored: int
    is_finished: bool


async def begin(database: Database, app_id: UUID, table_id: UUID, key: str, format_: str, *, again: bool) -> Progress:
    """Return the position of the import with this key, recording a new one; `again` restarts a finished one."""
    async with database.transaction(app_id) as connection:
        if again:
            await connection.execute(
                """
                delete from pilotis.imports
                where app_id = $1 and table_id = $2 and key = $3 and finished_at is not null
                """,
                app_id,
                table_id,
                key,
            )
        await connection.execute(
            """
            insert into pilotis.imports (app_id, table_id, key, format) values ($1, $2, $3, $4)
            on conflict do nothing
            """,
            app_id,
            table_id,
            key,
            format_,
        )
        row = await connection.fetchrow(_READ, app_id, table_id, key)
    assert row is not None
    return msgspec.convert(dict(row), Progress)


async def read(database: Database, app_id: UUID, table_id: UUID, key: str) -> Progress | None:
    """Return the position of the import with this key, or None."""
    row = await database.fetchrow(_READ, app_id, table_id, key, tenant=app_id)
    return None if row is None else msgspec.convert(dict(row), Progress)


async def advance(
    connection: Connection, app_id: UUID, table_id: UUID, key: str, old_position: int, progress: Progress
) -> bool:
    """Record the position of the import; False if another process has continued it from `old_position`."""
    done: bool | None = await connection.fetchval(
        """
        update pilotis.imports
        set header = $5, position = $6, line = $7, created = $8, rejected = $9, rejected_position = $10,
            updated = $11, ignored = $12, finished_at = case when $13 then now() end, updated_at = now()
        where app_id = $1 and table_id = $2 and key = $3 and position = $4 and finished_at is null
        returning true
        """,
        app_id,
        table_id,
        key,
        old_position,
        progress.header,
        progress.position,
        progress.line,
        progress.created,
        progress.rejected,
        progress.rejected_position,
        progress.updated,
        progress.ignored,
        progress.is_finished,
    )
    return done is not None


async def delete_old(connection: Connection) -> None:
    """Delete the positions of imports that were inactive for 30 days."""
    await connection.execute(f"delete from pilotis.imports where updated_at < now() - {_KEPT}")

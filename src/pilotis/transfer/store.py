"""The statements of imports: how far each has come."""

from __future__ import annotations

from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database

_KEPT = "interval '30 days'"


class Progress(msgspec.Struct):
    """How far an import has come; see the table's comment."""

    format: str
    header: list[str] | None
    position: int
    line: int
    created: int
    rejected: int
    rejected_position: int
    is_finished: bool


async def begin(database: Database, app_id: UUID, table_id: UUID, key: str, format_: str, *, again: bool) -> Progress:
    """Return how far the import of this key has come, noting a new one; `again` forgets one that was finished."""
    async with database.transaction() as connection:
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
        row = await connection.fetchrow(
            """
            select format, header, position, line, created, rejected, rejected_position,
                finished_at is not null as is_finished
            from pilotis.imports where app_id = $1 and table_id = $2 and key = $3
            """,
            app_id,
            table_id,
            key,
        )
    assert row is not None
    return msgspec.convert(dict(row), Progress)


async def advance(
    connection: Connection, app_id: UUID, table_id: UUID, key: str, old_position: int, progress: Progress
) -> bool:
    """Note how far the import has come; False if somebody else has taken it on from `old_position`."""
    done: bool | None = await connection.fetchval(
        """
        update pilotis.imports
        set header = $5, position = $6, line = $7, created = $8, rejected = $9, rejected_position = $10,
            finished_at = case when $11 then now() end, updated_at = now()
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
        progress.is_finished,
    )
    return done is not None


async def delete_old(connection: Connection) -> None:
    """Forget imports of which nothing was heard for 30 days."""
    await connection.execute(f"delete from pilotis.imports where updated_at < now() - {_KEPT}")

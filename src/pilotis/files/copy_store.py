"""SQL statements for `pending_copies`: the blobs that the backup store of the server does not have yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection


class PendingCopy(NamedTuple):
    """A blob that is to be copied, and its size in bytes."""

    app_id: UUID
    key: str
    size: int


class Queue(NamedTuple):
    """The number of blobs that wait, since when the oldest does, and the bytes of those that would be deleted else."""

    waiting: int
    since: datetime | None
    held_bytes: int


async def oldest(connection: Connection, limit: int) -> tuple[datetime, list[PendingCopy]]:
    """Return the blobs that have waited longest, and a moment before which no other was committed, if they are all."""
    asked_at: datetime = await connection.fetchval("select clock_timestamp()")
    rows = await connection.fetch(
        "select app_id, key, size from pilotis.pending_copies order by queued_at limit $1", limit
    )
    return asked_at, [PendingCopy(*row) for row in rows]


async def queue(connection: Connection) -> Queue:
    """Return what waits."""
    (row,) = await connection.fetch(
        """
        select count(*), min(queued_at),
            coalesce(sum(size) filter (where exists (
                select from pilotis.pending_deletions d where d.app_id = c.app_id and d.key = c.key
            )), 0)::bigint
        from pilotis.pending_copies c
        """
    )
    return Queue(*row)


async def remove(connection: Connection, copies: Sequence[PendingCopy]) -> None:
    """Forget blobs that the store has."""
    await connection.execute(
        """
        delete from pilotis.pending_copies c using unnest($1::uuid[], $2::text[]) gone (app_id, key)
        where c.app_id = gone.app_id and c.key = gone.key
        """,
        [copy.app_id for copy in copies],
        [copy.key for copy in copies],
    )


async def remove_all(connection: Connection) -> None:
    """Forget all blobs that wait."""
    await connection.execute("delete from pilotis.pending_copies")

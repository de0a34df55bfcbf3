"""SQL statements for the metadata of pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.db.records import columns


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a page. `extra` is a JSON object with the fields that have no column of their own."""

    path: str
    title: str | None
    description: str | None
    image: str | None
    og_type: str | None
    extra: str
    created_at: datetime
    updated_at: datetime


_COLUMNS = columns(PageRecord)


async def page_meta(database: Database, app_id: UUID, storage_id: UUID, path: str) -> PageRecord | None:
    """Return the metadata of a page."""
    row = await database.fetchrow(
        f"select {_COLUMNS} from pilotis.web_page_metas where app_id = $1 and storage_id = $2 and path = $3",
        app_id,
        storage_id,
        path,
        tenant=app_id,
    )
    return PageRecord(**row) if row else None


async def page_metas(
    database: Database, app_id: UUID, storage_id: UUID, limit: int, offset: int
) -> tuple[list[PageRecord], int]:
    """Return a page of a storage's pages sorted by path, and their total number."""
    query = f"select {_COLUMNS} from pilotis.web_page_metas where app_id = $1 and storage_id = $2"
    arguments = (app_id, storage_id)
    return await fetch_page(
        database, app_id, query, arguments, order_by="path", limit=limit, offset=offset, record=PageRecord
    )


async def put_page_metas(
    connection: Connection, app_id: UUID, storage_id: UUID, rows: Sequence[tuple[Any, ...]]
) -> list[PageRecord]:
    """Insert or replace pages, each `(path, title, description, image, og_type, extra)`, and return them."""
    written = await connection.fetch(
        f"""
        insert into pilotis.web_page_metas (app_id, storage_id, path, title, description, image, og_type, extra)
        select $1::uuid, $2::uuid, * from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
        on conflict (app_id, storage_id, path) do update set
            title = excluded.title, description = excluded.description, image = excluded.image,
            og_type = excluded.og_type, extra = excluded.extra, updated_at = now()
        returning {_COLUMNS}
        """,
        app_id,
        storage_id,
        *[list(column) for column in zip(*rows, strict=True)],
    )
    return [PageRecord(**row) for row in written]


async def count_page_metas(connection: Connection, app_id: UUID, storage_id: UUID) -> int:
    """Return how many pages of a storage have metadata."""
    count: int = await connection.fetchval(
        "select count(*) from pilotis.web_page_metas where app_id = $1 and storage_id = $2", app_id, storage_id
    )
    return count


async def delete_page_meta(connection: Connection, app_id: UUID, storage_id: UUID, path: str) -> bool:
    """Delete the metadata of a page; False if it has none."""
    return (
        await connection.fetchval(
            """
            delete from pilotis.web_page_metas where app_id = $1 and storage_id = $2 and path = $3 returning true
            """,
            app_id,
            storage_id,
            path,
        )
        is True
    )


async def delete_page_metas(connection: Connection, app_id: UUID, storage_id: UUID) -> int:
    """Delete the metadata of all pages of a storage, and return how many there were."""
    tag = await connection.execute(
        "delete from pilotis.web_page_metas where app_id = $1 and storage_id = $2", app_id, storage_id
    )
    return int(tag.split()[-1])


async def sitemap_metas(database: Database, app_id: UUID, storage_id: UUID, limit: int) -> list[tuple[str, str, str]]:
    """Return pages with metadata for the sitemap, each with its path, its `extra`, and the date of its last change."""
    rows = await database.fetch(
        """
        select path, extra, to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD') as changed
        from pilotis.web_page_metas
        where app_id = $1 and storage_id = $2 order by path limit $3
        """,
        app_id,
        storage_id,
        limit,
        tenant=app_id,
    )
    return [(path, extra, changed) for path, extra, changed in rows]

"""Reading a list part by part."""

from __future__ import annotations

from typing import Any

from asyncpg import Record

from pilotis.db.pool import Database


async def fetch_page(
    database: Database, query: str, arguments: tuple[Any, ...], *, order_by: str, limit: int, offset: int
) -> tuple[list[Record], int]:
    """Return a part of a query's rows, and how many rows there are in all."""
    async with database.connection() as connection:
        total: int = await connection.fetchval(f"select count(*) from ({query}) listed", *arguments)
        if not limit:
            return [], total
        at = len(arguments)
        page = f"select * from ({query}) listed order by {order_by} limit ${at + 1} offset ${at + 2}"
        return await connection.fetch(page, *arguments, limit, offset), total

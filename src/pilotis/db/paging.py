"""Reads lists in pages."""

from __future__ import annotations

import asyncio
from typing import Any

from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.db.waiters import Tenant

MAX_COUNTED = 10_000
"""How many rows of a log a total counts: counting all of a long one would take longer than reading the page."""


async def fetch_page(
    database: Database,
    tenant: Tenant,
    query: str,
    arguments: tuple[Any, ...],
    *,
    order_by: str,
    limit: int,
    offset: int,
    max_total: int | None = None,
) -> tuple[list[Record], int]:
    """Return a page of a query's rows, and the total number of rows, counted up to `max_total`."""
    bound = "" if max_total is None else f"limit {max_total}"
    counted = database.fetchval(f"select count(*) from ({query} {bound}) listed", *arguments, tenant=tenant)
    if not limit:
        return [], await counted
    at = len(arguments)
    page = f"select * from ({query}) listed order by {order_by} limit ${at + 1} offset ${at + 2}"
    # At once: one after the other, they would wait twice for a database that may be far away.
    total, rows = await asyncio.gather(counted, database.fetch(page, *arguments, limit, offset, tenant=tenant))
    return rows, total

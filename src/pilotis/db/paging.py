"""Reads lists in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.db.waiters import Tenant

MAX_COUNTED = 10_000
"""How many rows of a log a total counts: counting all of a long one would take longer than reading the page."""
_OWN_COLUMNS = 2

R = TypeVar("R")


async def page_of(
    record: Callable[..., R],
    database: Database,
    tenant: Tenant,
    query: str,
    arguments: tuple[Any, ...],
    *,
    order_by: str,
    limit: int,
    offset: int,
    max_total: int | None = None,
) -> tuple[list[R], int]:
    """Return a page of a query's rows as records, whose fields are its columns, and the total as `fetch_page`."""
    rows, total = await fetch_page(
        database, tenant, query, arguments, order_by=order_by, limit=limit, offset=offset, max_total=max_total
    )
    return [record(**dict(list(row.items())[_OWN_COLUMNS:])) for row in rows], total


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
    counted = f"select count(*) as __total from ({query} {bound}) listed"
    if not limit:
        return [], await database.fetchval(counted, *arguments, tenant=tenant)
    at = len(arguments)
    # One statement: two would take two connections, or wait twice for a database that may be far away.
    rows = await database.fetch(
        f"""
        select * from ({counted}) counted left join (
            select true as __found, listed.* from ({query}) listed
            order by {order_by} limit ${at + 1} offset ${at + 2}
        ) page on true
        order by {order_by}
        """,
        *arguments,
        limit,
        offset,
        tenant=tenant,
    )
    return [row for row in rows if row["__found"]], rows[0]["__total"]

"""Reads lists in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from asyncpg import Record

from pilotis.db.pool import Database
from pilotis.db.waiters import Tenant

T = TypeVar("T")

MAX_COUNTED = 10_000
"""How many rows of a log a total counts: counting all of a long one would take longer than reading the page."""


@overload
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
) -> tuple[list[Record], int]: ...


@overload
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
    record: Callable[..., T],
) -> tuple[list[T], int]: ...


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
    record: Callable[..., Any] | None = None,
) -> tuple[list[Any], int]:
    """Return a page of a query's rows, and the total number of rows, counted up to `max_total`.

    Each row is what `record` makes of the query's columns, given by their names.
    """
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
    total = rows[0]["__total"]
    if not rows[0]["__found"]:
        return [], total
    if record is None:
        return rows, total
    names = [*rows[0].keys()][2:]
    return [record(**{name: row[name] for name in names}) for row in rows], total

"""How large each app's part of a log is, by a sample of its table, and how much of it has to go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

_SAMPLE_PAGES = 5_000
_PAGE_BYTES = 8192


class Part(NamedTuple):
    """An app's part of a log: its estimated rows, and bytes with indexes."""

    rows: int
    size: int


async def parts(connection: Connection, table: str, row_bytes: str) -> dict[UUID, Part]:
    """Return each app's part of a table, from the table at most 40 MB of which are read.

    `row_bytes` is the SQL expression for the bytes of a row with its index entries.
    """
    size: int = await connection.fetchval("select pg_relation_size($1::text::regclass)", table)
    fraction = min(1.0, _SAMPLE_PAGES * _PAGE_BYTES / max(size, 1))
    rows = await connection.fetch(
        f"""
        select app_id, count(*) as rows, sum({row_bytes})::bigint as size
        from {table} tablesample system ({100 * fraction}) group by app_id
        """
    )
    return {app_id: Part(round(number / fraction), round(size / fraction)) for app_id, number, size in rows}


def purged(table: str, identifier: str) -> str:
    """Return a query for the keys, at most `$1`, of a table's rows whose app was purged.

    It looks at each app once, not at each row: `app_id` is the first column of the table's key.
    """
    return f"""
        with recursive present as (
            (select app_id from {table} order by app_id limit 1)
            union all
            select (select t.app_id from {table} t where t.app_id > p.app_id order by t.app_id limit 1)
            from present p where p.app_id is not null
        )
        select t.app_id, t.{identifier} from present p
        cross join lateral (select app_id, {identifier} from {table} x where x.app_id = p.app_id limit $1) t
        where not exists (select from pilotis.apps a where a.app_id = p.app_id) limit $1
    """


def excess(found: Mapping[UUID, Part], bounds: Mapping[UUID, int], bound: int, total: int) -> dict[UUID, int]:
    """Return how many rows of which app have to go so that each app, and all together, fit.

    `bound` is that of an app without one in `bounds`. If all together are larger than `total`, the largest parts are
    cut to one size, and smaller ones stay as they are.
    """
    wanted = {app_id: min(part.size, bounds.get(app_id, bound), bound) for app_id, part in found.items()}
    level = _level(sorted(wanted.values()), total)
    return {
        app_id: number
        for app_id, part in found.items()
        if (number := round(part.rows * (1 - min(wanted[app_id], level) / part.size))) > 0
    }


def _level(sizes: list[int], total: int) -> float:
    """Return the largest size to which all are cut, so that together they have at most `total`; `sizes` ascend."""
    left = float(total)
    for number, size in enumerate(sizes):
        if size * (len(sizes) - number) >= left:
            return left / (len(sizes) - number)
        left -= size
    return float(max(sizes, default=0))

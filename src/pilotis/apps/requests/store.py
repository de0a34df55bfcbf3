"""The statements of the request log and of durations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND
from pilotis.kit.durations import BUCKETS

KEPT_DAYS = 7
MAX_ENTRIES = 100_000


class LogRow(NamedTuple):
    """A row of `pilotis.requests`."""

    app_id: UUID
    entry_id: UUID
    request_id: str
    created_at: datetime
    method: str
    route: str
    status: int
    code: str | None
    duration_ms: float
    actor_kind: str
    actor_id: str | None
    address: str
    function_id: UUID | None


class Durations(NamedTuple):
    """The requests of an app on one route with one status class since the last flush, by bucket."""

    app_id: UUID
    route: str
    status: int
    buckets: Sequence[int]


class Bucketed(msgspec.Struct, frozen=True):
    """The requests of one series in one step, which begins at `time`, with one status class, by bucket."""

    key: str
    time: datetime
    status: int
    buckets: list[int]


_LOG = ", ".join(LogRow._fields)


async def add_entries(database: Database, rows: Sequence[LogRow]) -> None:
    """Insert entries of the log; those of apps that no longer exist are skipped."""
    await database.execute(
        """
        insert into pilotis.requests (
            app_id, entry_id, request_id, created_at, method, route, status, code, duration_ms, actor_kind, actor_id,
            address, function_id
        )
        select t.* from unnest(
            $1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::smallint[], $8::text[],
            $9::real[], $10::text[], $11::text[], $12::text[], $13::uuid[]
        ) t (app_id, entry_id, request_id, created_at, method, route, status, code, duration_ms, kind, actor, address,
            function_id)
        join pilotis.apps using (app_id)
        """,
        *zip(*rows, strict=True),
        tenant=BACKGROUND,
    )


async def add_durations(database: Database, rows: Sequence[Durations]) -> None:
    """Add durations to the current minute and hour of their apps; apps that no longer exist are skipped."""
    sums = ", ".join(f"s.buckets[{at}] + excluded.buckets[{at}]" for at in range(1, BUCKETS + 1))
    await database.execute(
        f"""
        insert into pilotis.request_durations as s (app_id, step, starts_at, route, status, buckets)
        select t.app_id, step, date_trunc(step, now()), t.route, t.status,
            string_to_array(t.buckets, ',')::bigint[]
        from unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[]) t (app_id, route, status, buckets)
        join pilotis.apps using (app_id)
        cross join (values ('minute'), ('hour')) steps (step)
        order by app_id, step, route, status
        on conflict (app_id, step, starts_at, route, status) do update set buckets = array[{sums}]
        """,
        [row.app_id for row in rows],
        [row.route for row in rows],
        [row.status for row in rows],
        # An array of arrays would be flattened by unnest.
        [",".join(map(str, row.buckets)) for row in rows],
        tenant=BACKGROUND,
    )


async def delete_old(connection: Connection) -> None:
    """Delete what is older than it is kept, and the oldest entries of apps with too many."""
    await connection.execute(
        f"delete from pilotis.requests where created_at < now() - interval '{KEPT_DAYS} days'",
    )
    for (app_id,) in await connection.fetch(
        "select app_id from pilotis.requests group by app_id having count(*) > $1", MAX_ENTRIES
    ):
        await connection.execute(
            """
            delete from pilotis.requests where app_id = $1 and created_at < (
                select created_at from pilotis.requests where app_id = $1 order by created_at desc offset $2 limit 1
            )
            """,
            app_id,
            MAX_ENTRIES,
        )
    await connection.execute(
        """
        delete from pilotis.request_durations
        where starts_at < now() - case step when 'minute' then interval '2 days' else interval '60 days' end
        """
    )


async def page(
    database: Database, app_id: UUID, conditions: Sequence[tuple[str, Any]], limit: int, offset: int
) -> tuple[list[LogRow], int]:
    """Return a page of the log, newest first; each condition is SQL with `{}` in the place of its value."""
    texts = "".join(f" and {text.format(f'${at}')}" for at, (text, _) in enumerate(conditions, 2))
    query = f"select {_LOG} from pilotis.requests where app_id = $1{texts}"
    arguments = (app_id, *(value for _, value in conditions))
    order = "created_at desc, entry_id desc"
    return await fetch_page(
        database, app_id, query, arguments, order_by=order, limit=limit, offset=offset, record=LogRow
    )


async def of_request(connection: TenantDatabase, app_id: UUID, request_id: str, limit: int) -> list[LogRow]:
    """Return the entries with a request's id, oldest first: the request, and the calls that functions made for it."""
    rows = await connection.fetch(
        f"select {_LOG} from pilotis.requests where app_id = $1 and request_id = $2 order by entry_id limit $3",
        app_id,
        request_id,
        limit,
    )
    return [LogRow(**row) for row in rows]


async def durations(
    database: Database, app_id: UUID, step: str, start: datetime, end: datetime, by: str | None
) -> list[Bucketed]:
    """Return the buckets of each series, step and status class, oldest first."""
    key = {"route": "route", "status": "status || 'xx'", None: "'all'"}[by]
    sums = ", ".join(f"sum(buckets[{at}])::bigint" for at in range(1, BUCKETS + 1))
    rows = await database.fetch(
        f"""
        select {key} as key, date_trunc($2, starts_at) as time, status, array[{sums}] as buckets
        from pilotis.request_durations
        where app_id = $1 and step = $3 and starts_at >= date_trunc($2, $4::timestamptz) and starts_at < $5
        group by 1, 2, 3 order by 2
        """,
        app_id,
        step,
        "minute" if step == "minute" else "hour",
        start,
        end,
        tenant=app_id,
    )
    return [Bucketed(**row) for row in rows]

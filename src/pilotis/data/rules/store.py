"""SQL statements about how long statements under rules took."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.waiters import BACKGROUND
from pilotis.kit.durations import BUCKETS


async def add_durations(database: Database, rows: Sequence[tuple[UUID, UUID, Sequence[int]]]) -> None:
    """Add durations to the current hour of tables (app, table, buckets); tables that no longer exist are skipped."""
    sums = ", ".join(f"s.buckets[{at}] + excluded.buckets[{at}]" for at in range(1, BUCKETS + 1))
    await database.execute(
        f"""
        insert into pilotis.rule_durations as s (app_id, table_id, hour, starts_at, buckets)
        select t.app_id, t.table_id, extract(hour from now() at time zone 'UTC'), date_trunc('hour', now()),
            string_to_array(g.buckets, ',')::bigint[]
        from unnest($1::uuid[], $2::uuid[], $3::text[]) g (app_id, table_id, buckets)
        join pilotis.tables t on t.app_id = g.app_id and t.table_id = g.table_id
        order by t.app_id, t.table_id
        on conflict (app_id, table_id, hour) do update set starts_at = excluded.starts_at,
            buckets = case when s.starts_at = excluded.starts_at then array[{sums}] else excluded.buckets end
        """,
        [app_id for app_id, _, _ in rows],
        [table_id for _, table_id, _ in rows],
        # An array of arrays would be flattened by unnest.
        [",".join(map(str, buckets)) for _, _, buckets in rows],
        tenant=BACKGROUND,
    )


async def durations(connection: TenantDatabase, app_id: UUID) -> list[tuple[UUID, Sequence[int]]]:
    """Return the durations of the last 24 hours of each table of an app."""
    sums = ", ".join(f"sum(buckets[{at}])::bigint" for at in range(1, BUCKETS + 1))
    rows = await connection.fetch(
        f"""
        select table_id, array[{sums}] as buckets from pilotis.rule_durations
        where app_id = $1 and starts_at > now() - interval '24 hours' group by table_id
        """,
        app_id,
    )
    return [(table_id, buckets) for table_id, buckets in rows]

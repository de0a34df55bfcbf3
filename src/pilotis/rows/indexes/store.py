"""The statements on notes of uses, on the catalogue of indexes, and on what PostgreSQL knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.rows.indexes.definitions import PREFIX
from pilotis.rows.indexes.uses import Use, columns_of, decode, encode
from pilotis.tables.schema import TableSchema

_SCHEMA = "'app_' || replace(i.app_id::text, '-', '')"
_USED = "(s.idx_scan > i.scans or s.idx_scan > 0 and s.idx_scan < i.scans)"
_LAST_SCAN = "coalesce((to_jsonb(s) ->> 'last_idx_scan')::timestamptz, now())"
_MOST_USES = 500


async def add_uses(database: Database, tallies: Sequence[tuple[UUID, UUID, str, float, float]]) -> None:
    """Add to the notes: app, table, use, hits and milliseconds. Those of tables that are gone are left out."""
    rows = [(app, table, use, columns_of(decode(use)), int(hits), ms) for app, table, use, hits, ms in tallies]
    await database.executemany(
        """
        insert into pilotis.index_uses as u (app_id, table_id, use, columns, hits, total_ms)
        select $1, $2, $3, $4, $5, $6
        where exists (select from pilotis.tables t where t.app_id = $1 and t.table_id = $2)
        on conflict (app_id, table_id, use) do update set hits = u.hits + excluded.hits,
            total_ms = u.total_ms + excluded.total_ms, last_used_at = now()
        """,
        sorted(rows),
    )


async def candidates(connection: Connection, hits: int, milliseconds: float) -> list[Record]:
    """Return the uses that were noted so often and took so long, the costliest first, with their apps' own limits."""
    return await connection.fetch(
        """
        select u.app_id, u.table_id, u.use, u.hits, u.total_ms, a.limits
        from pilotis.index_uses u
        join pilotis.tables t on t.app_id = u.app_id and t.table_id = u.table_id and t.dropped_at is null
        join pilotis.apps a on a.app_id = u.app_id and a.deleted_at is null
        where u.hits >= $1 and u.total_ms >= $2
        order by u.total_ms desc
        """,
        hits,
        milliseconds,
    )


async def uses(database: Database, app_id: UUID, table_id: UUID) -> list[Record]:
    """Return what is noted of a table, the costliest first."""
    return await database.fetch(
        "select * from pilotis.index_uses where app_id = $1 and table_id = $2 and hits > 0 order by total_ms desc",
        app_id,
        table_id,
    )


async def forget_use(connection: Connection, table: TableSchema, use: str) -> None:
    """Begin to note a use anew: what was to be decided of it has been."""
    await connection.execute(
        "delete from pilotis.index_uses where app_id = $1 and table_id = $2 and use = $3",
        table.app_id,
        table.table_id,
        use,
    )


async def forget_old_uses(connection: Connection) -> None:
    """Forget what was not noted for four weeks, and the least costly of too many."""
    await connection.execute("delete from pilotis.index_uses where last_used_at < now() - interval '28 days'")
    await connection.execute(
        """
        delete from pilotis.index_uses u using (
            select app_id, table_id, use,
                row_number() over (partition by app_id, table_id order by total_ms desc) as place
            from pilotis.index_uses
        ) ranked
        where ranked.place > $1
            and (u.app_id, u.table_id, u.use) = (ranked.app_id, ranked.table_id, ranked.use)
        """,
        _MOST_USES,
    )


async def of_table(source: Database | Connection, app_id: UUID, table_id: UUID) -> list[Record]:
    """Return a table's indexes in the order of their making, with what PostgreSQL knows of their size and use."""
    return await source.fetch(
        f"""
        select i.name, i.use, i.state, i.hits, i.total_ms, i.error, i.created_at, i.retry_at > now() as waits,
            coalesce(pg_relation_size(s.indexrelid), i.size_bytes) as size_bytes, s.indexrelid is not null as exists,
            case when {_USED} then {_LAST_SCAN} else i.last_used_at end as last_used_at
        from pilotis.indexes i
        left join pg_stat_user_indexes s on s.schemaname = {_SCHEMA} and s.indexrelname = i.name
        where i.app_id = $1 and i.table_id = $2 order by i.created_at, i.name
        """,
        app_id,
        table_id,
    )


async def all_states(database: Database | Connection) -> list[Record]:
    """Return state, number and bytes of all indexes, and of failed ones the reasons."""
    return await database.fetch(
        """
        select state, count(*) as number, sum(size_bytes)::bigint as bytes,
            array_agg(distinct error) filter (where error is not null) as errors
        from pilotis.indexes group by state order by state
        """
    )


async def count(connection: Connection, app_id: UUID) -> int:
    """Return the number of indexes that an app has."""
    number: int = await connection.fetchval(
        "select count(*) from pilotis.indexes where app_id = $1 and state in ('building', 'ready')", app_id
    )
    return number


async def size(connection: Connection, table: TableSchema) -> tuple[int, int]:
    """Return the number of a table's rows, by the tally, and its bytes without indexes."""
    row = await connection.fetchrow(
        f"""
        select coalesce((select sum(rows) from {table.counts} where table_id = $1), 0)::bigint as rows,
            pg_table_size('{table.physical}'::regclass) as bytes
        """,
        table.table_id,
    )
    assert row is not None
    return row["rows"], row["bytes"]


async def begin(
    connection: Connection, table: TableSchema, name: str, use: Use, hits: int, milliseconds: float
) -> None:
    """Note that an index is being built, before anything of it is there."""
    await connection.execute(
        """
        insert into pilotis.indexes as i (app_id, table_id, name, use, columns, state, hits, total_ms)
        values ($1, $2, $3, $4, $5, 'building', $6, $7)
        on conflict (app_id, table_id, name) do update set state = 'building', use = excluded.use, hits = excluded.hits,
            total_ms = excluded.total_ms, attempts = i.attempts + 1, error = null, retry_at = null, created_at = now()
        """,
        table.app_id,
        table.table_id,
        name,
        encode(use),
        columns_of(use),
        hits,
        milliseconds,
    )


async def ready(connection: Connection, app_id: UUID, table_id: UUID, name: str) -> None:
    """Note that an index is built."""
    await connection.execute(
        f"""
        update pilotis.indexes i set state = 'ready', attempts = 0, scans = 0, idle = '0', checked_at = now(),
            size_bytes = pg_relation_size(to_regclass({_SCHEMA} || '.' || i.name))
        where i.app_id = $1 and i.table_id = $2 and i.name = $3
        """,
        app_id,
        table_id,
        name,
    )


async def fail(connection: Connection, table: TableSchema, name: str, reason: str) -> None:
    """Note that an index cannot be; it is tried again after a day, and after a week at last."""
    await connection.execute(
        """
        update pilotis.indexes set state = 'failed', error = $4, size_bytes = 0,
            retry_at = now() + least(greatest(attempts, 1), 7) * interval '1 day'
        where app_id = $1 and table_id = $2 and name = $3
        """,
        table.app_id,
        table.table_id,
        name,
        reason,
    )


async def unfinished(connection: Connection) -> list[Record]:
    """Return the indexes that some node began, with `valid`: whether PostgreSQL has them, None for not at all."""
    return await connection.fetch(
        f"""
        select i.app_id, i.table_id, i.name, {_SCHEMA} as schema, p.indisvalid as valid
        from pilotis.indexes i left join pg_index p on p.indexrelid = to_regclass({_SCHEMA} || '.' || i.name)
        where i.state = 'building'
        """
    )


async def interrupt(connection: Connection, app_id: UUID, table_id: UUID, name: str) -> None:
    """Note that a build was interrupted: it may begin again at once, and after some minutes if that happens again."""
    await connection.execute(
        """
        update pilotis.indexes set state = 'failed', error = 'The build was interrupted.',
            retry_at = now() + (attempts - 1) * interval '5 minutes'
        where app_id = $1 and table_id = $2 and name = $3
        """,
        app_id,
        table_id,
        name,
    )


async def invalid(connection: Connection) -> list[str]:
    """Return the qualified names of indexes of ours that PostgreSQL has and no query can use."""
    rows = await connection.fetch(
        """
        select format('%I.%I', n.nspname, c.relname) as name
        from pg_index p join pg_class c on c.oid = p.indexrelid join pg_namespace n on n.oid = c.relnamespace
        where not p.indisvalid and n.nspname ~ '^app_[0-9a-f]{32}$' and c.relname ~ $1
        """,
        f"^{PREFIX}[0-9a-f]{{32}}_",
    )
    return [row["name"] for row in rows]


async def of_text(connection: Connection, table: TableSchema, name: str | None) -> list[str]:
    """Return the table's B-trees, valid or not, that hold texts: of these the one of this name, if one is given."""
    rows = await connection.fetch(
        """
        select c.relname as name from pg_index p join pg_class c on c.oid = p.indexrelid
        join pg_am m on m.oid = c.relam and m.amname = 'btree'
        where p.indrelid = $1::regclass and c.relname ~ $2 and c.relname = coalesce($3, c.relname)
            and exists (select from pg_attribute a where a.attrelid = c.oid and a.atttypid = 'text'::regtype)
        """,
        table.physical,
        f"^{PREFIX}{table.table_id.hex}_",
        name,
    )
    return [row["name"] for row in rows]


async def observe(connection: Connection, every_seconds: float) -> None:
    """Note which indexes were used since they were last looked at, where that is long enough ago.

    Time in which nobody looked does not count as idle, beyond one such interval.
    """
    await connection.execute(
        f"""
        update pilotis.indexes i set scans = s.idx_scan, checked_at = now(),
            size_bytes = pg_relation_size(s.indexrelid),
            last_used_at = case when {_USED} then {_LAST_SCAN} else i.last_used_at end,
            idle = case when {_USED} then '0' else i.idle + least(now() - i.checked_at, 2 * $1::interval) end
        from pg_stat_user_indexes s
        where s.schemaname = {_SCHEMA} and s.indexrelname = i.name and i.state = 'ready'
            and i.checked_at <= now() - $1::interval
        """,
        timedelta(seconds=every_seconds),
    )
    await connection.execute(
        f"""
        delete from pilotis.indexes i
        where state = 'ready' and to_regclass({_SCHEMA} || '.' || i.name) is null
        """
    )


async def idle(connection: Connection, days: int) -> list[Record]:
    """Return the indexes that no query has used for so many days."""
    return await connection.fetch(
        f"""
        select i.app_id, i.table_id, i.name, {_SCHEMA} as schema from pilotis.indexes i
        where i.state = 'ready' and i.idle >= make_interval(days => $1)
        """,
        days,
    )


async def dropped(connection: Connection, app_id: UUID, table_id: UUID, name: str, reason: str) -> None:
    """Note that an index was dropped. One that was never used is not built again for three months."""
    await connection.execute(
        """
        update pilotis.indexes set state = 'dropped', error = $4, size_bytes = 0, idle = '0',
            retry_at = now() + case when last_used_at is null then interval '90 days' else interval '1 day' end
        where app_id = $1 and table_id = $2 and name = $3
        """,
        app_id,
        table_id,
        name,
        reason,
    )

"""SQL statements for access patterns, on the catalogue of indexes, and on PostgreSQL's statistics of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.data.indexes.definitions import PREFIX
from pilotis.data.indexes.types import IndexState
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.access_patterns import AccessPattern, columns_of, decode, encode
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.records import columns
from pilotis.db.waiters import BACKGROUND

_SCHEMA = "'app_' || replace(i.app_id::text, '-', '')"
_USED = "(s.idx_scan > i.scans or s.idx_scan > 0 and s.idx_scan < i.scans)"
_LAST_SCAN = "coalesce(s.last_idx_scan, now())"
_MAX_USES = 500


class Candidate(msgspec.Struct, frozen=True):
    """A recorded pattern of a table, how often and how long statements took for it, and its app's own limits, JSON."""

    app_id: UUID
    table_id: UUID
    use: str
    hits: int
    total_ms: float
    limits: str


class RecordedUse(msgspec.Struct, frozen=True):
    """A recorded pattern of a table."""

    use: str
    hits: int
    total_ms: float
    first_used_at: datetime
    last_used_at: datetime


class StoredIndex(msgspec.Struct, frozen=True):
    """An index of a table. `waits` says that the next try to build it is later; None for one that needs none."""

    name: str
    use: str
    state: IndexState
    hits: int
    total_ms: float
    error: str | None
    created_at: datetime
    waits: bool | None
    size_bytes: int
    last_used_at: datetime | None


class StateOfIndexes(msgspec.Struct, frozen=True):
    """The indexes of a state: their number, their bytes, and the reasons of failed ones."""

    state: str
    number: int
    bytes: int
    errors: list[str] | None


class UnfinishedIndex(msgspec.Struct, frozen=True):
    """An index whose build has begun. `valid` is PostgreSQL's flag, None if the index does not exist."""

    app_id: UUID
    table_id: UUID
    name: str
    schema: str
    valid: bool | None


class IdleIndex(msgspec.Struct, frozen=True):
    """An index that no query uses."""

    app_id: UUID
    table_id: UUID
    name: str
    use: str
    schema: str


async def add_patterns(database: Database, totals: Sequence[tuple[UUID, UUID, str, float, float]]) -> None:
    """Add hits and milliseconds to access patterns (app, table, pattern); those of deleted tables are left out."""
    rows = [(app, table, use, columns_of(decode(use)), int(hits), ms) for app, table, use, hits, ms in totals]
    await database.executemany(
        """
        insert into pilotis.index_uses as u (app_id, table_id, use, columns, hits, total_ms)
        select $1, $2, $3, $4, $5, $6
        where exists (select from pilotis.tables t where t.app_id = $1 and t.table_id = $2)
        on conflict (app_id, table_id, use) do update set hits = u.hits + excluded.hits,
            total_ms = u.total_ms + excluded.total_ms, last_used_at = now()
        """,
        sorted(rows),
        tenant=BACKGROUND,
    )


async def candidates(connection: Connection, hits: int, milliseconds: float) -> list[Candidate]:
    """Return the patterns recorded at least that often and that long, costliest first, with their apps' own limits."""
    rows = await connection.fetch(
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
    return [Candidate(**row) for row in rows]


async def uses(database: Database, app_id: UUID, table_id: UUID) -> list[RecordedUse]:
    """Return the recorded patterns of a table, costliest first."""
    rows = await database.fetch(
        f"""
        select {columns(RecordedUse)} from pilotis.index_uses
        where app_id = $1 and table_id = $2 and hits > 0 order by total_ms desc
        """,
        app_id,
        table_id,
        tenant=app_id,
    )
    return [RecordedUse(**row) for row in rows]


async def reset_pattern(connection: Connection, table: TableSchema, use: str) -> None:
    """Reset the counts of a pattern, because an index for it is built or rejected."""
    await connection.execute(
        "delete from pilotis.index_uses where app_id = $1 and table_id = $2 and use = $3",
        table.app_id,
        table.table_id,
        use,
    )


async def delete_old_patterns(connection: Connection) -> None:
    """Delete patterns not seen for four weeks, and the cheapest beyond the limit."""
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
        _MAX_USES,
    )


async def of_table(source: Connection | TenantDatabase, app_id: UUID, table_id: UUID) -> list[StoredIndex]:
    """Return a table's indexes in the order of creation, with their size and use as PostgreSQL counts them."""
    rows = await source.fetch(
        f"""
        select i.name, i.use, i.state, i.hits, i.total_ms, i.error, i.created_at, i.retry_at > now() as waits,
            coalesce(s.size_bytes, i.size_bytes) as size_bytes,
            case when {_USED} then {_LAST_SCAN} else i.last_used_at end as last_used_at
        from pilotis.indexes i
        left join pilotis.index_statistics(
            (select array_agg(name) from pilotis.indexes where app_id = $1 and table_id = $2)
        ) s on s.name = i.name
        where i.app_id = $1 and i.table_id = $2 order by i.created_at, i.name
        """,
        app_id,
        table_id,
    )
    return [StoredIndex(**row) for row in rows]


async def all_states(connection: Connection) -> list[StateOfIndexes]:
    """Return the number and bytes of all indexes by state, and the reasons of failed ones."""
    rows = await connection.fetch(
        """
        select state, count(*) as number, sum(size_bytes)::bigint as bytes,
            array_agg(distinct error) filter (where error is not null) as errors
        from pilotis.indexes group by state order by state
        """
    )
    return [StateOfIndexes(**row) for row in rows]


async def count(connection: Connection, app_id: UUID) -> int:
    """Return the number of an app's indexes."""
    number: int = await connection.fetchval(
        "select count(*) from pilotis.indexes where app_id = $1 and state in ('building', 'ready')", app_id
    )
    return number


async def size(connection: Connection | TenantDatabase, table: TableSchema) -> tuple[int, int]:
    """Return a table's stored row count and its bytes without indexes."""
    row = await connection.fetchrow(
        f"""
        select coalesce((select sum(rows) from {table.counts} where table_id = $1), 0)::bigint as rows,
            pilotis.table_bytes('{table.physical}') as bytes
        """,
        table.table_id,
    )
    assert row is not None
    rows, size_bytes = row
    return rows, size_bytes


async def begin(
    connection: Connection, table: TableSchema, name: str, use: AccessPattern, hits: int, milliseconds: float
) -> None:
    """Record a build before it begins."""
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
    """Record that an index is ready."""
    await connection.execute(
        """
        update pilotis.indexes i set state = 'ready', attempts = 0, scans = 0, idle = '0', checked_at = now(),
            size_bytes = coalesce((select s.size_bytes from pilotis.index_statistics(array[i.name]) s), 0)
        where i.app_id = $1 and i.table_id = $2 and i.name = $3
        """,
        app_id,
        table_id,
        name,
    )


async def fail(connection: Connection, table: TableSchema, name: str, reason: str) -> None:
    """Record that an index could not be built. The next try is a day later, at most a week after further failures."""
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


async def unfinished(connection: Connection) -> list[UnfinishedIndex]:
    """Return the indexes whose build has begun."""
    rows = await connection.fetch(
        f"""
        select i.app_id, i.table_id, i.name, {_SCHEMA} as schema, p.indisvalid as valid
        from pilotis.indexes i left join pg_index p on p.indexrelid = to_regclass({_SCHEMA} || '.' || i.name)
        where i.state = 'building'
        """
    )
    return [UnfinishedIndex(**row) for row in rows]


async def interrupt(connection: Connection, app_id: UUID, table_id: UUID, name: str) -> None:
    """Record an interrupted build: it may start again at once, or after some minutes if it was interrupted before."""
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
    """Return the qualified names of automatic indexes that are invalid in PostgreSQL."""
    rows = await connection.fetch(
        """
        select format('%I.%I', n.nspname, c.relname) as name
        from pg_index p join pg_class c on c.oid = p.indexrelid join pg_namespace n on n.oid = c.relnamespace
        where not p.indisvalid and n.nspname ~ '^app_[0-9a-f]{32}$' and c.relname ~ $1
        """,
        f"^{PREFIX}[0-9a-f]{{32}}_",
    )
    return [name for (name,) in rows]


async def of_text(connection: Connection, table: TableSchema, name: str | None) -> list[str]:
    """Return the table's B-trees on texts, valid or not; only the one with the name, if a name is given."""
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
    return [name for (name,) in rows]


async def observe(connection: Connection, every_seconds: float) -> None:
    """Record which indexes were used since the last check, if that is long enough ago.

    Time without checks counts as idle for one such interval at most.
    """
    await connection.execute(
        f"""
        update pilotis.indexes i set scans = s.idx_scan, checked_at = now(),
            size_bytes = s.size_bytes,
            last_used_at = case when {_USED} then {_LAST_SCAN} else i.last_used_at end,
            idle = case when {_USED} then '0' else i.idle + least(now() - i.checked_at, 2 * $1::interval) end
        from pilotis.index_statistics(
            (select array_agg(name) from pilotis.indexes where state = 'ready' and checked_at <= now() - $1::interval)
        ) s
        where s.name = i.name and i.state = 'ready' and i.checked_at <= now() - $1::interval
        """,
        timedelta(seconds=every_seconds),
    )
    await connection.execute(
        f"""
        delete from pilotis.indexes i
        where state = 'ready' and to_regclass({_SCHEMA} || '.' || i.name) is null
        """
    )


async def idle(connection: Connection, days: int) -> list[IdleIndex]:
    """Return the indexes that no query has used for `idle_days`."""
    rows = await connection.fetch(
        f"""
        select i.app_id, i.table_id, i.name, i.use, {_SCHEMA} as schema from pilotis.indexes i
        where i.state = 'ready' and i.idle >= make_interval(days => $1)
        """,
        days,
    )
    return [IdleIndex(**row) for row in rows]


async def dropped(connection: Connection, app_id: UUID, table_id: UUID, name: str, reason: str) -> None:
    """Record that an index was dropped. One that was never used is not built again for three months."""
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

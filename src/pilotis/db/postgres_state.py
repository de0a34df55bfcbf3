"""What PostgreSQL says of itself, by one statement that a process of each server runs twice a minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND

STATE: Mapping[str, str] = {
    "database_bytes": "Size of the database.",
    "connections": "Open connections of PostgreSQL.",
    "max_connections": "Connections that PostgreSQL accepts.",
    "oldest_transaction_seconds": "Age of the oldest transaction of the database.",
    "replication_lag_bytes": "Bytes of the log that the slowest standby has yet to replay; absent without one.",
    "dead_rows": "Rows of the database that vacuum has not removed yet.",
    "rows": "Rows of the database, by PostgreSQL's estimate.",
}
"""What can go up and down, with its meaning."""
COUNTED: Mapping[str, str] = {
    "deadlocks": "Deadlocks that PostgreSQL has ended.",
    "blocks_hit": "Blocks that PostgreSQL found in its buffers.",
    "blocks_read": "Blocks that PostgreSQL read from the system.",
    "temporary_bytes": "Bytes that statements wrote to temporary files.",
    "wal_bytes": "Bytes of the write-ahead log that were written.",
}
"""What PostgreSQL counts itself, since its statistics were reset or its cluster was created."""

# The log's position and that of standbys need a server that is not one itself, and a role that may see them.
_STATEMENT = """
    select pg_database_size(d.datid)::float8 as database_bytes,
        (select sum(numbackends) from pg_stat_database)::float8 as connections,
        current_setting('max_connections')::float8 as max_connections,
        (select coalesce(extract(epoch from max(clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()) as oldest_transaction_seconds,
        d.deadlocks::float8 as deadlocks, d.blks_hit::float8 as blocks_hit, d.blks_read::float8 as blocks_read,
        d.temp_bytes::float8 as temporary_bytes, log.at as wal_bytes,
        (select max(pg_wal_lsn_diff('0/0'::pg_lsn + log.at::numeric, replay_lsn))::float8
            from pg_stat_replication) as replication_lag_bytes,
        (select sum(pg_stat_get_dead_tuples(oid))::float8 from pg_class where relkind = 'r') as dead_rows,
        (select sum(greatest(reltuples, 0))::float8 from pg_class where relkind = 'r') as rows
    from pg_stat_database d
    cross join (select case when pg_is_in_recovery() then null
        else pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 end as at) log
    where d.datname = current_database()
"""


async def read(database: Database) -> dict[str, float]:
    """Return the state by its names; what the role may not see is absent."""
    row: Any = await database.fetchrow(_STATEMENT, tenant=BACKGROUND)
    return {name: value for name, value in row.items() if value is not None} if row is not None else {}

"""Information about PostgreSQL for the operator."""

from __future__ import annotations

import time
from collections.abc import Collection

from asyncpg import Connection

from pilotis.kit.reports import Report

_PARAMETERS = """
    select name, coalesce(
        (select setting from pg_settings s where lower(s.name) = wanted.name), current_setting(wanted.name, true)
    ) as value
    from unnest($1::text[]) wanted (name)
"""


async def server_version(connection: Connection) -> str:
    """Return PostgreSQL's version with its minor version, which asyncpg does not parse."""
    version: str = await connection.fetchval("show server_version")
    return version


async def unavailable_extensions(connection: Connection, names: Collection[str]) -> set[str]:
    """Return those of the extensions that are not installed on the database's machine."""
    rows = await connection.fetch("select name from pg_available_extensions where name = any($1)", list(names))
    return set(names) - {name for (name,) in rows}


async def clock_difference(connection: Connection) -> float:
    """Return by how many seconds the clocks of this machine and of the database differ, at least."""
    before = time.time()
    there: float = await connection.fetchval("select extract(epoch from clock_timestamp())::float8")
    after = time.time()
    # The duration of the query itself does not count.
    return max(before - there, there - after, 0.0)


async def role_parameters(connection: Connection, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return the quoted role of a connection, and the parameters that are set for it."""
    role: str = await connection.fetchval("select quote_ident(session_user)")
    rows = await connection.fetch(_PARAMETERS, list(names))
    return role, dict(map(tuple, rows))


async def connections(connection: Connection) -> tuple[int, int]:
    """Return how many connections PostgreSQL accepts from roles that are not superusers, and how many are open."""
    (row,) = await connection.fetch(
        """
        select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                - coalesce(current_setting('reserved_connections', true)::int, 0),
            (select sum(numbackends)::int from pg_stat_database)
        """
    )
    return row[0], row[1]


async def statistics_report(connection: Connection) -> list[Report]:
    """Return reports about tables of which a fifth has changed since their statistics, which are a day old or older."""
    rows = await connection.fetch(
        """
        select format('%I.%I', schemaname, relname) as name, n_mod_since_analyze as changed
        from pg_stat_user_tables
        where (schemaname = 'pilotis' or starts_with(schemaname, 'app_'))
            and n_mod_since_analyze > greatest(n_live_tup / 5, $1)
            and coalesce(greatest(last_analyze, last_autoanalyze), '-infinity') < now() - interval '1 day'
        order by n_mod_since_analyze desc limit 3
        """,
        LEAST_CHANGED_ROWS,
    )
    return [
        Report(
            f"{changed} rows of {name} have changed since its statistics, which are older than a day.",
            f"Run: analyze {name}; and see why autovacuum does not: is it off?",
        )
        for name, changed in rows
    ]


LEAST_CHANGED_ROWS = 10_000
"""A table with fewer changed rows needs no new statistics."""


async def invalid_index_report(connection: Connection) -> list[Report]:
    """Return reports about indexes that an interrupted build has left, which cost writes and serve no query."""
    rows = await connection.fetch(
        """
        select format('%I.%I', n.nspname, c.relname) as name
        from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
        where not i.indisvalid and (n.nspname = 'pilotis' or starts_with(n.nspname, 'app_'))
            and not exists (select from pg_stat_progress_create_index p where p.index_relid = i.indexrelid)
        order by 1 limit 3
        """
    )
    return [
        Report(f"The index {name} is not valid: its build was interrupted.", f"Run: reindex index concurrently {name};")
        for (name,) in rows
    ]

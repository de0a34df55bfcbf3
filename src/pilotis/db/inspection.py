"""Information about PostgreSQL for the operator."""

from __future__ import annotations

import time
from collections.abc import Collection

from asyncpg import Connection

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

"""What an upgrade of PostgreSQL asks the old server and the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asyncpg import Connection

from pilotis.db.embedded.lockfile import DATABASE

_USERS_TABLES = """
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_t'
"""


async def databases(connection: Connection) -> set[str]:
    """Return the names of the databases besides the templates."""
    rows = await connection.fetch("select datname from pg_database where not datistemplate")
    return {name for (name,) in rows}


async def obstacles(connection: Connection) -> list[str]:
    """Return sentences about what an upgrade by files cannot carry over."""
    found = []
    if tablespaces := await connection.fetchval("select count(*) from pg_tablespace where spcname !~ '^pg_'"):
        found.append(f"It has {tablespaces} tablespaces, which lie outside of its directory.")
    rows = await connection.fetch(
        f"""
        with recursive composite (oid) as (
            select t.oid from pg_type t where t.typtype = 'c'
            union
            select t.oid from pg_type t join composite on composite.oid in (t.typelem, t.typbasetype)
        )
        select a.attrelid::regclass::text, a.attname::text
        from pg_attribute a join composite on composite.oid = a.atttypid
        where a.attnum > 0 and not a.attisdropped
            and a.attrelid in (select c.oid {_USERS_TABLES} and c.relkind in ('r', 'm'))
        """
    )
    # The minor releases of November 2026 mark the columns of each type with a version, as the option `pg_attver`, so
    # that a stored row of an older version of the type is not misread. Programs without that reject the option.
    found += [f"The column {name} of {table} stores rows of a type." for table, name in rows]
    return found


async def forget_versions_of_columns(connection: Connection) -> int:
    """Remove the option `pg_attver` of columns, which nothing needs where no rows of a type are stored.

    Returns the number of columns. The catalogue is changed directly, as `alter table` does not know the option.
    """
    await connection.execute("set allow_system_table_mods = on")
    done: str = await connection.execute(
        """
        update pg_attribute
        set attoptions = nullif(array(select o from unnest(attoptions) o where not starts_with(o, 'pg_attver=')), '{}')
        where exists (select from unnest(attoptions) o where starts_with(o, 'pg_attver='))
        """
    )
    await connection.execute("reset allow_system_table_mods")
    return int(done.removeprefix("UPDATE "))


async def row_counts(connection: Connection) -> Mapping[str, int]:
    """Return the number of rows of each table."""
    names = await connection.fetch(
        f"select format('%I.%I', n.nspname, c.relname) {_USERS_TABLES} and c.relkind = 'r' and c.relpersistence = 'p'"
    )
    return {name: await connection.fetchval(f"select count(*) from only {name}") for (name,) in names}


async def finish(connection: Connection, unwanted: Sequence[str] = ()) -> None:
    """Update extensions, drop databases that the upgrade needed, and collect statistics."""
    for name in unwanted:
        await connection.execute(f'drop database if exists "{name}"')
    outdated = await connection.fetch(
        "select name from pg_available_extensions where installed_version <> default_version"
    )
    for (name,) in outdated:
        await connection.execute(f'alter extension "{name}" update')
    await connection.execute("analyze")


OWN_DATABASES = {DATABASE, "postgres"}
"""The databases that a cluster of Pilotis may have."""

"""SQL statements for the catalogue of tables and columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.data.tables.keys import UniqueKey
from pilotis.data.tables.schema import AccessLevel, Column, Referrer, TableSchema
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database, TenantDatabase
from pilotis.kit import json

_TABLE = """
    select t.app_id, t.table_id, t.title, t.access_level, t.version, t.emits, t.rules, t.unique_keys, t.watched,
        t.profile_key, t.created_at, t.updated_at, t.rules_updated_at, coalesce((
        select json_agg(json_build_object(
            'number', c.number, 'name', c.name, 'type', c.type, 'required', c.required,
            'default', c.default_value, 'description', c.description, 'encrypted', c.encrypted,
            'migrating', c.rewriting, 'vector', c.vector, 'checks', c.checks, 'on_update', c.on_update,
            'normalize', c.normalize, 'of_member', c.of_member,
            'references', case when c.references_table is not null then json_build_object(
                'table', (
                    select r.title from pilotis.tables r where r.app_id = c.app_id and r.table_id = c.references_table
                ),
                'table_id', c.references_table, 'on_delete', c.on_delete,
                'key', c.references_key, 'column', c.references_column
            ) end
        ) order by c.number)
        from pilotis.columns c
        where c.app_id = t.app_id and c.table_id = t.table_id and c.dropped_at is null
    ), '[]') as columns, coalesce((
        select json_agg(json_build_object(
            'table_id', c.table_id, 'table', r.title, 'number', c.number, 'column', c.name, 'on_delete', c.on_delete,
            'key', c.references_key, 'of', c.references_column
        ) order by r.title, c.number)
        from pilotis.columns c join pilotis.tables r on r.app_id = c.app_id and r.table_id = c.table_id
        where c.app_id = t.app_id and c.references_table = t.table_id
            and c.dropped_at is null and r.dropped_at is null
    ), '[]') as referrers
    from pilotis.tables t
    where t.app_id = $1 and t.dropped_at is null
        and exists (select from pilotis.apps a where a.app_id = t.app_id and a.deleted_at is null)
"""

_TRASHED_TABLE = _TABLE.replace("t.dropped_at is null", "t.dropped_at is not null")

_columns = json.decoder(list[Column])
_keys = json.decoder(tuple[UniqueKey, ...])
_referrers = json.decoder(tuple[Referrer, ...])


class TableRecord(NamedTuple):
    """A table of the catalogue; `updated_at` is when its schema was last changed."""

    schema: TableSchema
    created_at: datetime
    updated_at: datetime
    rules_updated_at: datetime | None


def _table(
    app_id: UUID,
    table_id: UUID,
    title: str,
    access_level: str,
    version: int,
    emits: list[str],
    rules: str | None,
    unique_keys: str,
    watched: bool,
    profile_key: str | None,
    created_at: datetime,
    updated_at: datetime,
    rules_updated_at: datetime | None,
    columns: str,
    referrers: str,
) -> TableRecord:
    schema = TableSchema(
        app_id,
        table_id,
        title,
        AccessLevel(access_level),
        version,
        tuple(_columns.decode(columns)),
        frozenset(emits),
        None if rules is None else json.decode(rules.encode()),
        keys=() if unique_keys == "[]" else _keys.decode(unique_keys),
        referrers=() if referrers == "[]" else _referrers.decode(referrers),
        watched=watched,
        profile_key=profile_key,
    )
    return TableRecord(schema, created_at, updated_at, rules_updated_at)


class Offenders(NamedTuple):
    """The number of rows that do not fit, and the ids of the first of them."""

    total: int
    ids: list[str]


async def offenders(connection: Connection, query: str, *arguments: str) -> Offenders:
    """Return the rows that do not fit, by one of the queries for them in `pilotis.data.tables.ddl`."""
    row = await connection.fetchrow(query, *arguments)
    assert row is not None
    return Offenders(*row)


async def live_table(connection: Connection | TenantDatabase, app_id: UUID, table_id: UUID) -> TableRecord | None:
    """Return a table that is not in the trash."""
    row = await connection.fetchrow(f"{_TABLE} and t.table_id = $2", app_id, table_id)
    return _table(*row) if row else None


async def id_of(connection: Connection | TenantDatabase, app_id: UUID, title: str) -> UUID | None:
    """Return the id of the table with a title that is not in the trash."""
    query = "select table_id from pilotis.tables where app_id = $1 and title = $2 and dropped_at is null"
    found: UUID | None = await connection.fetchval(query, app_id, title)
    return found


async def profiles_of(connection: Connection | TenantDatabase, app_id: UUID) -> UUID | None:
    """Return the id of the table with the profiles of an app's members; None if there is none."""
    query = "select table_id from pilotis.tables where app_id = $1 and profile_key is not null"
    found: UUID | None = await connection.fetchval(query, app_id)
    return found


async def set_profile_key(connection: Connection, app_id: UUID, table_id: UUID, key: str | None) -> None:
    """Make the rows of a table the profiles of the app's members, by a unique key; None ends that."""
    await connection.execute(
        "update pilotis.tables set profile_key = $3 where app_id = $1 and table_id = $2", app_id, table_id, key
    )


async def has_columns_of_members(connection: Connection, app_id: UUID) -> bool:
    """Return whether the deletion of members changes or deletes rows of an app."""
    query = "select exists (select from pilotis.columns where app_id = $1 and of_member in ('set_null', 'cascade'))"
    found: bool = await connection.fetchval(query, app_id)
    return found


async def share_tables(connection: Connection, app_id: UUID) -> None:
    """Lock all tables of an app against schema changes until the transaction ends."""
    await connection.execute(
        "select from pilotis.tables where app_id = $1 and dropped_at is null order by table_id for share", app_id
    )


async def live_tables(connection: Connection | TenantDatabase, app_id: UUID) -> list[TableRecord]:
    """Return the app's tables in the order of their creation."""
    return [_table(*row) for row in await connection.fetch(f"{_TABLE} order by t.table_id", app_id)]


async def lock_table(
    connection: Connection, app_id: UUID, table_id: UUID, *, trashed: bool = False
) -> TableRecord | None:
    """Return a table, locked against other schema changes until the transaction ends.

    With `trashed` it is one in the trash, otherwise one that is not.
    """
    if not await connection.fetchval(
        "select true from pilotis.tables where app_id = $1 and table_id = $2 for update", app_id, table_id
    ):
        return None
    query = _TRASHED_TABLE if trashed else _TABLE
    row = await connection.fetchrow(f"{query} and t.table_id = $2", app_id, table_id)
    return _table(*row) if row else None


async def count_tables(connection: Connection, app_id: UUID) -> int:
    """Return the number of the app's tables, with the app locked so that it stays valid until the transaction ends."""
    await lock_app(connection, app_id)
    count: int = await connection.fetchval(
        "select count(*) from pilotis.tables where app_id = $1 and dropped_at is null", app_id
    )
    return count


async def open_apps(connection: Connection) -> int:
    """Return how many apps have a table that the public key alone can read, write and delete."""
    count: int = await connection.fetchval(
        """
        select count(distinct app_id) from pilotis.tables
        where access_level = 'Public' and rules is null and dropped_at is null
        """
    )
    return count


async def insert_table(connection: Connection, table: TableSchema) -> None:
    """Insert a table with its columns."""
    await connection.execute(
        """
        insert into pilotis.tables (app_id, table_id, title, access_level, version, emits)
        values ($1, $2, $3, $4, $5, $6)
        """,
        table.app_id,
        table.table_id,
        table.title,
        table.access_level.value,
        table.version,
        sorted(table.emits),
    )
    for column in table.columns:
        await insert_column(connection, table, column)


async def insert_column(connection: Connection, table: TableSchema, column: Column) -> None:
    """Insert a column and advance the table's next column number beyond it."""
    await connection.execute(
        """
        insert into pilotis.columns
            (app_id, table_id, number, name, type, required, default_value, description, encrypted, references_table,
            on_delete, references_key, references_column, of_member, checks, on_update, normalize)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
        """,
        table.app_id,
        table.table_id,
        column.number,
        *_definition(column),
    )
    await connection.execute(
        """
        update pilotis.tables set next_column = greatest(next_column, $3 + 1)
        where app_id = $1 and table_id = $2
        """,
        table.app_id,
        table.table_id,
        column.number,
    )


async def update_column(connection: Connection, table: TableSchema, column: Column) -> None:
    """Change a column's definition."""
    await connection.execute(
        """
        update pilotis.columns
        set name = $4, type = $5, required = $6, default_value = $7, description = $8, encrypted = $9,
            references_table = $10, on_delete = $11, references_key = $12, references_column = $13, of_member = $14,
            checks = $15, on_update = $16, normalize = $17, rewriting = $18, vector = $19
        where app_id = $1 and table_id = $2 and number = $3
        """,
        table.app_id,
        table.table_id,
        column.number,
        *_definition(column),
        column.migrating,
        column.vector,
    )


async def trash_column(connection: Connection, table: TableSchema, number: int) -> None:
    """Mark a column as dropped, with its values in their current form."""
    await connection.execute(
        """
        update pilotis.columns set dropped_at = now(), rewriting = false, vector = null
        where app_id = $1 and table_id = $2 and number = $3
        """,
        table.app_id,
        table.table_id,
        number,
    )


async def trashed_columns_beyond(connection: Connection, table: TableSchema, limit: int) -> list[int]:
    """Delete all but the latest `limit` dropped columns of a table from the catalogue, and return their numbers."""
    rows = await connection.fetch(
        """
        delete from pilotis.columns where app_id = $1 and table_id = $2 and number in (
            select number from pilotis.columns where app_id = $1 and table_id = $2 and dropped_at is not null
            order by dropped_at desc, number desc offset $3
        ) returning number
        """,
        table.app_id,
        table.table_id,
        limit,
    )
    return [number for (number,) in rows]


async def trashed_tables_beyond(database: Database, app_id: UUID, limit: int) -> list[UUID]:
    """Return all but the latest `limit` dropped tables of an app."""
    rows = await database.fetch(
        """
        select table_id from pilotis.tables where app_id = $1 and dropped_at is not null
        order by dropped_at desc, table_id desc offset $2
        """,
        app_id,
        limit,
        tenant=app_id,
    )
    return [table_id for (table_id,) in rows]


async def migrating_columns(connection: Connection) -> list[tuple[UUID, UUID, int]]:
    """Return the app, table and number of each column that is being migrated, oldest first."""
    rows = await connection.fetch(
        """
        select app_id, table_id, number from pilotis.columns
        where rewriting and dropped_at is null order by table_id, number
        """
    )
    return [(app_id, table_id, number) for app_id, table_id, number in rows]


async def mark_words_stored(connection: Connection, app_id: UUID, table_id: UUID, number: int) -> bool:
    """Record that every row has the words of a column; False if they are no longer stored."""
    noted: bool | None = await connection.fetchval(
        """
        update pilotis.columns set vector = 'stored'
        where app_id = $1 and table_id = $2 and number = $3 and vector = 'filling' returning true
        """,
        app_id,
        table_id,
        number,
    )
    return bool(noted)


async def neighbours(connection: Connection, app_id: UUID, table_id: UUID) -> set[UUID]:
    """Return the tables to which a table refers, and those that refer to it."""
    rows = await connection.fetch(
        """
        select references_table as id from pilotis.columns
        where app_id = $1 and table_id = $2 and references_table is not null
        union select table_id from pilotis.columns where app_id = $1 and references_table = $2
        """,
        app_id,
        table_id,
    )
    return {other for (other,) in rows} - {table_id}


async def row_count(connection: Connection, table: TableSchema) -> int:
    """Return a table's stored row count."""
    count: int = await connection.fetchval(
        f"select coalesce(sum(rows), 0)::bigint from {table.counts} where table_id = $1", table.table_id
    )
    return count


async def update_table(
    connection: Connection, table: TableSchema, title: str, access_level: AccessLevel, version: int, *, touch: bool
) -> None:
    """Change a table's title, access level and version, and with `touch` the time of its last change."""
    await connection.execute(
        """
        update pilotis.tables set title = $3, access_level = $4, version = $5,
            updated_at = case when $6 then now() else updated_at end
        where app_id = $1 and table_id = $2
        """,
        table.app_id,
        table.table_id,
        title,
        access_level.value,
        version,
        touch,
    )


async def trash_table(connection: Connection, table: TableSchema) -> None:
    """Mark a table as dropped."""
    await connection.execute(
        "update pilotis.tables set dropped_at = now() where app_id = $1 and table_id = $2",
        table.app_id,
        table.table_id,
    )


async def delete_counts(connection: Connection, table: TableSchema) -> None:
    """Delete the row counts of a table that is dropped, whose rows nobody writes any more.

    It waits for `pilotis.data.rows.counts`, which may be about to insert one of what it has deleted.
    """
    await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", table.counts)
    await connection.execute(f"delete from {table.counts} where table_id = $1", table.table_id)


async def delete_table(connection: Connection, app_id: UUID, table_id: UUID) -> None:
    """Delete a table with its columns from the catalogue, and the references of columns in the trash to it."""
    await connection.execute(
        """
        update pilotis.columns
        set references_table = null, on_delete = null, references_key = null, references_column = null
        where app_id = $1 and references_table = $2
        """,
        app_id,
        table_id,
    )
    await connection.execute("delete from pilotis.tables where app_id = $1 and table_id = $2", app_id, table_id)


def _definition(column: Column) -> tuple[Any, ...]:
    default, on_update = (
        None if made is None else json.encode(made).decode() for made in (column.default, column.on_update)
    )
    refers = column.references
    reference: tuple[Any, ...] = (None,) * 4
    if refers is not None:
        reference = refers.target, refers.on_delete.value, refers.key, refers.column
    of_member = None if column.of_member is None else column.of_member.value
    checks = None if column.checks is None else json.encode(column.checks).decode()
    given = column.name, column.type.value, column.required, default, column.description, column.encrypted
    return *given, *reference, of_member, checks, on_update, column.normalize


async def set_emits(connection: Connection, table: TableSchema, operations: Collection[str]) -> None:
    """Set which operations on the table's rows write events."""
    await connection.execute(
        "update pilotis.tables set emits = $3 where app_id = $1 and table_id = $2",
        table.app_id,
        table.table_id,
        sorted(operations),
    )


async def set_watched(connection: Connection, table: TableSchema, *, watched: bool) -> None:
    """Set whether statements on the table's rows write the log of changes."""
    await connection.execute(
        "update pilotis.tables set watched = $3 where app_id = $1 and table_id = $2",
        table.app_id,
        table.table_id,
        watched,
    )


async def table_ids(database: Database, app_id: UUID) -> list[UUID]:
    """Return the ids of an app's tables, those in the trash excluded."""
    rows = await database.fetch(
        "select table_id from pilotis.tables where app_id = $1 and dropped_at is null", app_id, tenant=app_id
    )
    return [table_id for (table_id,) in rows]


async def is_ruled(connection: Connection | TenantDatabase, app_id: UUID, table_id: UUID) -> bool:
    """Return whether a table has rules, or another table's rules name it, or it has the profiles of members."""
    found: bool = await connection.fetchval(
        """
        select exists (
            select from pilotis.tables
            where app_id = $1 and dropped_at is null and (
                (rules is not null and (table_id = $2 or position($2::text in rules::text) > 0))
                or (profile_key is not null and table_id = $2)
            )
        )
        """,
        app_id,
        table_id,
    )
    return found


async def ruled_tables(connection: Connection, app_id: UUID) -> list[TableRecord]:
    """Return the app's tables that have rules."""
    return [_table(*row) for row in await connection.fetch(f"{_TABLE} and t.rules is not null", app_id)]


async def set_rules(connection: Connection, app_id: UUID, table_id: UUID, rules: str | None) -> None:
    """Set a table's stored rules; None removes them."""
    await connection.execute(
        "update pilotis.tables set rules = $3::jsonb, rules_updated_at = now() where app_id = $1 and table_id = $2",
        app_id,
        table_id,
        rules,
    )


async def building_keys(connection: Connection) -> list[tuple[UUID, UUID, int]]:
    """Return the app, table and number of each unique key that is being built, oldest table first."""
    rows = await connection.fetch(
        """
        select app_id, table_id, (key ->> 'number')::integer as number
        from pilotis.tables, jsonb_array_elements(unique_keys) key
        where unique_keys @> '[{"state": "building"}]' and key ->> 'state' = 'building' and dropped_at is null
        order by table_id, number
        """
    )
    return [(app_id, table_id, number) for app_id, table_id, number in rows]


async def next_key(connection: Connection, app_id: UUID, table_id: UUID) -> int:
    """Return the number of a table's next unique key; numbers are not used again."""
    number: int = await connection.fetchval(
        """
        update pilotis.tables set next_key = next_key + 1 where app_id = $1 and table_id = $2 returning next_key - 1
        """,
        app_id,
        table_id,
    )
    return number


async def set_keys(connection: Connection, app_id: UUID, table_id: UUID, keys: Sequence[UniqueKey]) -> None:
    """Set the unique keys of a table."""
    await connection.execute(
        "update pilotis.tables set unique_keys = $3 where app_id = $1 and table_id = $2",
        app_id,
        table_id,
        json.encode(keys).decode(),
    )


async def next_columns(connection: Connection, app_id: UUID) -> dict[UUID, int]:
    """Return the number of the next new column of each of an app's tables."""
    rows = await connection.fetch("select table_id, next_column from pilotis.tables where app_id = $1", app_id)
    return {row[0]: row[1] for row in rows}


async def named_tables(connection: Connection, app_id: UUID) -> list[UUID]:
    """Return the tables of an app that have rules, or that a view reads."""
    rows = await connection.fetch(
        """
        select table_id from pilotis.tables where app_id = $1 and rules is not null
        union select unnest(table_ids) from pilotis.views where app_id = $1
        """,
        app_id,
    )
    return [table_id for (table_id,) in rows]

"""The DDL of an app's tables. Pure: converts schemas to statements.

A dropped column stays in place under the name `__d<number>` until the trash is emptied; its explicit nulls are in
`__n<number>`. An encrypted column has its values in `__e<number>` and their hashes in `__h<number>`.
"""

from __future__ import annotations

from uuid import UUID

from pilotis.data.tables.casts import cast
from pilotis.data.tables.checks import conditions
from pilotis.data.tables.schema import AccessLevel, Column, TableSchema, physical_type


def create_table(table: TableSchema) -> list[str]:
    """Return the statements that create a table with its columns."""
    columns = [f"{name} {type_}" for column in table.columns for name, type_ in column.physical_columns.items()]
    return [
        f"""
        create table {table.physical} (
            __id uuid primary key,
            __creator text,
            __created_at timestamptz(3) not null,
            __updated_at timestamptz(3) not null,
            __extra jsonb,
            {table.version_column} boolean
            {"".join(f", {part}" for part in columns)}
        )
        """,
        *index_creators(table),
    ]


def index_creators(table: TableSchema) -> list[str]:
    """Return the statements that create the index on a member's own rows, if the access level needs one."""
    if table.access_level is not AccessLevel.CREATOR:
        return []
    return [f"create index if not exists t_{table.table_id.hex}_creator on {table.physical} (__creator, __id)"]


def create_outbox(app_id: UUID) -> str:
    """Return the statement that creates the app's outbox, to which statements on rows write events, if missing."""
    return f"""
        create table if not exists app_{app_id.hex}.__events (
            event_id uuid primary key default pilotis.uuid7(),
            type text not null,
            table_id uuid not null,
            subject text,
            member_id text,
            actor_kind text not null,
            actor_id text,
            depth smallint not null default 0,
            request_id text,
            data json not null,
            created_at timestamptz not null default now()
        )
    """


def create_change_log(app_id: UUID, *, is_sharded: bool) -> list[str]:
    """Return the statements that create the app's log of changes, which live subscriptions read, if missing.

    A crash empties it, with the `epoch` that its readers compare. On Citus it is kept, because a schema with unlogged
    tables cannot be moved.
    """
    schema, kind = f"app_{app_id.hex}", "" if is_sharded else "unlogged "
    return [
        f"""
        create {kind}table if not exists {schema}.__changes (
            seq bigint generated always as identity primary key,
            xid xid8 not null,
            table_id uuid not null,
            op "char" not null,
            row_id uuid,
            at timestamptz not null,
            before jsonb
        )
        """,
        f"create index if not exists __changes_xid on {schema}.__changes (xid)",
        f"""
        create {kind}table if not exists {schema}.__changes_epoch (
            only_one boolean primary key default true check (only_one),
            epoch uuid not null default gen_random_uuid()
        )
        """,
        f"insert into {schema}.__changes_epoch default values on conflict do nothing",
    ]


def change_version(table: TableSchema, version: int) -> str:
    """Return the statement after which writes compiled for the table's version fail."""
    return f'alter table {table.physical} rename column {table.version_column} to "__v{version}"'


def lock_form(app_id: UUID, table_id: UUID) -> str:
    """Return the statement that keeps the columns of a table as they are until the transaction ends."""
    return f"lock table app_{app_id.hex}.t_{table_id.hex} in access share mode"


def dangling(table: TableSchema, column: Column, referred: str) -> str:
    """Return the query for `total` and sample `ids` of rows that refer to no row of the table of a reference.

    `referred` is the column of that table to which it leads.
    """
    return _offenders(table, _dangling(table, column, referred))


def any_dangling(table: TableSchema, column: Column, referred: str) -> str:
    """Return the query for whether any row refers to no row of the table of a reference."""
    return f"select exists (select from {table.physical} t where {_dangling(table, column, referred)})"


def without_member(table: TableSchema, column: Column, is_member: str) -> str:
    """Return the query for `total` and sample `ids` of rows that refer to no member.

    `is_member` is the condition that the value of the row `t` is a member's id.
    """
    return _offenders(table, f"t.{column.physical} is not null and not {is_member}")


def not_kept(table: TableSchema, column: Column) -> str:
    """Return the query for `total` and sample `ids` of rows whose value does not keep the column's checks."""
    assert column.checks is not None
    value = f"t.{column.physical}"
    kept = conditions(column.checks, column.type.value, value, f"t.{column.time}")
    broken = " or ".join(f"not ({condition})" for condition, _ in kept)
    return _offenders(table, f"{value} is not null and ({broken})")


def _dangling(table: TableSchema, column: Column, referred: str) -> str:
    assert column.references is not None
    target = table.physical_of(column.references.target)
    value = f"t.{column.physical}"
    return f"{value} is not null and not exists (select from {target} r where r.{referred} = {value})"


def drop_table(table: TableSchema) -> str:
    """Return the statement that permanently drops a table."""
    return f"drop table {table.physical}"


def add_column(table: TableSchema, column: Column) -> str:
    """Return the statement that adds an empty column."""
    parts = ", ".join(f"add column {name} {type_}" for name, type_ in column.physical_columns.items())
    return f"alter table {table.physical} {parts}"


def drop_column(table: TableSchema, column: Column) -> str:
    """Return the statement that drops one form of a column."""
    return f"alter table {table.physical} {', '.join(f'drop column {name}' for name in column.physical_columns)}"


def rewrite(table: TableSchema, encrypted: Column) -> str:
    """Return the statement that rewrites the table's file, which still contains dropped values and replaced rows.

    It rewrites through an encrypted column's hashes, which do not change.
    """
    return f"alter table {table.physical} alter column {encrypted.hash} type bytea using {encrypted.hash} || ''::bytea"


def absorb(table: TableSchema, column: Column) -> str:
    """Return the statement that moves the values that free-form rows have under the column's name into the column.

    Explicit nulls stay where they are. `$1` is the name.
    """
    value = cast("(t.__extra -> $1::text)", None, column.type).value
    time = f", {column.time} = pilotis.try_time({value})" if column.has_time else ""
    return f"""
        update {table.physical} t set {column.physical} = {value}{time}, __extra = nullif(t.__extra - $1::text, '{{}}')
        where t.__extra ? $1::text and jsonb_typeof(t.__extra -> $1::text) <> 'null'
    """


def any_absorbable(table: TableSchema) -> str:
    """Return the query for whether any free-form row has a non-null value under the name `$1`."""
    return f"""
        select exists (
            select from {table.physical} t
            where t.__extra ? $1::text and jsonb_typeof(t.__extra -> $1::text) <> 'null'
        )
    """


def not_absorbable(table: TableSchema, column: Column) -> str:
    """Return the query for `total` and sample `ids` of free-form rows whose value does not fit the new column."""
    valid = cast("(t.__extra -> $1::text)", None, column.type).valid
    strings_only = {"string": "jsonb_typeof(t.__extra -> $1::text) = 'string'"}
    valid = strings_only.get(column.type.value, valid)
    return _offenders(
        table,
        f"t.__extra ? $1::text and jsonb_typeof(t.__extra -> $1::text) <> 'null' and not {valid}",
    )


def trash_column(table: TableSchema, column: Column) -> list[str]:
    """Return the statements that move a column to the trash."""
    number, name = column.number, _literal(column.name)
    statements = [f'alter table {table.physical} rename column {column.physical} to "__d{number}"']
    return [
        *statements,
        f'alter table {table.physical} add column "__n{number}" boolean',
        f"""
        update {table.physical} set "__n{number}" = true, __extra = nullif(__extra - {name}, '{{}}')
        where __extra ? {name}
        """,
    ]


def restore_column(table: TableSchema, column: Column) -> list[str]:
    """Return the statements that take a column out of the trash, its explicit nulls included.

    A row that has got a field with the column's name since then keeps it: see `absorb` and `keep_newer_nulls`.
    """
    number, name = column.number, _literal(column.name)
    return [
        f'alter table {table.physical} rename column "__d{number}" to {column.physical}',
        f"""
        update {table.physical} set __extra = coalesce(__extra, '{{}}') || jsonb_build_object({name}, null)
        where "__n{number}" and not coalesce(__extra ? {name}, false)
        """,
        f'alter table {table.physical} drop column "__n{number}"',
    ]


def keep_newer_nulls(table: TableSchema, column: Column) -> str:
    """Return the statement that clears a restored column in the rows with an explicit null under its name."""
    beside = column.hash if column.encrypted else column.time if column.has_time else None
    more = f", {beside} = null" if beside else ""
    return f"update {table.physical} set {column.physical} = null{more} where __extra ? {_literal(column.name)}"


def purge_column(table: TableSchema, number: int) -> str:
    """Return the statement that permanently drops a trashed column."""
    time = f', drop column if exists "__t{number}", drop column if exists "__h{number}"'
    return (
        f'alter table {table.physical} drop column if exists "__d{number}", drop column if exists "__n{number}"{time}'
    )


def not_castable(table: TableSchema, old: Column, new: Column) -> str:
    """Return the query for `total` and sample `ids` of rows whose value does not cast to the new type."""
    valid = cast(f"t.{old.physical}", old.type, new.type).valid
    return _offenders(table, f"t.{old.physical} is not null and not {valid}")


def count_with_value(table: TableSchema, column: Column) -> str:
    """Return the query that counts the rows with a value in the column."""
    return f"select count(*) from {table.physical} t where t.{column.physical} is not null"


def count_absorbable(table: TableSchema) -> str:
    """Return the query that counts the free-form rows with a non-null value under the name `$1`."""
    return f"""
        select count(*) from {table.physical} t
        where t.__extra ? $1::text and jsonb_typeof(t.__extra -> $1::text) <> 'null'
    """


def count_not_castable(table: TableSchema, old: Column, new: Column) -> str:
    """Return the query that counts the rows whose value does not cast to the new type."""
    valid = cast(f"t.{old.physical}", old.type, new.type).valid
    return f"select count(*) from {table.physical} t where t.{old.physical} is not null and not {valid}"


def cast_samples(table: TableSchema, old: Column, new: Column, number: int) -> str:
    """Return the query for a few values that do not cast, then some that do, as the JSON of before and after."""
    own = f"t.{old.physical}"
    valid, value = cast(own, old.type, new.type)
    columns = f"t.__id::text as id, to_json({own})::text as before"
    filled = f"from {table.physical} t where {own} is not null and"
    return f"""
        (select {columns}, null as after, false as valid {filled} not {valid} order by t.__id limit {number})
        union all
        (
            select {columns}, case when {valid} then to_json({value}) end::text, true
            {filled} {valid} order by t.__id limit {number}
        )
        order by valid, id
    """


def rename_column(table: TableSchema, old: Column, new: Column) -> list[str]:
    """Return the statements that rename a column, with its explicit nulls."""
    before, after = _literal(old.name), _literal(new.name)
    # In an update Citus allows only immutable functions on columns, which jsonb_build_object is not.
    nulls = f"""
        update {table.physical}
        set __extra = jsonb_set(__extra - {before}, array[{after}], __extra -> {before})
        where __extra ? {before}
    """
    if old.physical == new.physical:
        return [nulls]
    return [f"alter table {table.physical} rename column {old.physical} to {new.physical}", nulls]


def named(table: TableSchema, name: str) -> str:
    """Return the query for `total` and sample `ids` of rows that kept a free-form field under a column's name."""
    return _offenders(table, f"t.__extra ? {_literal(name)}")


def change_type(table: TableSchema, old: Column, new: Column) -> list[str]:
    """Return the statements that cast a column whose values all cast."""
    value = cast(old.physical, old.type, new.type).value
    using = f"case when {old.physical} is not null then {value} end"
    statements = [f"alter table {table.physical} alter column {new.physical} type {physical_type(new)} using {using}"]
    if new.has_time and not old.has_time:
        statements.append(f"alter table {table.physical} add column {new.time} timestamptz")
        statements.append(f"update {table.physical} set {new.time} = pilotis.try_time({new.physical})")
    if old.has_time and not new.has_time:
        statements.append(f"alter table {table.physical} drop column {old.time}")
    return statements


def nulls(table: TableSchema, column: Column) -> str:
    """Return the query for `total` and sample `ids` of rows in which the column is explicitly null."""
    return _offenders(table, f"jsonb_typeof(t.__extra -> {_literal(column.name)}) = 'null'")


def _offenders(table: TableSchema, condition: str) -> str:
    return f"""
        with offenders as (select __id from {table.physical} t where {condition})
        select (select count(*) from offenders) as total,
            array(select __id::text from offenders order by __id limit 5) as ids
    """


def _literal(name: str) -> str:
    # A column's name has letters, digits and _ only; see `pilotis.data.tables.schema.column_name`.
    return f"'{name}'"

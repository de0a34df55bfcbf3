"""The DDL of an app's tables. Pure: from schemas to statements.

A dropped column keeps its place under the name `__d<number>` until the trash is emptied; explicit nulls it had are
kept in `__n<number>`. An encrypted one has its sealed values in `__e<number>`, and their hashes in `__h<number>`.
"""

from __future__ import annotations

from pilotis.tables.casts import cast
from pilotis.tables.schema import AccessLevel, Column, TableSchema, physical_type


def create_table(table: TableSchema) -> list[str]:
    """Return the statements that make a table with its columns."""
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
    """Return the statements that make a member's own rows quick to find, where the access level asks for that."""
    if table.access_level is not AccessLevel.CREATOR:
        return []
    return [f"create index if not exists t_{table.table_id.hex}_creator on {table.physical} (__creator, __id)"]


def change_version(table: TableSchema, version: int) -> str:
    """Return the statement after which no write compiled for the table's version works any more."""
    return f'alter table {table.physical} rename column {table.version_column} to "__v{version}"'


def drop_table(table: TableSchema) -> str:
    """Return the statement that ends a table for good."""
    return f"drop table {table.physical}"


def add_column(table: TableSchema, column: Column) -> str:
    """Return the statement that adds an empty column."""
    parts = ", ".join(f"add column {name} {type_}" for name, type_ in column.physical_columns.items())
    return f"alter table {table.physical} {parts}"


def drop_column(table: TableSchema, column: Column) -> str:
    """Return the statement that drops one form of a column."""
    return f"alter table {table.physical} {', '.join(f'drop column {name}' for name in column.physical_columns)}"


def write_anew(table: TableSchema, sealed: Column) -> str:
    """Return the statement that writes the table's file anew: dropped values and replaced rows stay in it until then.

    It goes through an encrypted column's hashes, which stay what they are.
    """
    return f"alter table {table.physical} alter column {sealed.hash} type bytea using {sealed.hash} || ''::bytea"


def absorb(table: TableSchema, column: Column) -> str:
    """Return the statement that moves what free-form rows hold under the column's name into the column.

    Explicit nulls stay where they are. `$1` is the name.
    """
    value = cast("(t.__extra -> $1::text)", None, column.type).value
    time = f", {column.time} = pilotis.try_time({value})" if column.has_time else ""
    return f"""
        update {table.physical} t set {column.physical} = {value}{time}, __extra = nullif(t.__extra - $1::text, '{{}}')
        where t.__extra ? $1::text and jsonb_typeof(t.__extra -> $1::text) <> 'null'
    """


def any_absorbable(table: TableSchema) -> str:
    """Return the query that tells whether any free-form row holds a value, not null, under the name `$1`."""
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
    """Return the statements that put a column into the trash."""
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

    A row that has meanwhile been given a field of the column's name keeps that: see `absorb` and `keep_newer_nulls`.
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
    """Return the statement that clears a restored column in the rows that hold an explicit null under its name."""
    beside = column.hash if column.encrypted else column.time if column.has_time else None
    more = f", {beside} = null" if beside else ""
    return f"update {table.physical} set {column.physical} = null{more} where __extra ? {_literal(column.name)}"


def purge_column(table: TableSchema, column: Column) -> str:
    """Return the statement that ends a trashed column for good."""
    time = f', drop column if exists "__t{column.number}", drop column if exists "__h{column.number}"'
    return (
        f'alter table {table.physical} drop column if exists "__d{column.number}", '
        f'drop column if exists "__n{column.number}"{time}'
    )


def not_castable(table: TableSchema, old: Column, new: Column) -> str:
    """Return the query for `total` and sample `ids` of rows whose value does not cast to the new type."""
    valid = cast(f"t.{old.physical}", old.type, new.type).valid
    return _offenders(table, f"t.{old.physical} is not null and not {valid}")


def change_type(table: TableSchema, old: Column, new: Column) -> list[str]:
    """Return the statements that cast a column, once every value is known to cast."""
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
    # A column's name has letters, digits and _ only; see `pilotis.tables.schema.column_name`.
    return f"'{name}'"

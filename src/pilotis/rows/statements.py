"""The SQL of one table at one schema version: rows in from JSON, rows out as JSON. Pure.

PostgreSQL reads rows from one JSON array with `json_to_recordset`, however many there are, and builds each row's
answer as text, which is passed on byte for byte. Every statement names the column that carries the schema's version,
so it fails by itself once another version is in force. Every write also adjusts the tally of row counts in the same
statement; each connection has a slot of its own there, so that no writer waits for another.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pilotis.tables.schema import PHYSICAL_TYPES, Column, ColumnType, TableSchema

_MOST_ARGUMENTS = 90

_RFC3339 = '\'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\''


class Statements:
    """Statements on one table. Conditions and orders come from `pilotis.rows.where` and `pilotis.rows.query`."""

    def __init__(self, table: TableSchema) -> None:
        self._table = table

    @functools.cached_property
    def row(self) -> str:
        """The expression for a row's JSON text."""
        return (
            f"""'{{"id":"' || __id || '","data":' || {self.data} || ',"created_at":"' || """
            f"""{_timestamp("__created_at")} || '","updated_at":"' || {_timestamp("__updated_at")} || '"}}'"""
        )

    @functools.cached_property
    def data(self) -> str:
        """The expression for the JSON text of a row's data; fields that were never set are not in it."""
        if self._table.is_free_form:
            return "coalesce(__extra::text, '{}')"
        parts = [_member(column) for column in self._table.columns]
        extra = "substr(__extra::text, 2, length(__extra::text) - 2)"
        return f"'{{' || {_concat([*parts, extra])} || '}}'"

    @functools.cached_property
    def insert(self) -> str:
        """Insert the rows of the JSON array `$1`; returns the moment of creation. `__extra` comes as a member."""
        table = self._table
        parts = _parts(table.columns)
        source = [
            "__id uuid",
            "__creator text",
            "__extra jsonb",
            *(f"{part.member} {part.json_type}" for part in parts),
        ]
        names = ["__id", "__creator", "__extra", *(part.name for part in parts)]
        values = ["r.__id", "r.__creator", "r.__extra", *(part.value for part in parts)]
        return f"""
            with written as (
                insert into {table.physical}
                    ({", ".join(names)}, __created_at, __updated_at, {table.version_column})
                select {", ".join(values)}, now(), now(), null
                from json_to_recordset($1) as r({", ".join(source)})
                returning __created_at
            ), {self._counted("count(*)")}
            select __created_at from written limit 1
        """

    def select(self, creator: str) -> str:
        """Select one row's JSON by its id `$1`; `creator` is a further condition."""
        return (
            f"select {self.row} from {self._table.physical} "
            f"where __id = $1 and {creator} and {self._table.at_this_version}"
        )

    @functools.cached_property
    def select_many(self) -> str:
        """Select `id` and `item`, the JSON, of the rows with the ids `$1`."""
        # The ids come out of a subquery, or PostgreSQL would plan anew for each number of ids.
        return (
            f"select __id::text as id, {self.row} as item from {self._table.physical} "
            f"where __id = any((select $1::uuid[])::uuid[]) and {self._table.at_this_version}"
        )

    def page(self, condition: str, total: str, order: str, limit: str, offset: str, most: int | None = None) -> str:
        """Select `total_count` and a page of rows as the text of a JSON array.

        Where `most` is given, `data` is null for a page of more bytes than that, and the page is never built.
        """
        rows = f"""
            select {self.row} as __item from {self._table.physical}
            where {condition} and {self._table.at_this_version} order by {order} limit {limit} offset {offset}
        """
        if most is None:
            data = f"coalesce('[' || (select string_agg(__item, ',') from ({rows}) page) || ']', '[]')"
        else:
            data = f"""(
                select case when max(size) > {most} then null
                    else coalesce('[' || string_agg(__item, ',') filter (where size <= {most}) || ']', '[]') end
                from (
                    select __item, sum(octet_length(__item)) over (rows unbounded preceding) as size from ({rows}) page
                ) sized
            )"""
        return f"select ({total}) as total_count, {data} as data"

    def tally(self) -> str:
        """Select the exact number of the table's rows, whatever their number."""
        return (
            f"select coalesce(sum(rows), 0)::bigint from {self._table.counts} where table_id = '{self._table.table_id}'"
        )

    def count(self, condition: str) -> str:
        """Select the number of the rows that satisfy a condition."""
        return f"select count(*) from {self._table.physical} where {condition} and {self._table.at_this_version}"

    def update(self, columns: Sequence[Column], condition: str, increments: Sequence[tuple[str, str, str]]) -> str:
        """Set columns of row `$1` from the JSON object `$2`; returns the row's JSON.

        `$3` are the names whose explicit nulls are lifted, `$4` the JSON of members to add to what has no column,
        `$5` the most bytes that the row's JSON may have afterwards. `increments` are names with the places of the
        bound name and of the number to add.
        """
        table = self._table
        parts = _parts(columns)
        source = [f"{part.member} {part.json_type}" for part in parts]
        assignments = [f"{part.name} = {part.value}" for part in parts]
        incremented = [table.by_name[name] for name, _, _ in increments if name in table.by_name]
        assignments += [
            # What was made of the old value in the background is out of date, and will be made again.
            f"{part} = null"
            for changed in (*columns, *incremented)
            if changed.rewriting
            for part in changed.converse.physical_columns
        ]
        extra = "(coalesce(t.__extra, '{}') - $3::text[]) || $4::jsonb"
        for name, label, amount in increments:
            column = table.by_name.get(name)
            if column is None:
                now = f"coalesce(nullif(t.__extra -> {label}, 'null'), '0')::numeric"
                extra = f"({extra}) || jsonb_build_object({label}, {_in_range(f'{now} + {amount}')})"
            else:
                total = _in_range(f"coalesce(t.{column.physical}, 0) + {amount}")
                assignments.append(f"{column.physical} = ({total})::{PHYSICAL_TYPES[column.type]}")
        # A statement must use every parameter it is given.
        unused = "" if source else " and $2::json is not null"
        read = f", json_to_record($2) as r({', '.join(source)})" if source else ""
        return f"""
            update {table.physical} t set {"".join(item + ", " for item in assignments)}
                __extra = nullif({extra}, '{{}}'),
                __updated_at = greatest(now(), t.__updated_at + interval '1 millisecond')
            from (select 1) one{read}
            where t.__id = $1 and {condition} and t.{table.version_column} is null{unused}
            returning pilotis.require_size({self._qualified_row}, $5::integer)
        """

    def delete(self, condition: str) -> str:
        """Delete rows; returns how many there were."""
        table = self._table
        return f"""
            with written as (
                delete from {table.physical} where {condition} and {table.version_column} is null returning 1
            ), {self._counted("-count(*)")}
            select count(*) from written
        """

    @property
    def _qualified_row(self) -> str:
        # Columns of the new row, not of the JSON it was read from.
        return f"(select {self.row} from (select t.*) own)"

    def _counted(self, change: str) -> str:
        return f"""counted as (
                insert into {self._table.counts} as tally (table_id, slot, rows)
                select '{self._table.table_id}'::uuid, pg_backend_pid(), {change} from written having count(*) > 0
                on conflict (table_id, slot) do update set rows = tally.rows + excluded.rows
            )"""


def _in_range(number: str) -> str:
    # PostgreSQL's own numbers go far beyond what JSON's readers take; the cast fails where a double would overflow.
    return f"case when ({number})::float8 is not null then {number} end"


class _Part(NamedTuple):
    """One physical column: its name, its member of a record with its type, and the expression that reads that."""

    name: str
    member: str
    json_type: str
    value: str


def _parts(columns: Iterable[Column]) -> list[_Part]:
    parts = []
    for column in columns:
        # In a record a value goes by the field's own name, which a physical column may not have.
        sent = f'"{column.name}"'
        if column.encrypted:
            parts.append(_Part(column.physical, sent, "text", f"decode(r.{sent}, 'base64')"))
            parts.append(_Part(column.hash, column.hash, "text", f"decode(r.{column.hash}, 'base64')"))
        else:
            parts.append(_Part(column.physical, sent, PHYSICAL_TYPES[column.type], f"r.{sent}"))
        if column.has_time:
            parts.append(_Part(column.time, column.time, "timestamptz", f"r.{column.time}"))
    return parts


def _member(column: Column) -> str:
    # Typed, or PostgreSQL would read the literal as JSON beside a JSON operand.
    name = f"""'"{column.name}":'::text"""
    if column.encrypted:
        return f"""{name} || '"' || translate(encode({column.physical}, 'base64'), E'\\n', '') || '"'"""
    if column.type is ColumnType.STRING:
        return f"{name} || to_json({column.physical})"
    if column.type in {ColumnType.DATE, ColumnType.UUID}:
        return f"""{name} || '"' || {column.physical} || '"'"""
    return f"{name} || {column.physical}"


def _concat(parts: Sequence[str]) -> str:
    # A function takes at most 100 arguments; an empty inner list must vanish like an absent field.
    if len(parts) <= _MOST_ARGUMENTS:
        return f"concat_ws(',', {', '.join(parts)})"
    groups = [parts[start : start + _MOST_ARGUMENTS] for start in range(0, len(parts), _MOST_ARGUMENTS)]
    return _concat([f"nullif({_concat(group)}, '')" for group in groups])


def _timestamp(name: str) -> str:
    return f"to_char({name} at time zone 'UTC', {_RFC3339})"

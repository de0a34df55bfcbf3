"""The statements of the baseline: written by hand for the benchmark table, not taken from Pilotis.

What was tried for them, on 100,000 rows:

- A row's JSON by concatenation takes a third to two thirds of what `json_build_object` does for 1,000 rows.
- A page chooses its rows in a subquery, so that only they become text. Behind many rows it chooses their ids, which
  the primary key's index yields without a look at the table: at offset 50,000 `explain (analyze, buffers)` shows 275
  buffers instead of 1,414.
- A filtered page counts in a second scan: `count(*) over ()` would carry every matching row to the sort.
- The total of all rows is read from counters that the insert maintains, so that both sides do the same service.
- One row is inserted from one JSON parameter; one parameter for each column was not tried.
"""

from __future__ import annotations

from bench.baseline import Statement
from pilotis.data.tables.schema import TableSchema

_MOMENT = """to_char({} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
_ROW = f"""
    '{{"id":"' || __id || '","data":{{' || concat_ws(',',
        '"name":'::text || to_json(name), '"city":'::text || to_json(city), '"email":'::text || to_json(email),
        '"age":'::text || age, '"score":'::text || score, '"active":'::text || active,
        '"joined":"'::text || joined || '"', '"tags":'::text || tags
    ) || '}},"created_at":"' || {_MOMENT.format("__created_at")} ||
    '","updated_at":"' || {_MOMENT.format("__updated_at")} || '"}}'
"""


class Expert:
    """Statements on the table of `bench.data`."""

    def __init__(self, table: TableSchema) -> None:
        self._table = table.physical
        self._counts = table.counts
        self._total = f"select coalesce(sum(rows), 0)::bigint from {table.counts} where table_id = '{table.table_id}'"
        self._table_id = table.table_id

    @property
    def row(self) -> str:
        """One row by its id `$1`."""
        return f"select {_ROW} from {self._table} where __id = $1"

    @property
    def create(self) -> str:
        """Insert the one row of the JSON array `$1`, and count it."""
        return f"""
            with written as (
                insert into {self._table} (__id, __created_at, __updated_at,
                    name, city, email, age, score, active, joined, __t7, tags)
                select __id, now(), now(), name, city, email, age, score, active, joined, joined::timestamptz, tags
                from json_to_recordset($1) as r(__id uuid, name text, city text, email text, age bigint,
                    score numeric, active boolean, joined text, tags jsonb)
                returning __created_at
            ), counted as (
                insert into {self._counts} as c (table_id, slot, rows)
                select '{self._table_id}'::uuid, pg_backend_pid(), count(*) from written
                on conflict (table_id, slot) do update set rows = c.rows + excluded.rows
            )
            select __created_at from written
        """

    def page(self, offset: str) -> str:
        """Twenty rows behind `offset` others, with the total."""
        return self._answer(self._total, f"(select * from {self._table} order by __id limit 20 offset {offset}) page")

    @property
    def deep_page(self) -> str:
        """The same, behind `$1` others that are many."""
        ids = f"select __id from {self._table} order by __id limit 20 offset $1::bigint"
        return f"""
            select ({self._total}) as total_count, coalesce('[' || string_agg(item, ',') || ']', '[]') as data
            from (select (select {_ROW} from {self._table} t where t.__id = ids.chosen) as item
                from (select __id as chosen from ({ids}) i) ids) page
        """

    def query(self, city: str) -> Statement:
        """The twenty oldest active people of a city, with the number of all of them."""
        where = f"from {self._table} where city = $1::text and active"
        rows = f"(select * {where} order by age desc nulls last, __id limit 20) page"
        return Statement(self._answer(f"select count(*) {where}", rows), [city])

    def _answer(self, total: str, rows: str) -> str:
        return f"""
            select ({total}) as total_count,
                (select coalesce('[' || string_agg(item, ',') || ']', '[]') from (select {_ROW} as item from {rows}) p)
                as data
        """

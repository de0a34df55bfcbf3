"""The SQL of one table at one schema version: reads rows from JSON and returns rows as JSON. Pure.

PostgreSQL reads any number of rows from one JSON array with `json_to_recordset`, or those of a bulk create from an
array for each column. It builds each row's JSON as text, which is sent unchanged. Every statement names the column that
carries the schema's version, so it fails after the schema has changed. Every write also adjusts the row counts in the
same statement; each connection has its own slot there, so that no writer waits for another.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pilotis.data.rows.change_log import WITH_XID, ChangeLog
from pilotis.data.rows.cursors import shortened
from pilotis.data.rows.emitting import CREATED, BoundCause, Emitter, literal
from pilotis.data.tables import keys
from pilotis.data.tables.generated import Maker
from pilotis.data.tables.keys import UniqueKey
from pilotis.data.tables.schema import PHYSICAL_TYPES, Column, ColumnType, TableSchema
from pilotis.data.tables.vectors import words_of
from pilotis.data.where.operands import text_array

_MAX_ARGUMENTS = 90
MAX_PAGES_BYTES = 1_000_000
"""The size of the pages that a statement for several returns, beyond the last of them."""

# What a row's JSON has beside the names and values of its columns, and what a name and a short value take at most.
_BESIDE_VALUES, _FIXED_BYTES = 1000, 50
# Imported ids may contain any character.
_CREATED_BY = ""","created_by":' || coalesce(to_json(__creator)::text, 'null') || '"""
_RFC3339 = '\'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\''


class BoundChange(NamedTuple):
    """A change of a value that depends on the value there is; `label`, `operand` and `moment` are placeholders.

    `label` is the field's name, where it has no column, `moment` that of a date.
    """

    name: str
    operator: str
    label: str
    operand: str
    moment: str = ""


class Requirement(NamedTuple):
    """What a row holds after an update: a condition on it, or the update fails by a function with a text."""

    function: str
    holds: str
    text: str

    def around(self, holds: str, item: str) -> str:
        """Return the expression for an item that is there only where the condition holds."""
        return f"pilotis.{self.function}({holds}, {literal(self.text)}, {item})"


class Beside(NamedTuple):
    """What a row is shown with: joins behind the rows called `chosen`, an expression of JSON members, and patterns.

    The expression begins with a comma. `patterns` are those of `$matches` in it; see `pilotis.data.rows.related`.
    """

    joins: str
    tail: str
    patterns: Sequence[str] = ()

    def and_also(self, other: Beside) -> Beside:
        """Return what shows this and something else."""
        tail = " || ".join(part for part in (self.tail, other.tail) if part)
        return Beside(self.joins + other.joins, tail, [*self.patterns, *other.patterns])


NOTHING_BESIDE = Beside("", "")

MAX_FEW = 1000
"""How many rows are found before they are sorted; see `Statements.few_first`."""
FEW = "__id = any(array(select __id from few))"
"""The condition that a row is one of these."""
NUMBER_OF_FEW = "select count(*) from few"

ByRow = tuple[tuple[Column, str], ...]
"""Columns that some rows show, and the conditions of those rows."""


class Statements:
    """Statements on one table. Conditions and orders come from `data.where.compiler` and `data.rows.query`.

    With `creators`, rows say who created them. Those without are a column shorter for the callers who do not learn it.

    `shown` is the table as a caller sees it, whose columns the rows show; else they show all.

    `by_row` are columns that rows show beside these where a condition holds, of what is called `chosen` in a select.

    `fields` is the placeholder of the names that are shown of a free-form table's rows; without it all are.

    With `apart`, inserts and deletes leave the row counts to `add_to_count`, and every write returns its events
    beside its result, for `add_events`; its transaction must run these next. On Citus an insert that reads what
    another part of its statement returns involves every node, and so fails with any.
    """

    def __init__(
        self,
        table: TableSchema,
        *,
        creators: bool = False,
        apart: bool = False,
        shown: TableSchema | None = None,
        fields: str | None = None,
        beside: Beside = NOTHING_BESIDE,
        by_row: ByRow = (),
    ) -> None:
        self.apart = apart
        self._by_row = by_row
        self._beside = beside
        self._fields = fields
        self._table = table
        self._shown = shown or table
        self._creators = creators

    @functools.cached_property
    def row(self) -> str:
        """The expression for a row's JSON text."""
        return self._row(self.data, _CREATED_BY if self._creators else "", self._beside.tail)

    @functools.cached_property
    def _at_most(self) -> str:
        """The expression for a number of bytes that a row's JSON text does not exceed, found without making it."""
        known = _BESIDE_VALUES + sum(_member_bytes(column.name) for column in self._table.columns)
        sizes = ["octet_length(__extra::text)", *filter(None, map(_value_bytes, self._table.columns))]
        return " + ".join([f"{known}::bigint", *(f"coalesce({size}, 0)" for size in sizes)])

    def with_beside(self, beside: Beside) -> Statements:
        """Return the statements whose rows are shown with something beside them."""
        if not beside.tail:
            return self
        return self._with(beside, self._by_row)

    def with_by_row(self, by_row: ByRow) -> Statements:
        """Return the statements whose rows show some columns where a condition holds."""
        return self._with(self._beside, by_row)

    def _with(self, beside: Beside, by_row: ByRow) -> Statements:
        return Statements(
            self._table,
            creators=self._creators,
            apart=self.apart,
            shown=self._shown,
            fields=self._fields,
            beside=beside,
            by_row=by_row,
        )

    def _row(self, data: str, created_by: str = "", tail: str = "") -> str:
        end = f"""'"' || {tail} || '}}'""" if tail else """'"}'"""
        return (
            f"""'{{"id":"' || __id || '","data":' || {data} || ',"created_at":"' || """
            f"""{_timestamp("__created_at")} || '"{created_by},"updated_at":"' || """
            f"""{_timestamp("__updated_at")} || {end}"""
        )

    @functools.cached_property
    def data(self) -> str:
        """The expression for the JSON text of a row's data; fields that were never set are left out."""
        return self._data(self._shown.columns, self._shown.hidden, self._by_row)

    def _data(self, columns: Iterable[Column], hidden: frozenset[str] = frozenset(), by_row: ByRow = ()) -> str:
        if self._fields is not None:
            return (
                "coalesce((select jsonb_object_agg(key, value)::text from jsonb_each(__extra) "
                f"where key = any({self._fields})), '{{}}')"
            )
        if self._table.is_free_form:
            return "coalesce(__extra::text, '{}')"
        parts = [_member(column) for column in columns]
        # It tells which columns are null.
        parts += [f"case when {holds} then {_member(column)} end" for column, holds in by_row]
        absent = text_array(hidden.difference(column.name for column, _ in by_row))
        if by_row:
            # A name that is null is none.
            some = [f"case when ({holds}) is not true then {_label(column)} end" for column, holds in by_row]
            absent = f"({absent} || array[{', '.join(some)}])"
        rest = f"nullif(__extra - {absent}, '{{}}')" if hidden else "__extra"
        extra = f"substr({rest}::text, 2, length({rest}::text) - 2)"
        return f"'{{' || {_concat([*parts, extra])} || '}}'"

    @functools.cached_property
    def _emitter(self) -> Emitter:
        plain = [column for column in self._table.columns if not column.encrypted]
        return Emitter(self._table, self._row(self._data(plain)), apart=self.apart)

    @functools.cached_property
    def _log(self) -> ChangeLog:
        return ChangeLog(self._table, apart=self.apart)

    def _xid(self, row: str = "") -> str:
        return WITH_XID.format(row=row) if self._table.watched else ""

    def _found_events(self, *, emits: bool) -> str:
        if not self.apart or not (emits or self._table.watched):
            return ""
        events = self._emitter.found if emits else "'[]'::json"
        log = self._log.found if self._table.watched else "'[]'::json"
        return f", json_build_object('events', {events}, 'log', {log})::text as events"

    @functools.cached_property
    def insert(self) -> str:
        """Insert the rows of the JSON array `$1`; returns the time of creation. `__extra` is a member of each."""
        return self._insert(emits=CREATED in self._table.emits)

    @functools.cached_property
    def insert_without_events(self) -> str:
        """Insert like `insert`, without events: an import emits a single event for all its rows."""
        return self._insert(emits=False)

    @functools.cached_property
    def insert_arrays(self) -> str:
        """Insert like `insert_without_events`, from the arrays of `pilotis.data.rows.arrays`."""
        return self._insert(emits=False, given=self._arrays)

    @functools.cached_property
    def insert_one(self) -> str:
        """Insert like `insert_without_events`, where the array has one row.

        Citus sends it as it is. The rows of a select it copies to the node beforehand, and commits in two phases.
        """
        table = self._table
        parts = _parts(table.columns)
        members = {"__id": "uuid", "__creator": "text", "__extra": "jsonb"} | {
            part.member: part.json_type for part in parts
        }
        names, values, _ = self._given
        read = [_MEMBER.sub(lambda found: _member_of_first(found[1], members[found[1]]), value) for value in values]
        return f"""
            insert into {table.physical}
                ({", ".join(names)}, __created_at, __updated_at, {table.version_column})
            values ({", ".join(read)}, now(), now(), null) returning __created_at
        """

    def insert_if(self, holds: str, *, unless_taken: bool = False, members: Sequence[str] = ()) -> str:
        """Insert those rows for which a condition on their columns, in `r`, holds; returns the time and their ids.

        With `unless_taken` it leaves out those whose unique keys are taken, and returns the ids of all `allowed` rows.
        `members` are further ones of the records, by name and type, that the condition reads.

        On Citus it would involve every node: `judge` selects them there, in a statement before `insert`.
        """
        emits = CREATED in self._table.emits
        return self._insert(emits=emits, holds=holds, unless_taken=unless_taken, members=members)

    def import_if(self, holds: str, *, unless_taken: bool) -> str:
        """Insert like `insert_if`, without events."""
        return self._insert(emits=False, holds=holds, unless_taken=unless_taken)

    def judge(self, holds: str) -> str:
        """Select the ids of those rows for which the condition of `insert_if` holds, to be inserted apart."""
        return f"select array_agg(__id::text) as ids from ({self._as_inserted()}) r where {holds}"

    def shown_of_new(self, by_row: ByRow) -> str:
        """Select of each row its id, and the names of those of the columns that its creator sees in it.

        The conditions are of the row `r`.
        """
        return f"select __id::text as id, {_names_of(by_row)} as names from ({self._as_inserted()}) r"

    def names_shown(self, by_row: ByRow, and_visible: str) -> str:
        """Select the names of those of the columns that the row `$1` shows; the conditions are of the row `chosen`."""
        found = f"select * from {self._table.physical} where __id = $1{and_visible} and {self._table.at_this_version}"
        return f"select {_names_of(by_row)} from ({found}) chosen"

    def verdicts(self, rule: str, missing: Sequence[tuple[int, str]]) -> str:
        """Select of each row its id, whether a rule allows it, and the number of the first column without a target.

        `missing` are the numbers of columns and the conditions that their references hold.
        """
        cases = "".join(f" when not {holds} then {number}" for number, holds in missing)
        return (
            f"select __id::text as id, {rule} as allowed, {f'case{cases} end' if cases else 'null::int'} as missing "
            f"from ({self._as_inserted()}) r"
        )

    def _as_inserted(self, members: Sequence[str] = ()) -> str:
        """Return the select of the rows as they will be, under the names of the table's columns.

        `members` are further ones of the records, by name and type.
        """
        names, values, source = self._given
        own = [f"{value} as {name}" for name, value in zip(names, values, strict=True)]
        own += [f"r.{member.partition(' ')[0]}" for member in members]
        given = _records([*source, *members])
        return f"select {', '.join(own)}, now() as __created_at, now() as __updated_at from {given}"

    @functools.cached_property
    def _given(self) -> tuple[list[str], list[str], list[str]]:
        """The columns that an insert sets, their values, and the members of the records that these come from."""
        parts = _parts(self._table.columns, creates=True)
        source = [
            "__id uuid",
            "__creator text",
            "__extra jsonb",
            *(f"{part.member} {part.json_type}" for part in parts),
        ]
        words = _words(self._table.columns)
        names = ["__id", "__creator", "__extra", *(part.name for part in parts), *words]
        values = ["r.__id", "r.__creator", "r.__extra", *(part.value for part in parts), *words.values()]
        return names, values, source

    @property
    def _arrays(self) -> str:
        """The records of `_given`, from an array for each member but the creator, who is the same for all."""
        members = [
            ("__extra", "jsonb"),
            *((part.member, part.json_type.split()[0]) for part in _parts(self._table.columns, creates=True)),
        ]
        read = [f"unnest(${place}::text::{type_}[]) as {name}" for place, (name, type_) in enumerate(members, start=3)]
        # In `from`, each of them would be stored before it is read.
        return f"(select unnest($1::text::uuid[]) as __id, $2::text as __creator, {', '.join(read)}) as r"

    @functools.cached_property
    def insert_unless_taken(self) -> str:
        """Insert those rows whose unique keys no other row has; returns the time and their ids."""
        return self._insert(emits=CREATED in self._table.emits, unless_taken=True)

    @functools.cached_property
    def import_unless_taken(self) -> str:
        """Insert like `insert_unless_taken`, without events."""
        return self._insert(emits=False, unless_taken=True)

    @functools.cached_property
    def taken(self) -> str:
        """Select, for each row of the JSON array `$1` that a unique key forbids, its id, the key and the row there is.

        The number of the key is 0 if the id itself is taken.
        """
        physical, columns = self._table.physical, self._table.key_columns
        found = [f"select r.__id as id, 0 as key, t.__id as existing from r join {physical} t on t.__id = r.__id"]
        found += [
            f"select r.__id, {key.number}, t.__id from r join {physical} t "
            f"on {keys.equal(key, columns, 't', 'r')} and t.__id <> r.__id"
            for key in self._table.enforced_keys
        ]
        return f"""
            with r as materialized ({self._as_inserted()})
            select distinct on (id) id::text, key, existing::text
            from ({" union all ".join(found)}) found order by id, key
        """

    @property
    def lock(self) -> str:
        """Select the id of row `$1`, locked against other changes."""
        table = self._table
        return f"select __id::text from {table.physical} where __id = $1 and {table.at_this_version} for update"

    def lock_all(self, row_ids: Iterable[str]) -> str:
        """Lock rows against other changes, in the order of their ids, which are UUIDs and stand in the statement."""
        listed = ", ".join(f"'{row_id}'" for row_id in row_ids)
        return f"select from {self._table.physical} where __id in ({listed}) order by __id for update"

    def with_key(self, key: UniqueKey) -> str:
        """Select the id of the row that has the values of a key in the record of the JSON array `$1`, locked."""
        physical, same = self._table.physical, keys.equal(key, self._table.key_columns, "t", "r")
        return f"""
            select __id::text from {physical} where __id = any(array(
                select t.__id from ({self._as_inserted()}) r join {physical} t on {same}
            )) and {self._table.at_this_version} for update
        """

    def with_key_of_each(self, key: UniqueKey) -> str:
        """Select, for the records of the JSON array `$1` whose key a row has, their `id` and the row's, locked."""
        physical, same = self._table.physical, keys.equal(key, self._table.key_columns, "t", "r")
        return f"""
            select r.__id::text as id, t.__id::text as existing
            from ({self._as_inserted()}) r join {physical} t on {same}
            where {self._table.at_this_version} order by t.__id for update of t
        """

    def has_key(self, key: UniqueKey) -> str:
        """Return the condition that a row has the values of a key in the record of the JSON array `$1`."""
        physical, same = self._table.physical, keys.equal(key, self._table.key_columns, "t", "r")
        return f"__id = any(array(select t.__id from ({self._as_inserted()}) r join {physical} t on {same}))"

    def _insert(
        self,
        *,
        emits: bool,
        holds: str = "",
        unless_taken: bool = False,
        members: Sequence[str] = (),
        given: str = "",
    ) -> str:
        table = self._table
        names, values, source = self._given
        given = given or _records(source)
        events = self._found_events(emits=emits)
        logged = f", {self._log.created()}" if table.watched else ""
        returned = "__id, __created_at" if holds or unless_taken else "__created_at"
        if emits or table.watched:
            returned = f"*{self._xid()}"
        judged, result = "", f"select __created_at{events} from written limit 1"
        if holds:
            judged = f"r as materialized (select * from ({self._as_inserted(members)}) r where {holds}), "
            given, values = "r", [f"r.{name}" for name in names]
        conflict = " on conflict do nothing" if unless_taken else ""
        if holds or unless_taken:
            allowed = ", (select array_agg(__id::text) from r) as allowed" if holds and unless_taken else ""
            result = (
                f"select min(__created_at) as created_at, array_agg(__id::text) as ids{allowed}{events} from written"
            )
        return f"""
            with {judged}written as (
                insert into {table.physical}
                    ({", ".join(names)}, __created_at, __updated_at, {table.version_column})
                select {", ".join(values)}, now(), now(), null
                from {given}{conflict}
                returning {returned}
            ){self._counted("count(*)")}{", " + self._emitter.created() if emits else ""}{logged}
            {result}
        """

    def select(self, and_visible: str, found: str = "__id = $1") -> str:
        """Select the JSON of the row that satisfies a condition; `and_visible` is an additional one."""
        where = f"from {self._table.physical} where {found}{and_visible} and {self._table.at_this_version}"
        if (joins := self._beside.joins) or self._by_row:
            return f"select {self.row} from (select * {where}) chosen{joins}"
        return f"select {self.row} {where}"

    @functools.cached_property
    def select_many(self) -> str:
        """Select `id` and `item`, the JSON, of the rows with the ids `$1`."""
        # The ids come from a subquery, or PostgreSQL would plan again for each number of ids. They are the text of an
        # array: asyncpg examines each member of one, which takes longer than PostgreSQL takes to read it.
        return (
            f"select __id::text as id, {self.row} as item from {self._table.physical} "
            f"where __id = any((select $1::text::uuid[])::uuid[]) and {self._table.at_this_version}"
        )

    def page(
        self,
        condition: str,
        total: str,
        order: str,
        limit: str,
        offset: str,
        max_bytes: int | None = None,
        *,
        deep: bool = False,
    ) -> str:
        """Select `total_count` and a page of rows as the text of a JSON array.

        With `max_bytes`, `data` is null for a page of more bytes, and the page is never built.
        `deep` is for large offsets: it selects the ids first, so that skipping a row costs only its id.
        """
        rows = self._rows(condition, f"order by {order} limit {limit} offset {offset}", deep=deep)
        if max_bytes is None:
            data = f"coalesce('[' || (select string_agg(__item, ',') from ({rows}) page) || ']', '[]')"
        else:
            data = f"""(
                select case when max(size) > {max_bytes} then null
                    else coalesce('[' || string_agg(__item, ',') filter (where size <= {max_bytes}) || ']', '[]') end
                from (
                    select __item, sum(octet_length(__item)) over (rows unbounded preceding) as size from ({rows}) page
                ) sized
            )"""
        return f"select ({total}) as total_count, {data} as data"

    def pages(self, limit: int, *, deep: bool) -> str:
        """Select `total_count` and the pages of all rows at each of the offsets `$1`, which ascend; see `page`.

        `data` is null for a page after pages of more than `MAX_PAGES_BYTES` bytes together. With `deep`, the offsets
        are counted from one page to the next, so that the rows before all of them are skipped once.
        """
        # The offsets come from a subquery, or PostgreSQL would plan again for each number of them.
        if deep:
            ids = f"select __id from {self._table.physical} where {self._table.at_this_version}"
            given = f"""(
                with recursive asked as materialized (select $1::bigint[] as starts),
                given (number, start, first) as (
                    select 1, starts[1], ({ids} order by __id limit 1 offset starts[1]) from asked
                    union all
                    select number + 1, starts[number + 1],
                        ({ids} and __id >= first order by __id limit 1 offset starts[number + 1] - start)
                    from given, asked where number < cardinality(starts)
                ) select * from given
            ) given"""
            rows = self._rows("__id >= first", f"order by __id asc limit {limit}")
        else:
            given = "unnest((select $1::bigint[])) with ordinality as given (start, number)"
            rows = self._rows("true", f"order by __id asc limit {limit} offset start")
        return f"""select ({self.row_count()}) as total_count,
                case when sum(octet_length(text)) over (order by number) - octet_length(text) <= {MAX_PAGES_BYTES}
                then text end as data
            from (
                select number, '[' || coalesce((select string_agg(__item, ',') from ({rows}) page), '') || ']' as text
                from {given}
            ) read order by number"""

    def _rows(self, condition: str, slice_: str, *, deep: bool = False) -> str:
        # PostgreSQL computes the select list of skipped rows too, so the outer query builds the text.
        table = self._table
        where = f"from {table.physical} where {condition} and {table.at_this_version} {slice_}"
        joins = self._beside.joins
        if deep:
            source = f"{table.physical} chosen{joins}" if joins or self._by_row else table.physical
            item = f"select {self.row} from {source} where __id = __chosen"
            return f"select ({item}) as __item from (select __id as __chosen {where}) chosen"
        return f"select {self.row} as __item from (select * {where}) chosen{joins}"

    def page_of_walk(
        self, parts: Sequence[str], total: str, sorts: Sequence[str], order: str, rows: int, max_bytes: int
    ) -> str:
        """Select `total_count`, a page of at most `rows` rows like `page`, and of its last row what its cursor holds.

        `parts` are conditions on rows that follow each other, each with its own order: PostgreSQL reads every part in
        the order of an index. `more` is whether rows follow, `last_id` the last row's id, `last_value` the text of its
        sort value, `shortened` for a cursor, and `is_null` whether it has none; with several of `sorts` a list of such
        texts and nulls.
        """
        if len(sorts) > 1:
            value = f"array[{', '.join(shortened(f'({sort})::text') for sort in sorts)}]"
            last_value = "value"
        else:
            value = f"({sorts[0]})::text"
            last_value = shortened("value")
        limit = f"limit {rows + 1}"
        whole = " union all ".join(
            f"(select {number} as __part, * from {self._table.physical} where {part} "
            f"and {self._table.at_this_version} order by {order} {limit})"
            for number, part in enumerate(parts)
        )
        order = f"__part, {order}" if len(parts) > 1 else order
        last = f"filter (where number = {rows})"
        return f"""
            select ({total}) as total_count,
                case when max(size) filter (where number <= {rows}) > {max_bytes} then null else coalesce(
                    '[' || string_agg(__item, ',' order by number) filter (where number <= {rows}) || ']', '[]'
                ) end as data,
                coalesce(max(number) > {rows}, false) as more, max(__id::text) {last} as last_id,
                max({last_value}) {last} as last_value, bool_or(value is null) {last} as is_null
            from (
                select *, sum(octet_length(__item)) over (order by number) as size
                from (
                    select __id, {self.row} as __item, {value} as value,
                        row_number() over (order by {order}) as number
                    from (select * from ({whole}) parts order by {order} {limit}) chosen{self._beside.joins}
                ) numbered
            ) sized
        """

    def few_first(self, condition: str, few: str, many: str) -> str:
        """Select what `few` selects, in which `FEW` stands for the condition, if it holds of at most `MAX_FEW` rows.

        Else what `many` selects. PostgreSQL chooses an order's index where a page needs one, and would look through
        the whole table for the few rows that a rule shows.
        """
        physical, version = self._table.physical, self._table.at_this_version
        found = f"select __id from {physical} where {condition} and {version} limit {MAX_FEW + 1}"
        are = f"select count(*) > {MAX_FEW} as are from few"
        # A condition without rows in it is evaluated before anything of its part is read.
        return f"""select * from (
            with few as materialized ({found}), many as materialized ({are})
            select * from ({few}) page where not (select are from many)
            union all select * from ({many}) page where (select are from many)
        ) found"""

    def row_count(self) -> str:
        """Select the exact number of the table's rows, in constant time."""
        return (
            f"select coalesce(sum(rows), 0)::bigint from {self._table.counts} where table_id = '{self._table.table_id}'"
        )

    def count(self, condition: str) -> str:
        """Select the number of the rows that satisfy a condition."""
        return f"select count(*) from {self._table.physical} where {condition} and {self._table.at_this_version}"

    def _assigned(
        self, columns: Sequence[Column], changes: Sequence[BoundChange], now: Sequence[Column]
    ) -> tuple[str, str]:
        """Return what an update sets, and the records from which it reads that: the JSON object `$2`.

        The columns in `now` get the time of the update.
        """
        table = self._table
        parts = _parts(columns)
        source = [f"{part.member} {part.json_type}" for part in parts]
        assignments = [f"{part.name} = {part.value}" for part in parts]
        assignments += [f"{name} = {value}" for name, value in _words(columns).items()]
        updated = f"greatest(now(), {_one_millisecond_after('t.__updated_at')})"
        assignments += [f"{name} = {value}" for column in now for name, value in _at(column, updated).items()]
        changed_columns = [table.by_name[change.name] for change in changes if change.name in table.by_name]
        assignments += [
            # The value that the background migration derived from the old one is outdated, and will be derived again.
            f"{part} = null"
            for changed in (*columns, *changed_columns)
            if changed.migrating
            for part in changed.other_form.physical_columns
        ]
        extra = "(coalesce(t.__extra, '{}') - $3::text[]) || $4::jsonb"
        for change in changes:
            column = table.by_name.get(change.name)
            if column is None:
                extra = f"jsonb_set({extra}, array[{change.label}], {_field_after(change)})"
            else:
                assignments += [f"{name} = {value}" for name, value in _column_after(column, change).items()]
        assignments += [
            f"__extra = nullif({extra}, '{{}}')",
            f"__updated_at = {updated}",
        ]
        read = f", json_to_record(given.record) as r({', '.join(source)})" if source else ""
        # In an update Citus allows only immutable functions on columns, which to_json, to_char and even timestamptz +
        # interval are not: so the row's JSON is built outside of it. It also evaluates a stable function of parameters
        # alone beforehand, but json_to_record fails without its column list; so the argument is a column.
        return ", ".join(assignments), f"(select $2::json) as given (record){read}"

    def update(
        self,
        columns: Sequence[Column],
        condition: str,
        changes: Sequence[BoundChange],
        cause: BoundCause | None = None,
        after: str = "",
        *,
        reads_before: bool = False,
        requires: Sequence[Requirement] = (),
        now: Sequence[Column] = (),
    ) -> str:
        """Set columns of row `$1` from the JSON object `$2`; returns the row's JSON.

        `$3` are the names whose explicit nulls are removed, `$4` the JSON of fields without a column, `$5` the largest
        size of the row's JSON afterwards, in bytes, without its creator. `changes` depend on the row before, and the
        columns in `now` get the time of the update. `cause` is set if the table emits updates. `condition` is on the
        row before, `t`; `after` is one on the row afterwards, `written`, and with `reads_before` also on `before`:
        where it does not hold, the update is undone. So it is where one of `requires` does not hold.
        """
        table = self._table
        assigned, given = self._assigned(columns, changes, now)
        before = locked = emitted = ""
        beside = f" + octet_length('{_CREATED_BY}')" if self._creators else ""
        if cause is not None or reads_before or table.watched:
            # The update reads from the locking select, so that the row is locked, and its old state read, before it
            # changes.
            locked = ", (select __id as locked_id from before) locked"
            before = f"""before as materialized (
                select * from {table.physical} t
                where t.__id = $1 and {condition} and t.{table.version_column} is null for update
            ), """
            condition = f"t.__id = locked_id and {condition}"
            emitted = f", {self._emitter.updated(cause)}" if cause is not None else ""
            emitted += f", {self._log.updated()}" if table.watched else ""
        item = f"pilotis.require_size({self.row}, $5::integer{beside})"
        if after:
            holds = f"(select {after} from before)" if reads_before else f"({after})"
            item = f"pilotis.require({holds}, {item})"
        for one in requires:
            item = one.around(one.holds, item)
        return f"""
            with {before}written as (
                update {table.physical} t set {assigned} from {given}{locked}
                where t.__id = $1 and {condition} and t.{table.version_column} is null
                returning t.*{self._xid("t.")}
            ){emitted}
            select {item}{self._found_events(emits=cause is not None)} from written{self._anchor}
        """

    def update_many(
        self,
        columns: Sequence[Column],
        condition: str,
        changes: Sequence[BoundChange],
        cause: BoundCause | None = None,
        after: str = "",
        requires: Sequence[Requirement] = (),
        now: Sequence[Column] = (),
    ) -> str:
        """Set columns of the rows that satisfy a condition like `update`, unless they are more than `$1`.

        Returns how many were `found`, at most one more than that, and how many were `updated`.
        """
        table = self._table
        assigned, given = self._assigned(columns, changes, now)
        judged = ""
        if after:
            holds = f"select bool_and(coalesce({after}, false)) from written join before on before.__id = written.__id"
            judged = f", pilotis.require(coalesce(({holds}), true), '') as judged"
        for one in requires:
            whole = f"coalesce((select bool_and({one.holds}) from written), true)"
            judged += f", {one.around(whole, literal(''))} as required"
        emitted = f", {self._emitter.updated_many(cause)}" if cause is not None else ""
        emitted += f", {self._log.updated()}" if table.watched else ""
        # Making the text of every row would take a third of the time of the whole, and few rows are near the limit.
        item = f"case when {self._at_most} > $5 then pilotis.require_size({self.row}, $5::integer) else '' end"
        # The rows are locked in one order, so that two such updates do not wait for each other.
        return f"""
            with before as materialized (
                select * from {table.physical} where {condition} and {table.version_column} is null
                order by __id limit $1 + 1 for update
            ), written as (
                update {table.physical} t set {assigned}
                from {given}, (select __id as locked_id from before where (select count(*) from before) <= $1) locked
                where t.__id = locked_id and t.{table.version_column} is null
                returning t.*{self._xid("t.")}
            ){emitted}
            select (select count(*) from before) as found,
                count({item}) as updated{judged}
                {self._found_events(emits=cause is not None)}
            from written
        """

    def delete(self, condition: str, cause: BoundCause | None = None) -> str:
        """Delete rows; returns their number. `cause` is set if the table emits deletions."""
        table = self._table
        returned = "1" if cause is None and not table.watched else f"*{self._xid()}"
        emitted = "" if cause is None else f", {self._emitter.deleted(cause)}"
        emitted += f", {self._log.deleted()}" if table.watched else ""
        return f"""
            with written as (
                delete from {table.physical} where {condition} and {table.version_column} is null returning {returned}
            ){self._counted("-count(*)")}{emitted}
            select count(*){self._found_events(emits=cause is not None)} from written{self._anchor}
        """

    @property
    def _anchor(self) -> str:
        """What a write reads of its table beside the rows it is for: nothing, and it does so at once.

        Citus finds the node of a write by what this reads, and fails with XX000 where PostgreSQL knows beforehand that
        it reads no row: the condition is `false`, or compares with null.
        """
        return f" where not exists (select from {self._table.physical} limit 0)" if self.apart else ""

    @property
    def defer(self) -> str:
        """Let the transaction check those foreign keys of the table at its end that the text array `$1` names."""
        return f"select pilotis.defer(tableoid, $1) from {self._table.physical} limit 1"

    @functools.cached_property
    def add_to_count(self) -> str:
        """Add `$1` to the row count."""
        return f"""
            insert into {self._table.counts} as stored (table_id, slot, rows)
            values ('{self._table.table_id}'::uuid, pg_backend_pid(), $1)
            on conflict (table_id, slot) do update set rows = stored.rows + excluded.rows
        """

    @property
    def add_events(self) -> str:
        """Store the events and the entries of the log that a write returned, `$1`."""
        emitted = self._emitter.insert("$1::json -> 'events'")
        if not self._table.watched:
            return emitted
        logged = self._log.insert("$1::json -> 'log'")
        return f"with emitted as ({emitted}) {logged}" if self._table.emits else logged

    def _counted(self, change: str) -> str:
        if self.apart:
            return ""
        return f""", counted as (
                insert into {self._table.counts} as stored (table_id, slot, rows)
                select '{self._table.table_id}'::uuid, pg_backend_pid(), {change} from written having count(*) > 0
                on conflict (table_id, slot) do update set rows = stored.rows + excluded.rows
            )"""


# A member of the record `r`, as `_parts` and `_words` name it.
_MEMBER = re.compile(r'\br\.("[^"]+"|__\w+)')


def _member_of_first(member: str, type_: str) -> str:
    """Return the expression for a member of the first record of `$1`, read as `json_to_recordset` does."""
    name = literal(member.strip('"'))
    if type_ == "jsonb":
        return f"nullif(($1::json -> 0 -> {name})::text, 'null')::jsonb"
    return f"($1::json -> 0 ->> {name})::{type_}"


def _field_after(change: BoundChange) -> str:
    """Return the JSON of a field without a column after a change."""
    stored = f"t.__extra -> {change.label}"
    if change.operator == "$inc":
        now = f"coalesce(nullif({stored}, 'null'), '0')::numeric"
        return f"({_in_range(f'{now} + {change.operand}')})::text::jsonb"
    return f"pilotis.change_field({stored}, '{change.operator}', {change.operand})"


def _column_after(column: Column, change: BoundChange) -> dict[str, str]:
    """Return the values of a column's physical columns after a change."""
    stored, operator = f"t.{column.physical}", change.operator
    if column.type is ColumnType.OBJECT:
        return {column.physical: f"pilotis.merge_patch({stored}, {change.operand})"}
    if column.type is ColumnType.ARRAY:
        now = f"coalesce({stored}, '[]')"
        if operator == "$pull":
            return {column.physical: f"pilotis.without_elements({now}, {change.operand})"}
        return {column.physical: f"pilotis.add_elements({now}, '{operator}', {change.operand})"}
    type_ = PHYSICAL_TYPES[column.type]
    if operator == "$inc":
        return {column.physical: f"({_in_range(f'coalesce({stored}, 0) + {change.operand}')})::{type_}"}
    # Both leave out nulls: an absent value becomes the given one.
    choose, stays = ("least", "<=") if operator == "$min" else ("greatest", ">=")
    given = f"({change.operand} #>> '{{}}')::{type_}"
    value = f"{choose}({stored}, {given})"
    if not column.has_time:
        return {column.physical: value} | ({column.words: words_of(value)} if column.vector else {})
    return {
        column.physical: f"case when t.{column.time} {stays} {change.moment} then {stored} else {given} end",
        column.time: f"{choose}(t.{column.time}, {change.moment})",
    }


def _in_range(number: str) -> str:
    # PostgreSQL's numerics exceed what JSON parsers accept; the cast fails if a double would overflow.
    return f"case when ({number})::float8 is not null then {number} end"


class _Part(NamedTuple):
    """One physical column: its name, the typed member of the record, and the expression that reads it."""

    name: str
    member: str
    json_type: str
    value: str


def _parts(columns: Iterable[Column], *, creates: bool = False) -> list[_Part]:
    """Return what is written of columns; with `creates` it is a new row, for which some values are made."""
    parts = []
    for column in columns:
        # A record uses the field's own name, which can differ from the physical column's.
        sent = f'"{column.name}"'
        if column.encrypted:
            parts.append(_Part(column.physical, sent, "text", f"decode(r.{sent}, 'base64')"))
            parts.append(_Part(column.hash, column.hash, "text", f"decode(r.{column.hash}, 'base64')"))
            continue
        values = {column.physical: f"r.{sent}"}
        if column.has_time:
            values[column.time] = f"r.{column.time}"
        if creates and column.default_maker is Maker.NOW:
            is_absent = f"r.{sent} is null and not coalesce(r.__extra ? {literal(column.name)}, false)"
            made = _at(column, "now()")
            values = {
                name: f"case when {is_absent} then {made[name]} else {given} end" for name, given in values.items()
            }
        parts.append(_Part(column.physical, sent, PHYSICAL_TYPES[column.type], values[column.physical]))
        if column.has_time:
            parts.append(_Part(column.time, column.time, "timestamptz", values[column.time]))
    return parts


def _at(column: Column, moment: str) -> dict[str, str]:
    """Return the values of a date's physical columns at a moment, rounded like the times of rows."""
    whole = f"({moment})::timestamptz(3)"
    return {column.physical: f"pilotis.rfc3339({whole})", column.time: whole}


def _words(columns: Iterable[Column]) -> dict[str, str]:
    """Return the expressions for the stored words of searched columns, by physical column."""
    return {column.words: words_of(f'r."{column.name}"') for column in columns if column.vector}


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


def _member_bytes(name: str) -> int:
    # A byte becomes at most six where it is escaped.
    return 6 * len(name.encode()) + _FIXED_BYTES


def _value_bytes(column: Column) -> str:
    """Return the expression for the most bytes that a value takes as JSON; empty if they are few."""
    if column.encrypted:
        return f"2 * octet_length({column.physical})"
    if column.type is ColumnType.STRING:
        return f"6::bigint * octet_length({column.physical})"
    if column.type in {ColumnType.UUID, ColumnType.INT, ColumnType.BOOLEAN}:
        return ""
    return f"octet_length({column.physical}::text)"


def _names_of(by_row: ByRow) -> str:
    names = ", ".join(f"case when {holds} then {_label(column)} end" for column, holds in by_row)
    return f"array_remove(array[{names}], null)"


def _records(members: Iterable[str]) -> str:
    """Return the records of the JSON array `$1`, by the names and types of their members."""
    return f"json_to_recordset($1) as r({', '.join(members)})"


def _label(column: Column) -> str:
    return f"'{column.name}'::text"


def _concat(parts: Sequence[str]) -> str:
    # A function takes at most 100 arguments; an empty inner list must vanish like an absent field.
    if len(parts) <= _MAX_ARGUMENTS:
        return f"concat_ws(',', {', '.join(parts)})"
    groups = [parts[start : start + _MAX_ARGUMENTS] for start in range(0, len(parts), _MAX_ARGUMENTS)]
    return _concat([f"nullif({_concat(group)}, '')" for group in groups])


def _one_millisecond_after(moment: str) -> str:
    return f"(({moment} at time zone 'UTC' + interval '1 millisecond') at time zone 'UTC')"


def _timestamp(name: str) -> str:
    return f"to_char({name} at time zone 'UTC', {_RFC3339})"

"""Related rows beside each row of an answer: those to which it refers, those that refer to it, and how many they are.

A request names them, `plan` looks their tables and rules up, and `Related.compile` returns what the statement of the
page is extended by: a lateral join for each, which reads by primary key or by the index of a reference. So all is of
one snapshot, in one round trip, and each table's own rules decide what the caller sees of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from pilotis.data.rows.emitting import literal
from pilotis.data.rows.query import ResultTooLargeError, and_where, order_of, statements_of
from pilotis.data.rows.referring import profile_column, shows_column, without_hidden_key
from pilotis.data.rows.running import fetch_compiled
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.statements import Beside, Statements
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rows.types import CountOptions, Query, RelatedOptions
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import Column, TableSchema, normal_path
from pilotis.data.where.operands import CREATOR_NAME, Arguments, unknown
from pilotis.http.api.principals import Principal
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, PilotisError, invalid
from pilotis.limits import Limits

MAX_DEPTH, MAX_NAMES, MAX_COUNTS = 3, 20, 5
DEFAULT_LIMIT, MAX_LIMIT = 10, 200
MAX_COUNTED_ROWS = 500
_CREATOR = "__creator"
_NAME = re.compile(r"[^\W\d]\w{0,62}")

Asked = Sequence[str] | Mapping[str, RelatedOptions] | None
Counted = Mapping[str, CountOptions] | None


class UnknownReferenceError(BadRequestError):
    """400 `UNKNOWN_REFERENCE`: `expand` or `counts` names no reference of the table, or to it."""

    code = "UNKNOWN_REFERENCE"


class NoProfilesError(BadRequestError):
    """400 `NO_PROFILES`: `expand` names a member, and no table has the profiles of the app's members."""

    code = "NO_PROFILES"
    message = "No table has the profiles of the members. The app's own side names one at /v1/apps/:app_id/profiles."


class _Link(NamedTuple):
    """A table that refers to another, by a column; `visible` are the rows that the caller may list."""

    table: PreparedTable
    column: Column
    visible: Visibility
    referred: str
    """The column of the other table to which it refers, in PostgreSQL."""


class _Node(NamedTuple):
    """A related row, or a list of related rows; `visible` is None if the caller sees none.

    `value` is the column in PostgreSQL of the row around it that leads to the one row; else `back` refers to that row,
    and with `to` is a row of a table of pairs, whose column `to` refers to the row that is shown. `referred` is the
    column of the row that is shown to which they lead.
    """

    name: str
    table: PreparedTable
    visible: Visibility | None
    options: RelatedOptions
    place: str
    inner: Sequence[_Node]
    value: str | None = None
    referred: str = "__id"
    back: _Link | None = None
    to: str | None = None

    @property
    def limit(self) -> int:
        return DEFAULT_LIMIT if self.options.limit is None else self.options.limit

    @property
    def most(self) -> int:
        """How many rows it adds to one row at the most."""
        own = 1 + sum(node.most for node in self.inner)
        return own if self.value is not None else self.limit * own


class _Count(NamedTuple):
    """The number of the rows that refer to a row."""

    name: str
    options: CountOptions
    place: str
    back: _Link


class Related:
    """The related rows and counts of a request."""

    def __init__(self, nodes: Sequence[_Node], counts: Sequence[_Count], own: str | None) -> None:
        self._nodes = nodes
        self._counts = counts
        self._own = own

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from the same request of callers who see other rows."""

        def keys(nodes: Sequence[_Node]) -> Iterator[Any]:
            for node in nodes:
                yield node.visible and node.visible.key
                yield node.back and node.back.visible.key
                yield from keys(node.inner)

        return (*keys(self._nodes), *(count.back.visible.key for count in self._counts))

    @property
    def tables(self) -> Sequence[TableSchema]:
        """The tables of the rows that are shown."""

        def tables(nodes: Sequence[_Node]) -> Iterator[TableSchema]:
            for node in nodes:
                yield node.table.schema
                yield from tables(node.inner)

        return list(tables(self._nodes))

    def require_few(self, rows: int, limits: Limits) -> None:
        """Raise `ResultTooLargeError` if a page of so many rows may have too many related ones."""
        most = rows * sum(node.most for node in self._nodes)
        if most > limits.expand_rows:
            raise ResultTooLargeError(
                f"With {rows} rows this could read {most} related ones; at most {limits.expand_rows} are. "
                "Ask for fewer with limit, of the rows or of the related ones."
            )
        if (counted := rows * len(self._counts)) > MAX_COUNTED_ROWS:
            raise ResultTooLargeError(
                f"This page would be counted for {counted} times; at most {MAX_COUNTED_ROWS} are. Ask for fewer rows."
            )

    def compile(self, arguments: Arguments, limits: Limits) -> Beside:
        """Return what a statement shows beside each of its rows; a 400 error names the field by its path."""
        with arguments.access.ignored():
            compilation = _Compilation(arguments, limits, self._own)
            return compilation.beside(self._nodes, self._counts, "chosen")._replace(patterns=compilation.patterns)

    async def of_rows(
        self, table: PreparedTable, row_ids: Sequence[str], limits: Limits
    ) -> Mapping[str, Mapping[str, msgspec.Raw]]:
        """Return the members that are shown beside rows, by the rows' ids, for pages that were found otherwise."""
        self.require_few(len(row_ids), limits)
        arguments = Arguments(list(row_ids))
        beside = self.compile(arguments, limits)
        found = f"select * from {table.schema.physical} where __id = any($1::uuid[]) and {table.schema.at_this_version}"
        members = f"'{{' || substr({beside.tail}, 2) || '}}'"
        sql = f"select __id::text as id, {members} as members from ({found}) chosen{beside.joins}"
        rows = await fetch_compiled(table, CompiledQuery(sql, arguments.values, list(beside.patterns)))
        return {row["id"]: _with_decrypted(json.decode(row["members"].encode(), _rows_of), self._nodes) for row in rows}

    def decrypted(self, table: PreparedTable, items: str) -> bytes:
        """Return a JSON array of rows of a table, all encrypted columns of which are decrypted."""
        if table.cipher is None and not _has_ciphers(self._nodes):
            return items.encode()
        rows = json.decode(items.encode(), _items)
        return json.encode([_decrypted(table, row, self._nodes) for row in rows])


async def plan(
    tables: PreparedTables,
    principal: Principal,
    table: PreparedTable,
    visible: Visibility,
    asked: Asked,
    counted: Counted,
) -> Related | None:
    """Look up what a request names beside the rows of a table, and what the caller sees of it; None for nothing.

    `visible` is what the caller sees of the table.

    Raises 400 errors, and those of the lists of tables whose rows refer to the ones asked for.
    """
    if not asked and not counted:
        return None
    planner = _Planner(tables, principal)
    around = _Around(table, visible)
    nodes = await planner.nodes(around, asked, "expand", 1)
    if counted and len(counted) > MAX_COUNTS:
        raise invalid("counts", f"counts may name {MAX_COUNTS} kinds of rows.", "TOO_MANY_NAMES")
    counts = []
    for name, one in (counted or {}).items():
        place = f"counts.{name[:63]}"
        counts.append(_Count(_checked(name, place), one, place, await planner.link(around, one.from_, f"{place}.from")))
    member = principal.member
    return Related(nodes, counts, None if member is None else member.member_id)


class _Around(NamedTuple):
    """A table beside whose rows others are shown, and what the caller sees of it; None for nothing."""

    table: PreparedTable
    visible: Visibility | None

    @property
    def seen(self) -> TableSchema:
        """The table as the caller sees it."""
        return self.table.schema if self.visible is None else self.visible.table


class _Lead(NamedTuple):
    """Where a column leads: the name under which that is shown, and for a row, the columns that must be equal."""

    name: str
    value: str
    far: _Around
    referred: str


class _Planner:
    def __init__(self, tables: PreparedTables, principal: Principal) -> None:
        self._tables = tables
        self._principal = principal
        self._named = 0

    async def nodes(self, around: _Around, asked: Asked, place: str, depth: int) -> Sequence[_Node]:
        if not asked:
            return []
        if depth > MAX_DEPTH:
            raise invalid(place, f"Rows are expanded {MAX_DEPTH} deep at most.", "TOO_DEEP")
        if not isinstance(asked, Mapping):
            # All of the names of a list have one place.
            found = [(name, options, place, place) for name, options in _nested(asked).items()]
        else:
            found = [
                (name, options, f"{place}.{name[:63]}", f"{place}.{name[:63]}.expand")
                for name, options in asked.items()
            ]
        return [await self._node(around, *one, depth) for one in found]

    async def _node(
        self, around: _Around, name: str, options: RelatedOptions, place: str, below: str, depth: int
    ) -> _Node:
        self._named += 1
        if self._named > MAX_NAMES:
            raise invalid("expand", f"expand may name {MAX_NAMES} kinds of rows.", "TOO_MANY_NAMES")
        if options.limit is not None and not 1 <= options.limit <= MAX_LIMIT:
            raise invalid(f"{place}.limit", f"The limit of related rows is from 1 to {MAX_LIMIT}.")
        if options.from_ is not None and options.through is None and options.to is None:
            back = await self.link(around, options.from_, f"{place}.from")
            inner = await self.nodes(_Around(back.table, back.visible), options.expand, below, depth + 1)
            return _Node(_checked(name, place), back.table, back.visible, options, place, inner, back=back)
        if options.through is not None and options.to is not None and options.from_ is None:
            back = await self.link(around, options.through, f"{place}.through")
            lead = await self._lead(_Around(back.table, back.visible), options.to, f"{place}.to")
            inner = await self.nodes(lead.far, options.expand, below, depth + 1)
            shown = _checked(name, place)
            return _Node(shown, *lead.far, options, place, inner, referred=lead.referred, back=back, to=lead.value)
        if any(part is not None for part in (options.from_, options.through, options.to)):
            raise invalid(place, "Name from alone, or through with to, or neither for a reference of the table itself.")
        for part in ("where", "order_by", "limit"):
            if getattr(options, part) is not None:
                raise invalid(f"{place}.{part}", f"{name} is one row, to which {part} does not apply.")
        lead = await self._lead(around, name, place)
        inner = await self.nodes(lead.far, options.expand, below, depth + 1)
        return _Node(lead.name, *lead.far, options, place, inner, value=lead.value, referred=lead.referred)

    async def _lead(self, around: _Around, name: str, place: str) -> _Lead:
        """Return where a column leads: to a row, or to the profile of a member, as `$creator` does."""
        if name == CREATOR_NAME:
            visible = around.visible
            shows = visible is not None and (visible.shows_creator or visible.tells_profile)
            return await self._profile(around, name, _CREATOR, place, shows=shows)
        column = around.seen.by_name.get(normal_path(name))
        if column is not None and column.of_member is not None:
            return await self._profile(around, column.name, column.physical, place, shows=True)
        column = _reference(around.seen, name, place)
        assert column.references is not None
        target = await self._tables.named(around.table.schema.app_id, column.references.target)
        visible = await self._readable(target)
        visible = None if visible is None else without_hidden_key(visible, column)
        referred = target.schema.referred_column(column.references.column)
        return _Lead(column.name, column.physical, _Around(target, visible), referred)

    async def _profile(self, around: _Around, name: str, value: str, place: str, *, shows: bool) -> _Lead:
        profiles = await self._tables.profiles(around.table.schema.app_id)
        if profiles is None:
            raise NoProfilesError().at(place)
        number = profile_column(profiles.schema)
        visible = await self._readable(profiles) if shows else None
        if visible is not None and not shows_column(visible.table, number):
            visible = None
        referred = _CREATOR if number is None else profiles.schema.referred_column(number)
        return _Lead(name, value, _Around(profiles, visible), referred)

    async def _readable(self, table: PreparedTable) -> Visibility | None:
        try:
            return await table.visible(self._principal, Action.READ)
        except PilotisError as error:
            if error.status >= 500:
                raise
            return None

    async def link(self, around: _Around, named: str, place: str) -> _Link:
        """Return the table and the column that a text such as `comments.post` names, which refer to a table."""
        table, seen = around.table, around.seen
        title, _, name = named.rpartition(".")
        name = normal_path(name)
        for one in table.schema.referrers:
            if title in {one.table, str(one.table_id)} and one.column == name and shows_column(seen, one.of):
                child = await self._tables.named(table.schema.app_id, one.table_id)
                visible = await child.visible(self._principal, Action.LIST)
                column = _reference(visible.table, name, place)
                return _Link(child, column, visible, table.schema.referred_column(one.of))
        known = ", ".join(f"{one.table}.{one.column}" for one in table.schema.referrers[:10])
        text = f"{named[:100]} does not refer to {table.schema.title}."
        raise UnknownReferenceError(f"{text} {f'There are {known}.' if known else 'Nothing does.'}").at(place)


def _nested(names: Sequence[str]) -> Mapping[str, RelatedOptions]:
    """Return the options of names such as `post.author`."""
    options: dict[str, RelatedOptions] = {}
    for name in names:
        first, _, rest = normal_path(name).partition(".")
        found = options.setdefault(first, RelatedOptions())
        if rest:
            assert found.expand is None or isinstance(found.expand, list)
            found.expand = [*(found.expand or []), rest]
    return options


def _reference(table: TableSchema, name: str, place: str) -> Column:
    """Return a column of the table as the caller sees it that refers to rows."""
    column = table.by_name.get(normal_path(name))
    if column is None and normal_path(name) in table.hidden:
        raise unknown(table, normal_path(name)).at(place)
    if column is None or column.references is None:
        known = ", ".join(one.name for one, _ in table.references[:10])
        text = f"{name[:100]} is not a column of {table.title} that refers to rows."
        raise UnknownReferenceError(f"{text} {f'There are {known}.' if known else 'It has none.'}").at(place)
    return column


def _checked(name: str, place: str) -> str:
    if not _NAME.fullmatch(name):
        raise invalid(place, "A name here has letters, digits and _, at most 63.")
    return name


class _Compilation:
    def __init__(self, arguments: Arguments, limits: Limits, own: str | None) -> None:
        self._arguments = arguments
        self._limits = limits
        self._own = own
        self._number = 0
        self.patterns: list[str] = []

    def beside(self, nodes: Sequence[_Node], counts: Sequence[_Count], outer: str) -> Beside:
        joins, members, cut, counted = list[str](), list[str](), list[str](), list[str]()
        for node in nodes:
            alias = self._next()
            join = self._row(node, outer) if node.value is not None else self._list(node, outer)
            joins.append(f" left join lateral ({join}) {alias} on true")
            value = f"coalesce({alias}.__item, 'null')" if node.value is not None else f"{alias}.__items"
            members.append(f"{_name(node.name)} || {value}")
            if node.value is None:
                cut.append(f"case when {alias}.__more then {literal(json.encode(node.name).decode())} end")
        for count in counts:
            alias = self._next()
            joins.append(f" left join lateral ({self._counted(count, outer)}) {alias} on true")
            counted.append(f"{_name(count.name)} || {alias}.__count")
        tail = []
        if members:
            tail.append(f"""',"expanded":{{' || {" || ',' || ".join(members)} || '}}'""")
        if cut:
            listed = f"nullif(concat_ws(',', {', '.join(cut)}), '')"
            tail.append(f"""coalesce(',"expanded_more":[' || {listed} || ']', '')""")
        if counted:
            tail.append(f"""',"counts":{{' || {" || ',' || ".join(counted)} || '}}'""")
        return Beside("".join(joins), " || ".join(tail))

    def _next(self) -> str:
        self._number += 1
        return f"x{self._number}"

    def _row(self, node: _Node, outer: str) -> str:
        if node.visible is None:
            return "select null::text as __item"
        alias = self._next()
        item, joins = self._item(node, alias)
        found = self._one(node, f"{outer}.{node.value}")
        return f"select {item} as __item from ({found}) {alias}{joins}"

    def _one(self, node: _Node, value: str) -> str:
        """Return the select of the row to which a value leads."""
        assert node.visible is not None
        rule = node.visible.and_condition(self._arguments)
        physical, version = node.table.schema.physical, node.table.schema.at_this_version_within
        # With the limit it is not joined in another order, which would lose that of the page.
        return f"select * from {physical} where {node.referred} = {value}{rule} and {version} limit 1"

    def _list(self, node: _Node, outer: str) -> str:
        assert node.back is not None
        if node.visible is None:
            return "select '[]' as __items, false as __more"
        alias, limit = self._next(), node.limit
        item, joins = self._item(node, alias)
        condition, order = self._found(node.back, node.options.where, f"{node.place}.where", outer, node)
        physical = node.back.table.schema.physical
        # Numbered behind the limit, or all rows that refer to the one would be sorted.
        found = f"(select * from {physical} where {condition} order by {order} limit {limit + 1}) f"
        number = f"row_number() over (order by {order}) as __place"
        if node.to is None:
            source = f"(select *, {number} from {found}) {alias}"
        else:
            pairs = f"(select {node.to} as __far, {number} from {found}) {alias}p"
            source = f"{pairs} join lateral ({self._one(node, f'{alias}p.__far')}) {alias} on true"
        rows = f"select {item} as __item, __place from {source}{joins}"
        kept, more = f"__place <= {limit}", f"coalesce(max(__place) > {limit}, false)"
        page_bytes = self._limits.page_bytes
        if node.most * self._limits.row_bytes > page_bytes:
            # A list that no page could hold is cut before it is put together.
            size = "sum(octet_length(__item)) over (order by __place) as __size"
            rows = f"select *, {size} from ({rows}) {alias}s"
            kept = f"{kept} and __size <= {page_bytes}"
            more = f"({more} or coalesce(max(__size) > {page_bytes}, false))"
        listed = f"string_agg(__item, ',' order by __place) filter (where {kept})"
        return f"select '[' || coalesce({listed}, '') || ']' as __items, {more} as __more from ({rows}) {alias}n"

    def _counted(self, count: _Count, outer: str) -> str:
        condition, _ = self._found(count.back, count.options.where, f"{count.place}.where", outer)
        found = f"from {count.back.table.schema.physical} where {condition}"
        number = f"exists (select {found})" if count.options.exists else f"(select count(*) {found})"
        return f"select {number} as __count"

    def _found(
        self, back: _Link, where: Mapping[str, Any] | None, place: str, outer: str, node: _Node | None = None
    ) -> tuple[str, str]:
        """Return the condition of the rows of a table that refer to a row, and their order."""
        with self._arguments.about(back.table.hash, back.visible.shows_creator, self._own):
            seen = back.visible.table
            rest, patterns = and_where(seen, where, back.visible, self._arguments, self._limits, place)
            self.patterns += patterns
            order = "__id"
            if node is not None:
                options = node.options
                try:
                    query = Query(order_by=options.order_by, order_direction=options.order_direction)
                    order = order_of(seen, query, self._arguments).clause
                except PilotisError as error:
                    raise error.within(node.place) from None
        refers = f"{back.column.physical} = {outer}.{back.referred}"
        return f"{refers}{rest} and {back.table.schema.at_this_version_within}", order

    def _item(self, node: _Node, alias: str) -> tuple[str, str]:
        """Return the expression for a row's JSON, and the joins that it needs."""
        assert node.visible is not None
        beside = self.beside(node.inner, [], alias) if node.inner else Beside("", "")
        with self._arguments.about(node.table.hash, node.visible.shows_creator, self._own):
            try:
                statements = _statements(node, self._arguments, alias)
            except PilotisError as error:
                raise error.within(node.place) from None
        return node.table.showing(statements, beside).row, beside.joins


def _statements(node: _Node, arguments: Arguments, row: str) -> Statements:
    assert node.visible is not None
    query = Query(fields=node.options.fields)
    return statements_of(node.table.seen_by(node.visible), query, node.visible, arguments, row)


def _name(name: str) -> str:
    """Return the SQL of the name of a member of a JSON object, with the colon behind it."""
    return literal(json.encode(name).decode() + ":")


_items = json.decoder(list[dict[str, msgspec.Raw]])
_rows_of = json.decoder(dict[str, msgspec.Raw])


def _has_ciphers(nodes: Sequence[_Node]) -> bool:
    return any(node.table.cipher is not None or _has_ciphers(node.inner) for node in nodes)


def _decrypted(table: PreparedTable, row: dict[str, msgspec.Raw], nodes: Sequence[_Node]) -> dict[str, msgspec.Raw]:
    if table.cipher is not None:
        row = table.cipher.decrypt_item(row)
    return _with_decrypted(row, nodes)


def _with_decrypted(row: dict[str, msgspec.Raw], nodes: Sequence[_Node]) -> dict[str, msgspec.Raw]:
    """Return a row whose related rows are decrypted."""
    if "expanded" not in row or not _has_ciphers(nodes):
        return row
    expanded = json.decode(bytes(row["expanded"]), _rows_of)
    for node in nodes:
        text = bytes(expanded[node.name])
        if node.value is None:
            inner = [_decrypted(node.table, one, node.inner) for one in json.decode(text, _items)]
            expanded[node.name] = msgspec.Raw(json.encode(inner))
        elif text != b"null":
            one = _decrypted(node.table, json.decode(text, _rows_of), node.inner)
            expanded[node.name] = msgspec.Raw(json.encode(one))
    return row | {"expanded": msgspec.Raw(json.encode(expanded))}

"""Compiles a query to SQL: condition, order and page. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from asyncpg import Record

from pilotis.data.rows import cursors
from pilotis.data.rows.cursors import Cursor, CursorExpiredError, Long, Sorted
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.sort_texts import sort_text
from pilotis.data.rows.statements import FEW, NOTHING_BESIDE, NUMBER_OF_FEW, Beside, Statements
from pilotis.data.rows.table import DEEP_OFFSET, PreparedTable
from pilotis.data.rows.types import Query, SortKey
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import OWN_FIELDS, TableSchema, normal_path
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.compiler import Through, compile_where
from pilotis.data.where.index_expressions import caseless
from pilotis.data.where.operands import (
    CREATOR_NAME,
    CREATOR_OPERAND,
    Arguments,
    ColumnNotReadableError,
    EncryptedColumnError,
    Kind,
    common_count,
    mention_all,
    operand,
    unknown,
)
from pilotis.kit.errors import BadRequestError, invalid
from pilotis.limits import Limits


class ResultTooLargeError(BadRequestError):
    """400 `RESULT_TOO_LARGE`: the rows of a page, or those related to them, are too many or too large."""

    code = "RESULT_TOO_LARGE"
    message = "The rows of this page are too large to send together. Ask for fewer with limit."


class ShownBeside(Protocol):
    """What a request shows beside each row; see `pilotis.data.rows.related`."""

    def require_few(self, rows: int, limits: Limits) -> None:
        """Raise `ResultTooLargeError` if it would be too much for so many rows."""

    def compile(self, arguments: Arguments, limits: Limits) -> Beside:
        """Return it as SQL."""


class GoingThrough(Protocol):
    """The references that a request's conditions go through; see `pilotis.data.rows.paths`."""

    def through(self, arguments: Arguments, limits: Limits) -> Through:
        """Return what compiles them."""


class Sort(NamedTuple):
    """A key that rows are sorted by, nulls last.

    `name` is the stable name of what the expression `sql` reads, `kind` what it yields.
    """

    sql: str
    direction: str
    name: str
    kind: Kind


class Order(NamedTuple):
    """How rows are sorted: by `keys`, one after another, and then by id in the direction `of_ids`."""

    keys: tuple[Sort, ...]
    of_ids: str

    @property
    def clause(self) -> str:
        """What follows `order by`."""
        if not self.keys:
            return f"__id {self.of_ids}"
        by_id = "__id" if self.of_ids == "asc" else "__id desc"
        return ", ".join([*(f"{key.sql} {key.direction} nulls last" for key in self.keys), by_id])

    @property
    def beside(self) -> Beside:
        """The member `sort` beside a row; raises a 400 error for an order that has no texts."""
        if any(key.kind is Kind.JSON for key in self.keys):
            raise invalid("order_by", "Fields inside of objects have no sort texts; name columns.")
        text = sort_text([(key.sql, key.direction, key.kind) for key in self.keys], self.of_ids)
        return Beside("", f"""',"sort":"' || {text} || '"'""")

    @property
    def binding(self) -> list[str]:
        """What binds a cursor to the order."""
        keys = [part for key in self.keys for part in (key.name, key.kind, key.direction)]
        return keys if keys and self.of_ids == "asc" else [*keys, "", Kind.UUID, self.of_ids]


def compile_query(
    prepared: PreparedTable,
    query: Query,
    visible: Visibility,
    limits: Limits,
    own: str | None = None,
    related: ShownBeside | None = None,
    paths: GoingThrough | None = None,
) -> CompiledQuery:
    """Compile a query for a caller who sees the rows of `visible`; `own` is its id, if it is a member.

    The total of a query without a condition comes from the stored row counts, at a cost independent of the table's
    size. With a cursor it is left out unless the query asks for it.
    """
    table = prepared.schema
    arguments = Arguments(hash_=prepared.hash, creators=visible.shows_creator, own=own)
    condition, patterns = "true", list[str]()
    if query.where:
        resolve = functools.partial(operand, table, arguments=arguments)
        through = None if paths is None else paths.through(arguments, limits)
        condition, patterns = compile_where(query.where, resolve, limits, arguments, through=through)
    if not visible.is_everything:
        condition = within(visible, condition, patterns, arguments, many=True)
    order = order_of(table, query, arguments)
    statements = statements_of(prepared, query, visible, arguments)
    rows = limits.page_size(query.limit)
    beside = NOTHING_BESIDE
    if related is not None:
        related.require_few(rows, limits)
        beside = related.compile(arguments, limits)
        patterns = [*patterns, *beside.patterns]
    if query.with_sort:
        beside = beside.and_also(order.beside)
    statements = prepared.showing(statements, beside)
    counts = query.count if query.count is not None else query.cursor is None
    if query.cursor is not None:
        return _walk(prepared, query, visible, order, statements, condition, patterns, arguments, rows, counts, limits)
    limit = common_count(rows, arguments)
    offset = common_count(query.offset, arguments)
    # Most pages cannot become too large, so their size is not computed.
    may_be_large = related is not None or rows * limits.row_bytes > limits.page_bytes
    max_bytes = limits.page_bytes if may_be_large else None
    deep = query.offset >= DEEP_OFFSET
    shape = order.clause, limit, offset, max_bytes, deep, counts, visible.may_be_few
    places = arguments.places
    sql = _statement(statements, condition, *shape, places)
    return CompiledQuery(sql, arguments.values, patterns, arguments.access, () if patterns else places)


def statements_of(
    prepared: PreparedTable, query: Query, visible: Visibility, arguments: Arguments, row: str = "chosen"
) -> Statements:
    """Return the statements whose rows, which they call `row`, show what the query asks for."""
    by_row = visible.shown_by_row(arguments, row) if visible.by_row else ()
    if query.fields is None:
        return prepared.by_row(prepared.statements_for(creators=visible.shows_creator), by_row)
    asked = set(query.fields) - set(OWN_FIELDS)
    table = prepared.schema
    if table.is_free_form:
        return prepared.statements_with_fields(arguments.bind(sorted(asked), "text[]"), creators=visible.shows_creator)
    for place, name in enumerate(query.fields):
        if name in asked and name not in table.by_name and all(name != column.name for column, _ in by_row):
            raise unknown(table, name).at(f"fields[{place}]")
    statements = prepared.statements_of_columns(frozenset(asked), creators=visible.shows_creator)
    return prepared.by_row(statements, tuple(one for one in by_row if one[0].name in asked))


def walk_binding(table: TableSchema, query: Query) -> bytes:
    """Return what binds a cursor to a query: its table, order, condition and fields. A change of `limit` is allowed."""
    order = order_of(table, query, Arguments(creators=True))
    fields = None if query.fields is None else sorted(set(query.fields))
    return cursors.binding(str(table.table_id), *order.binding, query.where or {}, fields)


def _walk(
    prepared: PreparedTable,
    query: Query,
    visible: Visibility,
    order: Order,
    statements: Statements,
    condition: str,
    patterns: list[str],
    arguments: Arguments,
    rows: int,
    counts: bool,
    limits: Limits,
) -> CompiledQuery:
    """Compile a page of a walk with a cursor."""
    if query.offset:
        raise invalid("offset", "A cursor takes the place of an offset.")
    if rows == 0:
        raise invalid("limit", "With a cursor, the limit is at least 1.")
    parts, still_there = [""], None
    if query.cursor != cursors.FIRST:
        assert query.cursor is not None
        bound_to = walk_binding(prepared.schema, query)
        last = cursors.decode(bound_to, query.cursor, len(order.keys))
        parts, still_there = after_cursor(prepared, visible, order, last, arguments)
    sorts = [key.sql for key in order.keys] or ["__id"]

    def page(condition: str, number: str) -> str:
        conditions = [f"{condition} and {part}" if part else condition for part in parts]
        total = number if counts else "null::bigint"
        return statements.page_of_walk(conditions, total, sorts, order.clause, rows, limits.page_bytes)

    sql = page(condition, _total(statements, condition))
    if visible.may_be_few:
        sql = statements.few_first(condition, page(FEW, NUMBER_OF_FEW), sql)
    if still_there:
        sql = f"select *, {still_there} as still_there from ({sql}) page"
    return CompiledQuery(mention_all(sql, arguments.places), arguments.values, patterns, arguments.access)


def after_cursor(
    prepared: PreparedTable, visible: Visibility, order: Order, last: Cursor, arguments: Arguments
) -> tuple[list[str], str | None]:
    """Return the conditions that rows are after a cursor, and one that its row must still fulfil, if any.

    Rows with equal sort values are sorted by id in one direction only, so that no comparison of rows serves the order:
    those that are equal in all keys follow first, then for each key, the last one first, those that are equal in the
    keys before it: the larger or smaller ones, and then those without a value.
    """
    last_id = arguments.bind(last.row_id, "uuid")
    equal, parts, expected = list[str](), list[str](), list[str]()
    for key, known in zip(order.keys, last.values, strict=True):
        absent = f"{key.sql} is null"
        if known is Sorted.NULL:
            equal.append(absent)
            continue
        if isinstance(known, Long):
            rule = visible.and_condition(arguments, many=True)
            its_row = f"from {prepared.schema.physical} where __id = {last_id}{rule} and {key.sql} is not null"
            value = f"(select {key.sql} {its_row})"
            # A row that was given another place meanwhile would take the walk along.
            digest = arguments.bind(known.digest, "text")
            expected.append(f"exists (select {its_row} and {cursors.digest_of(f'({key.sql})::text')} = {digest})")
        else:
            value = f"{arguments.bind(known, 'text')}::{key.kind}"
        than = ">" if key.direction == "asc" else "<"
        parts[:0] = [" and ".join([*equal, one]) for one in (f"{key.sql} {than} {value}", absent)]
        equal.append(f"{key.sql} = {value}")
    later = f"__id {'>' if order.of_ids == 'asc' else '<'} {last_id}"
    return [" and ".join([*equal, later]), *parts], " and ".join(expected) or None


def next_cursor(table: TableSchema, query: Query, row: Record) -> str | None:
    """Return the cursor after a page of a walk, whose statement returned `row`; None after the last page.

    Raises `CursorExpiredError` if the row of the query's own cursor had to be read, and is gone or has another value.
    """
    if row.get("still_there") is False:
        raise CursorExpiredError
    if not row["more"]:
        return None
    keys = order_of(table, query, Arguments(creators=True)).keys
    values = row["last_value"] if len(keys) > 1 else [None if row["is_null"] else row["last_value"]] * len(keys)
    last = Cursor(UUID(row["last_id"]), tuple(map(cursors.sort_value, values)))
    return cursors.encode(walk_binding(table, query), last)


def within(
    visible: Visibility, condition: str, patterns: Sequence[str], arguments: Arguments, *, many: bool = False
) -> str:
    """Return a request's condition on the rows that the caller sees, which is evaluated on no others if that shows.

    PostgreSQL evaluates cheap conditions first, and a rule may cost more than a pattern, whose time tells of the rows
    that it meets.
    """
    rule = visible.and_condition(arguments, many=many)
    if patterns and not visible.is_simple:
        condition = f"case when true{rule} then {condition} end"
    return f"true{rule} and {condition}"


def and_where(
    seen: TableSchema,
    where: Mapping[str, Any] | None,
    visible: Visibility,
    arguments: Arguments,
    limits: Limits,
    place: str = "where",
    paths: GoingThrough | None = None,
) -> tuple[str, list[str]]:
    """Return ` and …`, that the caller sees a row and that it satisfies a request's condition; and the patterns in it.

    It may be empty. `seen` is the table as the caller sees it.
    """
    if not where:
        return visible.and_condition(arguments, many=True), []
    resolve = functools.partial(operand, seen, arguments=arguments)
    through = None if paths is None else paths.through(arguments, limits)
    condition, patterns = compile_where(where, resolve, limits, arguments, place, through)
    return f" and {within(visible, condition, patterns, arguments, many=True)}", patterns


# Requests that differ in their values alone have the same statement. One has some kilobytes, 35 at the very most.
@functools.lru_cache(maxsize=500)
def _statement(
    statements: Statements,
    condition: str,
    order: str,
    limit: str,
    offset: str,
    max_bytes: int | None,
    deep: bool,
    counts: bool,
    few_first: bool,
    places: tuple[str, ...],
) -> str:
    def page(condition: str, number: str) -> str:
        total = number if counts else "null::bigint"
        return statements.page(condition, total, order, limit, offset, max_bytes, deep=deep)

    sql = page(condition, _total(statements, condition))
    if few_first:
        sql = statements.few_first(condition, page(FEW, NUMBER_OF_FEW), sql)
    return mention_all(sql, places)


def _total(statements: Statements, condition: str) -> str:
    return statements.row_count() if condition == "true" else statements.count(condition)


def order_of(table: TableSchema, query: Query, arguments: Arguments) -> Order:
    """Return the order that a query asks for; raises a 400 error that names the field."""
    asked = query.order_by
    if asked is None:
        return Order((), query.order_direction)
    if isinstance(asked, str):
        only = _sort(table, SortKey(asked, query.order_direction), "order_by", arguments, may_be_indexed=True)
        return Order((), query.order_direction) if only is None else Order((only,), "asc")
    if query.order_direction != "asc":
        raise invalid("order_direction", "Give each column in order_by its direction.")
    sorts, named, may_be_indexed = list[Sort](), set[str](), True
    for number, key in enumerate(asked):
        place = f"order_by[{number}].column"
        if (name := normal_path(key.column)) in named:
            raise invalid(place, f"{name} is there twice.")
        named.add(name)
        # An index that ignores case has one column.
        has_index = may_be_indexed and not (key.ignore_case and sorts)
        sort = _sort(table, key, place, arguments, may_be_indexed=has_index)
        if sort is None:
            if number < len(asked) - 1:
                raise invalid(place, "No two rows have the same id, so that no column after it sorts.")
            return Order(tuple(sorts), key.direction)
        # An index serves the keys up to the first that none has.
        may_be_indexed &= sort.kind is not Kind.JSON and not key.ignore_case
        sorts.append(sort)
    return Order(tuple(sorts), "asc")


def _sort(table: TableSchema, key: SortKey, place: str, arguments: Arguments, *, may_be_indexed: bool) -> Sort | None:
    """Return how a key sorts, and record the access; None for the id. `place` is where the request names the column."""
    try:
        by_creator = arguments.creators and key.column == CREATOR_NAME
        field = CREATOR_OPERAND if by_creator else operand(table, key.column, arguments)
    except (ColumnNotReadableError, EncryptedColumnError, UnknownColumnError) as error:
        error.at(place)
        raise
    if field.name == "id":
        return None
    if field.kind is Kind.JSON and field.name in table.by_name:
        raise invalid(place, f"{field.name} holds objects or arrays; name a field inside it, or another column.")
    if field.kind is Kind.ENCRYPTED:
        raise EncryptedColumnError(field.name).at(place)
    name = field.column or field.name
    if key.ignore_case:
        if field.name not in table.by_name or field.kind is not Kind.TEXT:
            raise invalid(place, f"{field.name} is no string column, so that it has no case to ignore.")
        if may_be_indexed and key.direction == "asc":
            arguments.access.add(AccessKind.CASELESS, field.column)
        return Sort(caseless(field.sql), key.direction, f"{name} ignoring case", field.kind)
    if field.kind is Kind.JSON:
        # JSON's null counts as absent, like SQL's.
        return Sort(f"nullif({field.sql}, 'null')", key.direction, name, field.kind)
    if may_be_indexed:
        arguments.access.add(AccessKind.SORT if key.direction == "asc" else AccessKind.SORT_DESCENDING, field.column)
    return Sort(field.sql, key.direction, name, field.kind)

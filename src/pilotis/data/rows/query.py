"""Compiles a query to SQL: condition, order and page. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from asyncpg import Record

from pilotis.data.rows import cursors
from pilotis.data.rows.cursors import Cursor, CursorExpiredError, Sorted
from pilotis.data.rows.statements import Statements
from pilotis.data.rows.table import DEEP_OFFSET, PreparedTable
from pilotis.data.rows.types import Query
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import OWN_FIELDS, TableSchema
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.access_patterns import AccessKind, AccessPatterns
from pilotis.data.where.compiler import compile_where
from pilotis.data.where.operands import (
    CREATOR_NAME,
    CREATOR_OPERAND,
    Arguments,
    EncryptedColumnError,
    Kind,
    common_count,
    mention_all,
    operand,
    unknown,
)
from pilotis.kit.errors import invalid
from pilotis.limits import Limits


class CompiledQuery(NamedTuple):
    """A statement that yields `total_count` and `data`, its arguments, and its `$matches` patterns.

    `access` records how it reads the table.
    """

    sql: str
    arguments: list[object]
    patterns: list[str]
    access: AccessPatterns | None = None


class Order(NamedTuple):
    """How rows are sorted: by an expression, nulls last, and then by id; without one by id, in the direction.

    `name` is the stable name of what it reads, `kind` what the expression yields.
    """

    sql: str | None
    direction: str
    name: str = ""
    kind: Kind = Kind.UUID

    @property
    def clause(self) -> str:
        """What follows `order by`."""
        return f"__id {self.direction}" if self.sql is None else f"{self.sql} {self.direction} nulls last, __id"


def compile_query(
    prepared: PreparedTable, query: Query, visible: Visibility, limits: Limits, own: str | None = None
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
        condition, patterns = compile_where(query.where, resolve, limits, arguments)
    if not visible.is_everything:
        condition = within(visible, condition, patterns, arguments, many=True)
    order = _order(table, query, arguments)
    statements = _statements(prepared, query, visible, arguments)
    rows = limits.page_size(query.limit)
    counts = query.count if query.count is not None else query.cursor is None
    if query.cursor is not None:
        return _walk(prepared, query, visible, order, statements, condition, patterns, arguments, rows, counts, limits)
    limit = common_count(rows, arguments)
    offset = common_count(query.offset, arguments)
    # Most pages cannot become too large, so their size is not computed.
    may_be_large = rows * limits.row_bytes > limits.page_bytes
    max_bytes = limits.page_bytes if may_be_large else None
    deep = query.offset >= DEEP_OFFSET
    sql = _statement(statements, condition, order.clause, limit, offset, max_bytes, deep, counts, arguments.places)
    return CompiledQuery(sql, arguments.values, patterns, arguments.access)


def _statements(prepared: PreparedTable, query: Query, visible: Visibility, arguments: Arguments) -> Statements:
    """Return the statements whose rows show what the query asks for."""
    if query.fields is None:
        return prepared.statements_for(creators=visible.shows_creator)
    asked = set(query.fields) - set(OWN_FIELDS)
    table = prepared.schema
    if table.is_free_form:
        return prepared.statements_with_fields(arguments.bind(sorted(asked), "text[]"), creators=visible.shows_creator)
    for place, name in enumerate(query.fields):
        if name in asked and name not in table.by_name:
            raise unknown(table, name).at(f"fields[{place}]")
    return prepared.statements_of_columns(frozenset(asked), creators=visible.shows_creator)


def walk_binding(table: TableSchema, query: Query) -> bytes:
    """Return what binds a cursor to a query: its table, order, condition and fields. A change of `limit` is allowed."""
    order = _order(table, query, Arguments(creators=True))
    fields = None if query.fields is None else sorted(set(query.fields))
    return cursors.binding(str(table.table_id), order.name, order.kind, order.direction, query.where or {}, fields)


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
    parts, still_there = [condition], None
    if query.cursor != cursors.FIRST:
        assert query.cursor is not None
        bound_to = walk_binding(prepared.schema, query)
        last = cursors.decode(bound_to, query.cursor, by_id=order.sql is None)
        parts, still_there = _after(prepared, visible, order, last, condition, arguments)
    total = _total(statements, condition) if counts else "null::bigint"
    sort = order.sql or "__id"
    sql = statements.page_of_walk(parts, total, sort, order.clause, rows, limits.page_bytes)
    if still_there:
        sql = f"select *, {still_there} as still_there from ({sql}) page"
    return CompiledQuery(mention_all(sql, arguments.places), arguments.values, patterns, arguments.access)


def _after(
    prepared: PreparedTable, visible: Visibility, order: Order, last: Cursor, condition: str, arguments: Arguments
) -> tuple[list[str], str | None]:
    """Return the conditions of the rows after a cursor, and one that its row must still fulfil, if any.

    Rows with equal sort values are sorted by id in one direction only, so that no comparison of rows serves the order:
    the equal ones follow first, then the larger or smaller ones, then those without a value.
    """
    last_id = arguments.bind(last.row_id, "uuid")
    if order.sql is None:
        return [f"{condition} and __id {'>' if order.direction == 'asc' else '<'} {last_id}"], None
    absent, later = f"{order.sql} is null", f"__id > {last_id}"
    if last.sorted is Sorted.NULL:
        return [f"{condition} and {absent} and {later}"], None
    still_there = None
    if last.sorted is Sorted.LONG:
        rule = visible.and_condition(arguments, many=True)
        its_row = f"from {prepared.schema.physical} where __id = {last_id}{rule} and {order.sql} is not null"
        value, still_there = f"(select {order.sql} {its_row})", f"exists (select {its_row})"
    else:
        value = f"{arguments.bind(last.value, 'text')}::{order.kind}"
    than = ">" if order.direction == "asc" else "<"
    return [
        f"{condition} and {order.sql} = {value} and {later}",
        f"{condition} and {order.sql} {than} {value}",
        f"{condition} and {absent}",
    ], still_there


def next_cursor(table: TableSchema, query: Query, row: Record) -> str | None:
    """Return the cursor after a page of a walk, whose statement returned `row`; None after the last page.

    Raises `CursorExpiredError` if the row of the query's own cursor is gone and had to be read.
    """
    if row.get("still_there") is False:
        raise CursorExpiredError
    if not row["more"]:
        return None
    row_id, value = UUID(row["last_id"]), row["last_value"]
    if _order(table, query, Arguments(creators=True)).sql is None:
        last = Cursor(Sorted.BY_ID, row_id)
    elif row["is_null"]:
        last = Cursor(Sorted.NULL, row_id)
    elif len(value.encode()) > cursors.MAX_VALUE_BYTES:
        last = Cursor(Sorted.LONG, row_id)
    else:
        last = Cursor(Sorted.VALUE, row_id, value)
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
    places: tuple[str, ...],
) -> str:
    total = _total(statements, condition) if counts else "null::bigint"
    return mention_all(statements.page(condition, total, order, limit, offset, max_bytes, deep=deep), places)


def _total(statements: Statements, condition: str) -> str:
    return statements.row_count() if condition == "true" else statements.count(condition)


def _order(table: TableSchema, query: Query, arguments: Arguments) -> Order:
    if query.order_by is None:
        return Order(None, query.order_direction)
    try:
        by_creator = arguments.creators and query.order_by == CREATOR_NAME
        field = CREATOR_OPERAND if by_creator else operand(table, query.order_by, arguments)
    except (EncryptedColumnError, UnknownColumnError) as error:
        error.at("order_by")
        raise
    if field.name == "id":
        return Order(None, query.order_direction)
    if field.kind is Kind.JSON and field.name in table.by_name:
        raise invalid("order_by", f"{field.name} holds objects or arrays; name a field inside it, or another column.")
    # JSON's null counts as absent, like SQL's.
    if field.kind is Kind.ENCRYPTED:
        raise EncryptedColumnError(field.name).at("order_by")
    sql = f"nullif({field.sql}, 'null')" if field.kind is Kind.JSON else field.sql
    if field.kind is not Kind.JSON:
        direction = AccessKind.SORT if query.order_direction == "asc" else AccessKind.SORT_DESCENDING
        arguments.access.add(direction, field.column)
    return Order(sql, query.order_direction, field.column or field.name, field.kind)

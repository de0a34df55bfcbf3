"""Compiles a query to SQL: condition, order and page. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from pilotis.data.rows.statements import Statements
from pilotis.data.rows.table import DEEP_OFFSET, PreparedTable
from pilotis.data.rows.types import Query
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import TableSchema
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


def compile_query(
    prepared: PreparedTable, query: Query, visible: Visibility, limits: Limits, own: str | None = None
) -> CompiledQuery:
    """Compile a query for a caller who sees the rows of `visible`; `own` is its id, if it is a member.

    The total of a query without a condition comes from the stored row counts, at a cost independent of the table's
    size.
    """
    table, statements = prepared.schema, prepared.statements_for(creators=visible.shows_creator)
    arguments = Arguments(hash_=prepared.hash, creators=visible.shows_creator, own=own)
    condition, patterns = "true", list[str]()
    if query.where:
        resolve = functools.partial(operand, table, arguments=arguments)
        condition, patterns = compile_where(query.where, resolve, limits, arguments)
    if not visible.is_everything:
        condition = within(visible, condition, patterns, arguments, many=True)
    order = _order(table, query, arguments)
    rows = limits.page_size(query.limit)
    limit = common_count(rows, arguments)
    offset = common_count(query.offset, arguments)
    # Most pages cannot become too large, so their size is not computed.
    may_be_large = rows * limits.row_bytes > limits.page_bytes
    max_bytes = limits.page_bytes if may_be_large else None
    deep = query.offset >= DEEP_OFFSET
    sql = _statement(statements, condition, order, limit, offset, max_bytes, deep, arguments.places)
    return CompiledQuery(sql, arguments.values, patterns, arguments.access)


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
    places: tuple[str, ...],
) -> str:
    total = statements.row_count() if condition == "true" else statements.count(condition)
    return mention_all(statements.page(condition, total, order, limit, offset, max_bytes, deep=deep), places)


def _order(table: TableSchema, query: Query, arguments: Arguments) -> str:
    if query.order_by is None:
        return f"__id {query.order_direction}"
    try:
        by_creator = arguments.creators and query.order_by == CREATOR_NAME
        field = CREATOR_OPERAND if by_creator else operand(table, query.order_by, arguments)
    except (EncryptedColumnError, UnknownColumnError) as error:
        error.at("order_by")
        raise
    if field.name == "id":
        return f"__id {query.order_direction}"
    if field.kind is Kind.JSON and field.name in table.by_name:
        raise invalid("order_by", f"{field.name} holds objects or arrays; name a field inside it, or another column.")
    # JSON's null counts as absent, like SQL's.
    if field.kind is Kind.ENCRYPTED:
        raise EncryptedColumnError(field.name).at("order_by")
    sql = f"nullif({field.sql}, 'null')" if field.kind is Kind.JSON else field.sql
    if field.kind is not Kind.JSON:
        direction = AccessKind.SORT if query.order_direction == "asc" else AccessKind.SORT_DESCENDING
        arguments.access.add(direction, field.column)
    return f"{sql} {query.order_direction} nulls last, __id"

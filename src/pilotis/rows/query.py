"""A query as SQL: condition, order and page. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pilotis.kit.errors import invalid
from pilotis.limits import Limits
from pilotis.rows.indexes.uses import Notes, UseKind
from pilotis.rows.operands import Arguments, EncryptedColumnError, Kind, operand
from pilotis.rows.table import PreparedTable
from pilotis.rows.types import Query
from pilotis.rows.visibility import and_creator
from pilotis.rows.where import compile_where
from pilotis.tables.schema import TableSchema

_COMMON_COUNTS = frozenset({0, 1, 5, 10, 20, 25, 50, 100, 1000})


class CompiledQuery(NamedTuple):
    """A statement that yields `total_count` and `data`, its arguments, and the patterns it matches with.

    `notes` tells what it reads the table by.
    """

    sql: str
    arguments: list[object]
    patterns: list[str]
    notes: Notes | None = None


def compile_query(prepared: PreparedTable, query: Query, creator: str | None, limits: Limits) -> CompiledQuery:
    """Compile a query; `creator` is the member whose rows alone it may see, if there is one.

    The total of a query without any condition comes from the tally, at the same cost whatever the table's size.
    """
    table, statements = prepared.schema, prepared.statements
    arguments = Arguments(hash_=prepared.hash)
    condition, patterns = compile_where(
        query.where or {}, lambda name: operand(table, name, arguments), limits, arguments
    )
    if creator is not None:
        condition = f"true{and_creator(creator, arguments)} and {condition}"
    total = statements.tally() if condition == "true" else statements.count(condition)
    order = _order(table, query, arguments)
    limit = _count(min(query.limit, limits.page_rows), arguments)
    offset = _count(query.offset, arguments)
    # A page that cannot be too large, as most are, needs no measuring.
    may_be_large = min(query.limit, limits.page_rows) * limits.row_bytes > limits.page_bytes
    sql = statements.page(condition, total, order, limit, offset, limits.page_bytes if may_be_large else None)
    return CompiledQuery(arguments.complete(sql), arguments.values, patterns, arguments.notes)


def _count(number: int, arguments: Arguments) -> str:
    # PostgreSQL plans a statement anew at each run while its limit is a parameter, and that takes longer than the page.
    return str(number) if number in _COMMON_COUNTS else arguments.bind(number, "bigint")


def _order(table: TableSchema, query: Query, arguments: Arguments) -> str:
    if query.order_by is None:
        return f"__id {query.order_direction}"
    field = operand(table, query.order_by, arguments)
    if field.name == "id":
        return f"__id {query.order_direction}"
    if field.kind is Kind.JSON and field.name in table.by_name:
        raise invalid("order_by", f"{field.name} holds objects or arrays; name a field inside it, or another column.")
    # JSON's null is as absent as SQL's.
    if field.kind is Kind.SEALED:
        raise EncryptedColumnError(field.name)
    sql = f"nullif({field.sql}, 'null')" if field.kind is Kind.JSON else field.sql
    if field.kind is not Kind.JSON:
        direction = UseKind.SORT if query.order_direction == "asc" else UseKind.SORT_DESCENDING
        arguments.notes.add(direction, field.column)
    return f"{sql} {query.order_direction} nulls last, __id"

"""Pages of searches: ranked ones by their places, sorted ones like those of lists; and cursors through both.

A ranking is made again for each page, so that its cursor is a place in it. In an order of columns all matches are
sorted, and the cursor is that of a list: it begins after the last row that was told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import asyncpg
from asyncpg import Record

from pilotis.data.rows import cursors
from pilotis.data.rows.cursors import Cursor, CursorExpiredError, InvalidCursorError
from pilotis.data.rows.query import Order, after_cursor, order_of
from pilotis.data.rows.running import fetch_compiled
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import Direction, OrderBy, Query
from pilotis.data.rules.visibility import Visibility
from pilotis.data.where.operands import Arguments, common_count
from pilotis.kit.errors import invalid
from pilotis.limits import Limits


class Asked(Protocol):
    """What a request says of its page."""

    limit: int | None
    offset: int
    order_by: OrderBy
    order_direction: Direction
    cursor: str | None
    count: bool | None


class Window(NamedTuple):
    """A page: `order` is that of columns, None by rank; `bound_to` binds its cursor, None without one.

    `after` is the row after which it begins, or with `bound_to` alone it begins at the `offset`.
    """

    limit: int
    offset: int
    counts: bool = True
    order: Order | None = None
    bound_to: bytes | None = None
    after: Cursor | None = None

    @property
    def rows(self) -> int:
        """The number of rows to read; with a cursor in an order one more, to know whether that is all."""
        return self.limit + (self.order is not None and self.bound_to is not None)

    def with_cursor(self, records: Sequence[Record], last_place: int) -> tuple[list[Record], str | None]:
        """Return the records of the page, and the cursor of the next one; None after `last_place`, or the last row."""
        found = [record for record in records if record["place"] is not None]
        assert self.bound_to is not None
        if self.order is None:
            following = self.offset + len(found)
            more = bool(found) and following < last_place
            return found, cursors.encode(self.bound_to, Cursor(UUID(int=following))) if more else None
        if records[0]["still_there"] is False:
            raise CursorExpiredError
        page = found[: self.limit]
        if len(found) <= self.limit:
            return page, None
        last = Cursor(page[-1]["id"], tuple(map(cursors.sort_value, page[-1]["sorts"] if self.order.keys else ())))
        return page, cursors.encode(self.bound_to, last)


def window_of(table: PreparedTable, asked: Asked, limits: Limits, arguments: Arguments, *request: Any) -> Window:
    """Return the page that a request asks for; raises a 400 error. `request` is what a cursor is bound to."""
    limit = limits.page_size(asked.limit)
    counts = asked.count if asked.count is not None else asked.cursor is None
    order = None
    if asked.order_by is not None:
        order = order_of(table.schema, _query(asked), arguments)
    elif asked.order_direction != "asc":
        raise invalid("order_direction", "Without order_by the best ones are first.")
    if asked.cursor is None:
        return Window(limit, asked.offset, counts, order)
    if asked.offset:
        raise invalid("offset", "A cursor takes the place of an offset.")
    if limit == 0:
        raise invalid("limit", "With a cursor, the limit is at least 1.")
    by = [] if order is None else order.binding
    bound_to = cursors.binding(str(table.schema.table_id), *by, *request)
    if asked.cursor == cursors.FIRST:
        return Window(limit, 0, counts, order, bound_to)
    after = cursors.decode(bound_to, asked.cursor, 0 if order is None else len(order.keys))
    if order is not None:
        return Window(limit, 0, counts, order, bound_to, after)
    if after.row_id.int >= 2**31:
        raise InvalidCursorError
    return Window(limit, after.row_id.int, counts, None, bound_to)


class Sorted(NamedTuple):
    """The rows of a page in an order of columns, as a relation with the columns of the table; and what goes with it.

    `columns` are selected from it for the cursor, `still_there` is whether the row of the cursor is, where that counts.
    """

    source: str
    place: str
    columns: str
    still_there: str


def sorted_rows(
    table: PreparedTable, window: Window, condition: str, visible: Visibility, arguments: Arguments
) -> Sorted:
    """Return the rows of a page of those that satisfy a condition, in the window's order."""
    order = window.order
    assert order is not None
    physical, version = table.schema.physical, table.schema.at_this_version
    limit = common_count(window.rows, arguments)
    parts, still_there, place = [condition], None, order.clause
    if window.after is not None:
        later, still_there = after_cursor(table, visible, order, window.after, arguments)
        parts = [f"{condition} and {part}" for part in later]
        place = f"__part, {place}"
    offset = common_count(window.offset, arguments)
    chosen = " union all ".join(
        f"(select {number} as __part, * from {physical} where {part} and {version} "
        f"order by {order.clause} limit {limit}{f' offset {offset}' if window.after is None else ''})"
        for number, part in enumerate(parts)
    )
    sorts = ", ".join(cursors.shortened(f"({key.sql})::text") for key in order.keys)
    columns = f", __id as id, array[{sorts}]::text[] as sorts" if window.bound_to is not None else ""
    source = f"(select * from ({chosen}) parts order by {place} limit {limit})"
    return Sorted(source, place, columns, still_there or "true")


async def fetch(table: PreparedTable, compiled: CompiledQuery, window: Window) -> list[Record]:
    """Run a search; raises `InvalidCursorError` for a cursor whose value is none of the column."""
    try:
        return await fetch_compiled(table, compiled)
    except asyncpg.DataError:
        if window.after is None:
            raise
        # Its sort value was made up.
        raise InvalidCursorError from None


def _query(asked: Asked) -> Query:
    return Query(order_by=asked.order_by, order_direction=asked.order_direction)

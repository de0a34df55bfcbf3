"""Pages of matching rows with computed values, such as a score or a distance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from asyncpg import Record

from pilotis.data.rows.query import ResultTooLargeError
from pilotis.data.rows.related import Related
from pilotis.data.rows.table import PreparedTable
from pilotis.kit import json
from pilotis.limits import Limits


class Paged(Protocol):
    """The page that is asked for; see `pilotis.data.query.pages`."""

    @property
    def counts(self) -> bool:
        """Whether the total is answered."""

    @property
    def bound_to(self) -> bytes | None:
        """What binds its cursor; None without one."""

    def with_cursor(self, records: Sequence[Record], last_place: int) -> tuple[list[Record], str | None]:
        """Return the records of the page, and the cursor of the next one."""


def page(total: str, rows: str, beside: Iterable[str], max_bytes: int, still_there: str = "") -> str:
    """Return a statement for a page: each row has `total_count`, `place`, `item` and the columns `beside`.

    With `still_there`, a condition on the row of a cursor, that is a column as well.

    `rows` yields `place`, the sort key, `whole`, the row's JSON text, and `beside`. An empty page is one row without a
    `place`. `item` is `whole`, or null once the page would exceed `max_bytes`.
    """
    columns = "".join(f", {name}" for name in beside)
    there, is_there = (", still_there", f", {still_there} as still_there") if still_there else ("", "")
    return f"""
        select total_count, place{columns}{there},
            case when sum(octet_length(whole)) over (order by place) <= {max_bytes} then whole end as item
        from (select ({total}) as total_count{is_there}) counted left join ({rows}) found on true
        order by place
    """


def size_of(records: list[Record]) -> int:
    """Return the number of characters in the JSON of the rows."""
    return sum(len(record["item"]) for record in records if record["item"] is not None)


async def beside(
    table: PreparedTable, related: Related | None, records: list[Record], limits: Limits
) -> Mapping[str, Mapping[str, Any]]:
    """Return the related rows and counts beside the rows of a page, by the rows' ids."""
    if related is None:
        return {}
    ids = [row_id for record in records if (row_id := _id(record)) is not None]
    return await related.of_rows(table, ids, limits)


# How the JSON of a row begins.
_ID = slice(len('{"id":"'), len('{"id":"') + 36)


def _id(record: Record) -> str | None:
    item: str | None = record["item"] if record["place"] is not None else None
    return item and item[_ID]


def answer(
    table: PreparedTable,
    records: list[Record],
    beside: Callable[[Record], Mapping[str, Any]],
    shown: Mapping[str, Mapping[str, Any]],
    window: Paged,
    last_place: int | None = None,
) -> bytes:
    """Return the response's JSON: the rows, each with the members from `beside` and those of `shown`, and the total.

    With a cursor that of the next page, too; pages end at `last_place`, by default the total.
    """
    total: int = records[0]["total_count"]
    following = b""
    if window.bound_to is not None:
        records, cursor = window.with_cursor(records, total if last_place is None else min(total, last_place))
        following = b',"next_cursor":' + json.encode(cursor)
    rows = [record for record in records if record["place"] is not None]
    if any(record["item"] is None for record in rows):
        raise ResultTooLargeError
    members = [{**beside(row), **shown.get(_id(row) or "", {})} for row in rows]
    pairs = zip(rows, members, strict=True)
    items = [b"%b,%b" % (table.decrypted_item(row["item"])[:-1], json.encode(more)[1:]) for row, more in pairs]
    counted = b"%d" % total if window.counts else b"null"
    return b'{"data":[%b],"total_count":%b%b}' % (b",".join(items), counted, following)

"""Rows with something beside them, such as a score or a distance: one statement for a page, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from asyncpg import Record

from pilotis.kit import json
from pilotis.rows.service import ResultTooLargeError
from pilotis.rows.table import PreparedTable


def page(total: str, rows: str, beside: Iterable[str], most_bytes: int) -> str:
    """Return a statement for a page: each row has `total_count`, `place`, `item` and the columns `beside`.

    `rows` yields `place`, by which it is sorted, `whole`, the row's JSON text, and `beside`. The one row of an empty
    page has no `place`. `item` is `whole`, or null from where the page would exceed `most_bytes`.
    """
    columns = "".join(f", {name}" for name in beside)
    return f"""
        select total_count, place{columns},
            case when sum(octet_length(whole)) over (order by place) <= {most_bytes} then whole end as item
        from (select ({total}) as total_count) counted left join ({rows}) found on true
        order by place
    """


def answer(table: PreparedTable, records: list[Record], beside: Callable[[Record], Mapping[str, Any]]) -> bytes:
    """Return the answer's JSON: the rows, each with the members that `beside` gives it, and the total."""
    rows = [record for record in records if record["place"] is not None]
    if any(record["item"] is None for record in rows):
        raise ResultTooLargeError
    items = (table.opened(f"[{record['item']}]")[1:-2] + b"," + json.encode(beside(record))[1:] for record in rows)
    return b'{"data":[%b],"total_count":%d}' % (b",".join(items), records[0]["total_count"])

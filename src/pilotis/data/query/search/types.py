"""The types of searches and completions."""

from __future__ import annotations

import msgspec

from pilotis.data.rows.schemas import WhereObject
from pilotis.data.rows.types import CountOptions, Direction, Expand, OrderBy, Row, TableName
from pilotis.http.api.schemas import Count, Limit, Paged, replace_nulls


class SearchRequest(Paged, forbid_unknown_fields=True):
    """The query: words, "phrases", and either with - before it to exclude it.

    The last word also matches words that begin with it. `fields` are names of string columns, most important first; by
    default all. Without `"` and `-`, the search tolerates typing errors if nothing is found otherwise. `where` is a
    condition that the rows satisfy as well. `expand` and `counts` show related rows and their numbers, as in a query.

    With `order_by`, and `order_direction`, all matches are sorted by columns, as in a query. `cursor` is `first`, and
    then each answer's `next_cursor`; without an order it is a place among the first 1000. `count` says whether there is
    a total; by default there is one without a cursor.
    """

    table_id: TableName
    query: str
    fields: list[str] | None = None
    limit: Limit = None
    offset: Count = 0
    where: WhereObject | None = None
    expand: Expand = None
    counts: dict[str, CountOptions] | None = None
    order_by: OrderBy = None
    order_direction: Direction = "asc"
    cursor: str | None = None
    count: bool | None = None

    def __post_init__(self) -> None:
        """Replace nulls with defaults."""
        super().__post_init__()
        replace_nulls(self, order_direction="asc")


class SearchHit(Row, kw_only=True):
    """A matching row. `highlights` has HTML for each field with a match: escaped text, matches in `<mark>…</mark>`."""

    score: float
    highlights: dict[str, str]


class SearchResult(msgspec.Struct):
    """The matching rows, best first, and their total number; only the first 1000 can be requested.

    With an order all can be. `total_count` is null where `count` is false, and with a cursor unless it is true. With a
    cursor, `next_cursor` is the one of the next page, or null after the last.
    """

    data: list[SearchHit]
    total_count: int | None
    next_cursor: str | msgspec.UnsetType | None = msgspec.UNSET


class AutocompleteRequest(Paged, forbid_unknown_fields=True):
    """The beginning of a value of a string column, or of any word in it; `where` is a condition on the rows."""

    table_id: TableName
    query: str
    field: str
    limit: Limit = None
    where: WhereObject | None = None


class AutocompleteResult(msgspec.Struct):
    """Values that complete a query: those that begin with it, those with a word that does, or else similar ones."""

    suggestions: list[str]

"""The types of geo searches. Angles are in degrees (WGS 84), lengths in metres."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pilotis.data.rows.schemas import PolygonObject, WhereObject
from pilotis.data.rows.types import CountOptions, Direction, Expand, OrderBy, Row, TableName
from pilotis.data.where.places import Near, Within
from pilotis.http.api.schemas import Count, Limit, Paged, replace_nulls


class GeoRequest(Paged, forbid_unknown_fields=True):
    """Which points `{latitude, longitude}` in an object column: exactly one of `near`, `within` and `polygon`.

    A polygon is `{points: [{latitude, longitude}, …]}`, that list alone, or a Polygon or MultiPolygon of GeoJSON (RFC
    7946). Its sides are great circles, and it lies on less than half of the Earth. A ring's interior is the area that
    it surrounds, also where it crosses itself. `where` is a condition that the rows satisfy as well. `expand` and
    `counts` show related rows and their numbers, as in a query. `fields` are the columns to return.

    With `order_by`, and `order_direction`, the rows are sorted by columns, as in a query, instead of by distance.
    `cursor` is `first`, and then each answer's `next_cursor`. `count` says whether there is a total; by default there
    is one without a cursor.
    """

    table_id: TableName
    field: str
    near: Near | None = None
    within: Within | None = None
    polygon: PolygonObject = None
    limit: Limit = None
    offset: Count = 0
    where: WhereObject | None = None
    expand: Expand = None
    counts: dict[str, CountOptions] | None = None
    fields: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None
    order_by: OrderBy = None
    order_direction: Direction = "asc"
    cursor: str | None = None
    count: bool | None = None

    def __post_init__(self) -> None:
        """Replace nulls with defaults."""
        super().__post_init__()
        replace_nulls(self, order_direction="asc")


class GeoHit(Row, kw_only=True):
    """A matching row, with its distance in metres from the centre of the shape."""

    distance: float


class GeoResult(msgspec.Struct):
    """The matching rows, nearest first, and their total number.

    `total_count` is null where `count` is false, and with a cursor unless it is true. With a cursor, `next_cursor` is
    the one of the next page, or null after the last.
    """

    data: list[GeoHit]
    total_count: int | None
    next_cursor: str | msgspec.UnsetType | None = msgspec.UNSET

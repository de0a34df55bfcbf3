"""The types of geo searches. Angles are in degrees (WGS 84), lengths in metres."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pilotis.data.rows.schemas import PolygonObject, WhereObject
from pilotis.data.rows.types import CountOptions, Expand, Row, TableName
from pilotis.http.api.schemas import Count, Limit, Paged

Latitude = Annotated[float, msgspec.Meta(ge=-90, le=90)]
Longitude = Annotated[float, msgspec.Meta(ge=-180, le=180)]
Metres = Annotated[float, msgspec.Meta(ge=0)]


class Coordinates(msgspec.Struct, forbid_unknown_fields=True):
    """A point on the Earth."""

    latitude: Latitude
    longitude: Longitude


class Near(msgspec.Struct, forbid_unknown_fields=True):
    """The points around a centre; without `max_distance`, all of them."""

    center: Coordinates
    max_distance: Metres | None = None


class Within(msgspec.Struct, forbid_unknown_fields=True):
    """A box, by two corners, or a circle, by centre and radius. A box whose east is west of its west crosses 180°."""

    south_west: Coordinates | None = None
    north_east: Coordinates | None = None
    center: Coordinates | None = None
    radius: Metres | None = None


class GeoRequest(Paged, forbid_unknown_fields=True):
    """Which points `{latitude, longitude}` in an object column: exactly one of `near`, `within` and `polygon`.

    A polygon is `{points: [{latitude, longitude}, …]}`, that list alone, or a Polygon or MultiPolygon of GeoJSON (RFC
    7946). Its sides are great circles, and it lies on less than half of the Earth. A ring's interior is the area that
    it surrounds, also where it crosses itself. `where` is a condition that the rows satisfy as well. `expand` and
    `counts` show related rows and their numbers, as in a query.
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


class GeoHit(Row, kw_only=True):
    """A matching row, with its distance in metres from the centre of the shape."""

    distance: float


class GeoResult(msgspec.Struct):
    """The matching rows, nearest first, and their total number."""

    data: list[GeoHit]
    total_count: int

"""The shapes of searches by place. Angles are in degrees (WGS 84), lengths in metres."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec

from pilotis.rows.types import DEFAULT_LIMIT, Count, DataItem

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


class GeoRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which points `{latitude, longitude}` in an object column: exactly one of `near`, `within` and `polygon`.

    A polygon is `{points: [{latitude, longitude}, …]}`, that list alone, or a Polygon or MultiPolygon of GeoJSON
    (RFC 7946). Its sides are great circles, and it lies on less than half of the Earth. What a ring goes around is
    inside, also where it crosses itself.
    """

    table_id: UUID
    field: str
    near: Near | None = None
    within: Within | None = None
    polygon: Any = None
    limit: Count = DEFAULT_LIMIT
    offset: Count = 0


class GeoItem(DataItem):
    """A row found, with the distance in metres from the centre of what was asked for."""

    distance: float


class GeoResult(msgspec.Struct):
    """The rows found, the nearest first, and how many there are in all."""

    data: list[GeoItem]
    total_count: int

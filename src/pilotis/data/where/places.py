"""The types of places in requests. Angles are in degrees (WGS 84), lengths in metres."""

from __future__ import annotations

from typing import Annotated

import msgspec

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

"""Shapes on the sphere, from geo searches and conditions. Pure; errors name the field of the request.

Every shape has a centre, from which distances are measured, and a bounding box in space, by which an index finds
candidate rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec

from pilotis.data.where import sphere
from pilotis.data.where.places import Coordinates, Near, Within
from pilotis.data.where.sphere import Bounds, Vector
from pilotis.kit import json
from pilotis.kit.errors import ValidationError, invalid

_MARGIN = 0.01
"""The distance that a polygon keeps from the edge of its hemisphere: 0.6 degrees."""
_ROUNDING = 1e-12
"""The margin of a circle in Earth radii (6 µm), so that a point is within 0 m of itself."""

_OVER_HALF = "A polygon must lie on less than half of the Earth; ask for within, or for several polygons."

Ring = list[tuple[float, float]]
Place = tuple[float, float]
"""A latitude and a longitude in degrees."""


class Cap(NamedTuple):
    """The points at most `chord`, in Earth radii, from a centre; `bounds` is None for the whole sphere."""

    center: Vector
    bounds: Bounds | None
    chord: float


class Box(NamedTuple):
    """The points between two latitudes and up to `width` east of a longitude, in degrees."""

    center: Vector
    bounds: Bounds
    south: float
    west: float
    north: float
    width: float


class Polygons(NamedTuple):
    """The points inside any of some polygons: rings in the gnomonic projection on `axes`, an outer one and holes."""

    center: Vector
    bounds: Bounds
    axes: tuple[Vector, Vector, Vector]
    polygons: list[list[Ring]]


Shape = Cap | Box | Polygons


MAX_SHAPES, MAX_POINTS = 5, 1000
"""How many shapes a condition has, and how many points a polygon in it."""


def shape_of(near: Near | None, within: Within | None, polygon: Any, max_points: int) -> Shape:
    """Return the shape that a geo search asks for; raises `ValidationError`."""
    if sum(one is not None for one in (near, within, polygon)) != 1:
        raise invalid("near", "Give exactly one of near, within and polygon.")
    if near is not None:
        return _near(near)
    if within is not None:
        return _within(within)
    return _polygons(polygon, max_points)


def shape_within(given: Any, place: str) -> Shape:
    """Return the shape of a `$within`, whose place in the request is `place`; raises `ValidationError`."""
    if isinstance(given, dict) and given.get("polygon") is not None and len(given) == 1:
        try:
            return _polygons(given["polygon"], MAX_POINTS)
        except ValidationError as error:
            raise error.within(place) from None
    within = _converted(given, Within, place)
    try:
        return _within(within)
    except ValidationError as error:
        raise error.at(place) from None


def _near(near: Near) -> Cap:
    return _cap(near.center, math.inf if near.max_distance is None else near.max_distance)


def _cap(center: Coordinates, radius: float) -> Cap:
    middle = sphere.vector(center.latitude, center.longitude)
    angle = radius / sphere.EARTH_RADIUS
    if angle >= math.pi:
        return Cap(middle, None, 2.0)
    return Cap(middle, sphere.around_cap(middle, angle), sphere.chord(radius) + _ROUNDING)


def _within(within: Within) -> Shape:
    south_west, north_east, center, radius = within.south_west, within.north_east, within.center, within.radius
    if center is not None and radius is not None and south_west is None and north_east is None:
        return _cap(center, radius)
    if south_west is not None and north_east is not None and center is None and radius is None:
        return _box(south_west, north_east)
    raise invalid("within", "within takes south_west and north_east, or center and radius.")


def _box(south_west: Coordinates, north_east: Coordinates) -> Box:
    south, north, west = south_west.latitude, north_east.latitude, south_west.longitude
    if south > north:
        raise invalid("within", "south_west lies north of north_east.")
    # As pilotis.in_box computes it; a box from -180 to 180 spans all longitudes.
    width = north_east.longitude - west
    width = 360.0 if width == 360 else width - 360 * math.floor(width / 360)
    center = sphere.vector((south + north) / 2, west + width / 2)
    return Box(center, sphere.around_box(south, west, north, width), south, west, north, width)


def _polygons(given: Any, max_points: int) -> Polygons:
    # Counted before validation. In GeoJSON the last point of each ring repeats its first.
    if count_points(given) > 2 * max_points:
        raise _too_many_points(max_points)
    rings_of = _rings(given)
    if any(_is_over_half(rings[0]) for rings in rings_of):
        raise invalid("polygon", _OVER_HALF)
    polygons = [[_open([sphere.vector(*place) for place in ring]) for ring in rings] for rings in rings_of]
    points = [point for rings in polygons for ring in rings for point in ring]
    if len(points) > max_points:
        raise _too_many_points(max_points)
    center = sphere.hemisphere(points, _MARGIN)
    if center is None:
        raise invalid("polygon", _OVER_HALF)
    angle = max(math.acos(min(1.0, sphere.dot(center, point))) for point in points)
    axes = sphere.frame(center)
    projected = [[[sphere.projected(point, axes) for point in ring] for ring in rings] for rings in polygons]
    return Polygons(center, sphere.around_cap(center, angle), axes, projected)


def _is_over_half(ring: Sequence[Place]) -> bool:
    """Return whether a GeoJSON ring runs counterclockwise around more than half of the Earth.

    A line between two positions is straight in longitude and latitude, and crosses 180° nowhere (RFC 7946, sections
    3.1.1 and 3.1.9). Clockwise, the same positions lie around 180°, on the other side of the Earth.
    """
    area = full = 0.0
    for (south, west), (north, east) in pairwise([*ring, ring[0]]):
        area -= math.radians(east - west) * (math.sin(math.radians(south)) + math.sin(math.radians(north))) / 2
        full = max(full, abs(east - west))
    # A side from -180 to 180 has length zero across the antimeridian.
    return area > 2 * math.pi or (full == 360 and area < -2 * math.pi)


def count_points(given: Any) -> int:
    """Return the approximate number of points of a polygon in any of its forms; 0 if it has none of them."""
    if isinstance(given, dict):
        given = given.get("points", given.get("coordinates"))
    points, level = 0, [given]
    # Polygons, rings, positions: anything nested more deeply is not a polygon.
    for _ in range(3):
        lists = [item for item in level if isinstance(item, list)]
        points = sum(map(len, lists)) or points
        level = [item for items in lists for item in items]
    return points


def _too_many_points(max_points: int) -> ValidationError:
    return invalid("polygon", f"A polygon has at most {max_points} points.", "TOO_MANY_POINTS")


def _open(ring: Sequence[Vector]) -> Sequence[Vector]:
    """Return a ring without the repeated first point at its end."""
    ring = ring[:-1] if len(ring) > 1 and ring[0] == ring[-1] else ring
    if len(set(ring)) < 3:
        raise invalid("polygon", "A polygon's ring has at least three different points.")
    return ring


class _Points(msgspec.Struct, forbid_unknown_fields=True):
    points: list[Coordinates]


# Longitude, latitude and perhaps an altitude.
_Position = Annotated[list[float], msgspec.Meta(min_length=2, max_length=3)]


class _Polygon(msgspec.Struct, tag_field="type", tag="Polygon"):
    coordinates: list[list[_Position]]


class _MultiPolygon(msgspec.Struct, tag_field="type", tag="MultiPolygon"):
    coordinates: list[list[list[_Position]]]


def _rings(given: Any) -> list[list[list[Place]]]:
    """Return the rings of each polygon, outer ring first, from any of its forms."""
    if isinstance(given, dict) and "type" in given:
        return _geojson(given)
    points = _converted(given, list[Coordinates]) if isinstance(given, list) else _converted(given, _Points).points
    if not points:
        raise invalid("polygon", "A polygon's ring has at least three different points.")
    return [[[(point.latitude, point.longitude) for point in points]]]


def _geojson(given: dict[str, Any]) -> list[list[list[Place]]]:
    shape = _converted(given, _Polygon | _MultiPolygon)
    polygons = [shape.coordinates] if isinstance(shape, _Polygon) else shape.coordinates
    if not polygons or not all(polygons) or not all(all(rings) for rings in polygons):
        raise invalid("polygon", "A polygon has at least an outer ring of three different points.")
    return [[[_place(position) for position in ring] for ring in rings] for rings in polygons]


def _place(position: list[float]) -> Place:
    longitude, latitude, *_ = position
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise invalid("polygon", "A position is [longitude, latitude] in degrees, at most 180 and 90.")
    return latitude, longitude


def _converted(given: Any, type_: Any, place: str = "polygon") -> Any:
    try:
        return msgspec.convert(given, type_, strict=True)
    except msgspec.ValidationError as error:
        raise json.field_error(error, type_, given).within(place) from None

"""What a search by place asks for, as a shape on the sphere. Pure: from a request to geometry, errors naming the field.

Every shape has a centre, from which distances count, and a box in space around it, by which an index finds the rows
that come into question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from pilotis.kit.errors import ValidationError, invalid
from pilotis.rows.geo import sphere
from pilotis.rows.geo.sphere import Bounds, Vector
from pilotis.rows.geo.types import Coordinates, GeoRequest, Near, Within

_MARGIN = 0.01
"""How far from the edge of its half of the sphere a polygon stays: 0.6 degrees."""
_ROUNDING = 1e-12
"""What a circle is widened by, in Earth radii (6 µm), so that a point is within 0 m of itself."""

Ring = list[tuple[float, float]]


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


def shape_of(request: GeoRequest, most_points: int) -> Shape:
    """Return the shape that a request asks for; raises `ValidationError`."""
    given = [name for name in ("near", "within", "polygon") if getattr(request, name) is not None]
    if len(given) != 1:
        raise invalid("near", "Give exactly one of near, within and polygon.")
    if request.near is not None:
        return _near(request.near)
    if request.within is not None:
        return _within(request.within)
    return _polygons(request.polygon, most_points)


def _near(near: Near) -> Cap:
    return _cap(near.center, math.inf if near.max_distance is None else near.max_distance)


def _cap(center: Coordinates, radius: float) -> Cap:
    middle = sphere.vector(center.latitude, center.longitude)
    angle = radius / sphere.EARTH_RADIUS
    if angle >= math.pi:
        return Cap(middle, None, 2.0)
    return Cap(middle, sphere.around_cap(middle, angle), sphere.chord(radius) + _ROUNDING)


def _within(within: Within) -> Shape:
    south_west, north_east, center, radius = msgspec.structs.astuple(within)
    if center is not None and radius is not None and south_west is None and north_east is None:
        return _cap(center, radius)
    if south_west is not None and north_east is not None and center is None and radius is None:
        return _box(south_west, north_east)
    raise invalid("within", "within takes south_west and north_east, or center and radius.")


def _box(south_west: Coordinates, north_east: Coordinates) -> Box:
    south, north, west = south_west.latitude, north_east.latitude, south_west.longitude
    if south > north:
        raise invalid("within", "south_west lies north of north_east.")
    # As pilotis.in_box reckons; a box from -180 to 180 goes all the way around.
    width = north_east.longitude - west
    width = 360.0 if width == 360 else width - 360 * math.floor(width / 360)
    center = sphere.vector((south + north) / 2, west + width / 2)
    return Box(center, sphere.around_box(south, west, north, width), south, west, north, width)


def _polygons(given: Any, most_points: int) -> Polygons:
    polygons = [[_open(ring) for ring in rings] for rings in _rings(given)]
    points = [point for rings in polygons for ring in rings for point in ring]
    if len(points) > most_points:
        raise invalid("polygon", f"A polygon has at most {most_points} points.", "TOO_MANY_POINTS")
    center = sphere.hemisphere(points, _MARGIN)
    if center is None:
        raise invalid("polygon", "A polygon must lie on less than half of the Earth.")
    angle = max(math.acos(min(1.0, sphere.dot(center, point))) for point in points)
    axes = sphere.frame(center)
    projected = [[[sphere.projected(point, axes) for point in ring] for ring in rings] for rings in polygons]
    return Polygons(center, sphere.around_cap(center, angle), axes, projected)


def _open(ring: Sequence[Vector]) -> Sequence[Vector]:
    """Return a ring without the repetition of its first point at its end."""
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


def _rings(given: Any) -> list[list[list[Vector]]]:
    """Return the rings of each polygon, the outer one first, in whichever form they were given."""
    if isinstance(given, dict) and "type" in given:
        return _geojson(given)
    points = _converted({"points": given} if isinstance(given, list) else given, _Points).points
    return [[[sphere.vector(point.latitude, point.longitude) for point in points]]]


def _geojson(given: dict[str, Any]) -> list[list[list[Vector]]]:
    shape = _converted(given, _Polygon | _MultiPolygon)
    polygons = [shape.coordinates] if isinstance(shape, _Polygon) else shape.coordinates
    if not polygons or not all(polygons):
        raise invalid("polygon", "A polygon has at least an outer ring.")
    return [[[_vector(position) for position in ring] for ring in rings] for rings in polygons]


def _vector(position: list[float]) -> Vector:
    longitude, latitude, *_ = position
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise invalid("polygon", "A position is [longitude, latitude] in degrees, at most 180 and 90.")
    return sphere.vector(latitude, longitude)


def _converted(given: Any, type_: Any) -> Any:
    try:
        return msgspec.convert(given, type_, strict=True)
    except msgspec.ValidationError as error:
        raise _named(error) from None


def _named(error: msgspec.ValidationError) -> ValidationError:
    sentence, _, place = str(error).partition(" - at `$")
    field = f"polygon{place.rstrip('`')}"
    return invalid(field, f"{field}: {sentence}.")

"""Geometry on the unit sphere. Pure. Points are unit vectors from the centre of the Earth; angles are in radians."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

EARTH_RADIUS = 6_371_008.8
"""Mean radius in metres (IUGG); with it, distances are off by less than 0.56 %."""

Vector = tuple[float, float, float]

_MARGIN = 1e-9
"""The margin of boxes in Earth radii (6 mm), so that rounding does not exclude a point on the edge."""
_MAX_STEPS = 50


class Bounds(NamedTuple):
    """Opposite corners of a box in space."""

    low: list[float]
    high: list[float]


def vector(latitude: float, longitude: float) -> Vector:
    """Return the point at a latitude and longitude in degrees."""
    north, east = math.radians(latitude), math.radians(longitude)
    return math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)


def dot(a: Vector, b: Vector) -> float:
    """Return the scalar product; the cosine of the angle between two unit vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """Return the vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def unit(v: Vector) -> Vector:
    """Return a vector of length 1 in the same direction."""
    length = math.sqrt(dot(v, v))
    return v[0] / length, v[1] / length, v[2] / length


def chord(metres: float) -> float:
    """Return the chord between two points at a distance on the Earth's surface."""
    return 2 * math.sin(min(metres / EARTH_RADIUS, math.pi) / 2)


def metres(chord: float) -> float:
    """Return the distance on the Earth's surface of two points at the ends of a chord."""
    return 2 * EARTH_RADIUS * math.asin(min(chord / 2, 1.0))


def around_cap(center: Vector, angle: float) -> Bounds:
    """Return the smallest box around the points at most `angle` from a centre."""
    low, high = [], []
    for coordinate in center:
        away = math.acos(max(-1.0, min(1.0, coordinate)))
        low.append(math.cos(min(math.pi, away + angle)) - _MARGIN)
        high.append(math.cos(max(0.0, away - angle)) + _MARGIN)
    return Bounds(low, high)


def around_box(south: float, west: float, north: float, width: float) -> Bounds:
    """Return the smallest box in space around a box of latitudes and longitudes, in degrees."""
    # The distance from the axis is largest at the equator, or where the box comes nearest to it.
    radii = [math.cos(math.radians(latitude)) for latitude in (south, north)]
    radii += [1.0] if south <= 0 <= north else []
    east = west + width
    turns = [math.radians(angle) for angle in (west, east)]
    # x and y have their extremes at 0°, 90°, 180° and 270° east.
    turns += [math.radians(angle) for angle in range(-360, 721, 90) if west <= angle <= east]
    xs = [radius * math.cos(turn) for radius in (min(radii), max(radii)) for turn in turns]
    ys = [radius * math.sin(turn) for radius in (min(radii), max(radii)) for turn in turns]
    zs = [math.sin(math.radians(south)), math.sin(math.radians(north))]
    ranges = (xs, ys, zs)
    return Bounds([min(values) - _MARGIN for values in ranges], [max(values) + _MARGIN for values in ranges])


def hemisphere(points: Sequence[Vector], margin: float) -> Vector | None:
    """Return the centre of a hemisphere that contains all points, `margin` inside its edge; None if none is found.

    It starts at the mean of the points and moves, by the perceptron rule, towards the point furthest out.
    """
    total = unit(_sum(points)) if dot(_sum(points), _sum(points)) > 1e-18 else points[0]
    for _ in range(_MAX_STEPS):
        center = unit(total)
        furthest = min(points, key=lambda point: dot(point, center))
        if dot(furthest, center) > margin:
            return center
        total = _sum((total, furthest))
        if dot(total, total) < 1e-18:
            return None
    return None


def _sum(vectors: Iterable[Vector]) -> Vector:
    xs, ys, zs = zip(*vectors, strict=True)
    return math.fsum(xs), math.fsum(ys), math.fsum(zs)


def frame(center: Vector) -> tuple[Vector, Vector, Vector]:
    """Return three axes at right angles, the first through `center`."""
    # The axis with the smallest component cannot be parallel to the centre.
    minimum = min(range(3), key=lambda index: abs(center[index]))
    helper: Vector = (float(minimum == 0), float(minimum == 1), float(minimum == 2))
    second = unit(cross(center, helper))
    return center, second, cross(center, second)


def projected(point: Vector, axes: tuple[Vector, Vector, Vector]) -> tuple[float, float]:
    """Return a point's gnomonic projection, in metres, as `pilotis.gnomonic` does in SQL."""
    depth = dot(point, axes[0])
    return EARTH_RADIUS * dot(point, axes[1]) / depth, EARTH_RADIUS * dot(point, axes[2]) / depth

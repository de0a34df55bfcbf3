"""The condition that a point is inside a shape, in SQL. Pure."""

from __future__ import annotations

from pilotis.data.where.index_expressions import indexed_point_of, point_of
from pilotis.data.where.operands import Arguments
from pilotis.data.where.shapes import Box, Cap, Polygons, Ring, Shape
from pilotis.data.where.sphere import Bounds, Vector


def inside(json: str, shape: Shape, cube: str, arguments: Arguments, chord: str = "") -> str:
    """Return the condition that a JSON object is a point inside a shape; `cube` is the schema of the extension.

    `chord` is the expression for the distance from the shape's centre, in Earth radii, where the statement has it.
    """
    point = indexed_point_of(json, cube)
    if shape.bounds is None:
        return f"{point} is not null"
    near = f"{point} operator({cube}.<@) {_bounds(shape.bounds, cube, arguments)}"
    return f"{near} and {_exactly(json, shape, cube, arguments, chord)}"


def _bounds(bounds: Bounds, cube: str, arguments: Arguments) -> str:
    low, high = (arguments.bind(corner, "float8[]") for corner in bounds)
    return f"{cube}.cube({low}, {high})"


def _exactly(json: str, shape: Shape, cube: str, arguments: Arguments, chord: str) -> str:
    match shape:
        case Cap():
            if not chord:
                center = f"{cube}.cube({arguments.bind(list(shape.center), 'float8[]')})"
                chord = f"{point_of(json, cube)} operator({cube}.<->) {center}"
            return f"{chord} <= {arguments.bind(shape.chord, 'float8')}"
        case Box(_, _, south, west, north, width):
            sides = ", ".join(arguments.bind(side, "float8") for side in (south, west, north, width))
            return f"pilotis.in_box({json}, {sides})"
        case Polygons():
            return _in_polygons(json, shape, arguments)


def _in_polygons(json: str, shape: Polygons, arguments: Arguments) -> str:
    axes = arguments.bind(_flat(shape.axes), "float8[]")
    point = f"pilotis.gnomonic(pilotis.unit_vector({json}), {axes})"
    found = [_in_rings(point, rings, arguments) for rings in shape.polygons]
    return f"({' or '.join(found)})"


def _in_rings(point: str, rings: list[Ring], arguments: Arguments) -> str:
    outer, *holes = (f"{arguments.bind(ring, 'polygon')} @> {point}" for ring in rings)
    return " and ".join([outer, *(f"not {hole}" for hole in holes)])


def _flat(axes: tuple[Vector, Vector, Vector]) -> list[float]:
    return [coordinate for axis in axes for coordinate in axis]

"""Geo searches as SQL. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pilotis.data.query.geo.shapes import Box, Cap, Polygons, Ring, Shape
from pilotis.data.query.geo.sphere import Bounds, Vector
from pilotis.data.query.pages import Window, sorted_rows
from pilotis.data.rows import found
from pilotis.data.rows.statements import Statements
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rules.visibility import Visibility
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.fields import Field
from pilotis.data.where.index_expressions import indexed_point_of, no_point, point_of
from pilotis.data.where.operands import Arguments


class Scope(NamedTuple):
    """What to search: an object field, a condition on the rows, and the page of the results.

    `cube` is the schema of the extension `cube`, `statements` those whose rows are shown, `visible` what the caller
    sees.
    """

    table: PreparedTable
    field: Field
    cube: str
    and_visible: str
    window: Window
    arguments: Arguments
    page_bytes: int
    statements: Statements
    visible: Visibility


def compile_geo(scope: Scope, shape: Shape) -> str:
    """Compile a search for the points inside a shape, nearest to its centre first.

    The statement has the form of `found.page`, with `chord`, the distance in Earth radii.
    """
    table, arguments = scope.table, scope.arguments
    arguments.access.add(AccessKind.GEO, scope.field.use)
    indexed = indexed_point_of(scope.field.sql, scope.cube)
    center = f"{scope.cube}.cube({arguments.bind(list(shape.center), 'float8[]')})"
    order, chord = (
        f"{point} operator({scope.cube}.<->) {center}" for point in (indexed, point_of(scope.field.sql, scope.cube))
    )
    condition = _inside(scope, shape, indexed, chord) + scope.and_visible
    physical = table.schema.physical
    whole = scope.statements.row
    everywhere = shape.bounds is None and not scope.and_visible
    total = _all_points(scope) if everywhere else table.statements.count(condition)
    if scope.window.order is not None:
        chosen = sorted_rows(table, scope.window, condition, scope.visible, arguments)
        selected = f"""
            select row_number() over (order by {chosen.place}) as place, {chord} as chord,
                {whole} as whole{chosen.columns}
            from {chosen.source} chosen
        """
        names = ("chord", *(("id", "sorts") if chosen.columns else ()))
        return found.page(total, selected, names, scope.page_bytes, chosen.still_there)
    limit, offset = arguments.bind(scope.window.limit, "bigint"), arguments.bind(scope.window.offset, "bigint")
    rows = f"""
        select row_number() over (order by __chord, __id) as place, __chord as chord, {whole} as whole
        from (
            select {chord} as __chord, * from {physical}
            where {condition} and {table.schema.at_this_version} order by {order}, __id limit {limit} offset {offset}
        ) nearest
    """
    return found.page(total, rows, ("chord",), scope.page_bytes)


def _all_points(scope: Scope) -> str:
    """Return the count of all rows with a point: the stored row count minus the rows without one, usually few."""
    scope.arguments.access.add(AccessKind.NO_POINT, scope.field.use)
    statements = scope.table.statements
    return f"({statements.row_count()}) - ({statements.count(no_point(scope.field.sql))})"


def _inside(scope: Scope, shape: Shape, point: str, chord: str) -> str:
    if shape.bounds is None:
        return f"{point} is not null"
    near = f"{point} operator({scope.cube}.<@) {_bounds(scope, shape.bounds)}"
    return f"{near} and {_exactly(scope, shape, chord)}"


def _bounds(scope: Scope, bounds: Bounds) -> str:
    low, high = (scope.arguments.bind(corner, "float8[]") for corner in bounds)
    return f"{scope.cube}.cube({low}, {high})"


def _exactly(scope: Scope, shape: Shape, chord: str) -> str:
    match shape:
        case Cap():
            return f"{chord} <= {scope.arguments.bind(shape.chord, 'float8')}"
        case Box(_, _, south, west, north, width):
            sides = ", ".join(scope.arguments.bind(side, "float8") for side in (south, west, north, width))
            return f"pilotis.in_box({scope.field.sql}, {sides})"
        case Polygons():
            return _in_polygons(scope, shape)


def _in_polygons(scope: Scope, shape: Polygons) -> str:
    axes = scope.arguments.bind(_flat(shape.axes), "float8[]")
    point = f"pilotis.gnomonic(pilotis.unit_vector({scope.field.sql}), {axes})"
    inside = [_in_rings(point, rings, scope.arguments) for rings in shape.polygons]
    return f"({' or '.join(inside)})"


def _in_rings(point: str, rings: list[Ring], arguments: Arguments) -> str:
    outer, *holes = (f"{arguments.bind(ring, 'polygon')} @> {point}" for ring in rings)
    return " and ".join([outer, *(f"not {hole}" for hole in holes)])


def _flat(axes: tuple[Vector, Vector, Vector]) -> list[float]:
    return [coordinate for axis in axes for coordinate in axis]

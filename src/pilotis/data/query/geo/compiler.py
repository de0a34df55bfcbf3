"""Geo searches as SQL. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pilotis.data.query.pages import Window, sorted_rows
from pilotis.data.rows import found
from pilotis.data.rows.statements import Statements
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rules.visibility import Visibility
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.fields import Field
from pilotis.data.where.index_expressions import indexed_point_of, no_point, point_of
from pilotis.data.where.inside import inside
from pilotis.data.where.operands import Arguments
from pilotis.data.where.shapes import Shape


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
    condition = inside(scope.field.sql, shape, scope.cube, arguments, chord) + scope.and_visible
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

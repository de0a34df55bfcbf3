"""The expressions that indexes of points are on. A search has them word for word, or no index would serve it."""

from __future__ import annotations

BREADTH = 1e-10
"""Earth radii, 0.6 mm: how far a point's cube reaches from it, in every direction."""


def point_of(json: str, cube: str) -> str:
    """Return the point of a JSON object on the unit sphere, as a cube.

    `json` is the `sql` of what `pilotis.rows.fields.json_field` returns; `cube` the schema of the extension of that
    name. A value that is no point has none: null.
    """
    return f"{cube}.cube(pilotis.unit_vector({json}))"


def indexed_point_of(json: str, cube: str) -> str:
    """Return a point with some breadth; its index is `using gist (<this>)`. For the arguments see `point_of`."""
    # Without breadth, any two points waste all the room between them, so the extension splits a full page of the index
    # by whichever are first: points along a road, in their order, would leave it as many pages as points.
    return f"{cube}.cube_enlarge({point_of(json, cube)}, {BREADTH}, 3)"


def no_point(json: str) -> str:
    """Return the condition that a JSON object is no point; the rows that satisfy it have an index `where <this>`."""
    return f"pilotis.unit_vector({json}) is null"

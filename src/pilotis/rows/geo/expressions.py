"""The expression that an index of points is on. A search has it word for word, or its index would not serve it."""

from __future__ import annotations


def point_of(json: str, cube: str) -> str:
    """Return the point of a JSON object on the unit sphere, as a cube; its index is `using gist (<this>)`.

    `json` is the `sql` of what `pilotis.rows.fields.json_field` returns; `cube` the schema of the extension of that
    name. A value that is no point has none: null.
    """
    return f"{cube}.cube(pilotis.unit_vector({json}))"

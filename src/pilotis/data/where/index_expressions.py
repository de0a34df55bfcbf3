"""The expressions of automatic indexes. A query must contain exactly the same expression to use the index.

`text` is always the `sql` from `pilotis.data.where.fields.text_field`, `json` that from `json_field`.
"""

from __future__ import annotations

BREADTH = 1e-10
"""Half the edge of a point's cube, in Earth radii (0.6 mm)."""


def key_of(text: str) -> str:
    """Return the expression for completion; its index is a B-tree, `(<this>)`."""
    return f'(pilotis.suggestion_key({text}) collate "C")'


def trigrams_of(text: str) -> str:
    """Return the expression for finding typing errors and parts of a text.

    Its index is `using gin (<this> <schema of pg_trgm>.gin_trgm_ops)`. Under the collation "C", character classes and
    (?i) would cover ASCII only.
    """
    return f'({text} collate "default")'


def case_key(text: str) -> str:
    """Return the text as it is compared where letter case does not count."""
    return f"pilotis.case_key({text})"


def caseless(text: str) -> str:
    """Return the `case_key` for comparisons and sorts; its index is a B-tree, `(<this>, __id)`."""
    return f'({case_key(text)} collate "C")'


def caseless_trigrams_of(text: str) -> str:
    """Return the expression for finding parts of a text where letter case does not count; see `trigrams_of`."""
    return trigrams_of(case_key(text))


def point_of(json: str, cube: str) -> str:
    """Return the point of a JSON object on the unit sphere, as a cube.

    `cube` is the schema of the extension `cube`. The result is null for a value that is not a point.
    """
    return f"{cube}.cube(pilotis.unit_vector({json}))"


def indexed_point_of(json: str, cube: str) -> str:
    """Return a point with an extent; its index is `using gist (<this>)`. For the arguments see `point_of`."""
    # Points without extent have no volume to compare, so the extension would split a full index page by the first ones:
    # points along a road, in order, would take one page each.
    return f"{cube}.cube_enlarge({point_of(json, cube)}, {BREADTH}, 3)"


def no_point(json: str) -> str:
    """Return the condition that a JSON object is not a point; its rows have an index `where <this>`."""
    return f"pilotis.unit_vector({json}) is null"

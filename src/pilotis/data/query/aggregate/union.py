"""The stage `$unionWith`: the documents of another pipeline, over a table of its own, behind the others. Pure.

`{"table": "orders", "pipeline": [{"$match": {"paid": true}}]}` reads that table under its own rules. Documents are
joined, not columns, so types may differ from one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pilotis.data.query.aggregate import values
from pilotis.data.query.aggregate.accumulators import ordering
from pilotis.data.query.aggregate.expressions import wrong
from pilotis.data.query.aggregate.relation import Relation
from pilotis.data.where.operands import Arguments

Json = Any

UNION = "$unionWith"
MAX_UNIONS, MAX_UNITED = 3, 100_000
"""How many of these stages a pipeline has, and how many documents each side of one brings at most."""


def operand_of(operand: Json, place: str) -> tuple[str, Sequence[Json]]:
    """Return the table and the stages that the operand names; raises a 400 error."""
    if not isinstance(operand, Mapping) or not {"table"} <= set(operand) <= {"table", "pipeline"}:
        raise wrong(place, "$unionWith takes an object with table and pipeline.")
    table, stages = operand["table"], operand.get("pipeline", [])
    if not isinstance(table, str):
        raise wrong(f"{place}.table", "table is the id or the title of a table.")
    if not isinstance(stages, list):
        raise wrong(f"{place}.pipeline", "pipeline is a list of stages.")
    return table, stages


def united(parts: Sequence[Relation], arguments: Arguments, name: Callable[[str], str]) -> Relation:
    """Return the documents of relations, one after another; `name` makes names that the statement does not use yet.

    More than `MAX_UNITED` of one fail with SQLSTATE PT413.
    """
    number, place, document = name("u"), name("u"), name("u")
    selects = []
    for index, part in enumerate(parts):
        at = f"row_number() over ({ordering(part.order).strip()})"
        size = f"case when {at} > {MAX_UNITED} then -1 else {values.MAX_BYTES} end"
        text = f"pilotis.require_size({part.document(arguments)}, {size})"
        selects.append(f"select {index} as {number}, {at} as {place}, {text}::jsonb as {document} from {part.source}")
    source = f"({' union all '.join(selects)}) {name('s')}"
    return Relation(source, {}, [(number, "asc"), (place, "asc")], document, open=True)

"""Paths through references in rules: `trail.author.member` is a column of the row to which a row leads. Pure.

Each step stands for an `$exists` on the id of the row that is referred to, or its value of a unique key. Stored, a path
names the numbers of the columns on the way and the ids of the tables to which they lead, with the number of the key's
column where it is not the id: `#3>0199c0de-…>#2>0199c0de-….#4>#5`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.tables.schema import Column, TableSchema, normal_path

Json = Any

MAX_STEPS = 3
_STORED = re.compile(r"(#\d+)>([0-9a-f-]{36})(?:\.(#\d+))?>(.+)", re.DOTALL)


class Step(NamedTuple):
    """The key of a column that refers to rows of a table, and what is asked there: a column's key, or a path.

    `referred` is the key of the column there whose values it has.
    """

    column: str
    table_id: UUID
    rest: str
    referred: str = "id"


@functools.lru_cache(maxsize=2000)
def step_of(key: str) -> Step | None:
    """Return the first step of a stored path; None for the key of a column."""
    found = _STORED.fullmatch(key)
    return None if found is None else Step(found[1], UUID(found[2]), found[4], found[3] or "id")


def first_step(table: TableSchema, name: str) -> tuple[Column, str] | None:
    """Return the column with which a path begins, and the name of what is asked behind it; None for other names."""
    first, dot, rest = normal_path(name).partition(".")
    column = table.by_name.get(first)
    return (column, rest) if dot and column is not None and column.references is not None else None


def stored_step(column: Column, table_id: UUID, rest: str) -> str:
    """Return the stored form of a path that begins with a column; `rest` is that of what is behind it."""
    referred = None if column.references is None else column.references.column
    return f"#{column.number}>{table_id}{'' if referred is None else f'.#{referred}'}>{rest}"


def as_exists(step: Step, value: Json) -> dict[str, Json]:
    """Return the `$exists` that a path with a value stands for; `path` tells it from those of documents."""
    where = {"$and": [{step.referred: {"$row": step.column}}, {step.rest: value}]}
    return {"$exists": {"table": str(step.table_id), "where": where, "path": True}}


def without_paths(rule: Json) -> Json:
    """Return a stored rule, or a whole document, with what its paths stand for in their place."""
    if isinstance(rule, list):
        return [without_paths(one) for one in rule]
    if not isinstance(rule, Mapping):
        return rule
    result: dict[str, Json] = {}
    found: list[Json] = []
    for name, value in rule.items():
        if (step := step_of(name)) is None:
            result[name] = without_paths(value)
        else:
            found.append(without_paths(as_exists(step, value)))
    return result if not found else {"$and": [*([result] if result else []), *found]}

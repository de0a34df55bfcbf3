"""Selects the next index to build, if any: the one that saves most time, does not exist yet, and fits the budget."""

from __future__ import annotations

from typing import NamedTuple

from asyncpg import Connection

from pilotis.data.indexes import store
from pilotis.data.indexes.definitions import Definition, definition
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.data.where.access_patterns import AccessKind, AccessPattern, decode, has_several_sorts
from pilotis.kit import json
from pilotis.limits import Limits, for_app

LEAST_HITS = 3
LEAST_MILLISECONDS = 20.0
_MAX_OF_SEVERAL_SORTS = 3
"""Indexes of a table for orders by several columns: of two columns there are eight, of which each write pays for."""
_ENTRY_BYTES = 16
_VALUE_BYTES = 24


class Wanted(NamedTuple):
    """An index to build, with the number of slow statements that need it and their total time."""

    table: TableSchema
    use: AccessPattern
    definition: Definition
    text: str
    hits: int
    total_ms: float
    limits: Limits


async def next_wanted(connection: Connection, tables: Tables, limits: Limits) -> Wanted | None:
    """Return the index that would save most time."""
    for row in await store.candidates(connection, LEAST_HITS, LEAST_MILLISECONDS):
        wanted = await _wanted(tables, row, for_app(limits, json.decode(row.limits.encode())))
        if wanted is not None and await _may_be_built(connection, wanted):
            return wanted
    return None


async def _wanted(tables: Tables, row: store.Candidate, limits: Limits) -> Wanted | None:
    try:
        table = await tables.current(row.app_id, row.table_id)
    except TableNotFoundError:
        return None
    use = decode(row.use)
    found = definition(table, use)
    return found and Wanted(table, use, found, row.use, row.hits, row.total_ms, limits)


async def _may_be_built(connection: Connection, wanted: Wanted) -> bool:
    table, limits = wanted.table, wanted.limits
    present = await store.of_table(connection, table.app_id, table.table_id)
    kept_back = {row.name for row in present if row.waits or row.state in {"ready", "building"}}
    if kept_back & {option.name(table) for option in _serving(wanted)}:
        return False
    held = [row for row in present if row.state == "ready"]
    if len(held) >= limits.table_indexes or await store.count(connection, table.app_id) >= limits.indexes:
        return False
    of_several = [row for row in held if has_several_sorts(decode(row.use))]
    if has_several_sorts(wanted.use) and len(of_several) >= _MAX_OF_SEVERAL_SORTS:
        return False
    rows, table_bytes = await store.size(connection, table)
    bytes_after = sum(row.size_bytes for row in held) + _estimate(wanted.definition, rows)
    return rows >= limits.index_rows and bytes_after <= table_bytes * limits.index_percent / 100


def _serving(wanted: Wanted) -> list[Definition]:
    """Return the equivalent indexes: a comparison can use an index in either direction."""
    *equal, last = wanted.use
    if last.kind not in {AccessKind.RANGE, AccessKind.IN}:
        return [wanted.definition]
    kinds = (AccessKind.SORT, AccessKind.SORT_DESCENDING, AccessKind.SORT_NULLS_FIRST)
    options = [definition(wanted.table, (*equal, last._replace(kind=kind))) for kind in kinds]
    return [wanted.definition, *(option for option in options if option is not None)]


def _estimate(wanted: Definition, rows: int) -> int:
    # An estimate for a B-tree, which is lower than that of any other kind; the size is checked once the index is built.
    return rows * (_ENTRY_BYTES + _VALUE_BYTES * (len(wanted.expressions) - 1)) if wanted.method == "btree" else 0

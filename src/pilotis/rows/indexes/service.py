"""Indexes that appear by themselves: one turn of the work in the background, and what there is to tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.db.extensions import Extensions
from pilotis.db.pool import Database
from pilotis.http.principals import AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.limits import Limits
from pilotis.rows.indexes import builder, store
from pilotis.rows.indexes.definitions import definition, field_name
from pilotis.rows.indexes.selection import next_wanted
from pilotis.rows.indexes.types import Index, IndexList, NotedUse, UsePart
from pilotis.rows.indexes.uses import Use, decode
from pilotis.tables.schema import TableSchema
from pilotis.tables.service import Tables

TURN_SECONDS = 10.0
OBSERVE_SECONDS = 3600.0


class Indexes:
    """Builds and drops what queries ask for, and tells of it."""

    def __init__(self, database: Database, tables: Tables, extensions: Extensions, limits: Limits) -> None:
        self._database = database
        self._extensions = extensions
        self._tables = tables
        self._limits = limits

    async def turn(self, connection: Connection) -> None:
        """Settle what was interrupted, drop what is unused, build what is missing.

        `connection` is one outside the pool, with nothing else on it; the caller sees to it that no other node does
        the same.
        """
        await builder.prepare(connection)
        try:
            await builder.recover(connection)
            await store.observe(connection, OBSERVE_SECONDS)
            await builder.drop_idle(connection, self._limits.index_unused_days)
            await store.forget_old_uses(connection)
        except asyncpg.QueryCanceledError:
            return
        while wanted := await next_wanted(connection, self._tables, self._limits):
            if not await builder.build(connection, wanted, wanted.limits, self._extensions):
                return

    async def of_table(self, app: AppInfo, table_id: UUID) -> IndexList:
        """Return a table's indexes and what is noted; raises `TableNotFoundError`."""
        table = await self._tables.current(app.app_id, table_id)
        indexes = [_index(table, row) for row in await store.of_table(self._database, app.app_id, table_id)]
        noted = [_noted(table, row) for row in await store.uses(self._database, app.app_id, table_id)]
        return IndexList(indexes, noted)


async def report(database: Database | Connection) -> list[str]:
    """Return sentences about all indexes that appeared by themselves, for whoever runs the server."""
    rows = await store.all_states(database)
    if not rows:
        return ["No index has appeared by itself so far."]
    lines = [f"{row['number']} indexes are {row['state']}, {row['bytes'] / 1e6:.1f} MB." for row in rows]
    reasons = [f"Some are {row['state']}: {error}" for row in rows for error in row["errors"] or ()]
    return lines + reasons


def _index(table: TableSchema, row: asyncpg.Record) -> Index:
    use = decode(row["use"])
    found = definition(table, use)
    parts = _parts(table, use)
    return Index(
        row["name"],
        list(dict.fromkeys(part.column for part in parts)),
        parts,
        found.method if found else "btree",
        row["state"],
        _reason(parts, row["hits"], row["total_ms"]),
        row["size_bytes"],
        rfc3339(row["created_at"]),
        _moment(row["last_used_at"]),
        row["error"],
    )


def _noted(table: TableSchema, row: asyncpg.Record) -> NotedUse:
    parts = _parts(table, decode(row["use"]))
    first, last = rfc3339(row["first_used_at"]), rfc3339(row["last_used_at"])
    return NotedUse(parts, row["hits"], round(row["total_ms"], 1), first, last)


def _parts(table: TableSchema, use: Use) -> list[UsePart]:
    return [UsePart(field_name(table, part.column), part.kind) for part in use]


def _reason(parts: Sequence[UsePart], hits: int, milliseconds: float) -> str:
    uses = " and ".join(f"{part.kind.replace('_', ' ')} on {part.column}" for part in parts)
    return f"{hits} slow queries with {uses}, {milliseconds / hits:.1f} ms each."


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)

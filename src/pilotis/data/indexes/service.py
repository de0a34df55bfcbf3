"""Automatic indexes: one run of the background work, and the list of what exists."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.data.indexes import builder, store
from pilotis.data.indexes.definitions import definition, field_name
from pilotis.data.indexes.selection import next_wanted
from pilotis.data.indexes.types import Index, IndexList, RecordedAccess, UsePart
from pilotis.data.rules.access import Reading
from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.data.tables.service import Tables
from pilotis.data.where.access_patterns import AccessPattern, decode
from pilotis.data.where.operands import CREATOR
from pilotis.db.extensions import Extensions
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.reports import Report
from pilotis.limits import Limits

RUN_SECONDS = 300.0
OBSERVE_SECONDS = 3600.0


class Indexes:
    """Builds and drops indexes as queries need them, and lists them."""

    def __init__(self, database: Database, tables: Tables, extensions: Extensions, limits: Limits) -> None:
        self._database = database
        self._extensions = extensions
        self._tables = tables
        self._limits = limits

    async def run_once(self, connection: Connection) -> None:
        """Clean up interrupted builds, drop unused indexes, build missing ones.

        `connection` is outside the pool and used for nothing else; the caller ensures that no other node runs this at
        the same time.
        """
        await builder.prepare(connection)
        try:
            await builder.recover(connection)
            await store.observe(connection, OBSERVE_SECONDS)
            await builder.drop_idle(connection, self._limits.index_unused_days, self._tables)
            await store.delete_old_patterns(connection)
        except asyncpg.QueryCanceledError:
            return
        while wanted := await next_wanted(connection, self._tables, self._limits):
            if not await builder.build(connection, wanted, wanted.limits, self._extensions, self._tables):
                return

    async def of_table(self, app: AppInfo, table_id: UUID) -> IndexList:
        """Return a table's indexes and its recorded slow queries; raises `TableNotFoundError`."""
        table = await self._tables.current(app.app_id, table_id)
        indexes = [
            _index(table, row) for row in await store.of_table(self._database.of(app.app_id), app.app_id, table_id)
        ]
        accesses = [_recorded_access(table, row) for row in await store.uses(self._database, app.app_id, table_id)]
        return IndexList(indexes, accesses)

    async def lacking(self, app: AppInfo, readings: Sequence[Reading]) -> set[Reading]:
        """Return those of the ways of reading tables that no index serves, though the tables are large.

        An index serves a pattern if it begins with the same column, and so does that of a unique key or a reference.
        """
        found: set[Reading] = set()
        for table_id in {reading.table_id for reading in readings}:
            table = await self._tables.current(app.app_id, table_id)
            database = self._database.of(app.app_id)
            rows, _ = await store.size(database, table)
            if rows < app.limits.index_rows:
                continue
            present = await store.of_table(database, app.app_id, table_id)
            columns = {decode(row.use)[0].column for row in present if row.state == "ready"}
            columns |= {str(key.columns[0]) for key in table.keys}
            columns |= {str(one.number) for one, _ in table.references}
            if table.access_level is AccessLevel.CREATOR:
                columns.add(CREATOR)
            found |= {
                reading
                for reading in readings
                if reading.table_id == table_id and not any(use[0].column in columns for use in reading.patterns)
            }
        return found


async def report(connection: Connection) -> list[str]:
    """Return sentences about all automatic indexes, for the operator."""
    rows = await store.all_states(connection)
    if not rows:
        return ["No index has been built automatically so far."]
    lines = [f"{row.number} indexes are {row.state}, {row.bytes / 1e6:.1f} MB." for row in rows]
    reasons = [f"Some are {row.state}: {error}" for row in rows for error in row.errors or () if row.state != "failed"]
    return lines + reasons


async def trouble_report(connection: Connection, unused_days: int) -> list[Report]:
    """Return reports for the operator about automatic indexes that failed, or that are unused and still there."""
    reports = [
        Report(
            f"{row.number} indexes could not be built: {error}",
            "The server tries again later; remove the cause, or write the query in another way.",
        )
        for row in await store.all_states(connection)
        for error in row.errors or ()
        if row.state == "failed"
    ]
    # The task that drops them runs every some hours.
    if unused := await store.idle(connection, unused_days + 1):
        sentence = f"{len(unused)} automatic indexes were not used for {unused_days} days and are still there."
        fix = "A server drops them: start one whose setting background allows the queue long."
        reports.append(Report(sentence, fix))
    return reports


def _index(table: TableSchema, row: store.StoredIndex) -> Index:
    use = decode(row.use)
    found = definition(table, use)
    parts = _parts(table, use)
    return Index(
        name=row.name,
        columns=list(dict.fromkeys(part.column for part in parts)),
        uses=parts,
        method=found.method if found else "btree",
        state=row.state,
        reason=_reason(parts, row.hits, row.total_ms),
        size_bytes=row.size_bytes,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.last_used_at),
        error=row.error,
    )


def _recorded_access(table: TableSchema, row: store.RecordedUse) -> RecordedAccess:
    parts = _parts(table, decode(row.use))
    first, last = rfc3339(row.first_used_at), rfc3339(row.last_used_at)
    return RecordedAccess(
        uses=parts, count=row.hits, total_ms=round(row.total_ms, 1), first_used_at=first, last_used_at=last
    )


def _parts(table: TableSchema, use: AccessPattern) -> list[UsePart]:
    return [UsePart(field_name(table, part.column), part.kind) for part in use]


def _reason(parts: Sequence[UsePart], hits: int, milliseconds: float) -> str:
    uses = " and ".join(f"{part.kind.replace('_', ' ')} on {part.column}" for part in parts)
    return f"{hits} slow queries with {uses}, {milliseconds / hits:.1f} ms each."

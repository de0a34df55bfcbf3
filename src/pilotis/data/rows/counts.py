"""Stored row counts: always exact, and folded so that they stay small.

Every write updates the row count in its own statement (see `pilotis.data.rows.statements`), in a slot of its
connection: the process id of its PostgreSQL backend. So the sum of a table's slots equals `count(*)` in any snapshot
and after any crash, and no writer waits for another. Slots of backends that have ended are folded into slot 0, which
belongs to no backend.

Folding locks slots and moves their content in one statement, so it is exact even for a slot in use; it prefers slots of
ended backends, for which no connection waits. It skips locked slots, and waits only for slot 0, which only folding
touches, one fold at a time in each app; so it cannot deadlock with a writer. A backend that has just received the
process id of an ended one waits until the statement is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg
from asyncpg import Connection

# Separate statements: on Citus, the row counts of an app may be on another node than these tables.
_LIVING = "select coalesce(array_agg(pid), '{}') from pg_stat_activity where pid is not null"
_PURGED = """
    select coalesce(array_agg(id), '{}') from unnest($2::uuid[]) as stored (id)
    where not exists (select from pilotis.tables t where t.app_id = $1 and t.table_id = id)
"""


async def fold_all(connection: Connection) -> None:
    """Fold the row counts of every app, each in a transaction of its own."""
    for row in await connection.fetch("select app_id from pilotis.apps where deleted_at is null order by app_id"):
        await fold(connection, row["app_id"])


async def fold(connection: Connection, app_id: UUID, spared: Sequence[int] | None = None) -> None:
    """Fold slots of an app's row counts into slot 0, and delete the row counts of tables that no longer exist.

    `spared` are the slots to skip, by default those of live backends. Does nothing while another fold runs, or if the
    app no longer exists.
    """
    counts = f"app_{app_id.hex}.__row_counts"
    try:
        async with connection.transaction():
            if await connection.fetchval("select pg_try_advisory_xact_lock(hashtextextended($1, 0))", counts):
                await _forget_purged(connection, app_id, counts)
                living = await connection.fetchval(_LIVING) if spared is None else spared
                await connection.execute(_fold(counts), living)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return


async def _forget_purged(connection: Connection, app_id: UUID, counts: str) -> None:
    # In this order: a table was in the catalogue before its row counts became visible.
    counted = await connection.fetchval(f"select array_agg(distinct table_id) from {counts}")
    purged = await connection.fetchval(_PURGED, app_id, counted or [])
    if purged:
        await connection.execute(f"delete from {counts} where table_id = any($1)", purged)


def _fold(counts: str) -> str:
    return f"""
        with ended as materialized (
            select c.table_id, c.slot from {counts} c
            where c.slot <> 0 and c.slot <> all($1::integer[]) for update of c skip locked
        ), taken as (
            delete from {counts} c using ended where c.table_id = ended.table_id and c.slot = ended.slot
            returning c.table_id, c.rows
        )
        insert into {counts} as stored (table_id, slot, rows)
        select table_id, 0, sum(rows) from taken group by table_id
        on conflict (table_id, slot) do update set rows = stored.rows + excluded.rows
    """

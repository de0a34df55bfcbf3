"""The tally of row counts: keeping it small, and exact at every moment.

Every write adds to the tally in its own statement (see `pilotis.rows.statements`), in the slot of its connection,
which is the process id of its backend in PostgreSQL. So the sum of a table's slots is what `count(*)` would say, in
any snapshot and after any crash, and no writer waits for another. Slots of backends that have ended are folded into
slot 0, which belongs to no backend.

Folding moves what the slots hold at the moment they are locked, in one statement, so it is exact even for a slot that
is in use: that a backend has ended only means that nobody waits. Slots that somebody holds are skipped. It waits for
nothing but slot 0, which only folding touches, one at a time in each app; so no writer can be in a deadlock with it.
A backend that was given the process id of an ended one at this very moment waits until the statement is done.
"""

from __future__ import annotations

from uuid import UUID

import asyncpg
from asyncpg import Connection

_ENDED = "not exists (select from pg_stat_activity a where a.pid = c.slot)"


async def fold_all(connection: Connection) -> None:
    """Fold the tally of every app, each in a transaction of its own."""
    for row in await connection.fetch("select app_id from pilotis.apps where deleted_at is null order by app_id"):
        await fold(connection, row["app_id"])


async def fold(connection: Connection, app_id: UUID, which: str = _ENDED) -> None:
    """Fold slots of an app's tally into slot 0, and clear away the tally of tables that are gone.

    `which` is the SQL condition on a slot `c` for being folded. Does nothing while somebody else folds, or when the
    app is gone.
    """
    counts = f"app_{app_id.hex}.__row_counts"
    try:
        async with connection.transaction():
            if await connection.fetchval("select pg_try_advisory_xact_lock(hashtextextended($1, 0))", counts):
                await connection.execute(_forget_purged(counts), app_id)
                await connection.execute(_fold(counts, which))
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return


def _forget_purged(counts: str) -> str:
    return f"""
        delete from {counts} c
        where not exists (select from pilotis.tables t where t.app_id = $1 and t.table_id = c.table_id)
    """


def _fold(counts: str, which: str) -> str:
    return f"""
        with ended as materialized (
            select c.table_id, c.slot from {counts} c where c.slot <> 0 and {which} for update of c skip locked
        ), taken as (
            delete from {counts} c using ended where c.table_id = ended.table_id and c.slot = ended.slot
            returning c.table_id, c.rows
        )
        insert into {counts} as tally (table_id, slot, rows)
        select table_id, 0, sum(rows) from taken group by table_id
        on conflict (table_id, slot) do update set rows = tally.rows + excluded.rows
    """

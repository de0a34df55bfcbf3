"""Stored row counts: always exact, and folded so that they stay small.

Every write updates the row count in its own statement (see `pilotis.data.rows.statements`), in a slot of its
connection: the process id of its PostgreSQL backend. So the sum of a table's slots equals `count(*)` in any snapshot
and after any crash, and no writer waits for another. Slots of backends that have ended are folded into slot 0, which
belongs to no backend.

Folding locks slots and moves their content in one statement, so it is exact even for a slot in use; it prefers slots of
ended backends, for which no connection waits. It skips locked slots, and waits only for slot 0, which only folding
touches, one fold at a time in each app; so it cannot deadlock with a writer. A backend that has just received the
process id of an ended one waits until the statement is done.

Each process folds those of the apps whose rows it has written: a server may have a hundred thousand apps of which few
are written to. What a process leaves behind when it ends is folded after the app's next write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.db.pool import Database

FOLD_SECONDS = 300.0
"""How long after a write the row counts of its app are folded."""
_STATEMENT_SECONDS = 30.0
# A separate statement: on Citus, the row counts of an app may be on another node.
_LIVING = "select coalesce(array_agg(pid), '{}') from pg_stat_activity where pid is not null"


class Folding:
    """Folds the row counts of the apps whose rows this process writes, some minutes after."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written: set[UUID] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def written(self, app_id: UUID) -> None:
        """Note that rows of an app were written."""
        self._written.add(app_id)
        self._arm()

    async def fold(self) -> None:
        """Fold the row counts of all apps written to so far; what fails is tried again with the next ones."""
        apps, self._written = self._written, set()
        try:
            connection = await self._database.dedicated(name="row counts", statement_seconds=_STATEMENT_SECONDS)
            try:
                living = await connection.fetchval(_LIVING)
                for app_id in list(apps):
                    # With Citus, the node of one app may be lost, and those of others there. A database that does not
                    # answer at all is not asked again for each of the others.
                    with suppress(asyncpg.PostgresError):
                        await fold(connection, app_id, living)
                        apps.remove(app_id)
            finally:
                connection.terminate()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return
        finally:
            self._written |= apps

    async def stop(self) -> None:
        """Fold no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FOLD_SECONDS, self._start)

    def _start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.fold()
        finally:
            # Only now: of two that fold at once, one leaves it to the other.
            self._timer = None
            if self._written:
                self._arm()


async def fold(connection: Connection, app_id: UUID, spared: Sequence[int] | None = None) -> None:
    """Fold slots of an app's row counts into slot 0.

    `spared` are the slots to skip, by default those of live backends. Does nothing while another fold runs, or if the
    app no longer exists.
    """
    counts = f"app_{app_id.hex}.__row_counts"
    try:
        async with connection.transaction():
            if await connection.fetchval("select pg_try_advisory_xact_lock(hashtextextended($1, 0))", counts):
                living = await connection.fetchval(_LIVING) if spared is None else spared
                await connection.execute(_fold(counts), living)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return


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

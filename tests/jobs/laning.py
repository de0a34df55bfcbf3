"""Work of lanes for tests: numbers for targets in a table, and a holder that does them."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.jobs.lanes import Lane, LaneSource, add_work
from tests.jobs.nodes import Cluster, Member

TABLES = """
    create table work (target_id uuid not null, number int not null, due_at timestamptz not null default now());
    create table worked (
        place bigint generated always as identity, target_id uuid not null, number int not null, fence bigint not null);
    create table holding (target_id uuid primary key);
"""
PAGE = 5


class Workshop:
    """Holds lanes and does their work, a page at a time; `during` runs while a lane is held, before it is read."""

    def __init__(self, database: Database, during: Callable[[Lane], Any] | None = None, seconds: float = 0.01) -> None:
        self.database = database
        self.lanes: LaneSource
        self.during = during
        self.seconds = seconds
        self.held: Counter[UUID] = Counter()
        self.most = 0
        self.holds: list[Lane] = []

    async def hold(self, lane: Lane) -> None:
        self.held[lane.target_id] += 1
        self.most = max(self.most, self.held[lane.target_id])
        self.holds.append(lane)
        try:
            await self._work(lane)
        finally:
            self.held[lane.target_id] -= 1

    async def _work(self, lane: Lane) -> None:
        while True:
            numbers = [
                row["number"]
                for row in await self.database.fetch(
                    "select number from work where target_id = $1 and due_at <= now() order by number limit $2",
                    lane.target_id,
                    PAGE,
                )
            ]
            await asyncio.sleep(self.seconds)
            if self.during:
                await self.during(lane)
            if not numbers:
                due_at: datetime | None = await self.database.fetchval(
                    "select min(due_at) from work where target_id = $1", lane.target_id
                )
                if await self.lanes.return_lane(lane, due_at):
                    return
                continue
            async with self.database.transaction() as connection:
                await self.lanes.lock_held(connection, lane)
                await connection.execute(
                    "delete from work where target_id = $1 and number = any($2::int[])", lane.target_id, numbers
                )
                await connection.executemany(
                    "insert into worked (target_id, number, fence) values ($1, $2, $3)",
                    [(lane.target_id, number, lane.fence) for number in numbers],
                )


async def add(
    connection: Connection, app_id: UUID, target_id: UUID, number: int, due_at: datetime | None = None
) -> None:
    """Add a number to a target's work, as a feature does: both in one transaction."""
    await connection.execute(
        "insert into work (target_id, number, due_at) values ($1, $2, coalesce($3, now()))", target_id, number, due_at
    )
    await add_work(connection, "test", [(app_id, target_id)], due_at)


async def laned(
    cluster: Cluster, during: Callable[[Lane], Any] | None = None, **options: Any
) -> tuple[Member, Workshop]:
    """Start a node in this process that works for lanes, and return it and its workshop."""
    database = Database(cluster.arguments, size=8, statement_seconds=60)
    cluster.databases.append(database)
    workshop = Workshop(database, during, options.pop("seconds", 0.01))
    hold = options.pop("hold", workshop.hold)
    lease_seconds = options.get("lease_seconds", 12.0)
    workshop.lanes = LaneSource("test", database, hold, lease_seconds=lease_seconds, failed_seconds=0.2)
    member = await cluster.member(sources=[workshop.lanes], **options)
    return member, workshop

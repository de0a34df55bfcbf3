"""A node that can be killed: it writes down each job and each lane's work that it does, and each slot."""

import asyncio
import json
import sys
from datetime import datetime
from typing import Any

import structlog
from asyncpg import Connection

from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.jobs.background import Background
from pilotis.jobs.kinds import DueSchedule, Job, JobKind, ScheduleKind
from pilotis.jobs.lanes import LaneSource
from pilotis.jobs.node import identity
from pilotis.jobs.queue import Jobs
from tests.jobs.laning import Workshop

SLOTS = {"light": 64, "deliveries": 8}

# Only the first line of its output is read, and a full pipe would block it.
structlog.configure(
    processors=[structlog.processors.JSONRenderer(default=str)],
    logger_factory=structlog.PrintLoggerFactory(sys.stderr),
)


async def main(arguments: dict[str, Any], lease_seconds: float, slot: int) -> None:
    database = Database(arguments, size=8, statement_seconds=30)
    control = Control(database)

    async def run(job: Job[dict[str, Any]]) -> None:
        await asyncio.sleep(job.payload.get("seconds", 0))
        async with job.transaction() as connection:
            await connection.execute(
                "insert into done (number, fence, attempt) values ($1, $2, $3)",
                job.payload["number"],
                job.fence,
                job.attempt,
            )
            await job.finish(connection)

    async def fire(connection: Connection, due: DueSchedule, slot: datetime) -> None:
        await connection.execute("insert into fired (slot, target) values ($1, $2)", slot, due.target_id)

    workshop = Workshop(database)
    workshop.lanes = LaneSource("test", database, workshop.hold, lease_seconds=lease_seconds, failed_seconds=0.2)
    jobs = Jobs(database)
    jobs.register(JobKind(name="test.number", queue="light", payload=dict[str, Any], run=run, gaps=(0.1,) * 20))
    background = Background(
        database,
        control,
        identity("test", slot=slot),
        jobs,
        lease_seconds=lease_seconds,
        sources=[workshop.lanes],
        schedule_kinds=[ScheduleKind(name="test.tick", fire=fire)],
        slots=SLOTS,
    )
    await control.start()
    await background.start()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main(json.loads(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))

"""Background work in tests: runs a periodic task immediately, or prevents it from running for a while."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from pilotis.jobs.background import Background
from pilotis.jobs.node import identity
from pilotis.jobs.queue import Jobs
from pilotis.kit.ids import uuid7
from tests.services import Node, Services
from tests.waiting import until


def worker(services: Services, name: str) -> Background:
    """A worker with the named periodic task of the services, which runs it on request."""
    task = next(task for task in services.periodic() if task.name == name)
    own = Jobs(services.database)
    return Background(services.database, services.control, identity("test"), own, periodic=[task])


async def run_task(node: Node, name: str) -> None:
    """Run a periodic task in this process, once no other is at it."""
    await until(lambda: node.background.run_now(name))


@asynccontextmanager
async def paused(connection: asyncpg.Connection, name: str) -> AsyncIterator[None]:
    """Keep every node from a periodic task: as far as they can see, a node that lives for ever is doing it."""
    node_id = uuid7()
    await connection.execute(
        """
        insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until)
        values ($1, $1, 0, 'paused', 'test', 'infinity')
        """,
        node_id,
    )

    async def taken() -> bool:
        status = await connection.execute(
            """
            insert into pilotis.jobs (app_id, job_id, queue, kind, key, payload, state, run_at, owner)
            values ('00000000-0000-0000-0000-000000000000', $1, 'paused', $2, $2, '{}', 'running', now(), $1)
            on conflict do nothing
            """,
            node_id,
            name,
        )
        return status == "INSERT 0 1"

    await until(taken)
    try:
        yield
    finally:
        await connection.execute("delete from pilotis.jobs where job_id = $1", node_id)
        await connection.execute("delete from pilotis.nodes where node_id = $1", node_id)

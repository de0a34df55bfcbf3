"""How long the work of a killed node waits for another one: at most the lease and what finding it takes."""

import asyncio
from typing import NamedTuple

import asyncpg

from tests.cluster.cluster import Cluster
from tests.functions.support import Functions
from tests.support import App
from tests.waiting import until
from tests.workflows.support import Workflows

_SLOW = "export default (p) => new Promise((done) => setTimeout(() => done(p), 1500))"
_HOLDER = """
    select n.ports from pilotis.workflow_executions x join pilotis.nodes n on n.node_id = x.owner
    join pilotis.workflow_steps s using (app_id, execution_id)
    where x.execution_id = $1 and s.step_id = 'first' and s.status = 'running'
"""
_RESUMED = """
    select true from pilotis.workflow_executions x join pilotis.nodes n on n.node_id = x.owner
    where x.execution_id = $1 and x.recoveries > 0
"""


class TakeOver(NamedTuple):
    """The seconds from the end of a node to the moment at which another one had its work, and how that ended."""

    seconds: float
    status: str


class Experiment:
    """A workflow whose node is killed in its first step, again and again."""

    def __init__(self, cluster: Cluster, app: App) -> None:
        self._cluster = cluster
        self._flows, self._functions = Workflows(app), Functions(app)

    async def prepare(self) -> None:
        """Make the workflow."""
        await self._functions.made("slow", _SLOW, timeout_seconds=60)
        steps = [{"step_type": "function", "id": name, "function_id": "slow"} for name in ("first", "second")]
        self._flow = await self._flows.made(steps)

    async def run(self) -> TakeOver:
        """Start an execution, kill its node, and measure."""
        execution = await self._flows.start(self._flow, {})
        (ports,) = await until(lambda: self._rows(_HOLDER, execution))
        (node,) = [
            node for node in self._cluster.nodes if node.server and int(node.server.url.rpartition(":")[2]) in ports[0]
        ]
        await node.kill()
        loop = asyncio.get_running_loop()
        killed = loop.time()
        await until(lambda: self._rows(_RESUMED, execution))
        seconds = loop.time() - killed
        await node.start()
        await self._cluster.serving()
        ended = await self._flows.reached(self._flow, execution)
        return TakeOver(seconds, ended["status"])

    async def close(self) -> None:
        """Close the clients."""
        await self._flows.console.aclose()
        await self._functions.console.aclose()

    async def _rows(self, statement: str, execution: str) -> list[list[object]]:
        connection = await asyncpg.connect(**self._cluster.postgres.primary.arguments)
        try:
            return [list(row) for row in await connection.fetch(statement, execution)]
        finally:
            await connection.close()

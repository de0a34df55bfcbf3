"""A server of three processes, each of which can be killed or frozen by its slot; and what its database then holds."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from tests.conftest import first_console_user, new_app
from tests.databases import address
from tests.functions.support import Functions
from tests.support import Server
from tests.waiting import PATIENCE, children, until
from tests.workflows.support import Workflows


class Nodes:
    """The processes of a server, an app on it, and a connection to its database."""

    def __init__(self, server: Server, connection: asyncpg.Connection, workflows: Workflows, functions: Functions):
        self.server = server
        self.connection = connection
        self.workflows = workflows
        self.functions = functions
        self._slots: dict[int, int] = {}

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path, *, lease_seconds: int) -> AsyncIterator["Nodes"]:
        environment = {"PILOTIS_WORKERS": "3", "PILOTIS_NODE_LEASE_SECONDS": str(lease_seconds)}
        server = Server(folder / "data", environment=environment)
        await asyncio.to_thread(server.start)
        try:
            app = new_app(server, first_console_user(server))
            connection = await asyncpg.connect(**address(server.data_dir))
            nodes = cls(server, connection, Workflows(app), Functions(app))
            # They were started one after the other.
            nodes._slots = dict(enumerate(await until(lambda: found if len(found := workers(server)) == 3 else [])))
            yield nodes
            await connection.close()
            await nodes.workflows.console.aclose()
            await nodes.functions.console.aclose()
        finally:
            await asyncio.to_thread(server.stop)

    async def kill(self, slot: int) -> None:
        """Kill a process, and wait for the one that takes its place."""
        known = set(self._slots.values())
        with suppress(ProcessLookupError):
            os.kill(self._slots[slot], signal.SIGKILL)
        (self._slots[slot],) = await until(lambda: set(workers(self.server)) - known)

    def signal(self, slot: int, number: signal.Signals) -> None:
        """Freeze a process by SIGSTOP, or let it go on by SIGCONT."""
        os.kill(self._slots[slot], number)

    async def start(self, workflow_id: str, given: dict[str, Any], key: str) -> str:
        """Start an execution, whatever happens to the process that is asked."""

        async def asked() -> str | None:
            with suppress(httpx.HTTPError):
                answer = await self.workflows.execute(workflow_id, given, **{"Idempotency-Key": key})
                if answer.status_code == 202:
                    return str(answer.json()["execution_id"])
            return None

        return await until(asked, 4 * PATIENCE)

    async def slot_at(self, execution_id: str, step_id: str) -> int:
        """Wait until a step of an execution runs, and return the slot of the process that holds it."""

        async def found() -> list[int] | None:
            slot = await self.connection.fetchval(
                """
                select n.slot from pilotis.workflow_executions x
                join pilotis.workflow_steps s using (app_id, execution_id) join pilotis.nodes n on n.node_id = x.owner
                where x.execution_id = $1 and s.step_id = $2 and x.status = 'running' and s.status = 'running'
                """,
                execution_id,
                step_id,
            )
            return None if slot is None else [slot]

        (slot,) = await until(found)
        return slot

    async def holder(self) -> int | None:
        """The slot of the process that holds the youngest of the running executions, where one runs."""
        return await self.connection.fetchval(
            """
            select n.slot from pilotis.workflow_executions x join pilotis.nodes n on n.node_id = x.owner
            where x.status = 'running' order by x.created_at desc limit 1
            """
        )

    async def ended(self, execution_id: str) -> None:
        """Wait until an execution has ended; the database is asked, as any process may be killed or frozen."""
        statement = "select finished_at is not null from pilotis.workflow_executions where execution_id = $1"
        await until(lambda: self.connection.fetchval(statement, execution_id))

    async def check_completed(self, number: int) -> None:
        """Wait until no execution is open, and check that so many have completed and no other has ended."""
        open_ = "select count(*) from pilotis.workflow_executions where status in ('pending', 'running')"

        async def ended() -> bool:
            return await self.connection.fetchval(open_) == 0

        await until(ended, 8 * PATIENCE)
        rows = await self.connection.fetch("select status, recoveries, error::text from pilotis.workflow_executions")
        assert not (failed := [row for row in rows if row["status"] != "completed"]), failed
        assert len(rows) == number

    async def check_events(self, steps: set[str]) -> None:
        """Check that the events of each execution are numbered without gaps, and that each step has completed once."""
        rows = await self.connection.fetch(
            """
            select execution_id, seq, type, data->'step'->>'step_id' as step from pilotis.workflow_events order by 1, 2
            """
        )
        for execution_id in {row["execution_id"] for row in rows}:
            own = [row for row in rows if row["execution_id"] == execution_id]
            assert [row["seq"] for row in own] == list(range(1, len(own) + 1))
            done = Counter(row["step"] for row in own if row["type"] == "step.completed")
            assert done == dict.fromkeys(steps, 1), (execution_id, done)
            assert sum(row["type"] == "execution.completed" for row in own) == 1


def workers(server: Server) -> list[int]:
    """The processes that answer requests: forks of the server's, so with the same command line."""
    assert server.process is not None
    own = _command(server.process.pid)
    return [pid for pid in children(server.process.pid) if _command(pid) == own]


def _command(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""

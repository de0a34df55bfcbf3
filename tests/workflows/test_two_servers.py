"""Workflows on two servers with one database: one starts them, the other tells of them, and either may die."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from pilotis.db.embedded import EmbeddedPostgres
from tests.conftest import first_console_user, new_app
from tests.functions.support import Functions
from tests.support import App, Server
from tests.waiting import until
from tests.workflows.support import Workflows
from tests.workflows.test_streams import events

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
pytestmark = [
    pytest.mark.embedded("it kills its own PostgreSQL"),
    pytest.mark.usefixtures("sandboxes"),
    pytest.mark.skipif(not DEBIAN_15.is_dir(), reason="the system has no PostgreSQL 15"),
]
# Waits until a row is there, and counts its calls in the same table.
WAITS = """
export default async (payload, ctx) => {
  await ctx.api.rows("gate").create({ name: `call ${ctx.idempotencyKey}` });
  while (!(await ctx.api.rows("gate").query({ where: { name: payload.gate } })).data.length) {
    await new Promise((done) => setTimeout(done, 50));
  }
  return payload;
}
"""
STEPS = [
    {"step_type": "merge", "id": "before", "input_mapping": {"gate": "$.input.gate"}},
    {"step_type": "function", "id": "waits", "function_id": "waits", "retry_count": 5, "retry_delay": 2000},
    {"step_type": "merge", "id": "after", "input_mapping": {"done": "$.previous.gate"}},
]


class Pair:
    """Two servers, and the PostgreSQL that both use."""

    def __init__(self, postgres: EmbeddedPostgres, directory: Path, servers: list[Server], address: Any) -> None:
        self.postgres, self.directory, self.servers = postgres, directory, servers
        self.address = address

    def workflows(self, app: App, server: Server) -> Workflows:
        """The workflows of an app as a server shows them."""
        return Workflows(App(server, app.app_id, app.public_key, app.secret_key, app.console))

    async def value(self, statement: str, *arguments: Any) -> Any:
        """The first value that a statement returns; None while PostgreSQL is away."""
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection = await asyncpg.connect(**self.address)
            try:
                return await connection.fetchval(statement, *arguments)
            finally:
                await connection.close()
        return None

    async def holder(self, execution_id: str) -> Server:
        """Wait until the function of an execution runs, and return the server that holds it."""

        async def found() -> list[int] | None:
            return await self.value(
                """
                select n.ports from pilotis.workflow_executions x
                join pilotis.workflow_steps s using (app_id, execution_id)
                join pilotis.nodes n on n.node_id = x.owner
                where execution_id = $1 and s.step_id = 'waits' and s.status = 'running'
                """,
                execution_id,
            )

        ports = await until(found)
        return next(one for one in self.servers if httpx.URL(one.url).port in ports)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    directory = tmp_path / "postgres"
    postgres = EmbeddedPostgres(directory, binaries=DEBIAN_15)
    address = postgres.start()
    connection = await asyncpg.connect(**address._asdict())
    await connection.execute("create database pair")
    await connection.close()
    url = f"postgresql://{address.user}@/pair?host={address.host}&port={address.port}"
    environment = {"PILOTIS_MASTER_KEY": "ab" * 32, "PILOTIS_NODE_LEASE_SECONDS": "2"}
    servers = [Server(tmp_path / f"server{at}", "--database-url", url, environment=environment) for at in range(2)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(Server.start, servers))
    made = Pair(postgres, directory, servers, address._asdict() | {"database": "pair"})
    yield made
    for one in servers:
        if one.process is not None and one.process.poll() is None:
            await asyncio.to_thread(one.stop)
    made.postgres.stop()


def invited(servers: list[Server]) -> tuple[Server, dict[str, str]]:
    """Make the first console user on the server whose link is valid: both have printed one, and one counts."""
    for one in servers:
        with suppress(AssertionError):
            return one, first_console_user(one)
    raise AssertionError([one.output for one in servers])


async def test_an_execution_outlives_its_server_and_its_database(pair: Pair):
    first, console = invited(pair.servers)
    app = new_app(first, console)
    gate = await app.table({"name": "string"}, title="gate")
    functions = Functions(app)
    await functions.made("waits", WAITS, timeout_seconds=120)
    by_server = {one: pair.workflows(app, one) for one in pair.servers}
    workflow_id = await by_server[first].made(STEPS)

    execution_id = await by_server[first].start(workflow_id, {"gate": "one"})
    dead = await pair.holder(execution_id)
    (other,) = [one for one in pair.servers if one is not dead]
    told: list[tuple[str, str | None, Any]] = []

    async def follow() -> None:
        async for event in events(by_server[other], f"{workflow_id}/executions/{execution_id}/stream", last_event_id=0):
            told.append(event)

    following = asyncio.create_task(follow())
    await until(lambda: any(name == "step.started" for name, _, _ in told))
    dead.kill()
    live = App(other, app.app_id, app.public_key, app.secret_key, app.console)
    await until(lambda: any(name == "execution.recovered" for name, _, _ in told))
    await live.row(gate, {"name": "one"})
    await following
    assert told[-1][0] == "end"
    ids = [int(event_id) for _, event_id, _ in told if event_id is not None]
    assert ids == list(range(1, len(ids) + 1))
    completed = [data["step"]["step_id"] for name, _, data in told if name == "step.completed"]
    assert completed == ["before", "waits", "after"]
    execution = await by_server[other].read(workflow_id, execution_id)
    assert (execution["status"], execution["output"]) == ("completed", {"done": "one"})

    execution_id = await by_server[other].start(workflow_id, {"gate": "two"})
    await pair.holder(execution_id)
    # PostgreSQL is killed, not stopped: what was answered is there when it is back.
    os.kill(int((pair.directory / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    await asyncio.to_thread(pair.postgres.stop)
    pair.postgres = EmbeddedPostgres(pair.directory, binaries=DEBIAN_15)
    pair.address = (await asyncio.to_thread(pair.postgres.start))._asdict() | {"database": "pair"}

    async def opened() -> bool:
        with suppress(httpx.HTTPError, AssertionError, KeyError):
            await live.row(gate, {"name": "two"})
            return True
        return False

    await until(opened)

    async def ended() -> bool:
        return await pair.value(
            "select finished_at is not null from pilotis.workflow_executions where execution_id = $1", execution_id
        )

    await until(ended)
    execution = await by_server[other].read(workflow_id, execution_id)
    assert (execution["status"], execution["output"]) == ("completed", {"done": "two"}), execution
    assert [one["step_id"] for one in execution["steps"] if one["status"] == "completed"] == [
        "before",
        "waits",
        "after",
    ]
    for one in by_server.values():
        await one.console.aclose()
    await functions.console.aclose()

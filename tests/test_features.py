"""Features as the server puts them together: what they declare, and how they stop."""

import asyncio
import re
import time
from pathlib import Path

import asyncpg
import httpx
import pytest

from pilotis.db.waiters import BACKGROUND
from pilotis.feature import Feature
from pilotis.kit.errors import UnavailableError
from pilotis.kit.ids import uuid7
from pilotis.server import FEATURES, run_steps
from tests import databases
from tests.conftest import first_console_user, new_app
from tests.database import connection_to, second_node
from tests.rows.test_slow_queries import CATASTROPHE, TEXT
from tests.support import Server, assert_error, plain_client
from tests.waiting import until


def handlers(endpoints) -> list[str]:
    return sorted(f"{one.method} {one.path} {one.handler.__qualname__}" for one in endpoints)


async def test_what_is_described_is_what_is_served(server: Server):
    async with second_node(server) as node:
        for feature in node.features:
            described = [endpoint for one in feature.described for endpoint in one.describe()]
            assert handlers(described) == handlers(endpoint for one in feature.endpoints for endpoint in one.table())


def test_features_have_names_of_their_own():
    assert len({feature.__module__ for feature in FEATURES}) == len(FEATURES)
    assert all(feature.__module__.endswith(".feature") for feature in FEATURES)


async def test_a_takeover_releases_every_table_that_has_an_owner(server: Server):
    owned = "select table_name from information_schema.columns where table_schema = 'pilotis' and column_name = 'owner'"
    statements: list[str] = []
    async with second_node(server) as node, node.database.transaction(BACKGROUND) as connection:
        tables = {row["table_name"] for row in await connection.fetch(owned)}
        connection.add_query_logger(lambda record: statements.append(record.query))
        for holder in (*node.background.node.sources, *node.background.node.holdings):
            await holder.release(connection, uuid7(), lost=True)
    written = set(re.findall(r"(?:update|delete from) pilotis\.(\w+)", " ".join(statements)))
    assert tables - written == set()
    assert {"jobs", "uploads"} <= tables


class Steps:
    """Steps that note that they ran."""

    def __init__(self):
        self.ran: list[str] = []

    async def good(self):
        self.ran.append("good")

    async def bad(self):
        self.ran.append("bad")
        raise RuntimeError("bad")

    async def cancelled(self):
        self.ran.append("cancelled")
        raise asyncio.CancelledError

    async def hanging(self):
        self.ran.append("hanging")
        await asyncio.Event().wait()


async def test_a_step_that_fails_or_hangs_does_not_keep_the_next_from_running():
    steps = Steps()
    order = ["bad", "cancelled", "hanging", "bad", "hanging", "good"]
    await run_steps([(name, getattr(steps, name)) for name in order], 0.2)
    assert steps.ran == order


async def test_every_feature_is_closed_in_reverse_whatever_another_raises(server: Server):
    closed = []

    def closing(name: str, error: Exception | None):
        async def close() -> None:
            closed.append(name)
            if error:
                raise error

        return Feature(name=name, close=close)

    async with second_node(server) as node:
        node.features = [closing("first", None), closing("second", OSError("gone")), closing("third", ValueError())]
    assert closed == ["third", "second", "first"]
    with pytest.raises(UnavailableError):
        await node.database.fetchval("select 1")


async def test_a_node_that_begins_to_stop_is_not_ready_and_still_answers(server: Server):
    async with second_node(server) as node:
        transport = httpx.ASGITransport(node.application)
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            assert (await client.get("/healthz")).status_code == 200
            node.begin_stop()
            refused = await client.get("/readyz")
            assert refused.status_code == 503
            assert [(one["field"], one["code"]) for one in refused.json()["details"]] == [("process", "STOPPING")]
            assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_stop_does_not_wait_for_work_that_hangs(tmp_path: Path, workers: str):
    """Requests hang for a minute, on a locked table; the server is to end 5 seconds after `stop_seconds`."""
    server = Server(tmp_path / "data", "--workers", workers, environment={"PILOTIS_STOP_SECONDS": "1"}).start()
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    try:
        await connection.execute("begin; lock table pilotis.users, pilotis.tables")
        body = {"email": "a@example.com", "password": "correct horse battery"}
        key = re.search(r"public key +(\S+)", server.output)[1]
        async with plain_client(server.url, **{"X-Public-Key": key}) as client:
            asking = [
                asyncio.create_task(client.post("/v1/auth/signin", json=body)),
                asyncio.create_task(client.get("/v1/public/tables")),
            ]
            waiting = (
                "select count(distinct relation) from pg_locks where not granted and relation = any($1::regclass[])"
            )
            locked = ["pilotis.users", "pilotis.tables"]
            await until(lambda: is_number(connection, 2, waiting, locked))
            began = time.monotonic()
            status = await asyncio.to_thread(server.stop)
            took = time.monotonic() - began
            write, read = await asyncio.gather(*asking)
    finally:
        connection.terminate()
        server.kill()
    assert status == 0
    assert took < 30, "the lock would have held it for 60 seconds"
    assert_error(write, 503, "OUTCOME_UNKNOWN")
    assert_error(read, 503, "UNAVAILABLE")
    assert "Exception in ASGI application" not in server.logs()


async def is_number(connection: asyncpg.Connection, number: int, query: str, *arguments: object) -> bool:
    return await connection.fetchval(query, *arguments) == number


async def test_a_stop_does_not_wait_for_a_statement_that_computes(tmp_path: Path):
    """A pattern keeps PostgreSQL busy for a minute: it is cancelled, so that PostgreSQL can end too."""
    server = Server(tmp_path / "data", environment={"PILOTIS_STOP_SECONDS": "1"}).start()
    app = new_app(server, first_console_user(server))
    table = await app.table({"a": "string"})
    await app.row(table, {"a": TEXT})
    async with connection_to(server) as connection, app.client() as client:
        asking = asyncio.create_task(client.post(f"/v1/public/tables/{table}/data/query", json=CATASTROPHE))
        computing = """
            select count(*) from pg_stat_activity
            where state = 'active' and query like '%~%' and pid <> pg_backend_pid() and datname = current_database()
        """
        await until(lambda: is_number(connection, 1, computing))
        await connection.close()
        began = time.monotonic()
        assert await asyncio.to_thread(server.stop) == 0
        assert time.monotonic() - began < 30, "the statement would have held it for 60 seconds"
        assert_error(await asking, 503, "OUTCOME_UNKNOWN")

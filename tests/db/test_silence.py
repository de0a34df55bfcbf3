"""A database that stops responding: callers get a correct error in time, and the pool recovers automatically."""

import asyncio
import contextlib
import os
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest
from structlog.testing import capture_logs

from pilotis.db.pool import Database
from pilotis.kit.errors import OutcomeUnknownError, QueryTimeoutError, UnavailableError
from pilotis.settings import Settings
from tests.conftest import first_console_user, new_app
from tests.database_proxy import DatabaseProxy, proxied
from tests.services import Node, address, connected
from tests.support import App, Server, plain_client
from tests.waiting import PATIENCE, children, until

# What a client waits at most for a 503.
SECONDS = 15


@pytest.fixture
async def table(server: Server) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """A table, and a connection past the proxy that sees what was committed."""
    name = f"public.silent_{uuid.uuid4().hex}"
    async with connected(server) as direct:
        await direct.execute(f"create table {name} (number integer primary key)")
        yield name, direct
        await direct.execute(f"drop table {name}")


async def insert(database: Database, table: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(f"insert into {table} values (1)")


@pytest.mark.parametrize(("direction", "committed"), [("request", 0), ("answer", 1)])
async def test_a_connection_lost_during_commit_leaves_the_outcome_unknown(server: Server, table, direction, committed):
    name, direct = table
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=1, statement_seconds=1)
        await database.execute("select 1")
        # After `begin` and the insert.
        proxy.hold(direction, 2)
        with pytest.raises(OutcomeUnknownError, match="outcome is unknown") as told:
            await insert(database, name)
        assert "Retry-After" in told.value.headers
        assert await direct.fetchval(f"select count(*) from {name}") == committed
        assert await database.fetchval("select 1") == 1
        await database.close()
        proxy.release()


@pytest.mark.parametrize("number", [0, 1])
async def test_a_connection_lost_before_the_commit_changed_nothing(server: Server, table, number: int):
    name, direct = table
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=1, statement_seconds=1)
        await database.execute("select 1")
        proxy.hold("answer", number)
        with pytest.raises(UnavailableError) as told:
            await insert(database, name)
        assert type(told.value) is UnavailableError
        assert await direct.fetchval(f"select count(*) from {name}") == 0
        assert await database.fetchval("select 1") == 1
        await database.close()
        proxy.release()


async def test_idle_connections_are_examined_after_the_first_silence(server: Server):
    """Each of them would cost a caller its whole patience otherwise."""
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=4, statement_seconds=1)
        async with database.connection(), database.connection(), database.connection(), database.connection():
            pass
        proxy.silent = True
        with pytest.raises(UnavailableError) as told:
            await database.fetchval("select 1")
        assert type(told.value) is UnavailableError, "A read has no outcome that could be unknown."
        await until(lambda: database.state() == (0, 0, 0))
        proxy.silent = False
        assert await database.fetchval("select 1") == 1
        await database.close()


async def test_the_kernel_gives_a_silent_connection_up(server: Server):
    async with proxied(server) as (_, arguments):
        database = Database(arguments)
        async with database.connection() as connection:
            sock = connection._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        await database.close()


async def test_a_long_transaction_has_its_own_deadline_and_the_next_the_usual(server: Server):
    database = Database(address(server), size=1, statement_seconds=0.5)
    async with database.transaction(statement_seconds=PATIENCE) as connection:
        await connection.execute("select pg_sleep(3)")
    started = time.monotonic()
    with pytest.raises(QueryTimeoutError):
        await database.execute("select pg_sleep(60)")
    assert time.monotonic() - started < 30
    async with database.connection() as connection:
        assert connection._config.command_timeout == 2.5
    await database.close()


@contextlib.asynccontextmanager
async def node_behind(proxy_arguments: dict, server: Server) -> AsyncIterator[Node]:
    node = Node(Settings(data_dir=str(server.data_dir), statement_seconds=1), proxy_arguments, server.url)
    try:
        yield node
    finally:
        await node.stop()


async def assert_all_told_in_time(client: httpx.AsyncClient, table_id: str, row_id: str) -> None:
    """Send requests of every kind, more than the pool has connections: each is answered 503 in time."""
    data = f"/v1/public/tables/{table_id}/data"
    operations = [{"type": "create", "table_id": table_id, "data": {"name": "x"}}]

    async def timed(method: str, path: str, delay: float, **given: object) -> tuple[httpx.Response, float]:
        await asyncio.sleep(delay)
        started = time.monotonic()
        answer = await client.request(method, path, **given)
        return answer, time.monotonic() - started

    requests = []
    for number in range(15):
        delay = 0.1 * number
        requests += [
            timed("GET", f"{data}/{row_id}", delay),
            timed("GET", f"{data}?limit={number + 1}", delay),
            timed("POST", data, delay, json={"data": {"name": "x"}}),
            timed("POST", "/v1/public/transactions", delay, json={"operations": operations}),
        ]
    answers = await asyncio.gather(*requests)
    assert {answer.status_code for answer, _ in answers} == {503}
    assert {answer.json()["code"] for answer, _ in answers} <= {"UNAVAILABLE", "OUTCOME_UNKNOWN"}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer, _ in answers)
    assert max(seconds for _, seconds in answers) < SECONDS


@pytest.mark.alone
async def test_requests_to_a_silent_database_are_answered_503_in_time(app: App, server: Server):
    table_id = await app.table({"name": "string"})
    async with proxied(server) as (proxy, arguments), node_behind(arguments, server) as node:
        transport = httpx.ASGITransport(app=node.application)
        headers = {"X-Public-Key": app.public_key}
        client = httpx.AsyncClient(transport=transport, base_url="http://n", headers=headers)
        # Tracebacks made for people would take longer than the requests.
        with capture_logs():
            await silence_and_recover(client, proxy, table_id)


async def silence_and_recover(client: httpx.AsyncClient, proxy: DatabaseProxy, table_id: str) -> None:
    data = f"/v1/public/tables/{table_id}/data"
    # As many connections as the app may have.
    rows = await asyncio.gather(*(client.post(data, json={"data": {"name": "x"}}) for _ in range(20)))
    row_id = rows[0].json()["id"]
    proxy.silent = True
    await assert_all_told_in_time(client, table_id, row_id)
    # Also those that come later.
    await assert_all_told_in_time(client, table_id, row_id)
    proxy.silent = False

    async def works() -> bool:
        answer = await client.post(data, json={"data": {"name": "x"}})
        return answer.status_code == 201

    await until(works)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A separate server whose statements are given up soon."""
    running = Server(tmp_path / "data", environment={"PILOTIS_STATEMENT_SECONDS": "1"}).start()
    yield running
    running.stop()


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """PostgreSQL with every process of it stopped, as on a host that hangs."""
    postmaster = int((server.data_dir / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(postmaster, signal.SIGSTOP)
    pids = [postmaster, *children(postmaster)]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.alone
@pytest.mark.embedded("it stops every process of PostgreSQL")
async def test_requests_to_stopped_backends_are_answered_503_in_time(own: Server):
    app = new_app(own, first_console_user(own))
    table_id = await app.table({"name": "string"})
    data = f"/v1/public/tables/{table_id}/data"
    async with plain_client(own.url, **{"X-Public-Key": app.public_key}) as client:
        rows = await asyncio.gather(*(client.post(data, json={"data": {"name": "x"}}) for _ in range(20)))
        with stopped(own):
            await assert_all_told_in_time(client, table_id, rows[0].json()["id"])

        async def works() -> bool:
            return (await client.post(data, json={"data": {"name": "x"}})).status_code == 201

        await until(works)

"""A write is never lost because a request before it was cancelled, wherever that request was at the time."""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from pilotis.db.pool import Database
from pilotis.settings import Settings
from tests.database_proxy import Direction, proxied
from tests.services import Node, connected
from tests.support import App, Server
from tests.waiting import PATIENCE

# `begin`, prepare and run an insert, prepare and run an update, `commit`; each can be held on its way there and back.
POINTS = list(itertools.product(("request", "answer"), range(6)))
# Of a request: its `begin`, preparing and running two inserts, `commit`.
REQUEST_POINTS = list(itertools.product(("request", "answer"), range(4)))


@pytest.fixture
async def direct(server: Server) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the database that nothing disturbs."""
    async with connected(server) as connection:
        yield connection


@pytest.fixture
async def table(direct: asyncpg.Connection) -> AsyncIterator[str]:
    """A table with a number and a text."""
    name = f"public.cancelled_{uuid.uuid4().hex}"
    await direct.execute(f"create table {name} (number integer primary key, text text)")
    yield name
    await direct.execute(f"drop table {name}")


async def write_in_transaction(database: Database, table: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(f"insert into {table} values ($1, 'begun')", 1)
        await connection.execute(f"update {table} set text = $1", "changed")


async def write_alone(database: Database, table: str) -> None:
    async with database.connection() as connection:
        await connection.execute(f"insert into {table} values ($1, 'begun')", 1)


@pytest.mark.parametrize(("direction", "number"), POINTS)
async def test_the_next_write_after_a_cancelled_transaction_stays(
    server: Server, direct: asyncpg.Connection, table: str, direction: Direction, number: int
):
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=1, statement_seconds=PATIENCE)
        pid = await database.fetchval("select pg_backend_pid()")
        proxy.hold(direction, number)
        cancelled = asyncio.create_task(write_in_transaction(database, table))
        async with asyncio.timeout(PATIENCE):
            await proxy.held.wait()
        next_write = asyncio.create_task(database.execute(f"insert into {table} values (2, 'kept')"))
        await asyncio.sleep(0)
        cancelled.cancel()
        # As far as anything comes without the message that is held.
        for _ in range(20):
            await asyncio.sleep(0)
        proxy.release()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await next_write == "INSERT 0 1"
        assert await direct.fetchval(f"select text from {table} where number = 2") == "kept"
        async with database.connection() as connection:
            assert not connection.is_in_transaction()
        await write_in_transaction_again(database, direct, table)
        # Cleaned, not replaced.
        assert await database.fetchval("select pg_backend_pid()") == pid
        await database.close()


async def write_in_transaction_again(database: Database, direct: asyncpg.Connection, table: str) -> None:
    """A transaction after a cancelled one commits: it is not nested in another."""
    async with database.transaction() as connection:
        await connection.execute(f"insert into {table} values (3, 'kept')")
    assert await direct.fetchval(f"select text from {table} where number = 3") == "kept"


@pytest.mark.parametrize(("direction", "number"), POINTS[:2] + POINTS[6:8])
async def test_the_next_write_after_a_cancelled_statement_stays(
    server: Server, direct: asyncpg.Connection, table: str, direction: Direction, number: int
):
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=1, statement_seconds=PATIENCE)
        await database.execute("select 1")
        proxy.hold(direction, number)
        cancelled = asyncio.create_task(write_alone(database, table))
        await proxy.held.wait()
        cancelled.cancel()
        next_write = asyncio.create_task(database.execute(f"insert into {table} values (2, 'kept')"))
        for _ in range(20):
            await asyncio.sleep(0)
        proxy.release()
        assert await next_write == "INSERT 0 1"
        assert await direct.fetchval(f"select text from {table} where number = 2") == "kept"
        await database.close()


async def test_a_time_out_of_the_callers_own_is_settled_too(server: Server, direct: asyncpg.Connection, table: str):
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=1, statement_seconds=PATIENCE)
        await database.execute("select 1")
        proxy.hold("request", 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await write_in_transaction(database, table)
        proxy.release()
        assert await database.execute(f"insert into {table} values (2, 'kept')") == "INSERT 0 1"
        assert await direct.fetchval(f"select text from {table} where number = 2") == "kept"
        await database.close()


async def test_a_connection_whose_statement_never_ends_is_replaced(server: Server):
    async with proxied(server) as (proxy, arguments):
        database = Database(arguments, size=1, statement_seconds=PATIENCE)
        await database.execute("select 1")
        proxy.hold("request", 0)
        cancelled = asyncio.create_task(database.execute("select 2"))
        await proxy.held.wait()
        cancelled.cancel()
        # It is not resumed: settling fails, and another connection is opened.
        assert await database.fetchval("select 3") == 3
        assert database.state() == (1, 1, 0)
        proxy.release()
        await database.close()


@pytest.mark.parametrize(("direction", "number"), REQUEST_POINTS)
async def test_a_row_created_after_a_cancelled_request_stays(
    app: App, server: Server, direction: Direction, number: int
):
    table_id = await app.table({"name": "string"})
    data, batch = f"/v1/public/tables/{table_id}/data", "/v1/public/transactions"
    operations = [{"type": "create", "table_id": table_id, "data": {"name": "cancelled"}} for _ in range(2)]
    async with proxied(server) as (proxy, arguments):
        settings = Settings(data_dir=str(server.data_dir), pool_size=2, statement_seconds=PATIENCE)
        node = Node(settings, arguments, server.url)
        transport = httpx.ASGITransport(app=node.application)
        headers = {"X-Public-Key": app.public_key}
        client = httpx.AsyncClient(transport=transport, base_url="http://node", headers=headers, timeout=PATIENCE)
        async with client, app.client() as reader:
            warm = await client.post(data, json={"data": {"name": "warm"}})
            assert warm.status_code == 201, warm.text
            proxy.hold(direction, number)
            cancelled = asyncio.create_task(client.post(batch, json={"operations": operations}))
            async with asyncio.timeout(PATIENCE):
                await proxy.held.wait()
            cancelled.cancel()
            created = asyncio.create_task(client.post(data, json={"data": {"name": "kept"}}))
            for _ in range(20):
                await asyncio.sleep(0)
            proxy.release()
            answer = await created
            assert answer.status_code == 201, answer.text
            found = await reader.get(f"{data}/{answer.json()['id']}")
            assert found.status_code == 200, found.text
        await node.stop()

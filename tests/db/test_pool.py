"""The pool: connections in order of arrival, none lost, and no wait longer than its limit."""

import asyncio
import socket
from collections.abc import AsyncIterator

import asyncpg
import pytest

from pilotis.db import connections
from pilotis.db.pool import Database
from pilotis.kit.errors import OutcomeUnknownError, UnavailableError
from tests.services import address, connected
from tests.support import Server
from tests.waiting import PATIENCE, until


@pytest.fixture
async def single(server: Server) -> AsyncIterator[Database]:
    """A pool of one connection."""
    database = Database(address(server), size=1)
    yield database
    await database.close()


async def test_who_comes_later_does_not_overtake(single: Database):
    """A request with several statements gives its connection back and wants it again before anybody else runs."""
    waiting: asyncio.Task[int] | None = None
    times = 0
    while times < 50 and not (waiting and waiting.done()):
        async with single.connection():
            if waiting is None:
                waiting = asyncio.create_task(single.fetchval("select 1"))
                await asyncio.sleep(0)
        times += 1
    assert times == 2


async def test_each_gets_its_turn_in_order(single: Database):
    order = []

    async def use(number: int) -> None:
        async with single.connection() as connection:
            order.append(number)
            await connection.fetchval("select 1")

    await asyncio.gather(*(use(number) for number in range(30)))
    assert order == list(range(30))
    assert single.state() == (1, 1, 0)


async def test_a_connection_that_is_lost_as_it_is_handed_over_takes_no_place_with_it(
    single: Database, monkeypatch: pytest.MonkeyPatch
):
    acquire = connections.Connections.acquire

    async def lost(*arguments: object) -> asyncpg.Connection:
        connection = await acquire(*arguments)
        connection.terminate()
        await asyncio.sleep(0)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(connections.Connections, "acquire", lost)
        with pytest.raises(UnavailableError) as told:
            async with single.transaction():
                pass
    assert not isinstance(told.value, OutcomeUnknownError)
    async with asyncio.timeout(PATIENCE), single.transaction() as connection:
        assert await connection.fetchval("select 1") == 1


async def test_connections_that_are_not_used_are_closed_but_one(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "_UNUSED_SECONDS", 0.05)
    database = Database(address(server), size=5)
    try:
        await asyncio.gather(*(database.fetchval("select pg_sleep(0.05)") for _ in range(4)))
        assert database.state().open == 4
        async with asyncio.timeout(PATIENCE):
            while database.state().open > 1:
                await database.fetchval("select 1")  # by the connection that remains
                await asyncio.sleep(0.01)
        assert await database.fetchval("select count(*) from pg_stat_activity where pid = pg_backend_pid()") == 1
        assert database.state() == (1, 1, 0)
    finally:
        await database.close()


async def test_a_connection_is_replaced_at_the_end_of_its_life(server: Server, monkeypatch: pytest.MonkeyPatch):
    """One that is in use is kept until then, and a caller that waits for it gets the next one."""
    monkeypatch.setattr(connections, "_LIFE_SECONDS", (0.2, 0.3))
    database = Database(address(server), size=1)
    seen = set()
    try:
        async with database.transaction() as connection:
            first = await connection.fetchval("select pg_backend_pid()")
            waiting = asyncio.create_task(database.fetchval("select pg_backend_pid()"))
            await connection.fetchval("select pg_sleep(0.5)")
            assert await connection.fetchval("select pg_backend_pid()") == first
        assert await waiting != first
        async with asyncio.timeout(PATIENCE):
            while len(seen) < 3:
                seen.add(await database.fetchval("select pg_backend_pid()"))
                await asyncio.sleep(0.01)
        await until(lambda: database.state() == (0, 0, 0))
    finally:
        await database.close()


async def test_a_cancelled_waiter_loses_no_connection(single: Database):
    async def use() -> None:
        async with single.connection() as connection:
            await connection.fetchval("select 1")

    for rounds in range(20):
        async with single.connection():
            waiting = [asyncio.create_task(use()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[rounds % 3].cancel()
        waiting[(rounds + 1) % 3].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert await single.fetchval("select 1") == 1
    assert single.state() == (1, 1, 0)


async def test_a_connection_that_is_lost_is_replaced_for_who_waits(single: Database):
    async def use() -> int:
        return await single.fetchval("select 1")

    for _ in range(5):
        async with single.connection() as connection:
            waiting = [asyncio.create_task(use()) for _ in range(3)]
            await asyncio.sleep(0)
            connection.terminate()
        assert await asyncio.gather(*waiting) == [1, 1, 1]
    assert single.state() == (1, 1, 0)


async def test_who_waits_for_a_database_that_went_away_is_told(server: Server, monkeypatch: pytest.MonkeyPatch):
    database = Database(address(server), size=1)
    async with database.connection() as connection:
        waiting = [asyncio.create_task(database.fetchval("select 1")) for _ in range(3)]
        await asyncio.sleep(0)
        monkeypatch.setitem(database._connections.arguments, "port", 1)
        connection.terminate()
    for task in waiting:
        with pytest.raises(UnavailableError):
            await task
    assert database.state() == (0, 0, 0)


async def test_a_server_that_never_answers_is_given_up():
    # The kernel accepts its connections; no program does.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database({"host": "127.0.0.1", "port": port, "user": "x", "database": "x", "ssl": False})
        async with asyncio.timeout(10):
            with pytest.raises(UnavailableError):
                async with database.connection(wait=0.2):
                    pass
    assert database.state() == (0, 0, 0)


async def test_whoever_loses_a_connection_is_told_that_the_database_is_away(server: Server):
    """Also where the server's farewell arrives just as a statement is sent, which asyncpg cannot place."""
    database = Database(address(server), size=8)
    rounds = 200
    told: list[Exception] = []

    async def work() -> None:
        while rounds:
            try:
                await database.fetchval("select count(*) from generate_series(1, $1::int)", 100)
            except Exception as error:
                told.append(error)

    async with connected(server) as operator:
        await operator.execute("set application_name = 'operator'")
        workers = [asyncio.create_task(work()) for _ in range(16)]
        while rounds:
            await operator.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'pilotis' and query like '%generate_series(1, $1::int)%'"
            )
            rounds -= 1
        await asyncio.gather(*workers)
    await database.close()
    assert told
    assert {type(error) for error in told} == {UnavailableError}


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("select pg_terminate_backend(pg_backend_pid())", UnavailableError),
        ("\n  SELECT pg_terminate_backend(pg_backend_pid())", UnavailableError),
        ("with gone as (select pg_terminate_backend(pg_backend_pid())) select * from gone", OutcomeUnknownError),
    ],
)
async def test_only_a_statement_that_may_write_has_an_unknown_outcome(
    single: Database, statement: str, error: type[Exception]
):
    for run in (single.fetch, single.fetchrow, single.fetchval):
        with pytest.raises(UnavailableError) as told:
            await run(statement)
        assert type(told.value) is error
    assert await single.fetchval("select 1") == 1


async def test_a_database_short_of_memory_is_503(single: Database):
    """PostgreSQL's 53200."""
    short = "do $$ begin raise exception using errcode = 'out_of_memory'; end $$"
    for attempt in (single.execute(short), _in_transaction(single, short)):
        with pytest.raises(UnavailableError, match="memory") as told:
            await attempt
        assert type(told.value) is UnavailableError
        assert told.value.headers["Retry-After"]
    assert await single.fetchval("select 1") == 1


async def _in_transaction(database: Database, statement: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(statement)


async def test_a_connection_inside_a_transaction_is_never_handed_on(single: Database):
    for _ in range(5):
        async with single.connection() as connection:
            await connection.execute("begin")
        async with single.connection() as connection:
            assert not connection.is_in_transaction()
            with pytest.raises(asyncpg.NoActiveSQLTransactionError):
                await connection.execute("savepoint one")
    # Rolled back, not replaced.
    assert single.state() == (1, 1, 0)


async def test_a_failed_transaction_is_rolled_back_and_its_connection_kept(single: Database):
    async with single.connection() as connection:
        first = await connection.fetchval("select pg_backend_pid()")
        await connection.execute("begin")
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("select 1 / 0")
    assert await single.fetchval("select pg_backend_pid()") == first


async def test_a_transaction_that_fails_or_is_cancelled_as_it_begins_gives_its_connection_back(single: Database):
    pid = "select pg_backend_pid()"
    before = await single.fetchval(pid)
    for _ in range(3):
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with single.transaction(first="select 1 / 0"):
                pytest.fail("It began.")
        async with single.connection() as connection:
            assert not connection.is_in_transaction()
    assert await single.fetchval(pid) == before

    async def begin() -> None:
        async with single.transaction(first="select pg_sleep(60)"):
            pytest.fail("It began.")

    for turns in range(20):
        task = asyncio.create_task(begin())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with single.transaction(isolation="serializable", first="select 1") as connection:
        assert await connection.fetchval("show transaction_isolation") == "serializable"
    assert single.state() == (1, 1, 0)


async def test_the_loss_of_another_node_is_no_fault_of_the_request(single: Database):
    """Citus reports it as an internal error; whether a statement had an effect there is unknown."""
    fails = "do $$ begin raise exception '%s' using errcode = 'XX000'; end $$"
    lost = fails % "connection to the remote node worker-1:5432 failed with the following error: server closed"
    with pytest.raises(OutcomeUnknownError):
        await single.execute(lost)
    with pytest.raises(UnavailableError, match="not reachable"):
        async with single.transaction() as connection:
            await connection.execute(lost)
    with pytest.raises(asyncpg.InternalServerError):
        await single.execute(fails % "cache lookup failed for relation 1")
    assert await single.fetchval("select 1") == 1

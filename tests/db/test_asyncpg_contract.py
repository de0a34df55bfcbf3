"""What `db/connecting.py` needs of asyncpg's inside, so that an upgrade which changes it fails here and says what."""

import ast
from importlib.metadata import version
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from asyncpg import Connection

from pilotis.db import connecting
from pilotis.db.connecting import forget_transaction, set_client_seconds, statement_count
from tests.database import connect
from tests.support import Server

CONNECTION = {
    "_config": "its `command_timeout` bounds each statement that is given no time of its own",
    "_protocol": "its `queries_count` is the number of statements that the connection has run",
    "_top_xact": "the transaction that is open, in which another one becomes a savepoint",
    "_transport": "the connection's socket",
}


def test_the_list_names_all_that_is_used():
    source = ast.parse(Path(connecting.__file__).read_text("utf-8"))
    names = {node.attr for node in ast.walk(source) if isinstance(node, ast.Attribute)}
    assert {name for name in names if name.startswith("_") and name != "_replace"} == set(CONNECTION)


async def test_each_name_that_is_used_exists(server: Server):
    connection: Any = await connect(server)
    try:
        missing = [f"{name}: {purpose}" for name, purpose in CONNECTION.items() if not hasattr(connection, name)]
        assert not missing, f"asyncpg {version('asyncpg')} has none of {missing}"
        assert connection._transport.get_extra_info("socket") is not None
        before = statement_count(connection)
        for _ in range(2):
            await connection.fetchval("select $1::int", 1)
        assert statement_count(connection) > before
    finally:
        await connection.close()


async def test_the_time_of_a_connection_bounds_its_next_statement(server: Server):
    connection: Connection = await connect(server)
    try:
        set_client_seconds(connection, 0.05)
        with pytest.raises(TimeoutError):
            await connection.fetchval("select pg_sleep(60)")
        set_client_seconds(connection, None)
        assert await connection.fetchval("select 1") == 1
    finally:
        connection.terminate()


async def test_a_transaction_after_a_forgotten_one_is_no_savepoint(server: Server):
    connection: Connection = await connect(server)
    try:
        await connection.transaction().start()
        # As the pool settles a connection whose owner was cancelled.
        await connection.execute("rollback")
        with pytest.raises(asyncpg.NoActiveSQLTransactionError):
            await connection.transaction().start()
        forget_transaction(connection)
        async with connection.transaction():
            assert connection.is_in_transaction()
        assert not connection.is_in_transaction()
    finally:
        await connection.close()

"""A database of their own for tests of background work: on the server's, its own nodes would take the jobs."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from pilotis.db import migrations
from pilotis.db.pool import Database
from tests.database_proxy import DatabaseProxy, proxied
from tests.jobs.nodes import Cluster
from tests.services import address
from tests.support import Server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
async def empty_database(server: Server) -> str:
    """The name of a database with Pilotis' tables and nothing in them, to be copied."""
    maintenance = await asyncpg.connect(**address(server))
    await maintenance.execute("create database jobs_template")
    await maintenance.close()
    connection = await asyncpg.connect(**{**address(server), "database": "jobs_template"})
    await migrations.migrate(connection)
    await connection.close()
    return "jobs_template"


@pytest.fixture
async def arguments(server: Server, empty_database: str) -> AsyncIterator[dict[str, Any]]:
    """How to connect to a database with Pilotis' tables and nothing in them."""
    name = f"jobs_{next(_numbers)}"
    maintenance = await asyncpg.connect(**address(server))
    await maintenance.execute(f"create database {name} template {empty_database}")
    arguments = {**address(server), "database": name}
    yield arguments
    await maintenance.execute(f"drop database {name} with (force)")
    await maintenance.close()


@pytest.fixture
async def database(arguments: dict[str, Any]) -> AsyncIterator[Database]:
    database = Database(arguments, size=8, statement_seconds=60)
    yield database
    await database.close()


@pytest.fixture
async def cluster(arguments: dict[str, Any]) -> AsyncIterator[Cluster]:
    """Processes in this one and others on the database; all are ended afterwards."""
    cluster = Cluster(arguments)
    yield cluster
    await cluster.close()


@pytest.fixture
async def proxy(server: Server, arguments: dict[str, Any]) -> AsyncIterator[DatabaseProxy]:
    """A proxy before the database; `unsteady` is a cluster behind it."""
    async with proxied(server) as (proxy, _):
        proxy.arguments["database"] = arguments["database"]
        yield proxy


@pytest.fixture
async def unsteady(proxy: DatabaseProxy) -> AsyncIterator[Cluster]:
    """Processes whose connections pass through the proxy; all are ended afterwards."""
    cluster = Cluster(proxy.arguments)
    yield cluster
    proxy.cut_chance = 0.0
    await cluster.close()

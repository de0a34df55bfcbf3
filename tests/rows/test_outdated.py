"""A statement that was compiled for tables which have changed since is compiled again; a fault of its own is raised."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from pilotis.data.rows.table import PreparedTable
from pilotis.db.pool import Database
from pilotis.settings import Settings
from tests import databases
from tests.rows.index_world import make_services
from tests.support import App, Server
from tests.waiting import PATIENCE


@pytest.fixture
async def services(server: Server) -> AsyncIterator[Any]:
    database = Database(databases.address(server.data_dir), size=4, statement_seconds=PATIENCE)
    yield make_services(Settings(data_dir=str(server.data_dir)), database)
    await database.close()


async def test_two_tables_that_change_one_after_the_other(app: App, services: Any):
    parent = await app.table({"name": "string"}, title="parents")
    child = await app.table({"of": {"type": "uuid", "references": {"table": "parents"}}}, title="children")
    info = await services.apps.by_id(UUID(app.app_id))
    changing, tries = [parent, child], []

    async def insert(table: PreparedTable) -> str:
        tries.append(table)
        if not changing:
            return "inserted"
        # As another node changes it: the statement names a column for a version that is over.
        await services.database.execute(
            "update pilotis.tables set version = version + 1 where app_id = $1 and table_id = $2",
            UUID(app.app_id),
            UUID(changing.pop(0)),
        )
        raise asyncpg.UndefinedColumnError("column e1.__v1 does not exist")

    assert await services.prepared_tables.use(info, UUID(child), insert) == "inserted"
    assert len(tries) == 3


async def test_a_fault_of_the_statement_itself_is_raised(app: App, services: Any):
    table = await app.table({"name": "string"})
    info = await services.apps.by_id(UUID(app.app_id))
    tries = []

    async def select(table: PreparedTable) -> None:
        tries.append(table)
        raise asyncpg.UndefinedColumnError("column nowhere does not exist")

    with pytest.raises(asyncpg.UndefinedColumnError):
        await services.prepared_tables.use(info, UUID(table), select)
    assert len(tries) == 2

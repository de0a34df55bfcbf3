"""A filled table on a node whose every statement counts as slow."""

import secrets
from uuid import UUID

import msgspec
import pytest

from pilotis.data.indexes import selection
from pilotis.data.tables.schema import AccessLevel
from pilotis.data.tables.types import TableDefinition
from pilotis.db.pool import Database
from pilotis.http.api.principals import OPERATOR, AppUser, Role, UserInfo
from pilotis.settings import Settings
from tests import databases
from tests.rows.index_world import ROWS, SCHEMA, World, make_services, row
from tests.waiting import PATIENCE


@pytest.fixture
async def world(server, monkeypatch):
    monkeypatch.setattr(selection, "LEAST_MILLISECONDS", 0.0)
    database = Database(databases.address(server.data_dir), size=8, statement_seconds=PATIENCE)
    services = make_services(Settings(data_dir=str(server.data_dir)), database)
    made = await services.apps.create("indexed", None)
    principal = AppUser(
        await services.apps.by_id(made.app_id), UserInfo(UUID(int=0), "owner@example.com", None), Role.OWNER
    )
    definition = TableDefinition(f"people {secrets.token_hex(4)}", SCHEMA, AccessLevel.PUBLIC)
    table_id = await services.tables.create(principal.app, OPERATOR, definition)
    for start in range(0, ROWS, 1000):
        rows = [row(number) for number in range(start, start + 1000)]
        await services.rows.create_many(principal, table_id, msgspec.Raw(msgspec.json.encode(rows)))
    yield World(services, principal, table_id)
    await database.execute("delete from pilotis.apps where app_id = $1", made.app_id)
    await database.execute(f"drop schema app_{made.app_id.hex} cascade")
    await database.close()

"""PostgreSQL's statistics follow a load by themselves: the planner knows a table that was just filled."""

import asyncio

import asyncpg
import msgspec

from pilotis.data.rows.query import compile_query
from pilotis.data.rows.types import Query
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.data.tables.schema import AccessLevel
from pilotis.data.tables.types import NewColumn, TableDefinition
from pilotis.db import statistics
from pilotis.http.api.principals import OPERATOR
from tests.rows.index_world import World
from tests.waiting import until

LOADED = 100_000
COLUMNS = dict.fromkeys([f"column_{number}" for number in range(8)], "string")
SMALL_ROW = msgspec.Raw(b'{"column_1":"x"}')


async def new_table(world):
    """Make a table that autovacuum leaves alone."""
    definition = TableDefinition("loaded", COLUMNS, AccessLevel.PUBLIC)
    loaded = World(world.services, world.principal, await world.services.tables.create(world.app, OPERATOR, definition))
    physical = (await loaded.table()).schema.physical
    await loaded.sql(f"alter table {physical} set (autovacuum_enabled = false)")
    return loaded, physical


async def load(world, count):
    rows = msgspec.Raw(msgspec.json.encode([dict.fromkeys(COLUMNS, f"value {number}") for number in range(1000)]))
    for _ in range(0, count, 1000):
        await world.services.rows.create_many(world.principal, world.table_id, rows)


def reads_all(lines):
    """Return whether a plan reads all of the loaded table, and not only the row counts."""
    return any("Seq Scan on t_" in line[0] for line in lines)


async def planned_rows(world, physical):
    return await world.on_shard(physical, "select reltuples from pg_class where oid = '%s'::regclass")


async def test_the_first_page_after_a_load_reads_the_index(world):
    loaded, physical = await new_table(world)
    await world.services.rows.create(world.principal, loaded.table_id, SMALL_ROW)
    await loaded.sql(f"analyze {physical}")
    table = await loaded.table()
    compiled = compile_query(table, Query(), everything(table.schema, Action.LIST), loaded.app.limits)
    async with world.services.database.connection() as connection:
        # As on a connection that has shown the small table before, and keeps its plan.
        await connection.execute(f"prepare page as {compiled.sql}")
        assert reads_all(await connection.fetch("explain execute page"))
        await load(loaded, LOADED)
        await world.services.table_statistics.wait_until_analyzed()
        assert not reads_all(await connection.fetch("explain execute page"))
        await connection.execute("deallocate page")
    assert await planned_rows(loaded, physical) > LOADED / 2


async def test_few_rows_are_left_to_autovacuum(world):
    loaded, physical = await new_table(world)
    for _ in range(3):
        await world.services.rows.create(world.principal, loaded.table_id, SMALL_ROW)
    await world.services.table_statistics.wait_until_analyzed()
    assert await planned_rows(loaded, physical) == -1


async def test_a_schema_change_does_not_wait_for_an_analysis(world, monkeypatch):
    loaded, physical = await new_table(world)
    began = asyncio.Event()
    execute = asyncpg.Connection.execute

    async def slowly(connection, query, *arguments, **options):
        if query.startswith("analyze"):
            # Holds the table as ANALYZE does, for as long as it is let.
            began.set()
            query = f"begin; lock table {physical} in share update exclusive mode; select pg_sleep(600)"
        return await execute(connection, query, *arguments, **options)

    monkeypatch.setattr(asyncpg.Connection, "execute", slowly)
    await load(loaded, statistics.MIN_ROWS)
    await began.wait()
    await until(lambda: is_held(loaded, physical))
    added = NewColumn("more", "string")
    await world.services.tables.add_column(world.app, OPERATOR, loaded.table_id, added)
    await world.services.table_statistics.wait_until_analyzed()
    monkeypatch.undo()
    # It is made up for after further writes.
    await load(loaded, statistics.MIN_ROWS)
    await world.services.table_statistics.wait_until_analyzed()
    assert await planned_rows(loaded, physical) > 0


async def is_held(world, physical):
    held = "select exists (select from pg_locks where relation = $1::regclass and mode = 'ShareUpdateExclusiveLock')"
    return await world.sql(held, physical)

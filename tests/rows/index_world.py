"""A separate node on the test server's database, for which every statement is slow: for tests of indexes."""

import msgspec

from pilotis.data.rows.query import compile_query
from pilotis.data.rows.types import Query
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.limits import Limits
from tests import databases
from tests.background import worker
from tests.services import Services
from tests.waiting import until

SCHEMA = {
    "city": "string",
    "age": "int",
    "score": "number",
    "joined": "date",
    "tags": "array",
    "place": "object",
    "secret": {"type": "string", "encrypted": True},
}
ROWS = 3000


class World:
    """A separate node on the server's database, for which every statement is slow, and one filled table."""

    def __init__(self, services, principal, table_id):
        self.services, self.principal, self.table_id = services, principal, table_id

    @property
    def app(self):
        return self.principal.app

    async def table(self):
        return await self.services.prepared_tables.current(self.app, self.table_id)

    async def query(self, times=3, **query):
        for _ in range(times):
            answer = await self.services.rows.query(self.principal, self.table_id, Query(**query))
        return msgspec.json.decode(answer)

    async def ids(self, **query):
        return {row["id"] for row in (await self.query(1, limit=1000, **query))["data"]}

    async def run_once(self, services=None):
        """Let a node run once; the server's own may have to finish first."""
        await self.services.index_uses.flush()
        await until(lambda: worker(services or self.services, "indexes.maintain").run_now("indexes.maintain"))

    async def indexes(self):
        return (await self.services.indexes.of_table(self.app, self.table_id)).indexes

    async def ready(self):
        return [index for index in await self.indexes() if index.state == "ready"]

    async def explain(self, **query):
        """Return the plan of the very statement that a query runs."""
        table = await self.table()
        compiled = compile_query(table, Query(**query), everything(table.schema, Action.LIST), self.app.limits)
        async with self.services.database.connection() as connection:
            lines = await connection.fetch(f"explain {compiled.sql}", *compiled.arguments)
        return "\n".join(line[0] for line in lines)

    async def sql(self, statement, *arguments):
        return await self.services.database.fetchval(statement, *arguments)

    async def on_shard(self, relation, query):
        """Return the number that a query reads on the node that has the table, which the query calls %s."""
        if databases.have_citus():
            return await self.sql(
                "select nullif(result, '')::float8 from run_command_on_shards($1, $2)", relation, query
            )
        return await self.sql(query.replace("%s", relation))

    async def physical(self):
        """Return the names of the indexes that PostgreSQL has, valid or not."""
        rows = await self.services.database.fetch(
            "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = $1::regclass",
            (await self.table()).schema.physical,
        )
        return {row[0] for row in rows if row[0].startswith("i_")}


def with_limits(world, **limits):
    """Return another node with other limits."""
    return make_services(world.services.settings, world.services.database, **limits)


def make_services(settings, database, **limits):
    settings = msgspec.structs.replace(settings, limits=Limits(**{"index_rows": 1000, **limits}))
    services = Services(settings, database)
    services.settings = settings
    services.index_uses.slow_seconds = 0
    return services


def row(number):
    return {
        "city": f"city {number % 300}",
        "age": number % 70,
        "score": number * 7919 % 3000,
        "joined": f"2024-01-{number % 28 + 1:02}T00:{number % 60:02}:00Z",
        "tags": [f"tag {number % 500}"],
        "place": {"street": {"name": f"street {number % 400}"}},
        "secret": f"secret {number % 300}",
    }

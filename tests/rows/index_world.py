"""A node of its own on the test server's database, whose every statement counts as slow: for tests of indexes."""

import msgspec

from pilotis.limits import Limits
from pilotis.maintenance import Maintenance, Task
from pilotis.rows.query import compile_query
from pilotis.rows.types import Query
from pilotis.server import Services
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
    """A node of its own on the server's database, whose every statement counts as slow, and one filled table."""

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

    async def turn(self, services=None):
        """Let a node do its turn; the server's own may have to finish first."""
        await self.services.index_uses.flush()
        await until(lambda: maintenance(services or self.services).run("indexes"))

    async def indexes(self):
        return (await self.services.indexes.of_table(self.app, self.table_id)).indexes

    async def ready(self):
        return [index for index in await self.indexes() if index.state == "ready"]

    async def explain(self, **query):
        """Return the plan of the very statement that a query runs."""
        compiled = compile_query(await self.table(), Query(**query), None, self.app.limits)
        async with self.services.database.connection() as connection:
            lines = await connection.fetch(f"explain {compiled.sql}", *compiled.arguments)
        return "\n".join(line[0] for line in lines)

    async def sql(self, statement, *arguments):
        return await self.services.database.fetchval(statement, *arguments)

    async def physical(self):
        """Return the names of the indexes that PostgreSQL has, valid or not."""
        rows = await self.services.database.fetch(
            "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = $1::regclass",
            (await self.table()).schema.physical,
        )
        return {row[0] for row in rows if row[0].startswith("i_")}


def maintenance(services):
    return Maintenance(services.database, [Task("indexes", 3600, services.indexes.turn)])


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

"""The database of a running server, accessed as its operator could."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from pilotis.limits import Limits
from pilotis.settings import Settings
from tests import databases
from tests.services import Node
from tests.support import Server
from tests.waiting import PATIENCE

DEFAULTS = Limits()


async def connect(server: Server) -> asyncpg.Connection:
    """Open a connection to a server's database."""
    return await asyncpg.connect(**databases.address(server.data_dir))


@asynccontextmanager
async def connection_to(server: Server) -> AsyncIterator[asyncpg.Connection]:
    """Lend a connection to a server's database."""
    connection = await connect(server)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def second_node(server: Server, limits: Limits = DEFAULTS) -> AsyncIterator[Node]:
    """Lend another node on a server's database, in this process; it neither listens nor tidies up by itself."""
    address = databases.address(server.data_dir)
    settings = Settings(data_dir=str(server.data_dir), limits=limits, statement_seconds=PATIENCE)
    node = Node(settings, address, server.url)
    try:
        yield node
    finally:
        await node.stop()

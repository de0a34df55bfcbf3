"""The services of one more node on a test server's database, which is never told of changes: its caches go stale."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from pilotis.db.embedded.lockfile import running_address
from pilotis.db.pool import Database
from pilotis.server import Services
from pilotis.settings import Settings
from tests.support import Server
from tests.waiting import PATIENCE


def address(server: Server) -> dict[str, Any]:
    """Return the arguments with which asyncpg connects to the server's database."""
    running = running_address(server.data_dir / "postgres")
    assert running is not None
    return running._asdict()


@asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[asyncpg.Connection]:
    """Connect to the server's database directly."""
    connection = await asyncpg.connect(**address(server))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def stale_node(server: Server) -> AsyncGenerator[Services]:
    """Make the services of a node that hears of no change made elsewhere."""
    database = Database(address(server), statement_seconds=PATIENCE)
    services = Services(Settings(data_dir=str(server.data_dir)), database)
    try:
        yield services
    finally:
        services.passwords.close()
        await database.close()

"""The services of another node on a test server's database, which is never notified of changes: its caches become
stale."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from pilotis import server
from pilotis.apps.feature import AppsFeature
from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.keys.feature import KeysFeature
from pilotis.data.query.feature import QueryFeature
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.transfer.feature import TransferFeature
from pilotis.data.trash.feature import TrashFeature
from pilotis.db.pool import Database
from pilotis.feature import Features
from pilotis.files.feature import FilesFeature
from pilotis.floor import open_floor
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.principals import Client
from pilotis.jobs.kinds import Periodic
from pilotis.members.feature import MembersFeature
from pilotis.settings import Settings
from pilotis.users.feature import UsersFeature
from tests import databases
from tests.support import Server
from tests.waiting import PATIENCE

CLIENT = Client("127.0.0.1", "01900000-0000-7000-8000-000000000000")
"""Where the calls of tests come from."""


class Services:
    """The services of a node by name, each as its feature made it."""

    def __init__(self, settings: Settings, database: Database, features: Features | None = None) -> None:
        self.settings, self.database = settings, database
        self.features = features or Features(open_floor(settings, database))
        self.floor = self.features.floor
        self.control, self.events, self.jobs = self.floor.control, self.floor.events, self.floor.jobs
        self.passwords, self.sessions = self.floor.passwords, self.floor.sessions
        self.members = self.features.get(MembersFeature).members
        self.users = self.features.get(UsersFeature).users
        apps = self.features.get(AppsFeature)
        self.apps, self.statistics = apps.apps, apps.statistics
        tables = self.features.get(TablesFeature)
        self.tables, self.column_migrator = tables.tables, tables.migrator
        self.key_builder = self.features.get(KeysFeature).builder
        indexes = self.features.get(IndexesFeature)
        self.indexes, self.index_uses = indexes.indexes, indexes.uses
        rows = self.features.get(RowsFeature)
        self.rows, self.batches = rows.rows, rows.batches
        self.prepared_tables, self.table_statistics = rows.prepared_tables, rows.statistics
        query = self.features.get(QueryFeature)
        self.aggregation, self.search, self.geo = query.aggregation, query.search, query.geo
        self.trash = self.features.get(TrashFeature).trash
        self.transfer = self.features.get(TransferFeature).transfer
        self.encryption = self.floor.encryption
        self.hosting = self.features.get(HostingFeature).hosting
        self.files, self.blobs = self.features.get(FilesFeature).files, self.floor.blobs

    def periodic(self) -> list[Periodic]:
        """Return the periodic tasks of every feature."""
        return [task for kind in server.FEATURES for task in self.features.get(kind).periodic]


class Node(server.Node):
    """A node with its services by name."""

    @property
    def services(self) -> Services:
        """The node's services."""
        return Services(self.settings, self.database, self.made)


def address(server: Server) -> dict[str, Any]:
    """Return the arguments with which asyncpg connects to the server's database."""
    return databases.address(server.data_dir)


@asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[asyncpg.Connection]:
    """Connect to the server's database directly."""
    connection = await asyncpg.connect(**address(server))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def stale_node(server: Server, **settings: Any) -> AsyncGenerator[Services]:
    """Make the services of a node, with settings of its own, that hears of no change made elsewhere."""
    database = Database(address(server), statement_seconds=PATIENCE)
    services = Services(Settings(data_dir=str(server.data_dir), **settings), database)
    try:
        yield services
    finally:
        services.passwords.close()
        await database.close()

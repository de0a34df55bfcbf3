"""Puts the parts together: one `Node` is one process that answers requests."""

from __future__ import annotations

from typing import Any

import msgspec

from pilotis import master_key
from pilotis.access.endpoints import AccessEndpoints
from pilotis.access.service import Access
from pilotis.apps.endpoints import AppEndpoints
from pilotis.apps.service import Apps
from pilotis.db.notifications import Notifications
from pilotis.db.pool import Database
from pilotis.encryption.service import Encryption
from pilotis.http.application import Application
from pilotis.http.call import Call
from pilotis.http.cors import Cors
from pilotis.http.endpoint import Endpoint
from pilotis.http.gate import Gate
from pilotis.http.logs import log_request
from pilotis.kit.passwords import Passwords
from pilotis.kit.signing import TokenSigner
from pilotis.maintenance import Maintenance, Task
from pilotis.members.endpoints import MemberEndpoints
from pilotis.members.service import Members
from pilotis.rates.service import RateLimits
from pilotis.rows.advanced import AdvancedEndpoints
from pilotis.rows.aggregate.service import Aggregation
from pilotis.rows.batches import Batches
from pilotis.rows.endpoints import RowEndpoints
from pilotis.rows.indexes.endpoints import IndexEndpoints
from pilotis.rows.indexes.recorder import UseRecorder
from pilotis.rows.indexes.service import TURN_SECONDS, Indexes
from pilotis.rows.prepared import PreparedTables
from pilotis.rows.service import Rows
from pilotis.sessions.service import Sessions
from pilotis.settings import Settings
from pilotis.tables.endpoints import TableEndpoints
from pilotis.tables.service import Tables
from pilotis.users.endpoints import UserEndpoints
from pilotis.users.service import Users


class Services:
    """Every service of a node, each made once, with what it needs."""

    def __init__(self, settings: Settings, database: Database) -> None:
        limits = settings.limits
        key = master_key.load(settings)
        self.database = database
        self.notifications = Notifications(database)
        self.passwords = Passwords()
        self.rate_limits = RateLimits(database, limits)
        self.sessions = Sessions(database, TokenSigner(key))
        self.members = Members(database, self.sessions, self.passwords, self.rate_limits)
        self.users = Users(database, self.sessions, self.passwords, self.rate_limits, limits)
        self.apps = Apps(database, self.notifications, limits)
        self.access = Access(self.apps, self.members, self.users, self.sessions)
        self.encryption = Encryption(database, key)
        self.tables = Tables(database, self.notifications, self.encryption)
        self.index_uses = UseRecorder(database)
        self.indexes = Indexes(database, self.tables, limits)
        self.prepared_tables = PreparedTables(database, self.tables, self.encryption, self.index_uses)
        self.rows = Rows(self.prepared_tables)
        self.aggregation = Aggregation(self.prepared_tables)
        self.batches = Batches(database, self.prepared_tables, self.rows)

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoint table of the whole service."""
        features = [
            MemberEndpoints(self.members),
            AccessEndpoints(self.access),
            UserEndpoints(self.users),
            AppEndpoints(self.apps),
            TableEndpoints(self.tables),
            RowEndpoints(self.rows),
            AdvancedEndpoints(self.aggregation, self.batches),
            IndexEndpoints(self.indexes),
        ]
        return [endpoint for feature in features for endpoint in feature.table()]

    def maintenance_tasks(self) -> list[Task]:
        """Return what is to be done in the background, with the seconds between one time and the next."""
        return [Task("indexes", TURN_SECONDS, self.indexes.turn)]


class Node:
    """The services of one process with the application in front of them."""

    def __init__(self, settings: Settings, connect_arguments: dict[str, Any], base_url: str) -> None:
        self.settings = msgspec.structs.replace(settings, base_url=settings.base_url or base_url)
        self.database = Database(
            connect_arguments, size=settings.pool_size, statement_seconds=settings.statement_seconds
        )
        self.services = Services(self.settings, self.database)
        self.maintenance = Maintenance(self.database, self.services.maintenance_tasks())
        self.application = Application(
            self.services.endpoints(),
            gate=Gate(self.services.access),
            limiter=self.services.rate_limits,
            cors=Cors(settings.console_origin or self.settings.base_url or base_url),
            trusted_proxies=settings.trusted_proxies,
            finished=self._finished,
        )

    async def start(self) -> None:
        """Connect to the database, listen for changes made by other nodes, and tidy up from time to time."""
        await self.services.notifications.start()
        self.services.index_uses.start()
        self.maintenance.start()

    async def stop(self) -> None:
        """Let go of everything."""
        await self.maintenance.stop()
        await self.services.index_uses.stop()
        await self.services.notifications.stop()
        self.services.passwords.close()
        await self.database.close()

    def _finished(self, call: Call, status: int, seconds: float) -> None:
        log_request(call, status, seconds)

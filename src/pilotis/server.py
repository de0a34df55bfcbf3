"""Puts the parts together: one `Node` is one process that answers requests."""

from __future__ import annotations

from typing import Any

import msgspec

from pilotis import __version__, master_key
from pilotis.access.endpoints import AccessEndpoints
from pilotis.access.service import Access
from pilotis.apps.endpoints import AppEndpoints, AppSettingsEndpoints, KeyEndpoints
from pilotis.apps.keyring import Keyring
from pilotis.apps.service import Apps
from pilotis.apps.settings import AppSettings
from pilotis.audit.endpoints import AuditEndpoints
from pilotis.audit.service import AuditLog
from pilotis.db.extensions import Extensions
from pilotis.db.migrations import require_current
from pilotis.db.notifications import Notifications
from pilotis.db.pool import Database
from pilotis.encryption.service import Encryption
from pilotis.http.application import Application
from pilotis.http.call import Call
from pilotis.http.cors import Cors
from pilotis.http.endpoint import Endpoint
from pilotis.http.gate import Gate
from pilotis.http.health import HealthEndpoints
from pilotis.http.logs import log_request
from pilotis.http.metrics import Gauges, Metrics
from pilotis.http.site.endpoints import SiteEndpoints
from pilotis.kit.passwords import Passwords
from pilotis.kit.signing import TokenSigner
from pilotis.maintenance import Maintenance, Task
from pilotis.members.administration.endpoints import MemberAdministrationEndpoints
from pilotis.members.administration.service import MemberAdministration
from pilotis.members.endpoints import MemberEndpoints
from pilotis.members.service import Members
from pilotis.rates.service import RateLimits
from pilotis.rows import counts
from pilotis.rows.advanced import AdvancedEndpoints
from pilotis.rows.aggregate.service import Aggregation
from pilotis.rows.batches import Batches
from pilotis.rows.endpoints import RowEndpoints
from pilotis.rows.geo.service import Geo
from pilotis.rows.indexes.endpoints import IndexEndpoints
from pilotis.rows.indexes.recorder import UseRecorder
from pilotis.rows.indexes.service import TURN_SECONDS, Indexes
from pilotis.rows.prepared import PreparedTables
from pilotis.rows.search.service import Search
from pilotis.rows.service import Rows
from pilotis.sessions.service import Sessions
from pilotis.settings import Settings
from pilotis.stats.endpoints import StatsEndpoints
from pilotis.stats.service import Statistics
from pilotis.tables.endpoints import TableEndpoints
from pilotis.tables.service import Tables
from pilotis.trash.endpoints import TrashEndpoints
from pilotis.trash.service import Trashes
from pilotis.users.endpoints import InvitationEndpoints, RoleEndpoints, UserEndpoints
from pilotis.users.expiry import delete_expired_invitations
from pilotis.users.invitations import Invitations
from pilotis.users.roles import Roles
from pilotis.users.service import Users

# Signs nothing: services want a master key, and a table that is only described must not make its file.
_UNCONNECTED = Settings(base_url="http://127.0.0.1:8090", master_key="00" * 32)


class Services:
    """Every service of a node, each made once, with what it needs."""

    def __init__(self, settings: Settings, database: Database) -> None:
        limits = settings.limits
        key = master_key.load(settings)
        self._base_url = settings.base_url or ""
        self._limits = limits
        self.database = database
        self.notifications = Notifications(database)
        self.passwords = Passwords()
        self.rate_limits = RateLimits(database, limits)
        self.sessions = Sessions(database, TokenSigner(key))
        self.members = Members(database, self.sessions, self.passwords, self.rate_limits)
        self.users = Users(database, self.sessions, self.passwords, self.rate_limits, limits)
        self.roles = Roles(database)
        self.invitations = Invitations(database, settings.base_url or "")
        self.audit_log = AuditLog(database)
        self.apps = Apps(database, self.notifications, limits)
        self.app_settings = AppSettings(database, self.apps, limits)
        self.keyring = Keyring(database, self.apps)
        self.access = Access(self.apps, self.members, self.users, self.sessions)
        self.encryption = Encryption(database, key)
        self.tables = Tables(database, self.notifications, self.encryption)
        self.extensions = Extensions(database)
        self.index_uses = UseRecorder(database)
        self.indexes = Indexes(database, self.tables, self.extensions, limits)
        self.prepared_tables = PreparedTables(database, self.tables, self.encryption, self.index_uses)
        self.rows = Rows(self.prepared_tables)
        self.aggregation = Aggregation(self.prepared_tables)
        self.search = Search(self.prepared_tables, self.extensions)
        self.geo = Geo(self.prepared_tables, self.extensions)
        self.batches = Batches(database, self.prepared_tables, self.rows)
        self.member_administration = MemberAdministration(database, self.sessions)
        self.trashes = Trashes(database, self.tables)
        self.statistics = Statistics(database)

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoint table of the whole service."""
        features = [
            MemberEndpoints(self.members),
            AccessEndpoints(self.access),
            UserEndpoints(self.users),
            AppEndpoints(self.apps),
            AppSettingsEndpoints(self.app_settings),
            KeyEndpoints(self.keyring),
            RoleEndpoints(self.roles),
            InvitationEndpoints(self.invitations),
            AuditEndpoints(self.audit_log),
            TableEndpoints(self.tables),
            RowEndpoints(self.rows),
            AdvancedEndpoints(self.aggregation, self.search, self.geo, self.batches),
            IndexEndpoints(self.indexes),
            HealthEndpoints({"database": self._answers, "migrations": self._is_current}),
            MemberAdministrationEndpoints(self.member_administration),
            TrashEndpoints(self.trashes),
            StatsEndpoints(self.statistics),
        ]
        table = [endpoint for feature in features for endpoint in feature.table()]
        site = SiteEndpoints(table, base_url=self._base_url, version=__version__, limits=self._limits)
        return [*table, *site.table()]

    def maintenance_tasks(self) -> list[Task]:
        """Return what is to be tidied up, with the seconds between one time and the next."""
        return [
            Task("deleted apps", 3600, self.apps.purge_deleted),
            Task("trash", 3600, lambda _: self.trashes.purge_expired()),
            Task("sessions", 3600, self.sessions.delete_expired),
            Task("rate limits", 300, lambda _: self.rate_limits.delete_expired()),
            Task("request stats", 6 * 3600, self.statistics.delete_old),
            Task("invitations", 6 * 3600, delete_expired_invitations),
            Task("row counts", 300, counts.fold_all),
            Task("indexes", TURN_SECONDS, self.indexes.turn),
        ]

    async def _answers(self) -> None:
        await self.database.fetchval("select 1")

    async def _is_current(self) -> None:
        async with self.database.connection() as connection:
            await require_current(connection)


def endpoint_table(settings: Settings = _UNCONNECTED) -> list[Endpoint]:
    """Return the endpoint table without a database, a data directory or a running server, to describe it."""
    unconnected = msgspec.structs.replace(settings, master_key=settings.master_key or _UNCONNECTED.master_key)
    return Services(unconnected, Database({})).endpoints()


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
        self.metrics = Metrics(self._gauges)

    async def start(self) -> None:
        """Connect to the database, listen for changes made by other nodes, and tidy up from time to time."""
        await self.services.notifications.start()
        self.services.statistics.requests.start()
        self.services.index_uses.start()
        self.maintenance.start()

    async def stop(self) -> None:
        """Let go of everything."""
        await self.maintenance.stop()
        await self.services.statistics.requests.stop()
        await self.services.index_uses.stop()
        await self.services.notifications.stop()
        await self.services.apps.stop()
        self.services.passwords.close()
        await self.database.close()

    def _finished(self, call: Call, status: int, seconds: float) -> None:
        self.metrics.finished(call, status, seconds)
        log_request(call, status, seconds)
        app, endpoint = call.principal.app, call.endpoint
        if app is not None and endpoint is not None and not endpoint.access.is_console:
            self.services.statistics.requests.count(app.app_id, status)

    def _gauges(self) -> Gauges:
        return Gauges(self.application.in_flight, *self.database.state())

"""Puts the parts together: one `Node` is one process that answers requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import structlog

from pilotis import __version__, master_key
from pilotis.access.endpoints import AccessEndpoints
from pilotis.access.service import Access
from pilotis.apps.endpoints import AppEndpoints, AppSettingsEndpoints, KeyEndpoints
from pilotis.apps.keyring import Keyring
from pilotis.apps.service import Apps
from pilotis.apps.settings import AppSettings
from pilotis.audit.endpoints import AuditEndpoints
from pilotis.audit.service import AuditLog
from pilotis.blobs.open import open_store
from pilotis.blobs.protocol import BlobStore
from pilotis.db.extensions import Extensions
from pilotis.db.migrations import require_current
from pilotis.db.notifications import Notifications
from pilotis.db.pool import Database
from pilotis.encryption.service import Encryption
from pilotis.files.endpoints import FileEndpoints, FileTransferEndpoints, StorageEndpoints
from pilotis.files.service import Files
from pilotis.files.tus.endpoints import TusEndpoints
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
from pilotis.rows.bulk.service import BulkRows
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
from pilotis.tables import rewriting
from pilotis.tables.endpoints import TableEndpoints
from pilotis.tables.service import Tables
from pilotis.transfer.endpoints import TransferEndpoints
from pilotis.transfer.service import Transfer
from pilotis.trash.endpoints import TrashEndpoints
from pilotis.trash.service import Trashes
from pilotis.users.endpoints import InvitationEndpoints, RoleEndpoints, UserEndpoints
from pilotis.users.expiry import delete_expired_invitations
from pilotis.users.invitations import Invitations
from pilotis.users.roles import Roles
from pilotis.users.service import Users

_log = structlog.get_logger("pilotis.server")

# Signs nothing: services want a master key, and a table that is only described must not make its file.
_UNCONNECTED = Settings(base_url="http://127.0.0.1:8090", master_key="00" * 32)
# Stores nothing, and makes no directory.
_NO_BLOBS = cast("BlobStore", object())


class Services:
    """Every service of a node, each made once, with what it needs."""

    def __init__(self, settings: Settings, database: Database, blobs: BlobStore | None = None) -> None:
        limits = settings.limits
        self.master_keys = master_key.keyring(settings)
        self._base_url = settings.base_url or ""
        self._limits = limits
        self.database = database
        self.notifications = Notifications(database)
        self.notifications.subscribe(master_key.TOPIC, lambda _: self._refresh_master_keys(), self._refresh_master_keys)
        self.passwords = Passwords()
        self.rate_limits = RateLimits(database, limits)
        self.sessions = Sessions(database, TokenSigner(self.master_keys))
        self.members = Members(database, self.sessions, self.passwords, self.rate_limits)
        self.users = Users(database, self.sessions, self.passwords, self.rate_limits, limits)
        self.roles = Roles(database)
        self.invitations = Invitations(database, settings.base_url or "")
        self.audit_log = AuditLog(database)
        self.apps = Apps(database, self.notifications, limits)
        self.app_settings = AppSettings(database, self.apps, limits)
        self.keyring = Keyring(database, self.apps)
        self.access = Access(self.apps, self.members, self.users, self.sessions)
        self.encryption = Encryption(database, self.master_keys)
        self.tables = Tables(database, self.notifications, self.encryption)
        self.rewriting = rewriting.Rewriting(self.tables, self.encryption)
        self.extensions = Extensions(database)
        self.index_uses = UseRecorder(database)
        self.indexes = Indexes(database, self.tables, self.extensions, limits)
        self.prepared_tables = PreparedTables(database, self.tables, self.encryption, self.index_uses)
        self.rows = Rows(self.prepared_tables)
        self.aggregation = Aggregation(self.prepared_tables)
        self.search = Search(self.prepared_tables, self.extensions)
        self.geo = Geo(self.prepared_tables, self.extensions)
        self.transfer = Transfer(database, BulkRows(database, self.prepared_tables))
        self.batches = Batches(database, self.prepared_tables, self.rows)
        self.member_administration = MemberAdministration(database, self.sessions)
        self.trashes = Trashes(database, self.tables)
        self.statistics = Statistics(database)
        self.blobs = blobs or blob_store(settings)
        self.files = Files(
            database,
            self.blobs,
            self.master_keys,
            self.access,
            self.apps,
            base_url=settings.base_url or "",
            files_base_url=settings.files_base_url,
            redirects=settings.files_delivery == "redirect",
            largest=limits.file_bytes,
        )

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
            TransferEndpoints(self.transfer),
            MemberAdministrationEndpoints(self.member_administration),
            TrashEndpoints(self.trashes),
            StatsEndpoints(self.statistics),
            StorageEndpoints(self.files.storages),
            FileEndpoints(self.files.uploads, self.files.listing),
            FileTransferEndpoints(self.files.uploads, self.files.delivery),
            TusEndpoints(self.files.resumable_uploads),
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
            Task("imports", 6 * 3600, self.transfer.delete_old),
            Task("row counts", 300, counts.fold_all),
            Task("indexes", TURN_SECONDS, self.indexes.turn),
            Task("uploads", 300, self.files.cleaning.reap_uploads),
            Task("variants", 3600, self.files.cleaning.delete_unused_variants),
            Task("dead blobs", 60, self.files.cleaning.delete_dead_blobs),
            Task("rewriting", rewriting.TURN_SECONDS, self.rewriting.turn),
        ]

    def _refresh_master_keys(self) -> None:
        if self.master_keys.refresh():
            _log.info("master key taken into use")

    async def _answers(self) -> None:
        await self.database.fetchval("select 1")

    async def _is_current(self) -> None:
        async with self.database.connection() as connection:
            await require_current(connection)


def endpoint_table(settings: Settings = _UNCONNECTED) -> list[Endpoint]:
    """Return the endpoint table without a database, a data directory or a running server, to describe it."""
    unconnected = msgspec.structs.replace(settings, master_key=settings.master_key or _UNCONNECTED.master_key)
    return Services(unconnected, Database({}), _NO_BLOBS).endpoints()


def blob_store(settings: Settings) -> BlobStore:
    """Return the object store of the settings."""
    return open_store(
        settings.blob_store,
        Path(settings.data_dir),
        access_key=settings.s3_access_key,
        secret_key=settings.s3_secret_key,
    )


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
        await self.services.files.variants.stop()
        self.services.passwords.close()
        await self.services.blobs.close()
        await self.database.close()

    def _finished(self, call: Call, status: int, seconds: float) -> None:
        self.metrics.finished(call, status, seconds)
        log_request(call, status, seconds)
        app, endpoint = call.principal.app, call.endpoint
        if app is not None and endpoint is not None and not endpoint.access.is_console:
            self.services.statistics.requests.count(app.app_id, status)

    def _gauges(self) -> Gauges:
        return Gauges(self.application.in_flight, *self.database.state())

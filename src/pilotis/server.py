"""The list of features, and the `Node`: one process that serves all of them, from start to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import structlog

from pilotis import __version__
from pilotis.account_pages.feature import AccountPagesFeature
from pilotis.accounts.feature import AccountsFeature
from pilotis.apps.feature import AppsFeature
from pilotis.archive.feature import ArchiveFeature
from pilotis.branches.feature import BranchesFeature
from pilotis.certificates.feature import CertificatesFeature
from pilotis.console.feature import ConsoleFeature
from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.keys.feature import KeysFeature
from pilotis.data.query.feature import QueryFeature
from pilotis.data.realtime.feature import RealtimeFeature
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.transfer.feature import TransferFeature
from pilotis.data.trash.feature import TrashFeature
from pilotis.data.views.feature import ViewsFeature
from pilotis.db import sharding
from pilotis.db.migrations import require_current
from pilotis.db.pool import Database
from pilotis.db.topics import Topic
from pilotis.db.waiters import CONSOLE
from pilotis.dead_jobs.feature import DeadJobsFeature
from pilotis.events.feature import EventsFeature
from pilotis.events.types import TargetKind
from pilotis.feature import Feature, Features, Hook, no_op
from pilotis.files.feature import FilesFeature
from pilotis.floor import open_floor
from pilotis.functions.feature import FunctionsFeature
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.application import Application
from pilotis.http.api.cors import Cors
from pilotis.http.api.endpoint import Endpoint, Endpoints
from pilotis.http.api.hosts import Hosts
from pilotis.http.api.idempotency import IdempotencyStore
from pilotis.http.api.principals import Authenticator
from pilotis.http.api.request import Call
from pilotis.http.health import HealthEndpoints
from pilotis.http.logs import log_area_request, log_request
from pilotis.http.metrics import Metrics
from pilotis.http.reference.endpoints import SiteEndpoints
from pilotis.http.server.cached_answers import CachedAnswers
from pilotis.integrations.feature import IntegrationsFeature
from pilotis.jobs.background import Background
from pilotis.jobs.contracts import apply_contracts
from pilotis.jobs.lanes import LaneSource
from pilotis.jobs.node import Identity, identity
from pilotis.kit.errors import UnavailableError
from pilotis.kit.metrics import CounterOf, Gauge, Metric
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.oauth.feature import OAuthFeature
from pilotis.personal_data.feature import PersonalDataFeature
from pilotis.plans.feature import PlansFeature
from pilotis.security.encryption.types import EncryptedColumn
from pilotis.security.feature import SecurityFeature
from pilotis.serve.quiet import is_quiet
from pilotis.serve.watch import Watch
from pilotis.settings import Settings
from pilotis.teams.feature import TeamsFeature
from pilotis.user_accounts.feature import UserAccountsFeature
from pilotis.users.feature import UsersFeature
from pilotis.webhooks.feature import WebhooksFeature
from pilotis.workflows.feature import WorkflowsFeature

if TYPE_CHECKING:
    from pilotis.tracing.export import Tracing

FEATURES: tuple[type[Feature], ...] = (
    MembersFeature,
    UsersFeature,
    AppsFeature,
    SecurityFeature,
    MailFeature,
    AccountsFeature,
    AccountPagesFeature,
    UserAccountsFeature,
    TeamsFeature,
    TablesFeature,
    KeysFeature,
    RulesFeature,
    IndexesFeature,
    RowsFeature,
    QueryFeature,
    ViewsFeature,
    RealtimeFeature,
    TransferFeature,
    TrashFeature,
    FilesFeature,
    PersonalDataFeature,
    OAuthFeature,
    HostingFeature,
    CertificatesFeature,
    IntegrationsFeature,
    WebhooksFeature,
    FunctionsFeature,
    WorkflowsFeature,
    DeadJobsFeature,
    ArchiveFeature,
    BranchesFeature,
    PlansFeature,
    ConsoleFeature,
    EventsFeature,
)
"""In the order in which they start; they stop in the reverse order."""

CLOSE_SECONDS = 4.0
"""Time limit for a process to close what is still open, after its work has ended."""

_log = structlog.get_logger("pilotis.server")


class StoppingError(UnavailableError):
    """503: this process is stopping."""

    code = "STOPPING"
    message = "This process is stopping. Try again shortly."


def endpoint_table() -> list[Endpoint]:
    """Return the endpoint table without a server, for documentation: its handlers cannot be called."""
    classes: list[type[Endpoints]] = [described for feature in FEATURES for described in feature.described]
    classes += [HealthEndpoints, SiteEndpoints]
    return [endpoint for described in classes for endpoint in described.describe()]


def encrypted_columns() -> list[EncryptedColumn]:
    """Return the columns of all features with secrets under the master key."""
    return [column for feature in FEATURES for column in feature.encrypted_columns]


class Front(NamedTuple):
    """What the application in front of the features asks of some of them."""

    authenticator: Authenticator
    idempotency: IdempotencyStore
    is_set_up: Callable[[], Awaitable[bool]]


def connected(made: Features, targets: Iterable[TargetKind]) -> Front:
    """Connect the features that would otherwise need one another, or that serve all others.

    `targets` get events in addition to those of the features.
    """
    for logos in (made.get(OAuthFeature).logos, made.get(AccountPagesFeature).logos):
        logos.attach(made.get(FilesFeature).files.variants.encoded)
    fan_out = made.get(EventsFeature).fan_out
    for target in (*(target for kind in FEATURES for target in made.get(kind).targets), *targets):
        fan_out.register(target)
    security = made.get(SecurityFeature)
    return Front(security.authentication, security.idempotency_keys, made.get(UsersFeature).users.exist)


class Node:
    """All features in one process, the application in front of them, and their background work."""

    def __init__(
        self,
        settings: Settings,
        connect_arguments: dict[str, Any],
        base_url: str,
        member: Identity | None = None,
        targets: Iterable[TargetKind] = (),
        own_ports: Iterable[int] = (),
    ) -> None:
        self.settings = msgspec.structs.replace(settings, base_url=settings.base_url or base_url)
        self._tracing = _tracing(settings)
        self.database = Database(
            {"dsn": settings.database_url} if settings.database_url else connect_arguments,
            direct_arguments=connect_arguments,
            is_pooled=settings.database_pooler == "transaction",
            size=settings.pool_size,
            statement_seconds=settings.statement_seconds,
            max_waiters=settings.pool_waiters,
            slow_statement_seconds=settings.slow_statement_ms / 1000,
            statements=self._tracing and self._tracing.statements(settings.slow_statement_ms / 1000),
        )
        self.floor = open_floor(self.settings, self.database, own_ports)
        if self._tracing is not None:
            self._tracing.blobs(self.floor.blobs)
        self.made = Features(self.floor)
        self.features = [self.made.get(kind) for kind in FEATURES]
        self._register()
        front = connected(self.made, targets)
        member = msgspec.structs.replace(member or identity(__version__), ports=tuple(sorted(self.floor.own_ports)))
        self.watch = Watch(Path(settings.data_dir), self.database)
        self.background = self._background(member)
        serving = Application if self._tracing is None else self._tracing.application
        self.application = serving(
            self._endpoints(front),
            authenticator=front.authenticator,
            limiter=self.floor.rate_limits,
            cors=Cors(settings.console_origin or self.floor.base_url),
            trusted_proxies=settings.trusted_proxies,
            limits=settings.limits,
            finished=self._finished,
            require_room=self.floor.room.require,
            base_url=self.floor.base_url,
            idempotency=front.idempotency,
            names={start: find for feature in self.features for start, find in feature.names.items()},
            cache_bytes=settings.files_cache_bytes,
        )
        for feature in self.features:
            feature.attach(self.application)
        self.hosts = Hosts(self.application)
        areas = [area for feature in self.features for area in feature.areas]
        self.cached_answers = CachedAnswers([area.cached for area in areas], self._sent_cached)
        for area in areas:
            self.hosts.add(area.predicate, self.application.area(area.handler))
        self.direct = self.application.direct(self.hosts.is_area)
        self.metrics = Metrics(
            [
                *self._metrics(),
                *self.database.metrics(),
                *self.watch.metrics(),
                *self._backup_metrics(),
                *(one for each in self.features for one in each.metrics),
            ]
        )
        lanes = [source for feature in self.features for source in feature.sources if isinstance(source, LaneSource)]
        for source in self.background.job_sources:
            source.finished = self.metrics.job_finished
        for lane in lanes:
            lane.finished = self.metrics.job_finished
        self._counting = [feature.finished for feature in self.features if feature.finished]
        self._connect_arguments = connect_arguments
        self._end_backups: Hook = no_op
        self._draining: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen for changes by other processes, start the features, and start background work."""
        self.database.is_sharded = bool(await self.database.fetchval(sharding.IS_SHARDED))
        self.watch.start()
        await self.floor.control.start()
        for feature in self.features:
            await feature.start()
        await self.background.start()
        if self.settings.backup.store is not None and not is_quiet(self.settings):
            await self._keep_backups()

    def _backup_metrics(self) -> list[Metric]:
        if self.settings.backup.store is None or self.settings.database_url is not None:
            return []
        from pilotis.backup.keeper import metrics

        return metrics(self.settings)

    async def _keep_backups(self) -> None:
        # Few servers have a backup store, and the modules take a while to import.
        from pilotis.backup.keeper import Keeper

        keeper = Keeper(self.settings, self._connect_arguments)
        self._end_backups = keeper.stop
        await keeper.start()

    def begin_stop(self) -> None:
        """Report not ready, end streams, claim no more work, and let running work and requests in flight end."""
        if self._draining is None:
            self.application.streams.stop()
            self._draining = asyncio.create_task(self._drain(self.settings.stop_seconds))

    async def stop(self) -> None:
        """Let running work end, return the rest of it, and close all resources.

        A failing step is logged, a hanging one is cancelled; the next one runs in either case.
        """
        self.begin_stop()
        if self._draining:
            await asyncio.wait([self._draining])
        await run_steps(
            [
                ("end of the watch", self.watch.stop),
                ("end of backups", self._end_backups),
                ("release of background work", self.background.release),
                *((f"close of {feature.name}", feature.close) for feature in reversed(self.features)),
                ("close of passwords", self.floor.close_passwords),
                ("close of outgoing connections", self.floor.close_outgoing),
                ("close of the object store", self.floor.close_blobs),
                ("close of the control connection", self.floor.control.stop),
                ("close of the pool", self.database.close),
                ("end of traces", no_op if self._tracing is None else self._tracing.stop),
            ],
            CLOSE_SECONDS,
        )

    async def _drain(self, seconds: float) -> None:
        drains = [(feature.name, feature.drain) for feature in self.features]
        work: Sequence[tuple[str, Hook]] = [("background work", lambda: self.background.drain(seconds)), *drains]
        await asyncio.gather(*(_run_step(f"end of {name}", step, seconds) for name, step in work))

    def _register(self) -> None:
        """Register what the features declare for others."""
        for feature in self.features:
            for kind in feature.jobs:
                self.floor.jobs.register(kind)
            for event_type in feature.event_types:
                self.floor.events.catalogue.register(event_type)

    def _background(self, member: Identity) -> Background:
        floor, features = self.floor, self.features
        background = Background(
            self.database,
            floor.control,
            member,
            floor.jobs,
            lease_seconds=self.settings.node_lease_seconds,
            serves=frozenset() if is_quiet(self.settings) else frozenset(self.settings.background) or None,
            sources=[source for feature in features for source in feature.sources],
            holdings=[holding for feature in features for holding in feature.holdings],
            schedule_kinds=[kind for feature in features for kind in feature.schedules],
            periodic=[apply_contracts(self.database), *(task for feature in features for task in feature.periodic)],
            announce=lambda queue: floor.control.publish_soon(Topic.WORK, queue),
            totals=[total for feature in features for total in feature.totals],
            surveys=self.watch.surveys(),
        )
        floor.control.subscribe(Topic.WORK, background.wake, lambda: None)
        floor.control.subscribe(Topic.MASTER_KEY, lambda _: self._refresh_master_keys(), self._refresh_master_keys)
        return background

    def _endpoints(self, front: Front) -> list[Endpoint]:
        checks: dict[str, Hook] = {
            "database": self._answers,
            "migrations": self._is_current,
            "process": self._is_staying,
        }
        for feature in self.features:
            checks.update(feature.checks)
        endpoints = [part for feature in self.features for part in feature.endpoints]
        facts = {field: tell for feature in self.features for field, tell in feature.facts.items()}
        health = HealthEndpoints(checks, facts, self._lost_nodes)
        table = [endpoint for part in (*endpoints, health) for endpoint in part.table()]
        described = [endpoint for endpoint in table if endpoint.tag != SiteEndpoints.tag]
        site = SiteEndpoints(
            described,
            base_url=self.floor.base_url,
            version=__version__,
            limits=self.floor.limits,
            is_set_up=front.is_set_up,
        )
        return [*table, *site.table()]

    def _refresh_master_keys(self) -> None:
        if self.floor.signing_keys.refresh():
            _log.info("master key replaced")

    async def _answers(self) -> None:
        await self.database.fetchval("select 1")

    async def _lost_nodes(self) -> list[str]:
        return await sharding.lost_nodes(self.database.of(CONSOLE)) if self.database.is_sharded else []

    async def _is_current(self) -> None:
        async with self.database.connection() as connection:
            await require_current(connection)

    async def _is_staying(self) -> None:
        if self._draining:
            raise StoppingError

    def _finished(self, call: Call, status: int, seconds: float) -> None:
        self.metrics.count(call.endpoint, status, seconds)
        if not call.is_inside:
            log_request(call, status, seconds)
        for count in self._counting:
            count(call, status, seconds)

    def _sent_cached(self, request_id: str, status: int, seconds: float) -> None:
        self.metrics.count(None, status, seconds)
        log_area_request(request_id, status, seconds)

    def _metrics(self) -> list[Metric]:
        """Return the metrics of what the features stand on."""
        counts = self.background.counts
        every = "every server reports all of them."
        jobs = f"Background jobs in the database, by queue, kind and state; {every}"
        lanes = f"Queues of one target each with waiting work, by kind and state; {every}"
        return [
            CounterOf(
                "pilotis_outgoing_refused",
                "Outgoing requests refused, by reason.",
                "reason",
                self.floor.outgoing_refused,
            ),
            Gauge("pilotis_requests_in_flight", "Requests being answered.", lambda: self.application.in_flight),
            Gauge("pilotis_streams", "Open streams of events.", lambda: self.application.streams.count),
            Gauge("pilotis_database_pool_open", "Open database connections.", lambda: self.database.state().open),
            Gauge("pilotis_database_pool_idle", "Idle database connections.", lambda: self.database.state().idle),
            Gauge(
                "pilotis_database_pool_waiting",
                "Requests waiting for a database connection.",
                lambda: self.database.state().waiting,
            ),
            Gauge(
                "pilotis_work_owned_not_running",
                "Items of background work that a process owns and does not run.",
                lambda: self.background.strays()[0],
            ),
            Gauge(
                "pilotis_work_owned_not_running_seconds",
                "For how long the oldest of these items has not been run.",
                lambda: self.background.strays()[1],
                is_largest=True,
            ),
            Gauge(
                "pilotis_clock_difference_seconds",
                "By how much the clock of this machine differs from the database's, at least.",
                lambda: self.background.node.clock_difference,
                is_largest=True,
            ),
            Gauge("pilotis_jobs", jobs, lambda: counts.jobs, ("queue", "kind", "state")),
            Gauge(
                "pilotis_jobs_overdue_seconds",
                f"For how long the oldest waiting job has been due; {every}",
                lambda: counts.overdue_seconds,
                is_largest=True,
            ),
            Gauge("pilotis_lanes", lanes, lambda: counts.lanes, ("kind", "state")),
            *(
                Gauge(total.name, f"{total.help}; {every}", partial(counts.totals.get, total.name))
                for feature in self.features
                for total in feature.totals
            ),
        ]


def _tracing(settings: Settings) -> Tracing | None:
    """Begin to export traces, where that is wanted."""
    if settings.otel_endpoint is None:
        return None
    from pilotis.tracing import export

    return export.start(settings.otel_endpoint, settings.otel_sample, __version__)


async def run_steps(steps: Sequence[tuple[str, Hook]], seconds: float) -> None:
    """Run the steps in order, each whatever the result of the previous ones; all of them end within `seconds`.

    A step may take up to half of the remaining time.
    """
    end = time.monotonic() + seconds
    for name, step in steps:
        await _run_step(name, step, (end - time.monotonic()) / 2)


async def _run_step(name: str, step: Hook, seconds: float) -> None:
    running = asyncio.ensure_future(step())
    _, late = await asyncio.wait([running], timeout=max(seconds, 0))
    if late:
        running.cancel()
        _log.warning("shutdown step timed out", step=name)
    elif not running.cancelled() and (error := running.exception()):
        _log.error("shutdown step failed", step=name, exc_info=error)

"""Workflows."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

import structlog
from asyncpg import Connection

from pilotis.apps.feature import AppsFeature
from pilotis.apps.service import Apps
from pilotis.db.news import News
from pilotis.db.topics import Topic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.functions.feature import FunctionsFeature
from pilotis.jobs.kinds import DueSchedule, ScheduleKind
from pilotis.kit.archiving import Archived, Copied, LeftOut, SecretColumn
from pilotis.kit.clock import now
from pilotis.kit.errors import NotFoundError
from pilotis.kit.metrics import Gauge, Total
from pilotis.security.encryption.types import Purpose
from pilotis.workflows import execution_store, store
from pilotis.workflows.agent import Agent
from pilotis.workflows.ai_provider import AiProviders
from pilotis.workflows.checkpoints import Checkpoints
from pilotis.workflows.claim_store import CancelledExecution
from pilotis.workflows.definition_cache import DefinitionCache
from pilotis.workflows.endpoints import AiProviderEndpoints, WorkflowEndpoints, WorkflowTriggerEndpoints
from pilotis.workflows.engine import QUEUE, Engine
from pilotis.workflows.events import EVENT_TYPES
from pilotis.workflows.executions import Executions
from pilotis.workflows.metrics import WorkflowCounts
from pilotis.workflows.requests import Requests
from pilotis.workflows.run import RunServices
from pilotis.workflows.service import KIND, FoundFunction, Workflows
from pilotis.workflows.streams import WorkflowStreams
from pilotis.workflows.tasks import periodic
from pilotis.workflows.triggers import Triggers

_log = structlog.get_logger("pilotis.workflows")


class WorkflowsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Workflows."""

    described = (WorkflowEndpoints, WorkflowTriggerEndpoints, AiProviderEndpoints)
    archived: ClassVar[Archived] = {
        "workflows": Copied(
            columns="workflow_id name version max_concurrency on_overlap created_at updated_at",
            replaced={"is_active": "f"},
            where="t.deleted_at is null",
        ),
        "workflow_versions": Copied(
            columns="workflow_id version definition created_at",
            where="exists (select from pilotis.workflows w where w.app_id = t.app_id"
            " and w.workflow_id = t.workflow_id and w.deleted_at is null)",
        ),
        "ai_providers": Copied(
            columns="base_url api_key headers header_names default_model prices updated_at",
            secrets=[
                SecretColumn("api_key", Purpose.AI_PROVIDER, "api_key"),
                SecretColumn("headers", Purpose.AI_PROVIDER, "headers"),
            ],
        ),
        "workflow_triggers": LeftOut("the address of a trigger leads to one app; a copy gets its own"),
        "workflow_executions": LeftOut("executions are of the server that ran them"),
        "workflow_events": LeftOut("executions are of the server that ran them"),
        "workflow_steps": LeftOut("executions are of the server that ran them"),
        "workflow_requests": LeftOut("executions are of the server that ran them"),
        "workflow_deliveries": LeftOut("executions are of the server that ran them"),
    }

    workflows: Workflows
    executions: Executions
    engine: Engine


def feature(floor: Floor, apps: AppsFeature, functions: FunctionsFeature) -> WorkflowsFeature:
    """Return the feature."""
    settings, database, control = floor.settings, floor.database, floor.control

    def news(app_id: UUID, workflow_id: UUID, execution_id: UUID) -> None:
        control.publish_soon(Topic.NEWS, f"{app_id}:{workflow_id}:{execution_id}")

    counts = WorkflowCounts()
    requests = Requests(database, floor.secrets)
    providers = AiProviders(database, floor.secrets, lambda: floor.outgoing)
    engine = Engine(
        RunServices(
            database=database,
            definitions=DefinitionCache(database),
            checkpoints=Checkpoints(database),
            calls=functions.calls,
            app_of=apps.apps.by_id,
            news=news,
            emitted=floor.events.committed,
            requests=requests,
            agent=Agent(providers, counts.tokens),
            counts=counts,
        ),
        settings.node_lease_seconds,
    )

    def wake() -> None:
        if not engine.wake():
            control.publish_soon(Topic.WORK, QUEUE)

    def cancelled(rows: list[CancelledExecution]) -> None:
        for row in rows:
            engine.cancel(str(row.execution_id))
            control.publish_soon(Topic.CANCEL, str(row.execution_id), at_once=True)
            news(row.app_id, row.workflow_id, row.execution_id)
            if row.status == "cancelled":
                counts.executions.add(row.trigger_type, "cancelled")

    async def find_function(app_id: UUID, reference: str) -> FoundFunction | None:
        try:
            row = await functions.calls.find(app_id, reference)
        except NotFoundError:
            return None
        return FoundFunction(row.function_id, row.active_version is not None, row.name)

    workflows = Workflows(database, floor.events, find_function, cancelled)
    functions.functions.used_by(store.calling)
    executions = Executions(database, floor.events, wake, cancelled)

    triggers = Triggers(
        database,
        floor.secrets,
        requests,
        executions,
        functions.calls,
        apps.apps.by_id,
        apps.apps.by_public_key,
        floor.rate_limits,
        lambda: floor.base_url,
        wake,
        floor.events.committed,
        counts,
    )

    async def drain() -> None:
        engine.stop()

    told = News()
    control.subscribe(Topic.NEWS, told.told, told.missed)
    control.subscribe(Topic.CANCEL, engine.cancel, lambda: None)
    limits = floor.limits
    return WorkflowsFeature(
        name="workflows",
        endpoints=[
            WorkflowEndpoints(workflows, executions, WorkflowStreams(database, executions, told)),
            WorkflowTriggerEndpoints(triggers),
            AiProviderEndpoints(providers),
        ],
        event_types=EVENT_TYPES,
        sources=[engine],
        schedules=[_schedule_kind(apps.apps, executions, counts)],
        periodic=periodic(
            database, limits.workflow_days, limits.workflow_executions, limits.versions_kept, engine.admit
        ),
        drain=drain,
        close=executions.statistics.stop,
        workflows=workflows,
        executions=executions,
        engine=engine,
        metrics=[
            *counts.declared(),
            Gauge("pilotis_workflow_running", "Executions of workflows in progress.", lambda: engine.running),
        ],
        totals=[
            Total(
                "pilotis_workflow_pending",
                "Executions in the database to be run",
                lambda: execution_store.count_pending(database),
            )
        ],
    )


def _schedule_kind(apps: Apps, executions: Executions, counts: WorkflowCounts) -> ScheduleKind:
    """Return the kind of the schedules of workflows."""

    async def fire(connection: Connection, due: DueSchedule, slot: datetime) -> None:
        try:
            app = await apps.by_id(due.app_id)
        except NotFoundError:
            return
        if dropped := await executions.fire(connection, app, due, slot):
            counts.skipped.add()
            _log.info("slot not run", app_id=str(due.app_id), workflow_id=due.target_id, reason=dropped)
        else:
            counts.lags.add((now() - slot).total_seconds())

    return ScheduleKind(name=KIND, fire=fire)

"""Functions."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

from pilotis.apps.feature import AppsFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.db.news import News
from pilotis.db.topics import Topic
from pilotis.db.waiters import BACKGROUND
from pilotis.dead_jobs.feature import DeadJobsFeature
from pilotis.feature import Feature
from pilotis.files.feature import FilesFeature
from pilotis.floor import Floor
from pilotis.functions import hooks, store
from pilotis.functions.builds import Builds
from pilotis.functions.calls import Calls
from pilotis.functions.endpoints import FunctionEndpoints, InvokeEndpoints, TriggerEndpoints
from pilotis.functions.events import EVENT_TYPES
from pilotis.functions.executions import Executions
from pilotis.functions.packages import PackageFolders
from pilotis.functions.records import Records
from pilotis.functions.runtime.build import Builder, Registries
from pilotis.functions.runtime.egress import OwnAddress
from pilotis.functions.runtime.policy import Runtime
from pilotis.functions.runtime.pool import Pool
from pilotis.functions.runtime.types import PoolSettings, default_sandboxes
from pilotis.functions.service import Functions
from pilotis.functions.sources import check_packed
from pilotis.functions.store import FORGET_MISSING_VERSIONS, KEEP_EGRESS
from pilotis.functions.streams import FunctionStreams
from pilotis.functions.tasks import periodic
from pilotis.functions.triggers import Triggers
from pilotis.functions.variables import Variables
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.principals import AppInfo, Client
from pilotis.http.outgoing import Reach
from pilotis.integrations.feature import IntegrationsFeature
from pilotis.kit.account_settings import HookName
from pilotis.kit.archiving import Archived, Copied, LeftOut, SecretColumn, within
from pilotis.kit.metrics import CounterOf, Gauge
from pilotis.kit.networks import serves_this_machine
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.security.encryption.types import Purpose
from pilotis.security.feature import SecurityFeature

_DRAIN_SECONDS = 10.0


class FunctionsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Functions."""

    described = (InvokeEndpoints, FunctionEndpoints, TriggerEndpoints)
    archived: ClassVar[Archived] = {
        "functions": Copied(
            columns="function_id name description runtime entrypoint invoke_access scopes timeout_seconds memory_mb"
            " egress_hosts is_active active_version latest_version created_at updated_at oauth_scope",
            replaced={"egress_mode": "none"},
            branching=[KEEP_EGRESS],
            checks={"timeout_seconds": within(0, 3600), "memory_mb": within(1, 4096)},
        ),
        "function_versions": Copied(
            columns="function_id version version_id status runtime_version entrypoint source source_bytes bundle_bytes"
            " sha256 packages warnings message created_at ready_at activates",
            checks={"source": check_packed},
            where="t.status = 'ready' and t.build_digest is null",
            finishing=[FORGET_MISSING_VERSIONS],
        ),
        "function_variables": Copied(
            columns="function_id name value value_bytes updated_at",
            secrets=[SecretColumn("value", Purpose.FUNCTION_VARIABLE, "{function_id}/{name}")],
        ),
        "function_triggers": Copied(
            columns="function_id trigger_id type cron timezone events table_id storage_id batch created_at updated_at",
            replaced={"is_active": "f"},
            fresh=["storage_id"],
        ),
        "function_builds": LeftOut("packages are built by the server that runs them; deploy such a version again"),
        "function_drafts": LeftOut("a draft is a console user's"),
        "function_executions": LeftOut("executions are of the server that ran them"),
        "function_stats": LeftOut("executions are of the server that ran them"),
    }

    functions: Functions
    executions: Executions
    calls: Calls
    variables: Variables


def feature(
    floor: Floor,
    apps: AppsFeature,
    tables: TablesFeature,
    files: FilesFeature,
    hosting: HostingFeature,
    integrations: IntegrationsFeature,
    dead_jobs: DeadJobsFeature,
    security: SecurityFeature,
    members: MembersFeature,
    mail: MailFeature,
) -> FunctionsFeature:
    """Return the feature. It starts nothing until a function is called, or exists when the process starts."""
    settings, database = floor.settings, floor.database
    workers = settings.workers

    async def connect(host: str, port: int, tenant: UUID | None = None) -> socket.socket:
        return await floor.outgoing.connect(host, port, reach=Reach.FUNCTION, tenant=tenant or "builds")

    pool = Pool(
        PoolSettings(
            sandboxes=max(1, (settings.functions_sandboxes or default_sandboxes()) // workers),
            ready_javascript=-(-settings.functions_ready_javascript // workers),
            ready_python=-(-settings.functions_ready_python // workers),
            idle_seconds=settings.functions_idle_seconds,
            uid_base=settings.functions_uid_base,
            ca_file=settings.outgoing_ca_file,
            isolation=settings.functions_isolation,
            is_local=serves_this_machine(settings.host, floor.base_url),
        ),
        connect,
        _own_address(floor),
    )

    async def table_id(app: AppInfo, title: str) -> UUID | None:
        found = [table.id for table in await tables.tables.all(app) if table.title == title]
        return found[0] if found else None

    async def has_storage(app_id: UUID, storage_id: UUID) -> bool:
        exists = await files.files.storages.exists(app_id, storage_id)
        return exists or await hosting.hosting.storages.exists(app_id, storage_id)

    async def own_types(app_id: UUID) -> list[str]:
        return list(await integrations.types.names(app_id))

    def written(app_id: UUID, function_id: UUID) -> None:
        floor.control.publish_soon(Topic.NEWS, f"{app_id}:{function_id}")

    news = News()
    records = Records(database, floor.events, written, apps.meter.called)
    variables = Variables(database, floor.secrets)
    registries = Registries(settings.functions_npm_registry, settings.functions_pypi_index)
    folders = PackageFolders(Path(settings.data_dir) / "functions" / "packages")
    builds = Builds(database, pool, Builder(connect, registries, settings.outgoing_ca_file), folders)
    calls = Calls(
        database, pool, records, variables, builds, security.function_tokens, table_id, members.members.acting
    )
    variables.on_changed(calls.forget)
    executions = Executions(database)
    triggers = Triggers(
        database,
        floor.events,
        floor.jobs,
        calls,
        apps.apps.by_id,
        own_types,
        dead_jobs.dead_jobs,
        tables.tables,
        has_storage,
    )
    functions = Functions(database, calls, builds, floor.jobs, apps.apps.by_id, triggers.remove_all, floor.events)
    floor.control.subscribe(Topic.NEWS, news.told, news.missed)
    floor.control.subscribe(Topic.FUNCTION, calls.forget, calls.forget_all)

    async def start() -> None:
        records.start()
        for name in await store.runtimes_in_use(database.of(BACKGROUND)):
            pool.begin(Runtime(name))

    async def drain() -> None:
        await pool.drain(min(_DRAIN_SECONDS, settings.stop_seconds))

    async def close() -> None:
        await pool.close()
        await records.stop()

    async def ask(app: AppInfo, function_id: UUID, hook: HookName, payload: dict[str, Any], client: Client) -> Any:
        return await hooks.run(calls, app, function_id, hook, payload, client.request_id)

    async def send(app_id: UUID, function_id: UUID, payload: dict[str, Any]) -> None:
        await hooks.run(calls, await apps.apps.by_id(app_id), function_id, "send_mail", payload, None)

    members.members.hooks.attach(ask)
    mail.attach_hook(send)
    apps.settings.attach(functions.exists)
    return FunctionsFeature(
        name="functions",
        endpoints=[
            InvokeEndpoints(calls),
            FunctionEndpoints(functions, calls, variables, executions, FunctionStreams(database, news)),
            TriggerEndpoints(triggers),
        ],
        jobs=[triggers.job, functions.build],
        names={"/v1/apps/:app_id/functions/:function_id": functions.id_of},
        schedules=[triggers.schedule],
        event_types=EVENT_TYPES,
        targets=[triggers],
        periodic=periodic(database, floor.limits.function_record_days, floor.limits.versions_kept),
        start=start,
        drain=drain,
        close=close,
        functions=functions,
        executions=executions,
        calls=calls,
        variables=variables,
        facts={"isolation": calls.isolation},
        attach=lambda application: calls.attach(application.call_inside),
        metrics=[
            *records.metrics.declared(),
            CounterOf(
                "pilotis_function_kills", "Sandboxes of functions killed, by reason.", "reason", lambda: pool.kills
            ),
            CounterOf("pilotis_function_builds", "Builds of packages.", "status", lambda: builds.ended),
            CounterOf(
                "pilotis_egress_requests",
                "Connections of functions to other servers.",
                "outcome",
                lambda: pool.connections,
            ),
            Gauge("pilotis_function_sandboxes", "Sandboxes of functions.", pool.by_runtime, ("runtime", "state")),
            Gauge(
                "pilotis_function_sandboxes_unattended",
                "Sandboxes of functions that are granted to a call that does not use them.",
                lambda: pool.unattended,
            ),
        ],
    )


def _own_address(floor: Floor) -> OwnAddress | None:
    """Return the address in the server's base URL, or None where it does not serve."""
    parts = urlsplit(floor.base_url)
    if not parts.hostname:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)

    async def connect() -> socket.socket:
        return await floor.outgoing.connect_to_base()

    return OwnAddress(parts.hostname, port, connect)
